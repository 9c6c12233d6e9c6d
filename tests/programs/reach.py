# SPDX-License-Identifier: BSD-2-Clause
"""Tests connects to a host that does not reply: they fail immediately if the network reports an error, and after the CM
timeout otherwise. Forged errors have no effect. Tests also listeners under a flood of requests: valid clients still
connect."""

import json
import os
import re
import signal
import socket
import struct
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check, ip_command, wait_until

FAR4, FAR6 = "10.88.0.2", "fd88::2"
NOBODY4, NOBODY6 = "10.88.0.99", "fd88::99"
SILENT4, SILENT6 = "10.88.0.66", "fd88::66"
REFUSED, NO_HOST, TIMED_OUT = -111, -113, -110
ROCE_PORT = 4791
PORT_FIRST = 0xC000
# A flood ends when its test ends it, but after at most this time.
RATE, FLOOD_SECONDS = 50000, 300
DAEMON_MAX_KIB = 160 * 1024
SANITIZER_KIB = 512 * 1024


def unreachable(lab, argv, status, seconds, timeout=None):
    """Checks that the program reports UNREACHABLE with this status, within that many seconds, and fails."""
    client = lab.start(*argv, **({"USRDMA_CM_TIMEOUT": timeout} if timeout else {}))
    printed = client.finish(lab.seconds(seconds), None)
    check(client.process.returncode != 0, client.story())
    check(re.search(rf"RDMA_CM_EVENT_UNREACHABLE, error:? {status}\b", printed), client.story())


def unresolved(lab, argv):
    """The address has no neighbour: the program fails with ADDR_ERROR, after its own timeout or when the kernel reports
    the failure."""
    client = lab.start(*argv)
    printed = client.finish(lab.seconds(10), None)
    check(client.process.returncode != 0, client.story())
    check(re.search(rf"RDMA_CM_EVENT_ADDR_ERROR, error:? ({TIMED_OUT}|{NO_HOST})\b", printed), client.story())


def rping(address):
    return ["rping", "-c", "-a", address, "-C", 1]


def udaddy(address):
    return ["udaddy", "-s", address] + (["-f", "ipv6"] if ":" in address else [])


def silence(lab):
    """Neighbour entries of this host for a host that no longer replies."""
    for address in (SILENT4, SILENT6):
        ip_command(*f"ip neigh add {address} lladdr 02:00:00:00:00:66 dev wire0 nud permanent".split())


def nobody_answers(lab, cases):
    """To be run before a program is started on the far host: no socket is bound to the port there."""
    for address in (FAR4, FAR6):
        cases.run(f"nobody has the port, rping to {address}", unreachable, lab, rping(address), REFUSED, 3)
        cases.run(f"nobody has the port, udaddy to {address}", unreachable, lab, udaddy(address), REFUSED, 3)
    for address in (NOBODY4, NOBODY6):
        cases.run(f"unassigned address {address}, rping", unresolved, lab, rping(address))
        cases.run(f"unassigned address {address}, udaddy", unresolved, lab, udaddy(address))
    silence(lab)
    cases.run("a silent host, rping", unreachable, lab, rping(SILENT4), TIMED_OUT, 10)
    cases.run("a silent host, udaddy, IPv6", unreachable, lab, udaddy(SILENT6), TIMED_OUT, 10)
    for argv in (rping(SILENT6), udaddy(SILENT4)):
        cases.run(f"a silent host, USRDMA_CM_TIMEOUT=2, {argv[0]}", unreachable, lab, argv, TIMED_OUT, 5, "2")


def sending_ports():
    """Returns the UDP ports of this namespace from which RoCE packets may be sent."""
    with open("/proc/self/net/udp6", encoding="ascii") as rows:
        ports = {int(row.split()[1].rsplit(":", 1)[1], 16) for row in list(rows)[1:]}
    return {port for port in ports if port >= PORT_FIRST}


def forged(port):
    """An ICMP "port unreachable" for a REQ to the silent host, correct except for the transaction ID."""
    mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 0x1234, 0x10, 0, 0).ljust(256, b"\0")
    payload = struct.pack(">BBHIIII", 0x64, 0x40, 0xFFFF, 1, 0, 0x80010000, 1) + mad + bytes(4)
    udp = struct.pack(">HHHH", port, ROCE_PORT, 8 + len(payload), 0)
    inner = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(payload), 0, 0x4000, 64, 17, 0,
                        socket.inet_aton(WIRE["ip4"]), socket.inet_aton(SILENT4))
    return icmp(3, 3, bytes(4) + inner + udp + payload)


def icmp(kind, code, rest):
    """The ICMP message with its checksum (RFC 1071)."""
    data = struct.pack(">BBH", kind, code, 0) + rest
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">BBH", kind, code, ~total & 0xFFFF) + rest


def reported(lab):
    return lab.status()["counters"]["gsi"]["undeliverable_mads_reported"]


def forgeries_change_nothing(lab):
    client = lab.start(*rping(SILENT4), USRDMA_CM_TIMEOUT="3")
    wait_until(lambda: any(item["state"] == "req_sent" for item in (lab.status() or {}).get("connections", [])), 10,
               "a REQ that waits")
    before = reported(lab)
    with lab.far:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with raw:
        for port in sending_ports():
            raw.sendto(forged(port), (WIRE["ip4"], 0))
    wait_until(lambda: reported(lab) > before, 10, "the forgery")
    printed = client.finish(lab.seconds(10), None)
    check(f"RDMA_CM_EVENT_UNREACHABLE, error {TIMED_OUT}" in printed, client.story())


def check_daemon_size(lab):
    """AddressSanitizer delays the reuse of up to 256 MiB of freed memory."""
    with open(f"/proc/{lab.daemons()[0]}/status", encoding="ascii") as rows:
        kib = int(re.search(r"VmRSS:\s+(\d+)", rows.read())[1])
    check(kib < DAEMON_MAX_KIB + (SANITIZER_KIB if lab.sanitized else 0), f"the daemon has {kib} KiB")


def turned_away(lab):
    return lab.status()["counters"]["cm"]["requests_turned_away"]


def befriend(lab, port, space):
    client = lab.client(lab.tool("picky"), "client", WIRE["ip4"], port, space)
    check("connected" in client.finish(lab.seconds(20)), client.story())


def friends_in_a_flood(lab, space):
    """The flood has the same source address as the valid clients."""
    port = lab.port()
    server = lab.start(lab.tool("picky"), "server", WIRE["ip4"], port, space)
    lab.listens_cm(server, port)
    befriend(lab, port, space)
    flood = lab.client(lab.tool("flood"), FAR4, WIRE["ip4"], port, space, FLOOD_SECONDS, RATE)
    before = turned_away(lab)
    wait_until(lambda: turned_away(lab) > before, 10, "a request turned away")
    for _ in range(5):
        befriend(lab, port, space)
        check(flood.running(), flood.story())
    flood.end()
    check_daemon_size(lab)
    befriend(lab, port, space)
    check(server.running() and server.output().count("accepted") == 7, server.story())
    server.signal(signal.SIGKILL)


def a_listener_that_sleeps(lab, space):
    """The application does not take the requests. Their number is limited by the backlog, and none remains after the
    listener was destroyed."""
    port = lab.port()
    server = lab.start(lab.tool("picky"), "server", WIRE["ip4"], port, space)
    lab.listens_cm(server, port)
    server.signal(signal.SIGSTOP)
    before = lab.status()["cm"]["ids"]
    flood = lab.client(lab.tool("flood"), FAR4, WIRE["ip4"], port, space, 2, RATE)
    flood.finish(lab.seconds(20))
    status = lab.status()["cm"]
    check(status["ids"] - before <= 64, f"{status['ids']} ids")
    check(status["cm_connections"] + status["cm_resolutions"] <= 4200, f"{status}")
    check_daemon_size(lab)
    server.signal(signal.SIGCONT)
    befriend(lab, port, space)
    server.signal(signal.SIGKILL)
    wait_until(lambda: lab.status()["cm"]["ids"] == 0, 10, "the end of all ids")


def forget_neighbours(lab, _address):
    with lab.far:
        ip_command("ip", "neigh", "flush", "dev", "wire0")


def stale_neighbour(lab, address):
    shown = subprocess.run(["ip", "-j", "link", "show", "wire0"], stdout=subprocess.PIPE, check=True).stdout
    there = json.loads(shown)[0]["address"]
    with lab.far:
        ip_command(*f"ip neigh replace {address} lladdr {there} dev wire0 nud stale".split())


def neighbour_resolves(lab, address, prepare):
    """A client on the far host connects, whatever the kernel's entry for the server's address was before."""
    port = lab.port()
    server = lab.start(lab.tool("picky"), "server", address, port, "tcp")
    lab.listens_cm(server, port)
    prepare(lab, address)
    client = lab.client(lab.tool("picky"), "client", address, port, "tcp")
    check("connected" in client.finish(lab.seconds(20)), client.story())
    server.signal(signal.SIGKILL)


def neighbours_resolve(lab, cases):
    for address in (WIRE["ip4"], WIRE["ip6"]):
        cases.run(f"an unknown neighbour resolves, {address}", neighbour_resolves, lab, address, forget_neighbours)
        cases.run(f"a stale neighbour resolves, {address}", neighbour_resolves, lab, address, stale_neighbour)


def body(lab, cases):
    if not lab.isolated or os.geteuid() != 0:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    nobody_answers(lab, cases)
    neighbours_resolve(lab, cases)
    cases.run("a third host's ICMP errors change nothing", forgeries_change_nothing, lab)
    for space in ("tcp", "udp"):
        cases.run(f"friends in a flood, {space}", friends_in_a_flood, lab, space)
        cases.run(f"a listener that sleeps in a flood, {space}", a_listener_that_sleeps, lab, space)


if __name__ == "__main__":
    laboratory.main(body)
