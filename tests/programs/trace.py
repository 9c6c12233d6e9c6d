# SPDX-License-Identifier: BSD-2-Clause
"""Traces unmodified programs of Debian with `usrdma trace`. tshark, where it is installed, dissects the capture file:
it finds no malformed packet, and shows the operations that the program carried out. The ICRC of each packet that was
stored whole is compared with an independent computation."""

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess

from tests.programs import capture, cm, daemon_kit, perftest, wire
from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, OWN, SOURCE, check

PACKET_BLOCK = 6
ETHERNET_BYTES = 14

# The operations of RoCEv2 packets in tshark's Info column that each program must show.
PERFTEST = {
    "ib_send_bw": ("RC Send Only", "RC Acknowledge"),
    "ib_write_bw": ("RC RDMA Write First", "RC RDMA Write Middle", "RC RDMA Write Last", "RC Acknowledge"),
    "ib_read_lat": ("RC RDMA Read Request", "RC RDMA Read Response"),
    "ib_atomic_bw": ("RC Fetch Add", "RC Atomic Acknowledge"),
}
OPTIONS = {"ib_send_bw": ("-s", 64), "ib_write_bw": ("-s", 65536), "ib_read_lat": ("-s", 8192), "ib_atomic_bw": ()}


def frames(path):
    """The frames of a pcapng file: their bytes, and whether they were stored whole."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        if kind == PACKET_BLOCK:
            stored, whole = struct.unpack_from("=II", data, at + 20)
            yield data[at + 28:at + 28 + stored], stored == whole
        at += size
    check(at == len(data), f"{path}: incomplete last block")


def icrcs_are_right(path):
    """Returns the number of packets."""
    count = 0
    for count, (frame, is_whole) in enumerate(frames(path), 1):
        packet = frame[ETHERNET_BYTES:]
        at = 20 if packet[0] >> 4 == 4 else 40
        payload = packet[at + 8:]
        check(not is_whole or capture.icrc(packet[:at], packet[at:at + 8], payload) == payload[-4:],
              f"packet {count} of {path} has a wrong ICRC: {frame.hex()}")
    return count


def tshark_shows(path, operations):
    if not shutil.which("tshark"):
        return
    capture.nothing_is_malformed(path)
    shown = "\n".join(capture.tshark(path))
    check("Malformed" not in shown, shown[:3000])
    for operation in operations:
        check(operation in shown, f"tshark does not show '{operation}':\n{shown[:3000]}")


@contextlib.contextmanager
def traced(lab, *options):
    """Runs `usrdma trace` while the context lasts; yields the path of the capture file."""
    path = os.path.join(lab.scratch, f"{lab.count()}.pcapng")
    tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "-w", path, *options, native=True)
    tracer.says("usrdma: tracing")
    yield tracer, path
    tracer.signal(signal.SIGINT)
    tracer.finish(lab.seconds(10))


def rping(lab, side, transport):
    lab.env["USRDMA_TRANSPORT"] = transport
    try:
        with traced(lab, "--text") as (tracer, path):
            cm.rping(lab, side["ip4"])
    finally:
        del lab.env["USRDMA_TRANSPORT"]
    text = tracer.output()
    for expected in (r"rping\[\d+\] cm event: id 0x[0-9a-f]+ RDMA_CM_EVENT_ESTABLISHED status 0",
                     r"rping\[\d+\] qp path: qpn 0x[0-9a-f]+ RC RTS over " + transport,
                     r"rping\[\d+\] wr posted: qpn 0x[0-9a-f]+ wr_id 0x[0-9a-f]+ RDMA READ length ",
                     r"rping\[\d+\] cqe: qpn 0x[0-9a-f]+ wr_id 0x[0-9a-f]+ SEND length 16: success"):
        check(re.search(expected, text), f"no '{expected}' in the trace:\n{text[:5000]}")
    check(icrcs_are_right(path) > 50, f"only {icrcs_are_right(path)} packets")
    tshark_shows(path, ("CM: ConnectRequest", "CM: ConnectReply", "CM: ReadyToUse", "RC Send Only",
                        "RC RDMA Read Request", "RC RDMA Read Response", "RC RDMA Write Only", "CM: DisconnectRequest"))


def perftest_program(lab, program):
    with traced(lab) as (tracer, path):
        perftest.perftest(lab, program, LOOPBACK, *OPTIONS[program])
    check("events were lost" not in tracer.output(), tracer.story())
    check(icrcs_are_right(path) > 200, f"only {icrcs_are_right(path)} packets")
    tshark_shows(path, PERFTEST[program])


def datagrams(lab, side):
    with traced(lab) as (_, path):
        perftest.perftest(lab, "ib_send_lat", side, "-c", "UD", "-s", 64)
    icrcs_are_right(path)
    tshark_shows(path, ("UD Send Only",))


def with_profile(lab, path):
    """The columns of tshark with the profile of `usrdma trace --wireshark-profile`."""
    command = [os.path.join(lab.tree, "usrdma"), "trace", "--wireshark-profile"]
    profile = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    home = os.path.join(lab.scratch, "home")
    shutil.copytree(profile, os.path.join(home, ".config", "wireshark", "profiles", "usrdma"), dirs_exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": home, "LC_ALL": "C"}
    return subprocess.run(["tshark", "-C", "usrdma", "-n", "-r", path], stdout=subprocess.PIPE, env=env, text=True,
                          stderr=subprocess.DEVNULL, timeout=lab.seconds(60), check=True).stdout


def wireshark_profile(lab):
    """Without the profile tshark marks SENDs of 8 bytes as malformed and shows a LID as the source of a REQ."""
    with traced(lab) as (_, path):
        perftest.perftest(lab, "ib_send_lat", LOOPBACK, "-s", 8, "-R")
    check("Malformed" in "\n".join(capture.tshark(path)), "tshark accepts SENDs of 8 bytes without the profile")
    shown = with_profile(lab, path)
    check("Malformed" not in shown and "LID" not in shown, shown[:3000])
    check(re.search(r"127\.0\.0\.1 .* RC Send Only .*ib_send_lat\[\d+\]", shown), shown[:3000])
    check(re.search(r" 127\.0\.0\.1 127\.0\.0\.1 .*CM: ConnectRequest .*cm req tid", shown), shown[:3000])


def wireshark_comments(lab):
    """Comments describe what tshark 4.0 does not decode: CNP, XRC, FLUSH, ATOMIC WRITE, and bodies of SIDR messages."""
    shown = ""
    for name in ("made", "udaddy"):
        path = os.path.join(lab.scratch, name + ".pcapng")
        golden = os.path.join(SOURCE, "tests", "golden", name + ".pcap")
        subprocess.run([os.path.join(lab.tree, "usrdma"), "trace", "-r", golden, "-w", path], check=True,
                       stdout=subprocess.DEVNULL)
        shown += with_profile(lab, path)
    check("Malformed" not in shown, shown[:3000])
    for words in ("cnp notification qpn 0x684cb5", "xrc send only qpn 0x81d131", "rc flush", "rc atomic write",
                  "cm sidr req tid 0x", "cm sidr rep tid 0x"):
        check(words in shown, f"no '{words}':\n{shown[:3000]}")


def running_program(lab):
    """The trace begins when the connection exists: the packets have the addresses and PSNs of its path."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port, "-P")
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-v", "-C", 10000000)
    client.says("ping data")
    with traced(lab, "--pid", client.pid, "--text", "--duration", 0.2) as (tracer, path):
        tracer.process.wait(lab.seconds(20))
    client.end()
    server.end()
    check(f"rping[{client.pid}] qp path: " in tracer.output(), tracer.story())
    check("rping[" + str(server.pid) not in tracer.output(), "a record of another process")
    tshark_shows(path, ("RC Send Only", "RC Acknowledge"))


def program_of_the_trace(lab):
    """The exit status is that of the program, and its output is not mixed with the capture file."""
    path = os.path.join(lab.scratch, "program.pcapng")
    tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "-w", path, "--", "sh", "-c",
                       "ibv_devinfo -d lo >/dev/null && exit 7", native=True)
    tracer.finish(lab.seconds(20), 7)
    check(next(frames(path), None) is None, "packets of a program without connections")


def given_ring(connection):
    """The descriptor of the connection's trace ring, or None as long as no tracer is attached."""
    try:
        return connection.request_fd(wire.ipc("TRACE_RING"))[1]
    except wire.Refused:
        return None


def ring_without_pause(lab):
    """A process writes events without pause. Those that it replaces before they are read are counted, and the trace
    ends at SIGINT all the same. The tracer is stopped for some time: only then events are lost on every machine."""
    lab.end_daemons()
    with daemon_kit.daemon(lab, uid=0), contextlib.closing(wire.Connection(wire.CM)) as connection:
        tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "-w", os.path.join(lab.scratch, "flood.pcapng"),
                           native=True, user=0)
        tracer.says("usrdma: tracing")
        fd = given_ring(connection)
        check(fd is not None, "no ring although a tracer is attached")
        with open(fd, "rb", closefd=True):
            command = [lab.tool("ring_flood"), str(fd)]
            tracer.signal(signal.SIGSTOP)
            with subprocess.Popen(command, pass_fds=(fd,), stdout=subprocess.PIPE) as flooder:
                check(flooder.stdout.readline() == b"writing\n", "the ring is not written")
                tracer.signal(signal.SIGINT)
                tracer.signal(signal.SIGCONT)
                try:
                    tracer.finish(lab.seconds(20))
                finally:
                    flooder.kill()
        check("events were lost" in tracer.output(), tracer.story())


def mistake(lab, name, transport, expected, comment):
    """A program with an error: the packets show the NAK, in the same way for both transports."""
    path = os.path.join(lab.scratch, f"{name}-{transport}.pcapng")
    tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "-w", path, "--", lab.tool("mistake"), name, "lo", 1,
                       native=True, USRDMA_TRANSPORT=transport)
    tracer.finish(lab.seconds(20))
    icrcs_are_right(path)
    if shutil.which("tshark"):
        capture.nothing_is_malformed(path)
        shown = "\n".join(capture.tshark(path, "-V"))
        check(re.search(expected, shown), f"tshark does not show '{expected}'")
        check(comment in shown, f"no comment '{comment}'")


def text_of_error(lab, transport, refusal):
    """As text, packets and FIFO elements are shown if they report an error; with --all the others, too."""
    texts = []
    for options in ((), ("--all",)):
        tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", *options, "--", lab.tool("mistake"), "no_receive",
                           "lo", 1, native=True, USRDMA_TRANSPORT=transport)
        tracer.finish(lab.seconds(20))
        texts.append(tracer.output())
    request = "fifo element sent: SEND" if transport == "local" else "packet sent: rc send"
    check(request not in texts[0] and request in texts[1], f"'{request}' only with --all:\n{texts[0]}\n{texts[1]}")
    for text in texts:
        check(refusal in text, f"no '{refusal}' in the trace:\n{text}")
        check(re.search(r"wr posted: .* SEND length \d+ .* message 0\n", text), f"no posted SEND in the trace:\n{text}")
        check("cqe: " in text, f"no completion in the trace:\n{text}")


FAILED_CALLS = {
    "create_cq": "ibv_create_cq: Invalid argument (errno 22)",
    "create_srq": "ibv_create_srq: Invalid argument (errno 22)",
    "alloc_mw": "ibv_alloc_mw: Invalid argument (errno 22)",
    "dealloc_pd": "ibv_dealloc_pd: Device or resource busy (errno 16)",
    "fill_srq": "ibv_post_srq_recv: Cannot allocate memory (errno 12)",
    "wr_complete": "ibv_wr_complete: Invalid argument (errno 22)",
    "private_data": "rdma_connect: Invalid argument (errno 22)",
}


def failed_calls(lab):
    """A call that fails is a line, also if the application ignores its result."""
    for case, expected in FAILED_CALLS.items():
        tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "--", lab.tool("misuse"), case, "lo", 1,
                           native=True)
        shown = tracer.finish(lab.seconds(20))
        check(re.search(r"\] call failed: (qpn 0x\w+ )?" + re.escape(expected), shown), f"{expected}\n{shown}")


def pipe_to_tshark(lab):
    """-w - writes whole blocks to a pipe, which tshark reads while the trace runs."""
    command = f"{lab.tree}/usrdma trace -w - -- {lab.tool('mistake')} past_end lo 1 | tshark -n -l -r - -Y infiniband"
    shell = lab.start("sh", "-c", command, native=True, HOME=lab.scratch)
    out = shell.finish(lab.seconds(30))
    check("RC RDMA Write First" in out and "Remote Access Error" in out, out)


def body(lab, cases):
    for transport, side in (("local", LOOPBACK), ("roce", OWN if lab.isolated else LOOPBACK)):
        cases.run(f"rping, {transport}", rping, lab, side, transport)
    for program in PERFTEST:
        cases.run(program, perftest_program, lab, program)
    for transport in ("local", "roce"):
        comment = "outside the memory region" if transport == "local" else "nak remote access error"
        cases.run(f"remote access error, {transport}", mistake, lab, "past_end", transport,
                  "Remote Access Error", comment)
        cases.run(f"RNR NAK, {transport}", mistake, lab, "no_receive", transport, "OpCode: RNR Nak", "640 us")
        refusal = "fifo element received: RNR NAK" if transport == "local" else "rnr nak wait 640 us"
        cases.run(f"text of an RNR NAK, {transport}", text_of_error, lab, transport, refusal)
    cases.run("datagrams", datagrams, lab, LOOPBACK)
    why_not = None if shutil.which("tshark") else "no tshark"
    cases.run_unless(why_not, "a pipe to tshark", pipe_to_tshark, lab)
    cases.run_unless(why_not, "Wireshark's profile", wireshark_profile, lab)
    cases.run_unless(why_not, "comments in Wireshark", wireshark_comments, lab)
    cases.run("a program that runs already", running_program, lab)
    cases.run("a program that the command starts", program_of_the_trace, lab)
    cases.run("calls that fail", failed_calls, lab)
    cases.run("a process that writes events without pause", ring_without_pause, lab)


if __name__ == "__main__":
    laboratory.main(body)
