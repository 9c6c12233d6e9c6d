# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts: runs Debian's programs between two network namespaces, each with a daemon of its own; kills the program of
one host; dissects the packets. Tests with packet loss are in losses.py."""

import contextlib
import shutil
import signal
import time

from tests.programs import capture, cm, death, perftest, verbs
from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check

CM_ATTRIBUTES = {"REQ": 0x10, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15, "DREP": 0x16}
# Sent only if the server has not accepted soon enough, as on a busy machine.
CM_MRA = 0x11


def both_hosts_have_a_daemon(lab):
    """Each namespace has a daemon of its own, and no daemon lists the device addresses of the other namespace."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", WIRE["ip4"], "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("rping", "-c", "-a", WIRE["ip4"], "-p", port, "-v")
    client.says("ping data")
    near = lab.daemons()
    with lab.far:
        far = lab.daemons()
    check(len(near) == 1 and len(far) == 1 and near != far, f"daemons {near} and {far}")


def vendor_options(lab, address):
    """The vendor options that one side offers reach the other side. A client with an unknown vendor is rejected with
    the reason."""
    port = lab.port()
    server = lab.start(lab.tool("ece"), "server", address, port)
    lab.listens_cm(server, port)
    for vendor, answer in (("0x02c903", "answered by 010203 00000010"), ("0x00dead", "rejected for reason 35")):
        client = lab.client(lab.tool("ece"), "client", address, port, vendor)
        check(answer in client.finish(lab.seconds(20)), client.story())
        server.says(f"asked by {vendor[2:]} fedcba98")
    server.finish(lab.seconds(10))


def socket_drops(lab):
    """The number of datagrams that full sockets of both hosts dropped."""
    dropped = 0
    for host in (lab.far, contextlib.nullcontext()):
        with host, open("/proc/thread-self/net/snmp", encoding="ascii") as file:
            names, values = [line.split() for line in file if line.startswith("Udp:")]
        dropped += int(values[names.index("RcvbufErrors")])
    return dropped


def lossless(lab, program, *options):
    """UC and UD lose no message because of a full socket: the program receives all messages and ends."""
    before = socket_drops(lab)
    perftest.perftest(lab, program, WIRE, *options)
    check(socket_drops(lab) == before, f"{socket_drops(lab) - before} datagrams dropped by full sockets")


def killed(lab, operation, victim_is_server):
    """The daemon of the killed program disconnects from the other host. The program there gets DISCONNECTED and ends
    with status 0, because no work request of it is outstanding. A receiver may have had no work request that could
    fail."""
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


def dissected(lab, address, *options):
    """tshark dissects each datagram to the RoCE port as InfiniBand and finds none malformed. All messages of the
    connection's life are present. The kernel segments GSO bursts before the capture."""
    for host in (lab.far, contextlib.nullcontext()):
        with host:
            laboratory.ip_command(*"ip link set wire0 gso_max_segs 1".split())
    path = f"{lab.scratch}/capture.pcap"
    with capture.recorded(path, "wire0"):
        cm.rping(lab, address, *options)
    capture.icrcs_are_right(path, 50)
    datagrams = len(capture.tshark(path, "-Y", f"udp.dstport == {capture.ROCE_PORT}"))
    understood = len(capture.tshark(path, "-Y", f"udp.dstport == {capture.ROCE_PORT} && infiniband.bth"))
    check(datagrams > 50 and understood == datagrams, f"{understood} of {datagrams} datagrams understood")
    bad = capture.tshark(path, "-Y", "_ws.malformed || _ws.expert.severity == error")
    check(not bad, "\n".join(bad[:20]))
    attributes = capture.tshark(path, "-Y", "infiniband.mad", "-T", "fields", "-e", "infiniband.mad.attributeid")
    seen = {int(word, 0) for word in attributes}
    check(seen - {CM_MRA} == set(CM_ATTRIBUTES.values()),
          f"rdma_cm attributes {[hex(attribute) for attribute in sorted(seen)]}")


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
    cases.run("vendor options, IPv4", vendor_options, lab, address)
    cases.run("vendor options, IPv6", vendor_options, lab, ip6)
    cases.run("without a listener, IPv4", cm.refused, lab, address)
    cases.run("without a listener, IPv6", cm.refused, lab, ip6)
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
    for options in (("-c", "UC"), ("-b", "-c", "UC"), ("-c", "UD"), ("-b", "-c", "UD")):
        cases.run(f"ib_send_bw {' '.join(options)}, no message lost", lossless, lab, "ib_send_bw", *options, "-n", 600)
    cases.run("ib_write_bw -c UC, no packet lost", lossless, lab, "ib_write_bw", "-c", "UC", "-n", 600)
    cases.run("ib_write_lat -c UC -s 8388608, no packet lost", lossless, lab, "ib_write_lat", "-c", "UC", "-s", 8388608,
              "-n", 5)


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


def body(lab, cases):
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    good_network(lab, cases)
    deaths(lab, cases)
    dissections(lab, cases)


if __name__ == "__main__":
    laboratory.main(body)
