#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The sockets of UDP port 4791 that the daemon lends: who hears what."""

import socket
import struct

import lab as laboratory
import wire
from daemon import SLOTS, closing, daemon, end_daemons
from lab import check


def roce_datagram(qpn, mark):
    """As much of a packet as steers it: a BTH whose DestQP is qpn."""
    return bytes([4, 0, 0xFF, 0xFF]) + struct.pack("!I", qpn) + bytes(4) + mark


def lent_sockets(lab):
    """Each engine hears what is for its own QPNs, from nobody before it was there, and no more once it has gone."""
    with daemon(lab), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, closing(wire.Engine()) as (a,):
        def send(qpn, mark):
            sender.sendto(roce_datagram(qpn, mark), ("127.0.0.1", 4791))

        last = (a.slot % (SLOTS - 1)) + 1
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


def body(lab, cases):
    end_daemons(lab)
    cases.run("lent sockets", lent_sockets, lab)


if __name__ == "__main__":
    laboratory.main(body)
