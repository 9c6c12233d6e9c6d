#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Linux's own rxe on the other end: Debian's programs on it, in a virtual machine, against the same programs on ours.

    this network namespace                      the guest: Debian's kernel, rdma_rxe
    tap0  10.78.0.1  fd78::1   ── Ethernet ──   eth0  10.78.0.2  fd78::2   rxe0

Each case runs with either side as the server.
"""

import ipaddress
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "programs"))

import capture  # noqa: E402  pylint: disable=wrong-import-position
import multicast  # noqa: E402  pylint: disable=wrong-import-position
import servers  # noqa: E402  pylint: disable=wrong-import-position
import victims  # noqa: E402  pylint: disable=wrong-import-position
import tools  # noqa: E402  pylint: disable=wrong-import-position
import lab as laboratory  # noqa: E402  pylint: disable=wrong-import-position
from guest import SLOW, Guest, prepare  # noqa: E402  pylint: disable=wrong-import-position
from lab import check  # noqa: E402  pylint: disable=wrong-import-position

OURS = {"4": "10.78.0.1", "6": "fd78::1", "device": "tap0"}
THEIRS = {"4": "10.78.0.2", "6": "fd78::2", "device": "rxe0"}
# The index of an address in a device's GID table: the same on both sides; IPv6's is looked up.
GID = {"4": 1}
# What is kept between runs: the guest's kernel and initrd.
KEPT = os.path.join(laboratory.BUILD, "vm")
PACKETS_MIN = 1000


def cm_pair(server, client):
    """Server and client of an rdma_cm program: functions of their side, the server's address and the port."""
    return {"is_cm": True, "server": lambda side, address, port, _: server(side, address, port),
            "client": lambda side, address, port, _: client(side, address, port)}


def udaddy(*options):
    """It has one port, and is told which family it is about."""
    def common(address):
        return ["udaddy", *(["-f", "ipv6"] if ":" in address else []), *options]
    return {**cm_pair(lambda _, address, port: [*common(address), "-b", address],
                      lambda _, address, port: [*common(address), "-s", address]), "port": "7174"}


def perftest(program, *options):
    def common(side, port, gid):
        return [program, "-F", "-d", side["device"], "-p", port, "-x", gid, "-n", 50, *options]
    return {"is_cm": "-R" in options,
            "server": lambda side, _, port, gid: common(side, port, gid),
            "client": lambda side, address, port, gid: [*common(side, port, gid), address]}


def pingpong(program, *options):
    def common(side, port, gid):
        return [program, "-d", side["device"], "-g", gid, "-p", port, "-n", 50, *options]
    return {"is_cm": False,
            "server": lambda side, _, port, gid: common(side, port, gid),
            "client": lambda side, address, port, gid: [*common(side, port, gid), address]}


def streaming(program):
    """Over rsockets; both sides look at each byte."""
    options = ("-T", "v", "-S", 3001, "-C", 20, "-I", 3)
    return cm_pair(lambda _, address, port: [program, "-b", address, "-p", port, *options],
                   lambda _, address, port: [program, "-s", address, "-p", port, *options])


def rping(*options):
    return cm_pair(lambda _, address, port: ["rping", "-s", "-a", address, "-p", port, "-C", 3, "-V", *options],
                   lambda _, address, port: ["rping", "-c", "-a", address, "-p", port, "-C", 3, "-V", *options])


CASES = {
    "rping": rping(),
    "rping -S 20000": rping("-S", 20000),
    "ucmatose": cm_pair(
        lambda _, address, port: ["ucmatose", "-b", address, "-p", port, "-c", 2, "-C", 5, "-S", 3000],
        lambda _, address, port: ["ucmatose", "-s", address, "-p", port, "-c", 2, "-C", 5, "-S", 3000]),
    "udaddy": udaddy("-c", 2, "-C", 5, "-S", 500),
    "udaddy -C 0": udaddy("-c", 20, "-C", 0),
    "rdma_client": cm_pair(lambda _, address, port: ["rdma_server", "-s", address, "-p", port],
                           lambda _, address, port: ["rdma_client", "-s", address, "-p", port]),
    "rstream": streaming("rstream"),
    "riostream": streaming("riostream"),
    "ib_write_bw": perftest("ib_write_bw", "-s", 9000),
    "ib_read_bw": perftest("ib_read_bw", "-s", 9000),
    "ib_send_bw": perftest("ib_send_bw", "-s", 9000),
    "ib_atomic_bw": perftest("ib_atomic_bw"),
    "ib_write_bw -R": perftest("ib_write_bw", "-R", "-s", 9000),
    "ib_read_lat -R": perftest("ib_read_lat", "-R", "-s", 3000),
    "ib_send_bw -R": perftest("ib_send_bw", "-R", "-s", 9000),
    "ib_send_lat -c UD -R": perftest("ib_send_lat", "-c", "UD", "-R", "-s", 100),
    "rc_pingpong": pingpong("ibv_rc_pingpong", "-s", 5000),
    "uc_pingpong": pingpong("ibv_uc_pingpong", "-s", 2500),
    "srq_pingpong": pingpong("ibv_srq_pingpong"),
    "ud_pingpong": pingpong("ibv_ud_pingpong", "-s", 800, "-c"),
    "ib_send_bw -c UD": perftest("ib_send_bw", "-c", "UD", "-s", 1000),
    "ib_send_lat -c UD": perftest("ib_send_lat", "-c", "UD", "-s", 100),
}
# By our own programs of these names too.
BY_OUR_TOOLS = ("rping", "rping -S 20000", "ucmatose", "udaddy", "rdma_client", "rstream", "riostream")
# perftest's client gives its server one second to listen for the second connection that it makes, which is too little for an
# emulated machine.
SERVED_HERE = ("ib_write_bw -R", "ib_read_lat -R", "ib_send_bw -R", "ib_send_lat -c UD -R")
OVER_IPV6 = ("rping", "udaddy", "ud_pingpong", "ib_send_lat -c UD")
# With packets of the guest's lost, doubled and late.
OVER_A_BAD_LINK = ("rping -S 20000", "ucmatose", "ib_write_bw", "ib_read_bw", "ib_send_bw", "rc_pingpong")
# Its client ends with the last message it gets: if the network loses the acknowledgement, nobody repeats it.
LAST_WORDS = {"rc_pingpong": "transport retry counter exceeded (12) for wr_id 2\nparse WC failed 2\n"}
BAD_LINK = "tc qdisc add dev eth0 root netem loss 3% duplicate 1% delay 1ms reorder 5%"


def find_ipv6_gid(lab, guest):
    """Of the address that each side has of its own choice, not of the kernel's."""
    wanted = {"fd78:0000:0000:0000:0000:0000:0000:0001", "fd78:0000:0000:0000:0000:0000:0000:0002"}
    theirs = guest.ask("cat", "/sys/class/infiniband/rxe0/ports/1/gids/{0..7}").split()
    ours = re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?),", lab.start("ibv_devinfo", "-v", "-d", "tap0").finish(SLOW))
    ours = {ipaddress.ip_address(gid).exploded: int(index) for index, gid in ours}
    index, = (index for index, gid in enumerate(theirs) if gid in wanted)
    check(any(ours.get(gid) == index for gid in wanted), f"GIDs here: {ours}; there: {theirs}")
    GID["6"] = index


def address_of(side, case, family):
    """Where the client finds the server: programs without rdma_cm find each other over TCP, and those listen on IPv4."""
    return side[family if case["is_cm"] else "4"]


def our_server(lab, guest, case, family, last_words=None):
    port = case.get("port", lab.port())
    address = address_of(OURS, case, family)
    server = lab.start(*case["server"](OURS, address, port, GID[family]))
    (lab.listens_cm if case["is_cm"] else lab.listens_tcp)(server, port)
    client = guest.start(*case["client"](THEIRS, address, port, GID[family]))
    client.finish(SLOW)
    server.finish(SLOW, None)
    check(server.process.returncode == 0 or last_words and server.output().endswith(last_words), server.story())


def their_server(lab, guest, case, family):
    port = case.get("port", lab.port())
    address = address_of(THEIRS, case, family)
    server = guest.start(*case["server"](THEIRS, address, port, GID[family]))
    guest.listens(server, port, case["is_cm"])
    client = lab.start(*case["client"](OURS, address, port, GID[family]))
    client.finish(SLOW)
    server.finish(SLOW)


def udaddy_introduced_there(lab, guest):
    """Linux forgets what it answered: who repeats its question because the answer was lost is a new request, so the server has
    room for more of them than there are clients and is ended. That clients end well says that each had its answer."""
    server = guest.start("udaddy", "-b", THEIRS["4"], "-c", 60, "-C", 0)
    guest.listens(server, "7174", True)
    client = lab.start("udaddy", "-s", THEIRS["4"], "-c", 20, "-C", 0)
    check("return status 0" in client.finish(SLOW), client.story())
    guest.kill(server)
    server.finish(SLOW, None)


def service_refused_there(lab):
    """Rxe answers that it does not support the service."""
    client = lab.start("udaddy", "-s", THEIRS["4"])
    heard = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_UNREACHABLE, error: 1" in heard, client.story())


def service_refused_here(lab, guest):
    server = lab.start("rping", "-s", "-a", OURS["4"], "-p", lab.port())
    lab.listens_cm(server, server.argv[-1])
    client = guest.start("udaddy", "-s", OURS["4"])
    heard = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_UNREACHABLE, error: 1" in heard, client.story())


def refused_there(lab):
    client = lab.start("rping", "-c", "-a", THEIRS["4"], "-p", lab.port(), "-C", 1)
    heard = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_REJECTED, error 8" in heard, client.story())


def refused_here(lab, guest):
    """With somebody listening on another port: without a daemon of ours nobody would be there to refuse."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", OURS["4"], "-p", port)
    lab.listens_cm(server, port)
    client = guest.start("rping", "-c", "-a", OURS["4"], "-p", lab.port(), "-C", 1)
    heard = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_REJECTED, error 8" in heard, client.story())


def set_up_tap():
    for line in ("ip tuntap add dev tap0 mode tap", "ip addr add 10.78.0.1/24 dev tap0",
                 "ip addr add fd78::1/64 dev tap0 nodad", "ip link set tap0 up"):
        laboratory.ip_command(*line.split())


def body(lab, cases):
    set_up_tap()
    guest = Guest(KEPT, "rxe", "tap:tap0")
    path = os.path.join(KEPT, "out", "wire.pcap")
    try:
        with capture.recorded(path, "tap0"):
            against_rxe(lab, cases, guest)
    finally:
        guest.end()
    if cases.only:
        return
    cases.run("every ICRC is right, theirs too", capture.icrcs_are_right, path, PACKETS_MIN)
    if shutil.which("tshark"):
        cases.run("nothing on the wire is malformed", capture.nothing_is_malformed, path)
    else:
        cases.skip("nothing on the wire is malformed", "no tshark")


def against_rxe(lab, cases, guest):
    find_ipv6_gid(lab, guest)
    for name, case in CASES.items():
        for family in ("4", "6") if name in OVER_IPV6 else ("4",):
            if name not in SERVED_HERE:
                cases.run(f"{name}, IPv{family}, rxe is the server", their_server, lab, guest, case, family)
            cases.run(f"{name}, IPv{family}, rxe is the client", our_server, lab, guest, case, family)
    multicast.run(lab, cases, guest, (OURS, THEIRS), their_server, our_server)
    servers.run(lab, cases, guest, (OURS, THEIRS))
    with_tools = tools.Mixed(lab, "ours", "ours")
    for name in BY_OUR_TOOLS:
        cases.run(f"our {name}, rxe is the server", their_server, with_tools, guest, CASES[name], "4")
        cases.run(f"our {name}, rxe is the client", our_server, with_tools, guest, CASES[name], "4")
    servers.run(with_tools, cases, guest, (OURS, THEIRS), "our ")
    cases.run("our mckey, rxe receives", multicast.rxe_receives, with_tools, guest, OURS, THEIRS)
    cases.run("our mckey, rxe sends", multicast.rxe_sends, with_tools, guest, OURS, THEIRS)
    guest.start(*BAD_LINK.split()).finish(SLOW)
    for name in OVER_A_BAD_LINK:
        cases.run(f"{name}, bad link, rxe is the server", their_server, lab, guest, CASES[name], "4")
        cases.run(f"{name}, bad link, rxe is the client", our_server, lab, guest, CASES[name], "4", LAST_WORDS.get(name))
    cases.run("udaddy -C 0, bad link, rxe is the server", udaddy_introduced_there, lab, guest)
    cases.run("udaddy -C 0, bad link, rxe is the client", our_server, lab, guest, CASES["udaddy -C 0"], "4")
    guest.start("tc", "qdisc", "del", "dev", "eth0", "root").finish(SLOW)
    victims.run(lab, cases, guest, (OURS, THEIRS), GID["4"])
    cases.run("refused by rxe", refused_there, lab)
    cases.run("refused by us", refused_here, lab, guest)
    cases.run("datagram service refused by rxe", service_refused_there, lab)
    cases.run("datagram service refused by us", service_refused_here, lab, guest)


def cannot(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def main():
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        cannot("needs root and /dev/net/tun, for a virtual machine's network")
    why_not = prepare(KEPT)
    if why_not:
        print(re.sub("^", "# ", why_not, flags=re.M))
        cannot("the virtual machine could not be prepared")
    laboratory.main(body)


if __name__ == "__main__":
    main()
