# SPDX-License-Identifier: BSD-2-Clause
"""Interoperability with Linux's rxe: Debian's programs on rxe in a virtual machine and the same programs on usrdma.

    this network namespace                      the guest: Debian's kernel, rdma_rxe
    tap0  10.78.0.1  fd78::1   ── Ethernet ──   eth0  10.78.0.2  fd78::2   rxe0

Each case runs twice, with each side as the server. USRDMA_KERNEL_SUITE=SUITE selects the kernel of another Debian
suite, and adds the cases of newer.py and services.py.
"""

import ipaddress
import os
import re
import shutil
import sys
from dataclasses import dataclass

from tests.interop import multicast, newer, servers, services, victims
from tests.interop.guest import SLOW, Guest, prepare
from tests.programs import capture, tools
from tests.programs import lab as laboratory
from tests.programs.lab import check

OURS = {"4": "10.78.0.1", "6": "fd78::1", "device": "tap0"}
THEIRS = {"4": "10.78.0.2", "6": "fd78::2", "device": "rxe0"}
SUITE = os.environ.get("USRDMA_KERNEL_SUITE")
# The guest's kernel and initrd, which are kept between runs.
KEPT = os.path.join(laboratory.BUILD, f"vm-{SUITE}" if SUITE else "vm")
PACKETS_MIN = 1000


@dataclass(frozen=True)
class Family:
    """An IP version, and the index of its address in the GID table, which is the same on both sides."""
    version: str
    gid: int


def cm_pair(server, client):
    """The command lines of an rdma_cm program as functions of the side, the server's address and the port."""
    return {"is_cm": True, "server": lambda side, address, port, _: server(side, address, port),
            "client": lambda side, address, port, _: client(side, address, port)}


def udaddy(*options):
    """udaddy uses a fixed port, and needs an option for IPv6."""
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
    """Transfers data over rsockets; both sides verify each byte."""
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
    "ib_write_bw -R": perftest("ib_write_bw", "-R", "-s", 40000),
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
# tests/soak also runs the programs of this project that have these names.
BY_OUR_TOOLS = ("rping", "rping -S 20000", "ucmatose", "udaddy", "rdma_client", "rstream", "riostream")
# perftest's client opens a second connection after one second, which is too early for a server in an emulated machine.
SERVED_HERE = ("ib_write_bw -R", "ib_read_lat -R", "ib_send_bw -R", "ib_send_lat -c UD -R")
OVER_IPV6 = ("rping", "udaddy", "ud_pingpong") + (("ib_send_lat -c UD",) if laboratory.EVERY else ())
# Run with loss, duplication and delay of the guest's packets.
OVER_A_BAD_LINK = ("rping -S 20000", "ucmatose", "ib_write_bw", "ib_read_bw", "ib_send_bw", "rc_pingpong")
# The client exits after the last message that it receives: if its ACK is lost, the server's retries run out.
LAST_WORDS = {"rc_pingpong": "transport retry counter exceeded (12) for wr_id 2\nparse WC failed 2\n"}
BAD_LINK = "tc qdisc add dev eth0 root netem loss 3% duplicate 1% delay 1ms reorder 5%"


def families(lab, guest):
    """Finds the GID index of the configured IPv6 address; the link-local address has another one. Returns both families
    by their version."""
    wanted = {"fd78:0000:0000:0000:0000:0000:0000:0001", "fd78:0000:0000:0000:0000:0000:0000:0002"}
    theirs = guest.ask("cat", "/sys/class/infiniband/rxe0/ports/1/gids/{0..7}").split()
    ours = re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?),", lab.start("ibv_devinfo", "-v", "-d", "tap0").finish(SLOW))
    ours = {ipaddress.ip_address(gid).exploded: int(index) for index, gid in ours}
    index, = (index for index, gid in enumerate(theirs) if gid in wanted)
    check(any(ours.get(gid) == index for gid in wanted), f"GIDs here: {ours}; there: {theirs}")
    return {"4": Family("4", 1), "6": Family("6", index)}


def address_of(side, case, family):
    """The server's address. Programs without rdma_cm connect over TCP first, and listen on IPv4 only."""
    return side[family.version if case["is_cm"] else "4"]


# perftest with -c UD -R exchanges parameters over an RC connection first. Then its server listens and its client
# resolves the service ID, in any order. A client that is first prints this, on every device.
EARLY_CLIENT = "Event: RDMA_CM_EVENT_UNREACHABLE; error: 1."


def our_server(lab, guest, case, family, last_words=None, tries=3):
    port = case.get("port", lab.port())
    address = address_of(OURS, case, family)
    server = lab.start(*case["server"](OURS, address, port, family.gid))
    (lab.listens_cm if case["is_cm"] else lab.listens_tcp)(server, port)
    client = guest.start(*case["client"](THEIRS, address, port, family.gid))
    printed = client.finish(SLOW, None)
    if tries > 1 and EARLY_CLIENT in printed:
        server.end()
        our_server(lab, guest, dict(case, port=lab.port()), family, last_words, tries - 1)
        return
    client.finish(SLOW)
    server.finish(SLOW, None)
    check(server.process.returncode == 0 or last_words and server.output().endswith(last_words), server.story())


def first_contact(lab, guest, case, family):
    """The daemon has received nothing from the guest: it verifies the address of the REQ before it sends the REP."""
    our_server(lab, guest, case, family)
    mads = lab.status()["cm"]["mads_received"]
    check(mads.get("SIDR_REP", 0) >= 1 and mads.get("REQ") == 1, f"received {mads}")


def their_server(lab, guest, case, family):
    port = case.get("port", lab.port())
    address = address_of(THEIRS, case, family)
    server = guest.start(*case["server"](THEIRS, address, port, family.gid))
    guest.listens(server, port, case["is_cm"])
    client = lab.start(*case["client"](OURS, address, port, family.gid))
    client.finish(SLOW)
    server.finish(SLOW)


def udaddy_introduced_there(lab, guest):
    """Linux does not store SIDR responses: a request that is repeated because its response was lost is reported as a
    new request. The server therefore expects more requests than there are clients, and is killed at the end. The
    clients succeed if each request was answered."""
    server = guest.start("udaddy", "-b", THEIRS["4"], "-c", 60, "-C", 0)
    guest.listens(server, "7174", True)
    client = lab.start("udaddy", "-s", THEIRS["4"], "-c", 20, "-C", 0)
    check("return status 0" in client.finish(SLOW), client.story())
    guest.kill(server)
    server.finish(SLOW, None)


def service_refused_there(lab):
    """The response from Linux is that the service ID is not supported."""
    client = lab.start("udaddy", "-s", THEIRS["4"])
    printed = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_UNREACHABLE, error: 1" in printed, client.story())


def service_refused_here(lab, guest):
    server = lab.start("rping", "-s", "-a", OURS["4"], "-p", lab.port())
    lab.listens_cm(server, server.argv[-1])
    client = guest.start("udaddy", "-s", OURS["4"])
    printed = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_UNREACHABLE, error: 1" in printed, client.story())


def refused_there(lab):
    client = lab.start("rping", "-c", "-a", THEIRS["4"], "-p", lab.port(), "-C", 1)
    printed = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_REJECTED, error 8" in printed, client.story())


def refused_here(lab, guest):
    """A server listens on another port: it ensures that usrdmad runs and can reject the REQ."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", OURS["4"], "-p", port)
    lab.listens_cm(server, port)
    client = guest.start("rping", "-c", "-a", OURS["4"], "-p", lab.port(), "-C", 1)
    printed = client.finish(SLOW, None)
    check("RDMA_CM_EVENT_REJECTED, error 8" in printed, client.story())


def set_up_tap():
    for line in ("ip tuntap add dev tap0 mode tap", "ip addr add 10.78.0.1/24 dev tap0",
                 "ip addr add fd78::1/64 dev tap0 nodad", "ip link set tap0 up"):
        laboratory.ip_command(*line.split())


def kernel_of_suite(guest):
    with open(os.path.join(KEPT, "kernel"), encoding="utf-8") as file:
        wanted = file.read().strip()
    runs = guest.ask("uname", "-r").strip()
    check(runs == wanted, f"the guest runs {runs}, not {wanted}")
    print(f"# Linux {runs}")


def body(lab, cases):
    set_up_tap()
    guest = Guest(KEPT, "rxe", "tap:tap0")
    path = os.path.join(KEPT, "out", "wire.pcap")
    try:
        with capture.recorded(path, "tap0"):
            against_rxe(lab, cases, guest)
        if SUITE:
            against_suite(lab, cases, guest)
    finally:
        guest.end()
    if cases.only:
        return
    cases.run("every ICRC is right, theirs too", capture.icrcs_are_right, path, PACKETS_MIN)
    if shutil.which("tshark"):
        cases.run("nothing on the wire is malformed", capture.nothing_is_malformed, path)
    else:
        cases.skip("nothing on the wire is malformed", "no tshark")


def against_suite(lab, cases, guest):
    cases.run("the guest's kernel is that of the suite", kernel_of_suite, guest)
    newer.run(lab, cases, guest, (OURS, THEIRS), KEPT)
    newer.run_flush(lab, cases, guest, (OURS, THEIRS), KEPT)
    services.run(lab, cases, guest, (OURS, THEIRS))
    newer.run_in_namespace(lab, cases, guest, (OURS, THEIRS))


def against_rxe(lab, cases, guest):
    by_version = families(lab, guest)
    ipv4 = by_version["4"]
    cases.run("rping, IPv4, the first contact of rxe as the client", first_contact, lab, guest, CASES["rping"], ipv4)
    for name, case in CASES.items():
        for family in by_version.values() if name in OVER_IPV6 else (ipv4,):
            if name not in SERVED_HERE:
                cases.run(f"{name}, IPv{family.version}, rxe is the server", their_server, lab, guest, case, family)
            cases.run(f"{name}, IPv{family.version}, rxe is the client", our_server, lab, guest, case, family)
    multicast.run(lab, cases, guest, (OURS, THEIRS), by_version, their_server, our_server)
    servers.run(lab, cases, guest, (OURS, THEIRS))
    if laboratory.EVERY:
        by_our_tools(lab, cases, guest, ipv4)
    guest.start(*BAD_LINK.split()).finish(SLOW)
    for name in OVER_A_BAD_LINK:
        cases.run(f"{name}, bad link, rxe is the server", their_server, lab, guest, CASES[name], ipv4)
        cases.run(f"{name}, bad link, rxe is the client", our_server, lab, guest, CASES[name], ipv4,
                  LAST_WORDS.get(name))
    cases.run("udaddy -C 0, bad link, rxe is the server", udaddy_introduced_there, lab, guest)
    cases.run("udaddy -C 0, bad link, rxe is the client", our_server, lab, guest, CASES["udaddy -C 0"], ipv4)
    guest.start("tc", "qdisc", "del", "dev", "eth0", "root").finish(SLOW)
    victims.run(lab, cases, guest, (OURS, THEIRS), ipv4.gid)
    cases.run("refused by rxe", refused_there, lab)
    cases.run("refused by us", refused_here, lab, guest)
    cases.run("datagram service refused by rxe", service_refused_there, lab)
    cases.run("datagram service refused by us", service_refused_here, lab, guest)


def by_our_tools(lab, cases, guest, family):
    with_tools = tools.Mixed(lab, "ours", "ours")
    for name in BY_OUR_TOOLS:
        cases.run(f"our {name}, rxe is the server", their_server, with_tools, guest, CASES[name], family)
        cases.run(f"our {name}, rxe is the client", our_server, with_tools, guest, CASES[name], family)
    servers.run(with_tools, cases, guest, (OURS, THEIRS), "our ")
    multicast.mckey(with_tools, cases, guest, (OURS, THEIRS), "our mckey")


def end_without_cases(why, is_failure):
    """If the user selected a suite whose kernel cannot be prepared, the exit status is 1: tests/soak evaluates only the
    exit status."""
    print(f"1..1\nnot ok 1 - {why}" if is_failure else f"1..0 # SKIP {why}")
    sys.exit(1 if is_failure else 0)


def main():
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        end_without_cases("needs root and /dev/net/tun, for a virtual machine's network", False)
    why_not = prepare(KEPT, SUITE)
    if why_not:
        print(re.sub("^", "# ", why_not, flags=re.M))
        end_without_cases("the virtual machine could not be prepared", bool(SUITE))
    laboratory.main(body)


if __name__ == "__main__":
    main()
