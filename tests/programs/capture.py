# SPDX-License-Identifier: BSD-2-Clause
"""Records the packets of an interface in a pcap file and checks them. The ICRC of each packet to the RoCE port is
compared with an independent computation. tshark, where it is installed, must report no malformed packet."""

import contextlib
import os
import socket
import struct
import subprocess
import threading
import zlib

from tests.programs.lab import check

ROCE_PORT = 4791
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 3, 0x0800, 0x86DD
FRAME_BYTES = 1 << 16
BUFFER_BYTES = 32 << 20
FILE_HEADER_BYTES, FRAME_HEADER_BYTES = 24, 16
SO_RCVBUFFORCE = 33
GUESSES = ("rpcordma", "iser", "nvme-rdma", "lnet", "smb_direct", "smc", "infiniband_sdp", "fcoib")


@contextlib.contextmanager
def recorded(path, *devices):
    """Records every frame on these interfaces of the namespace as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "wb"))
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, FRAME_BYTES, 1))
        is_over, lock = threading.Event(), threading.Lock()

        def record(tap):
            while True:
                try:
                    frame = tap.recv(FRAME_BYTES)
                except TimeoutError:
                    if is_over.is_set():
                        return
                    continue
                with lock:
                    file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame)

        recorders = []
        for device in devices:
            tap = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
            with contextlib.suppress(PermissionError):
                tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
            tap.bind((device, ETH_P_ALL))
            tap.settimeout(0.2)
            recorders.append(threading.Thread(target=record, args=(tap,)))
        for recorder in recorders:
            recorder.start()
        try:
            yield
        finally:
            is_over.set()
            for recorder in recorders:
                recorder.join()


def frames(path):
    with open(path, "rb") as file:
        file.seek(FILE_HEADER_BYTES)
        while header := file.read(FRAME_HEADER_BYTES):
            yield file.read(struct.unpack("=IIII", header)[2])


def packets(path):
    """IP header, UDP header and payload of each datagram to the RoCE port."""
    for frame in frames(path):
        kind, packet = struct.unpack_from("!H", frame, 12)[0], frame[14:]
        if kind == ETH_P_IP and packet[9] == socket.IPPROTO_UDP:
            at = (packet[0] & 0xF) * 4
        elif kind == ETH_P_IPV6 and packet[6] == socket.IPPROTO_UDP:
            at = 40
        else:
            continue
        _, port, udp_bytes, _ = struct.unpack_from("!HHHH", packet, at)
        if port == ROCE_PORT:
            yield packet[:at], packet[at:at + 8], packet[at + 8:at + udp_bytes]


def icrc(ip, udp, payload):
    """ICRC as IBA A17 defines it: the link header and all fields that may change in transit are replaced by ones."""
    if ip[0] >> 4 == 4:
        ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    else:
        ip = b"\x6f\xff\xff\xff" + ip[4:7] + b"\xff" + ip[8:]
    covered = bytes([0xFF] * 8) + ip + udp[:6] + b"\xff\xff" + payload[:4] + b"\xff" + payload[5:-4]
    return struct.pack("<I", zlib.crc32(covered))


def icrcs_are_right(path, at_least):
    """Checks the ICRC of each packet; returns the number of packets."""
    count = 0
    for count, (ip, udp, payload) in enumerate(packets(path), 1):
        check(len(payload) >= 16 and icrc(ip, udp, payload) == payload[-4:],
              f"packet {count} of {path}: {ip.hex()} {udp.hex()} {payload[:64].hex()} has a wrong ICRC")
    check(count >= at_least, f"only {count} packets were captured")
    return count


def tshark(path, *options):
    """Runs tshark with a home directory that it can read."""
    env = {"PATH": os.environ["PATH"], "HOME": os.path.dirname(path), "LC_ALL": "C"}
    done = subprocess.run(["tshark", "-n", "-r", path, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=env, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def without_guesses():
    """Options of tshark without heuristic dissectors of the payload. Rxe sends no UDP checksum over IPv6."""
    options = ["-o", "udp.ignore_ipv6_zero_checksum:TRUE", "--disable-heuristic", "eth_over_ib"]
    for protocol in GUESSES:
        options += ["--disable-protocol", protocol]
    return options


def nothing_is_malformed(path):
    """Checks that tshark finds no malformed packet."""
    bad = tshark(path, *without_guesses(), "-Y",
                 f"udp.dstport == {ROCE_PORT} && (_ws.malformed || _ws.expert.severity == error)")
    check(not bad, "\n".join(bad[:20]))
