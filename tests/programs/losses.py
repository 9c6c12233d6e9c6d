# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts with packet loss: runs Debian's programs over a network that loses, repeats and reorders a few frames, and
over one that loses a fifth of all frames in each direction. Reliable services deliver all data. Programs that use
unreliable services end, or wait for lost messages until the test ends them, as over any network. No packet is
malformed.

The programs' TCP connections use another network without loss, because TCP is not tested here.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

from tests.programs import capture, cm, mckey, perftest, road, ucx, verbs
from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check

# Lost, repeated and reordered frames, as fractions.
BAD = {"name": "bad network", "device": "bad0", "gid": 1, "ip4": "10.89.0.1", "ip6": "fd89::1",
       "faults": (0.03, 0.01, 0.05)}
WORSE = {"name": "a fifth lost", "device": "worse0", "gid": 1, "ip4": "10.90.0.1", "ip6": "fd90::1",
         "faults": (0.2, 0, 0)}
PACKETS_MIN = 2000
# Seconds to wait for programs that do not retransmit.
WAITED_FOR = 2


def has_tap_devices():
    try:
        os.close(road.tap("probe0"))
    except OSError:
        return False
    return True


def introduce(lab, side):
    """Adds a permanent neighbour entry for the other host on each side. A host whose neighbour discovery is lost is
    unreachable, but that is not the subject of this test."""
    hosts = ((contextlib.nullcontext(), "1"), (lab.far, "2"))
    for (host, _), (other, end) in (hosts, hosts[::-1]):
        with other:
            theirs = subprocess.run(["ip", "-o", "link", "show", "dev", side["device"]], stdout=subprocess.PIPE,
                                    text=True, check=True).stdout.split("link/ether ")[1].split()[0]
        with host:
            for address in (side["ip4"][:-1] + end, side["ip6"][:-1] + end):
                laboratory.ip_command("ip", "neigh", "replace", address, "lladdr", theirs, "dev", side["device"], "nud",
                                      "permanent")


@contextlib.contextmanager
def bad_road(lab, side):
    """A second network between the hosts, with the faults of this side, as long as the context lasts."""
    near = road.tap(side["device"])
    with lab.far:
        far = road.tap(side["device"])
    words = [os.path.abspath(road.__file__), near, far, 1, *side["faults"]]
    with subprocess.Popen([sys.executable, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          pass_fds=(near, far)) as carrier:
        os.close(near)
        os.close(far)
        lab.far.address(side)
        introduce(lab, side)
        yield
        lost, repeated, ahead = (int(word) for word in carrier.communicate(timeout=10)[0].split())
        print(f"# {side['name']}: {lost} frames lost, {repeated} repeated, {ahead} let overtake others", flush=True)


def ends_or_waits(lab, *programs):
    """Checks that each program succeeds or waits for a lost message. A waiting program must have reported no error and
    must end on a signal."""
    deadline = time.monotonic() + WAITED_FOR * (4 if lab.sanitized else 1)
    while any(program.running() for program in programs) and time.monotonic() < deadline:
        time.sleep(0.05)
    for program in programs:
        if program.running():
            check("rror" not in program.output() and "ailed" not in program.output(), program.story())
            program.signal(signal.SIGTERM)
            program.finish(lab.seconds(5), None)
            check(program.process.returncode in (0, -signal.SIGTERM), program.story())
        else:
            program.finish(lab.seconds(1))


def pingpong(lab, program, done, side, *options):
    """The pingpong programs do not disconnect: a side ends when it has received everything. If only its last ACK was
    lost, the retries of the other side are exhausted, as with any two adapters."""
    port = lab.port()
    common = [program, "-d", side["device"], "-g", side["gid"], "-p", port, "-n", 50, *options]
    server = lab.start(*common)
    lab.listens_tcp(server, port)
    client = lab.client(*common, WIRE["ip4"])
    both = [(program, program.finish(lab.seconds(40), None)) for program in (client, server)]
    well = [program for program, printed in both if program.process.returncode == 0 and done in printed]
    for program, printed in both:
        check(program in well or (well and "transport retry counter exceeded (12)" in printed), program.story())


def unreliable_pingpong(lab, program, side):
    port = lab.port()
    common = [program, "-d", side["device"], "-g", side["gid"], "-p", port, "-n", 50]
    server = lab.start(*common)
    lab.listens_tcp(server, port)
    client = lab.client(*common, WIRE["ip4"])
    ends_or_waits(lab, server, client)


def udaddy_introduced(lab, side, *options):
    """Twenty pairs resolve and connect. udaddy does not retransmit, so no data is sent."""
    options = ["-c", 20, "-C", 0, *options]
    address = side["ip6" if "-f" in options else "ip4"]
    server = lab.start("udaddy", "-b", address, *options)
    lab.listens_cm(server, "7174")
    client = lab.client("udaddy", "-s", address, *options)
    for program in (client, server):
        check("return status 0" in program.finish(lab.seconds(30)), program.story())


def udaddy(lab, side):
    server = lab.start("udaddy", "-b", side["ip4"])
    lab.listens_cm(server, "7174")
    client = lab.client("udaddy", "-s", side["ip4"])
    ends_or_waits(lab, server, client)


def multicast(lab, side):
    """The sender ends. The receiver may wait for a lost datagram."""
    receiver = mckey.member(lab, mckey.GROUP4, "-b", side["ip4"])
    sender = lab.client("mckey", "-m", mckey.GROUP4, "-b", side["ip4"][:-1] + "2", "-s")
    mckey.is_done(sender, lab.seconds(20))
    ends_or_waits(lab, receiver)


def over_cm(side):
    """Runs programs that connect by the rdma_cm."""
    family = {"ip4": (), "ip6": ("-f", "ipv6")}
    yield "rping, IPv4", cm.rping, side["ip4"]
    yield "rping -S 20000, IPv6", cm.rping, side["ip6"], "-S", 20000
    for ip, options in family.items():
        yield f"ucmatose, IPv{ip[2:]}", cm.ucmatose, side[ip], *options
    yield "rdma_client and rdma_server", cm.rdma_client_server, side["ip4"]
    yield "cmtime", cm.cmtime, side["ip4"], 10
    yield "mckey", multicast, side
    yield "udaddy, no datagrams", udaddy_introduced, side


def over_verbs(side):
    yield "ibv_rc_pingpong", pingpong, "ibv_rc_pingpong", "iters in", side, "-c"
    yield "ibv_rc_pingpong -e, IPv6", pingpong, "ibv_rc_pingpong", "iters in", {**side, "gid": 2}, "-c", "-e"
    yield "ibv_srq_pingpong", pingpong, "ibv_srq_pingpong", "iters in", side, "-c"
    yield "ibv_xsrq_pingpong", verbs.xsrq_pingpong, {**side, "ip4": WIRE["ip4"]}, "-n", 50
    yield "ibv_uc_pingpong", unreliable_pingpong, "ibv_uc_pingpong", side
    yield "ibv_ud_pingpong", unreliable_pingpong, "ibv_ud_pingpong", side
    yield "udaddy", udaddy, side


def size(program):
    return () if program == "ib_atomic_bw" else ("-s", 9000)


def over_perftest(side):
    """Programs over unreliable services run for a fixed time and not for a number of messages, because lost messages
    are not sent again."""
    tcp = {**side, "ip4": WIRE["ip4"]}
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"):
        yield program, perftest.perftest, program, tcp, "-n", 20, *size(program)
    yield "ib_send_bw -c XRC", perftest.xrc, "ib_send_bw", tcp, "-n", 20, "-s", 9000
    yield "ib_write_bw -c UC", perftest.perftest, "ib_write_bw", tcp, "-c", "UC", "-n", 20


def over_perftest_again(side):
    tcp = {**side, "ip4": WIRE["ip4"]}
    for program in ("ib_write_lat", "ib_read_lat", "ib_send_lat"):
        yield program, perftest.perftest, program, tcp, "-n", 20, "-s", 2000


def over_floods(side):
    """These programs have no flow control, so the network drops most frames, more than retries could repair."""
    tcp = {**side, "ip4": WIRE["ip4"]}
    yield "ib_send_bw -c UD -D 2", perftest.perftest, "ib_send_bw", tcp, "-c", "UD", "-D", 2
    yield "ib_send_bw -c UD -D 2, IPv6", perftest.perftest, "ib_send_bw", {**tcp, "gid": 2}, "-c", "UD", "-D", 2


def over_ucx(side):
    """Runs UCX, whose own protocol adds reliability to datagrams."""
    if shutil.which("ucx_perftest"):
        for test in ("tag_lat", "tag_bw"):
            yield f"UCX over datagrams, {test} -s 3000", ucx.ucx, side, "ud_verbs", "-t", test, "-n", 100, "-s", 3000


def everything(cases, side):
    for group in (over_cm, over_verbs, over_perftest, over_perftest_again, over_floods):
        cases.together((f"{name}, {side['name']}", *rest) for name, *rest in group(side))


def body(lab, cases):
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    if not has_tap_devices():
        cases.skip("a bad network", "no tap devices in this kernel")
        return
    lab.add_host()
    path = f"{lab.scratch}/capture.pcap"
    with (bad_road(lab, BAD), bad_road(lab, WORSE),
          capture.recorded(path, BAD["device"], WORSE["device"])):
        everything(cases, BAD)
        everything(cases, WORSE)
        for name, function, *args in over_ucx(BAD):
            cases.run(f"{name}, {BAD['name']}", function, lab, *args)
    if cases.only:
        return
    cases.run("every ICRC is right", capture.icrcs_are_right, path, PACKETS_MIN)
    if shutil.which("tshark"):
        cases.run("nothing is malformed", capture.nothing_is_malformed, path)
    else:
        cases.skip("nothing is malformed", "no tshark")


if __name__ == "__main__":
    laboratory.main(body)
