# SPDX-License-Identifier: BSD-2-Clause
"""Multicast with Linux's rxe. Its rdma_cm joins IPv4 groups by IGMP and does not join IPv6 groups. Its
ibv_attach_mcast() joins no group, so that for perftest another program in the guest joins the groups."""

import shlex
import socket
import struct
import time

from tests.programs.lab import check, wait_until

GROUP = "239.78.1.1"
GROUPS = {"4": ("239.78.1.9", "0:0:0:0:0:0:0:0:0:0:255:255:239:78:1:9"),
          "6": ("ff0e::78:9", "255:14:0:0:0:0:0:0:0:0:0:0:0:120:0:9")}
SLOW = 60  # seconds; the guest is emulated


def igmp_name(group):
    """The group in the format of /proc/net/igmp: the address bytes as a number in host byte order."""
    return f"{struct.unpack('<I', socket.inet_aton(group))[0]:08X}"


def their_member(guest, address, *options):
    member = guest.start("mckey", "-m", GROUP, "-b", address, *options)
    deadline = time.monotonic() + SLOW
    while igmp_name(GROUP) not in guest.ask("cat", "/proc/net/igmp"):
        check(time.monotonic() < deadline and not member.output().endswith("return status -1"), member.story())
    return member


def our_member(lab, address, *options):
    def has_joined():
        return any(join["group"] == GROUP for join in (lab.status() or {}).get("multicast_joins", ()))
    member = lab.start("mckey", "-m", GROUP, "-b", address, *options)
    wait_until(lambda: has_joined() or not member.running(), lab.seconds(10), "the join")
    return member


def ends_well(*programs):
    for program in programs:
        printed = program.finish(SLOW)
        check("data transfers complete" in printed and "return status 0" in printed, program.story())


def rxe_receives(lab, guest, ours, theirs, *options):
    member = their_member(guest, theirs["4"], *options)
    ends_well(lab.start("mckey", "-m", GROUP, "-b", ours["4"], "-s", *options), member)


def rxe_sends(lab, guest, ours, theirs, *options):
    member = our_member(lab, ours["4"], *options)
    ends_well(guest.start("mckey", "-m", GROUP, "-b", theirs["4"], "-s", *options), member)


def perftest(program, version):
    """Like perftest() of rxe.py, with a multicast group as the destination."""
    options = ("-c", "UD", "-g", "-M", GROUPS[version][1], "-s", 100)

    def common(side, port, gid):
        return [program, "-F", "-d", side["device"], "-p", port, "-x", gid, "-n", 50, *options]
    return {"is_cm": False,
            "server": lambda side, _, port, gid: common(side, port, gid),
            "client": lambda side, address, port, gid: [*common(side, port, gid), address]}


# A program that is a member of perftest's groups until the guest ends.
GUEST_MEMBER = f"""
import signal, socket, struct
eth0 = socket.if_nametoindex("eth0")
member = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
member[0].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                     struct.pack("=4s4si", socket.inet_aton("{GROUPS["4"][0]}"), bytes(4), eth0))
member[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                     socket.inet_pton(socket.AF_INET6, "{GROUPS["6"][0]}") + struct.pack("=I", eth0))
signal.pause()
"""


def guest_joins(guest):
    guest.start("setsid", "-f", "/usr/bin/python3", "-c", shlex.quote(GUEST_MEMBER)).finish(SLOW)
    deadline = time.monotonic() + SLOW
    while igmp_name(GROUPS["4"][0]) not in guest.ask("cat", "/proc/net/igmp"):
        check(time.monotonic() < deadline, "the guest joins nothing")


def mckey(lab, cases, guest, sides, name, *options):
    """On rxe of Linux 6.12 and 7.3, mckey, which is a member of the group, sends one message only and reports no error.
    perftest's sender, which is no member, sends all."""
    cases.run(f"{name}, rxe receives", rxe_receives, lab, guest, *sides, *options)
    if guest.release() < (6, 12):
        cases.run(f"{name}, rxe sends", rxe_sends, lab, guest, *sides, *options)
    else:
        cases.skip(f"{name}, rxe sends", "mckey on rxe of this kernel sends one message only")


def run(lab, cases, guest, sides, families, their_server, our_server):
    mckey(lab, cases, guest, sides, "mckey")
    mckey(lab, cases, guest, sides, "mckey -S 1000 -C 50", "-S", 1000, "-C", 50)
    guest_joins(guest)
    for program in ("ib_send_bw", "ib_send_lat"):
        for version, family in families.items():
            case, name = perftest(program, version), f"{program} -c UD -g, IPv{version}, rxe is the"
            cases.run(f"{name} server", their_server, lab, guest, case, family)
            cases.run(f"{name} client", our_server, lab, guest, case, family)
