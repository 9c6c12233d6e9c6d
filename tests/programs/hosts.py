#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts: Debian's own programs between two network namespaces, each with a daemon of its own; over a good network
and over one that loses, repeats and reorders; one host's program killed; and what a dissector says of the packets."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import cm
import death
import lab as laboratory
import perftest
import road
import ucx
import verbs
from lab import WIRE, check

BAD = {"name": "bad network", "device": "bad0", "gid": 1, "ip4": "10.89.0.1", "ip6": "fd89::1"}
NETEM = "tc qdisc add dev wire0 root netem delay 1ms loss 3% reorder 5% duplicate 1%"
ROCE_PORT = 4791
ETH_P_ALL = 3
FRAME_BYTES = 1 << 16
CM_ATTRIBUTES = {"REQ": 0x10, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15, "DREP": 0x16}


def netem(lab):
    """Makes wire0 bad in both directions; whether this kernel can."""
    for host in (lab.far, contextlib.nullcontext()):
        with host:
            done = subprocess.run(NETEM.split(), stderr=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            return False
    return True


def has_tap_devices():
    try:
        os.close(road.tap("probe0"))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def bad_road(lab):
    """The side of a second, bad network between the hosts, as long as the context lasts."""
    near = road.tap(BAD["device"])
    with lab.far:
        far = road.tap(BAD["device"])
    script = os.path.abspath(road.__file__)
    with subprocess.Popen([sys.executable, script, str(near), str(far), "1"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, pass_fds=(near, far)) as carrier:
        os.close(near)
        os.close(far)
        lab.far.address(BAD)
        yield BAD
        lost, repeated, ahead = (int(word) for word in carrier.communicate(timeout=10)[0].split())
        print(f"# the bad network lost {lost} frames, repeated {repeated} and let {ahead} overtake others", flush=True)


def both_hosts_have_a_daemon(lab):
    """Each namespace started its own, and neither knows the other's device addresses."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", WIRE["ip4"], "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("rping", "-c", "-a", WIRE["ip4"], "-p", port, "-v")
    client.says("ping data")
    near = lab.daemons()
    with lab.far:
        far = lab.daemons()
    check(len(near) == 1 and len(far) == 1 and near != far, f"daemons {near} and {far}")


def killed(lab, operation, victim_is_server):
    """The daemon that outlives the victim tells the other host, whose program hears of it and ends with status 0: nothing
    of its own stayed outstanding. A receiver may have had nothing left that could fail."""
    server, client = death.streaming(lab, operation, 65536, WIRE["ip4"])
    victim, other = (server, client) if victim_is_server else (client, server)
    at = time.monotonic()
    victim.signal(signal.SIGKILL)
    other.finish(lab.seconds(15))
    late = death.said_at(other, "RDMA_CM_EVENT_DISCONNECTED") - at
    check(late <= lab.seconds(5), f"DISCONNECTED came {late:.2f} s after the kill: {other.story()}")
    if victim_is_server:
        death.said_at(other, "completion failed")


def killed_rping(lab, victim_is_server):
    port = lab.port()
    server = lab.start("rping", "-s", "-a", WIRE["ip4"], "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("rping", "-c", "-a", WIRE["ip4"], "-p", port, "-v")
    client.says("ping data")
    victim, other = (server, client) if victim_is_server else (client, server)
    victim.signal(signal.SIGKILL)
    other.finish(lab.seconds(10), None)
    check(other.process.returncode >= 0, other.story())


def captured(lab, path, function, *args):
    """Runs function(*args) and writes every frame that wire0 saw meanwhile as a pcap file."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap, open(path, "wb") as file:
        tap.bind(("wire0", ETH_P_ALL))
        tap.settimeout(0.2)
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, FRAME_BYTES, 1))
        is_over = threading.Event()

        def record():
            while True:
                try:
                    frame = tap.recv(FRAME_BYTES)
                    file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame)
                except TimeoutError:
                    if is_over.is_set():
                        return

        recorder = threading.Thread(target=record)
        recorder.start()
        try:
            function(*args)
        finally:
            is_over.set()
            recorder.join()


def tshark(path, *options):
    """It wants a home that it can read."""
    env = {"PATH": os.environ["PATH"], "HOME": os.path.dirname(path), "LC_ALL": "C"}
    done = subprocess.run(["tshark", "-n", "-r", path, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=env, text=True, timeout=30, check=True)
    return done.stdout.splitlines()


def dissected(lab, address, *options):
    """Each datagram to the RoCE port is InfiniBand to tshark, none is malformed, and the connection's life is all there."""
    path = f"{lab.scratch}/capture.pcap"
    captured(lab, path, cm.rping, lab, address, *options)
    datagrams = len(tshark(path, "-Y", f"udp.dstport == {ROCE_PORT}"))
    understood = len(tshark(path, "-Y", f"udp.dstport == {ROCE_PORT} && infiniband.bth"))
    check(datagrams > 50 and understood == datagrams, f"{understood} of {datagrams} datagrams understood")
    bad = tshark(path, "-Y", "_ws.malformed || _ws.expert.severity == error")
    check(not bad, "\n".join(bad[:20]))
    attributes = tshark(path, "-Y", "infiniband.mad", "-T", "fields", "-e", "infiniband.mad.attributeid")
    seen = {int(word, 0) for word in attributes}
    check(seen == set(CM_ATTRIBUTES.values()), f"rdma_cm attributes {[hex(attribute) for attribute in sorted(seen)]}")


def udaddy_introduced(lab, address):
    """Twenty pairs find one another; what they would then say could get lost, which udaddy does not expect."""
    options = ["-c", 20, "-C", 0]
    server = lab.start("udaddy", "-b", address, *options)
    lab.listens_cm(server, "7174")
    client = lab.client("udaddy", "-s", address, *options)
    for program in (client, server):
        check("return status 0" in program.finish(lab.seconds(20)), program.story())


def good_network(lab, cases):
    address, ip6 = WIRE["ip4"], WIRE["ip6"]
    cases.run("a daemon on each host", both_hosts_have_a_daemon, lab)
    cases.run("rping, IPv4", cm.rping, lab, address)
    cases.run("rping, IPv6", cm.rping, lab, ip6)
    cases.run("rping -S 60000", cm.rping, lab, address, "-S", 60000)
    cases.run("rping -S 60000, IPv6", cm.rping, lab, ip6, "-S", 60000)
    cases.run("rping -P and three clients", cm.rping_persistent, lab, address)
    cases.run("ucmatose, IPv4", cm.ucmatose, lab, address)
    cases.run("ucmatose, IPv6", cm.ucmatose, lab, ip6, "-f", "ipv6")
    cases.run("ucmatose -c 20 -C 50 -S 4000", cm.ucmatose, lab, address, "-c", 20, "-C", 50, "-S", 4000)
    cases.run("udaddy, IPv4", cm.udaddy, lab, address)
    cases.run("udaddy, IPv6", cm.udaddy, lab, ip6, "-f", "ipv6")
    cases.run("udaddy -c 10 -C 50 -S 1000", cm.udaddy, lab, address, "-c", 10, "-C", 50, "-S", 1000)
    cases.run("rdma_client and rdma_server", cm.rdma_client_server, lab, address)
    cases.run("cmtime -c 200", cm.cmtime, lab, address, 200)
    cases.run("nobody listens, IPv4", cm.refused, lab, address)
    cases.run("nobody listens, IPv6", cm.refused, lab, ip6)
    for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
        cases.run(program, verbs.pingpong, lab, program, WIRE, "-c")
        cases.run(f"{program} -e", verbs.pingpong, lab, program, WIRE, "-c", "-e")
    for program in ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw", "ib_send_lat",
                    "ib_atomic_bw"):
        cases.run(program, perftest.perftest, lab, program, WIRE)
    for program in ("ib_write_bw", "ib_read_lat", "ib_send_bw"):
        cases.run(f"{program} -R", perftest.perftest, lab, program, WIRE, "-R")
    cases.run("ib_send_bw -b -q 4", perftest.perftest, lab, "ib_send_bw", WIRE, "-b", "-q", 4)
    cases.run("ibv_ud_pingpong, IPv6", verbs.pingpong, lab, "ibv_ud_pingpong", {**WIRE, "gid": 2}, "-c")
    for program in ("ib_send_bw", "ib_send_lat"):
        cases.run(f"{program} -c UD", perftest.perftest, lab, program, WIRE, "-c", "UD")
        cases.run(f"{program} -c UD, IPv6", perftest.perftest, lab, program, {**WIRE, "gid": 2}, "-c", "UD")
        for family in perftest.GROUPS:
            cases.run(f"{program} -c UD -g, {family}", perftest.multicast, lab, program, WIRE, family)
    cases.run("ibv_xsrq_pingpong", verbs.xsrq_pingpong, lab, WIRE)
    cases.run("ibv_xsrq_pingpong -e", verbs.xsrq_pingpong, lab, WIRE, "-e")
    for program in perftest.XRC_PROGRAMS:
        cases.run(f"{program} -c XRC", perftest.xrc, lab, program, WIRE)
    cases.run("ib_send_bw -c XRC -q 4", perftest.xrc, lab, "ib_send_bw", WIRE, "-q", 4)
    cases.run("ib_write_bw -c UC", perftest.perftest, lab, "ib_write_bw", WIRE, "-c", "UC")


def deaths(lab, cases):
    for victim in ("server", "client"):
        for operation in ("send", "write", "read"):
            cases.run(f"the {victim} is killed, {operation}", killed, lab, operation, victim == "server")
        cases.run(f"rping's {victim} is killed", killed_rping, lab, victim == "server")


def dissections(lab, cases):
    for address in (WIRE["ip4"], WIRE["ip6"]):
        name = f"tshark understands rping to {address}"
        if shutil.which("tshark"):
            cases.run(name, dissected, lab, address)
        else:
            cases.skip(name, "no tshark")


def bad_network(lab, cases, side):
    cases.run("rping, bad network", cm.rping, lab, side["ip4"])
    cases.run("rping -S 60000, IPv6, bad network", cm.rping, lab, side["ip6"], "-S", 60000)
    cases.run("ucmatose, bad network", cm.ucmatose, lab, side["ip4"])
    for number in range(10):
        cases.run(f"udaddy, no datagrams, bad network, {number}", udaddy_introduced, lab, side["ip4"])
    cases.run("cmtime -c 20, bad network", cm.cmtime, lab, side["ip4"], 20)
    cases.run("ibv_rc_pingpong, bad network", verbs.pingpong, lab, "ibv_rc_pingpong", side, "-c", "-n", 100)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        cases.run(f"{program}, bad network", perftest.perftest, lab, program, side, "-n", 20)
    if shutil.which("ucx_perftest"):
        for test in ("tag_lat", "tag_bw"):
            cases.run(f"UCX over datagrams, {test} -s 3000, bad network", ucx.ucx, lab, side, "ud_verbs", "-t", test, "-n", 100,
                      "-s", 3000)
    # For a time and not for a number, which nobody makes up for what was lost of it.
    for gid, family in ((1, "IPv4"), (2, "IPv6")):
        cases.run(f"ib_send_bw -c UD -D 2, {family}, bad network", perftest.perftest, lab, "ib_send_bw",
                  {**side, "gid": gid}, "-c", "UD", "-D", 2)


def body(lab, cases):
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    good_network(lab, cases)
    deaths(lab, cases)
    dissections(lab, cases)
    if netem(lab):
        bad_network(lab, cases, WIRE)
    elif has_tap_devices():
        with bad_road(lab) as side:
            bad_network(lab, cases, side)
    else:
        cases.skip("a bad network", "neither netem nor tap devices in this kernel")


if __name__ == "__main__":
    laboratory.main(body)
