#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes made.pcap: one packet of every opcode, also of those that none of the programs in the other captures sends.

    tests/golden/made.py            needs nothing; then run packets.py, which asks tshark about it

Nothing of src/wire is used here: headers and ICRC are put together from the specification a second time. Field values
come from a fixed seed. IPv4 and IPv6 take turns; every fifth IPv4 packet leaves don't-fragment clear; every pad occurs.
"""

import os
import random
import struct
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
RC, UC, UD, CNP, XRC = 0x00, 0x20, 0x60, 0x80, 0xA0

rng = random.Random(20)


def bits(n):
    return rng.getrandbits(n)


def deth():
    return struct.pack(">II", bits(32), bits(24))


def xrceth():
    return struct.pack(">I", bits(24))


def reth():
    return struct.pack(">QII", bits(64), bits(32), bits(32))


def feth(types, level):
    return struct.pack(">I", level << 4 | types)


def atomic_eth():
    return struct.pack(">QIQQ", bits(64), bits(32), bits(64), bits(64))


def aeth(syndrome=0x1F):
    return struct.pack(">I", syndrome << 24 | bits(24))


def atomic_ack_eth():
    return struct.pack(">Q", bits(64))


def word():
    return struct.pack(">I", bits(32))


def nothing():
    return b""


def connected(base, eth):
    """(opcode, headers behind the BTH, may it have a payload) of what RC, UC and XRC share."""
    for op in (0x00, 0x01, 0x02, 0x04, 0x07, 0x08):
        yield base + op, eth(), True
    for op in (0x03, 0x05, 0x09):
        yield base + op, eth() + word(), True
    for op in (0x06, 0x0A):
        yield base + op, eth() + reth(), True
    yield base + 0x0B, eth() + reth() + word(), True


def reliable(base, eth):
    yield base + 0x0C, eth() + reth(), False
    for op in (0x0D, 0x0F, 0x10):
        yield base + op, aeth(), True
    yield base + 0x0E, b"", True
    # Credits, no limit, RNR NAK, each NAK, a reserved one.
    for syndrome in (0x00, 0x0A, 0x1F, 0x20, 0x2C, 0x60, 0x61, 0x62, 0x63, 0x64, 0x9F):
        yield base + 0x11, aeth(syndrome), False
    yield base + 0x12, aeth() + atomic_ack_eth(), False
    yield base + 0x13, eth() + atomic_eth(), False
    yield base + 0x14, eth() + atomic_eth(), False
    yield base + 0x16, eth() + word(), True
    yield base + 0x17, eth() + word(), True


def everything():
    yield from connected(RC, nothing)
    yield from reliable(RC, nothing)
    yield from connected(UC, nothing)
    yield UD + 0x04, deth(), True
    yield UD + 0x05, deth() + word(), True
    yield CNP + 0x01, bytes(16), False
    yield from connected(XRC, xrceth)
    yield from reliable(XRC, xrceth)
    # Last, so that what is before them stays the same.
    for types, level in ((1, 0), (2, 1), (3, 0)):
        yield RC + 0x1C, feth(types, level) + reth(), False
    for _ in range(2):
        yield RC + 0x1D, reth(), True


def bth(opcode, pad):
    flags = bits(1) << 7 | bits(1) << 6 | pad << 4
    return struct.pack(">BBHIII", opcode, flags, bits(16), (bits(2) << 6) << 24 | bits(24), 0, 0)[:8] + struct.pack(
        ">I", bits(1) << 31 | bits(24))


def datagram(number, roce):
    """The Ethernet frame around headers, payload and pad; the ICRC is put behind them."""
    sport = 0xC000 | bits(14)
    size = 8 + len(roce) + 4
    udp = struct.pack(">HHHH", sport, 4791, size, 0)
    ones = b"\xff" * 8
    masked = roce[:4] + b"\xff" + roce[5:]
    if number % 2:
        fixed = bytes([0x60, 0, 0, 0]) + struct.pack(">HBB", size, 17, 64)
        hides = bytes([0x6F, 0xFF, 0xFF, 0xFF]) + struct.pack(">HBB", size, 17, 255)
        addresses = bytes.fromhex("fd770000000000000000000000000003fd770000000000000000000000000002")
        ethertype = 0x86DD
    else:
        head = struct.pack(">HHH", 20 + size, bits(16), 0 if number % 10 == 0 else 0x4000)
        fixed = bytes([0x45, 0x02]) + head + bytes([64, 17, 0, 0])
        hides = bytes([0x45, 0xFF]) + head + bytes([255, 17, 255, 255])
        addresses = bytes([10, 77, 0, 3, 10, 77, 0, 2])
        ethertype = 0x0800
    icrc = zlib.crc32(ones + hides + addresses + udp[:6] + b"\xff\xff" + masked)
    ethernet = bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3]) + struct.pack(">H", ethertype)
    return ethernet + fixed + addresses + udp + roce + struct.pack("<I", icrc)


def main():
    with open(os.path.join(HERE, "made.pcap"), "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, (opcode, headers, may_have_payload) in enumerate(everything()):
            payload = rng.randbytes(number % 23) if may_have_payload else b""
            pad = -len(payload) % 4
            frame = datagram(number, bth(opcode, pad) + headers + payload + bytes(pad))
            out.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)


main()
