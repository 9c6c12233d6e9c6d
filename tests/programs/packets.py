# SPDX-License-Identifier: BSD-2-Clause
"""Makes RoCEv2 packets, valid or with any field changed, and sends them from any source address. Written from the
specification alone, so that it is an independent check of our code."""

import socket
import struct
import zlib

PORT = 4791
RC, UC, RD, UD, CNP, XRC, VENDOR = 0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(0x00, 0x06)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(0x06, 0x0C)
READ_REQUEST, READ_RESPONSE_FIRST, READ_RESPONSE_MIDDLE, READ_RESPONSE_LAST, READ_RESPONSE_ONLY = range(0x0C, 0x11)
ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = range(0x11, 0x15)
SEND_LAST_INV, SEND_ONLY_INV = 0x16, 0x17
FLUSH, ATOMIC_WRITE = 0x1C, 0x1D
# Opcodes of each service. XRC has those of RC except FLUSH and atomic WRITE. A CNP has an opcode of its own.
RELIABLE = tuple(range(0x15)) + (SEND_LAST_INV, SEND_ONLY_INV)
UNRELIABLE = tuple(range(0x0C))
KNOWN = frozenset([RC | operation for operation in RELIABLE] + [XRC | operation for operation in RELIABLE] +
                  [RC | FLUSH, RC | ATOMIC_WRITE] + [UC | operation for operation in UNRELIABLE] +
                  [UD | SEND_ONLY, UD | SEND_ONLY_IMM, CNP | 0x01, VENDOR | 0x11])

ACK_SYNDROME, RNR_SYNDROME, NAK_SYNDROME = 0x1F, 0x21, 0x60
SOLICITED, MIGRATED, FECN, BECN, ACK_REQUEST = 0x80, 0x40, 0x80, 0x40, 0x80
HOP_LIMIT = 64


def bth(opcode, qpn, psn, *, solicited=0, migrated=MIGRATED, pad=0, version=0, pkey=0xFFFF, marks=0,
        ack_request=ACK_REQUEST, reserved=0):
    return struct.pack("!BBHII", opcode, solicited | migrated | pad << 4 | version, pkey, marks << 24 | qpn,
                       ack_request << 24 | reserved << 24 | psn & 0xFFFFFF)


def reth(address, rkey, length):
    return struct.pack("!QII", address, rkey, length)


def atomic_eth(address, rkey, swap_or_add=1, compare=0):
    return struct.pack("!QIQQ", address, rkey, swap_or_add, compare)


def deth(qkey, source_qpn):
    return struct.pack("!II", qkey, source_qpn)


def aeth(syndrome, msn=0):
    return struct.pack("!I", syndrome << 24 | msn)


def imm(value):
    return struct.pack("!I", value)


ieth = imm


class Way:
    """A source address and port, and a destination address; IPv4 or IPv6."""

    def __init__(self, source, destination, port=0xD0D0):
        self.family = socket.AF_INET6 if ":" in source else socket.AF_INET
        self.source, self.destination, self.port = source, destination, port

    def ip_header(self, udp_bytes, for_icrc=False):
        """The IP header. In an ICRC the fields that may change in transit are all ones: traffic class, hop limit,
        checksum, flow label."""
        pair = socket.inet_pton(self.family, self.source) + socket.inet_pton(self.family, self.destination)
        if self.family == socket.AF_INET6:
            first = 0x6FFFFFFF if for_icrc else 6 << 28
            hops = 0xFF if for_icrc else HOP_LIMIT
            return struct.pack("!IHBB", first, udp_bytes, socket.IPPROTO_UDP, hops) + pair
        service, hops, checksum = (0xFF, 0xFF, 0xFFFF) if for_icrc else (0, HOP_LIMIT, 0)
        header = struct.pack("!BBHHHBBH", 0x45, service, 20 + udp_bytes, 0, 0x4000, hops, socket.IPPROTO_UDP, checksum)
        return header + pair

    def udp_header(self, payload_bytes, checksum=0):
        return struct.pack("!HHHH", self.port, PORT, 8 + payload_bytes, checksum)

    def icrc(self, body):
        """The ICRC of a packet without it: over a link header of ones, IP, UDP, and the BTH with its reserved byte set
        to ones."""
        udp_bytes = 8 + len(body) + 4
        covered = (bytes([0xFF] * 8) + self.ip_header(udp_bytes, True) + self.udp_header(len(body) + 4, 0xFFFF) +
                   body[:4] + b"\xff" + body[5:])
        return struct.pack("<I", zlib.crc32(covered))

    def seal(self, body):
        return body + self.icrc(body)


class Forger:
    """Raw sockets of the namespace in which it was created: sends any packet with any source address."""

    def __init__(self):
        self.ipv4 = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.ipv6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def send(self, way, datagram):
        packet = self.udp(way, datagram)
        if way.family == socket.AF_INET:
            self.ipv4.sendto(way.ip_header(len(packet)) + packet, (way.destination, 0))
        else:
            self.ipv6.sendto(way.ip_header(len(packet)) + packet, (way.destination, 0))

    @staticmethod
    def udp(way, datagram):
        """A UDP header with checksum: over IPv6 a receiver may drop packets without it."""
        header = way.udp_header(len(datagram))
        addresses = socket.inet_pton(way.family, way.source) + socket.inet_pton(way.family, way.destination)
        pseudo = addresses + struct.pack("!II", len(header) + len(datagram), socket.IPPROTO_UDP)
        data = pseudo + header + datagram
        data += bytes(len(data) % 2)
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return way.udp_header(len(datagram), ~total & 0xFFFF or 0xFFFF) + datagram

    def close(self):
        self.ipv4.close()
        self.ipv6.close()
