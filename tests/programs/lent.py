# SPDX-License-Identifier: BSD-2-Clause
"""Tests the UDP port 4791 sockets that the daemon delegates to processes of its own user: which process receives which
packets."""

import contextlib
import ctypes
import os
import socket
import struct

from tests.programs import lab as laboratory
from tests.programs import wire
from tests.programs.daemon_clients import SLOTS
from tests.programs.daemon_kit import closing, daemon
from tests.programs.lab import check, wait_until

SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF, SO_DETACH_REUSEPORT_BPF = 26, 51, 68


def roce_datagram(qpn, mark):
    """The part of a packet that selects the socket: a BTH whose DestQP is qpn."""
    return bytes([4, 0, 0xFF, 0xFF]) + struct.pack("!I", qpn) + bytes(4) + mark


def lent_sockets(lab):
    """Each engine receives the packets for its own QPNs only. It receives none from before its socket was delegated and
    none after it has gone."""
    with (daemon(lab, uid=os.geteuid()), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
          closing(wire.Engine()) as (a,)):
        def send(qpn, mark):
            sender.sendto(roce_datagram(qpn, mark), ("127.0.0.1", 4791))

        last = a.slot % SLOTS + 1
        send(last << 15 | 7, b"early")
        with closing(wire.Engine()) as (b,):
            check(b.slot == last, "slots are lent in turn")
            send(b.slot << 15 | 0x7FFF, b"for b")
            send(a.slot << 15, b"for a")
            for engine, mark in ((b, b"for b"), (a, b"for a")):
                engine.roce.settimeout(10)
                check(engine.roce.recv(4096)[12:] == mark, "another's datagram")
            sender.sendto(b"short", ("127.0.0.1", 4791))
            for engine in (a, b):
                engine.roce.setblocking(False)
        send(a.slot << 15, b"still")
        a.roce.settimeout(10)
        while a.roce.recv(4096)[12:] != b"still":
            pass


def multicast_groups():
    """Returns the multicast groups that this host has joined on any interface: IPv4 in the kernel's byte notation, IPv6
    in full."""
    with open("/proc/net/igmp", encoding="ascii") as igmp, open("/proc/net/igmp6", encoding="ascii") as igmp6:
        return set((igmp.read() + igmp6.read()).split())


def has_nothing(engine):
    engine.roce.setblocking(False)
    try:
        engine.roce.recv(4096)
    except BlockingIOError:
        return True
    return False


def memberships_end(lab):
    """When an engine's socket is closed, its group memberships end. An engine receives no packets for groups that only
    other processes joined."""
    group4, group6 = "239.77.1.2", "ff0e::77:1"
    names = {f"{struct.unpack('=I', socket.inet_aton(group4))[0]:08X}", socket.inet_pton(socket.AF_INET6, group6).hex()}
    lo = socket.if_nametoindex("lo")
    with (daemon(lab, uid=os.geteuid()), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
          closing(wire.Engine()) as (other,)):
        with closing(wire.Engine()) as (member,):
            member.roce.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                                   struct.pack("=4s4si", socket.inet_aton(group4), bytes(4), lo))
            member.roce.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                                   struct.pack("=16sI", socket.inet_pton(socket.AF_INET6, group6), lo))
            check(names <= multicast_groups(), "the machine has not joined")
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            sender.sendto(roce_datagram(0xFFFFFF, b"to all"), (group4, 4791))
            member.roce.settimeout(10)
            check(member.roce.recv(4096)[12:] == b"to all", "not what was sent to the group")
            # Delivery over lo is synchronous: a packet that is not in the socket now will not arrive.
            check(has_nothing(other), "the other engine received datagrams of a group that it did not join")
        wait_until(lambda: not names & multicast_groups(), lab.seconds(10), "the memberships' end")


def steering_stays(lab):
    """A process with a delegated socket cannot redirect packets of other processes to itself. If it removes the
    socket's program, the next delegation restores it."""
    with (daemon(lab, uid=os.geteuid()), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
          closing(wire.Engine()) as (thief,)):
        # A BPF program that returns the attacker's slot for every packet.
        code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, thief.slot))
        program = struct.pack("@HP", 1, ctypes.addressof(code))
        for option in (SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_FILTER):
            try:
                thief.roce.setsockopt(socket.SOL_SOCKET, option, program)
            except PermissionError:
                continue
            check(False, "a lent socket takes a program")
        with contextlib.suppress(OSError):
            thief.roce.setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0)
        with closing(wire.Engine()) as (honest,):
            for number in range(32):
                sender.sendto(roce_datagram(honest.slot << 15 | number, b"honest"), ("127.0.0.1", 4791))
            honest.roce.settimeout(10)
            for _ in range(32):
                check(honest.roce.recv(4096)[12:] == b"honest", "another's datagram")


def body(lab, cases):
    lab.end_daemons()
    cases.run("lent sockets", lent_sockets, lab)
    cases.run("memberships end", memberships_end, lab)
    cases.run("steering stays", steering_stays, lab)


if __name__ == "__main__":
    laboratory.main(body)
