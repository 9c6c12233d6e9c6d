# SPDX-License-Identifier: BSD-2-Clause
"""Features of rxe that Linux 6.1 does not have: FLUSH and atomic WRITE (from Linux 6.2 on), on-demand paging (from
6.15 on) and network namespaces (from 7.0 on). The program `newer` in the guest runs with the libraries of the kernel's
Debian suite, because libibverbs of Debian 12 has no FLUSH."""

import glob
import os
import re
import shlex
import socket

from tests.programs import capture
from tests.programs.lab import check

SLOW = 60
NAMESPACE = "inner"
OPCODE_FLUSH = 0x1C


class There:
    """The program `newer` in the guest, with the suite's libraries. libibverbs loads its providers from a fixed folder.
    In the mount namespace of the program, the suite's folder is mounted there."""

    def __init__(self, guest, kept, program):
        loader, = glob.glob(os.path.join(kept, "libraries", "usr", "lib", "*", "ld-linux-*.so.?"))
        folder = os.path.dirname(loader)
        usual = folder[len(os.path.join(kept, "libraries")):]
        self.guest = guest
        self.program = program
        self.line = f"mount --bind {folder}/libibverbs {usual}/libibverbs && exec {loader} --library-path {folder} "

    def start(self, *argv):
        line = self.line + " ".join(str(word) for word in argv)
        return self.guest.start("unshare", "--mount", "sh", "-c", shlex.quote(line))


def ends_well(*programs):
    for program in programs:
        check("all bytes are right" in program.finish(SLOW), program.story())


def their_server(lab, guest, there, sides, options):
    """The options are those of this side and of the guest."""
    port = lab.port()
    server = there.start(there.program, "serve", sides[1]["4"], port, *options[1])
    guest.listens(server, port, True)
    ends_well(lab.start(lab.tool("newer"), "drive", sides[1]["4"], port, *options[0]), server)


def our_server(lab, there, sides, options):
    port = lab.port()
    server = lab.start(lab.tool("newer"), "serve", sides[0]["4"], port, *options[0])
    lab.listens_cm(server, port)
    ends_well(there.start(there.program, "drive", sides[0]["4"], port, *options[1]), server)


def rxe_pages_on_demand(lab, guest, there, sides, found):
    """Two programs on rxe, one of them with on-demand paging. Whether both find the right bytes is recorded, because it
    depends on the kernel. Any other end of a program is a failure."""
    port = lab.port()
    server = there.start(there.program, "serve", sides[1]["4"], port, "odp")
    guest.listens(server, port, True)
    client = there.start(there.program, "drive", sides[1]["4"], port)
    client.finish(SLOW, None)
    server.finish(SLOW, None)
    for program in (client, server):
        check(re.search("all bytes are right|wrong bytes", program.output()), program.story())
    found["is_right"] = all("all bytes are right" in program.output() for program in (client, server))


def run(lab, cases, guest, sides, kept):
    there = There(guest, kept, lab.tool("newer"))
    name = "WRITE, atomic WRITE, fetch-and-add, READ"
    here_only, rxe_only = (("odp",), ()), ((), ("odp",))
    for more, options in (("", ((), ())), (", on-demand paging here", here_only)):
        cases.run(f"{name}{more}, rxe is the server", their_server, lab, guest, there, sides, options)
        cases.run(f"{name}{more}, rxe is the client", our_server, lab, there, sides, options)
    name += ", on-demand paging at rxe"
    # rxe has on-demand paging from 6.15 on, and the atomic WRITE with it from 6.16 on.
    if guest.release() < (6, 16):
        cases.skip(name, "rxe of this kernel executes no atomic WRITE to memory with on-demand paging")
        return
    found = {}
    cases.run(f"{name}, both sides are rxe: the result is recorded", rxe_pages_on_demand, lab, guest, there, sides,
              found)
    if not found.get("is_right"):
        reason = "two programs on rxe find wrong bytes" if found else "the result of two programs on rxe is unknown"
        cases.skip(name, reason)
        return
    cases.run(f"{name}, rxe is the server", their_server, lab, guest, there, sides, rxe_only)
    cases.run(f"{name}, rxe is the client", our_server, lab, there, sides, rxe_only)


def flush_icrc_is_wrong(path, address):
    """Whether the ICRC of FLUSHes from this address covers the headers twice, instead of once."""
    source = socket.inet_aton(address)
    for ip, udp, payload in capture.packets(path):
        if payload[0] == OPCODE_FLUSH and ip[12:16] == source:
            twice = payload[:-4] + payload
            return capture.icrc(ip, udp, payload) != payload[-4:] and capture.icrc(ip, udp, twice) == payload[-4:]
    return False


def flush_by_rxe(lab, guest, there, sides, found):
    port = lab.port()
    path = os.path.join(guest.out, "flush.pcap")
    server = lab.start(lab.tool("newer"), "serve", sides[0]["4"], port, "flush")
    lab.listens_cm(server, port)
    with capture.recorded(path, sides[0]["device"]):
        client = there.start(there.program, "drive", sides[0]["4"], port, "flush")
        client.finish(SLOW, None)
    found["icrc_is_wrong"] = flush_icrc_is_wrong(path, sides[1]["4"])
    if found["icrc_is_wrong"]:
        check("FLUSH of a range: transport retry counter exceeded" in client.output(), client.story())
    else:
        ends_well(client, server)


def run_flush(lab, cases, guest, sides, kept):
    """rxe of Linux 6.12 to 7.3 sends FLUSHes with a wrong ICRC, and drops FLUSHes with a right one."""
    there = There(guest, kept, lab.tool("newer"))
    found = {}
    cases.run("FLUSH, rxe is the client: executed, or its ICRC is wrong", flush_by_rxe, lab, guest, there, sides, found)
    if not found:
        cases.skip("FLUSH, rxe is the server", "the ICRC of rxe's FLUSHes was not determined")
    elif found["icrc_is_wrong"]:
        cases.skip("FLUSH, rxe is the server", "rxe computes the ICRC of a FLUSH over the headers twice")
    else:
        cases.run("FLUSH, rxe is the server", their_server, lab, guest, there, sides, (("flush",), ("flush",)))


MOVE = f"""rdma link delete rxe0
ip netns add {NAMESPACE}
ip link set eth0 netns {NAMESPACE}
ip -n {NAMESPACE} link set lo up
ip -n {NAMESPACE} addr add ADDRESS/24 dev eth0
ip -n {NAMESPACE} link set eth0 up
ip netns exec {NAMESPACE} rdma link add rxe0 type rxe netdev eth0
"""


def move(guest, address):
    for line in MOVE.replace("ADDRESS", address).splitlines():
        guest.start(*line.split()).finish(SLOW)


def rping_in_namespace(lab, guest, sides, server_is_here):
    inside = ["ip", "netns", "exec", NAMESPACE]
    port = lab.port()
    words = ["-a", sides[0 if server_is_here else 1]["4"], "-p", port, "-C", 3, "-V"]
    if server_is_here:
        server = lab.start("rping", "-s", *words)
        lab.listens_cm(server, port)
        client = guest.start(*inside, "rping", "-c", *words)
    else:
        server = guest.start(*inside, "rping", "-s", *words)
        guest.listens(server, port, True)
        client = lab.start("rping", "-c", *words)
    client.finish(SLOW)
    server.finish(SLOW)


def run_in_namespace(lab, cases, guest, sides):
    """The last cases: rxe0 moves with its interface into a network namespace of the guest."""
    name = "rping, rxe in a network namespace"
    if guest.release() < (7, 0):
        cases.skip(name, "rxe of this kernel opens no socket in the new namespace")
        return
    cases.run("rxe moves into a network namespace", move, guest, sides[1]["4"])
    cases.run(f"{name} is the server", rping_in_namespace, lab, guest, sides, False)
    cases.run(f"{name} is the client", rping_in_namespace, lab, guest, sides, True)
