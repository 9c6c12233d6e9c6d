# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2 packets: over loopback UDP beside TCP and raw UDP, by root's daemon, and between two network namespaces."""

import os
import subprocess

from bench import pairs
from bench.figure import Figure, Peer, at_least_times, at_most, at_most_times
from bench.host import MIB, bw_gbs, lat_us
from bench.pairs import BUILD, RUN, Place
from bench.places import FORWARDED, HERE, WIRE, namespaces, root_daemon

UDP = os.path.join(BUILD, "bench", "bench-udp")
# A SEND of 64 bytes is a UDP payload of this size: BTH, payload, ICRC.
SEND_64_PACKET = 12 + 64 + 4
ROUND_TRIPS = 100000
LOSSLESS_SECONDS = 40
# With perftest's default queue depths. In these tests a receiver waits for the number of messages that were sent.
LOSSLESS = [("ib_send_bw", "-c", "UC", "-n", "2000"), ("ib_send_bw", "-b", "-c", "UC", "-n", "2000"),
            ("ib_send_bw", "-c", "UD", "-s", "1024", "-n", "20000"),
            ("ib_send_bw", "-b", "-c", "UD", "-s", "1024", "-n", "20000"),
            ("ib_write_lat", "-c", "UC", "-a", "-n", "5")]


def udp_lat_us(size):
    """Median of half of the round-trip time of datagrams of `size` bytes over loopback, in microseconds."""
    port = pairs.new_port()
    printed = pairs.pair(HERE, [UDP, str(port)], [UDP, str(port), HERE.address, str(size), str(ROUND_TRIPS)], port,
                         pairs.udp_ready)
    return float(printed.split()[1]) / 1000


def forwarded(measure):
    root_daemon()
    return measure(FORWARDED)


def wire_lat_us(place):
    return lat_us("ib_send_lat", 64, ROUND_TRIPS, place=place)


def runs_with_loss():
    """How many perftest runs between two namespaces do not end, because the receiver waits for a lost message."""
    link = namespaces()
    place = Place(link.server + RUN, link.client + RUN, link.devices, link.address, ["-x", *link.options],
                  seconds=LOSSLESS_SECONDS)
    lost = 0
    for program, *options in LOSSLESS:
        port = pairs.new_port()
        command = [program, "-F", "-d", place.devices[0], "-p", str(port), *place.options, *options]
        try:
            pairs.pair(place, command, [*command, place.address], port, pairs.tcp_ready)
        except subprocess.TimeoutExpired:
            lost += 1
    return lost


def network_figures():
    return [
        Figure("wire_write_bw", "over loopback UDP: ib_write_bw, 1 MiB", "GB/s",
               lambda: bw_gbs("ib_write_bw", MIB, 2000, WIRE),
               Peer("TCP, iperf3", lambda: pairs.tcp_bw_gbs(HERE, 2)), at_least_times(1.3)),
        Figure("wire_send_lat", "over loopback UDP: ib_send_lat, 64 B", "us", lambda: wire_lat_us(WIRE),
               Peer("raw UDP, polling", lambda: udp_lat_us(SEND_64_PACKET)), at_most_times(1.3)),
        Figure("lossless", f"UC and UD, netns: runs of {len(LOSSLESS)} that lost a message", "runs", runs_with_loss,
               goal=at_most(0, "runs"), summary=max),
        Figure("forwarded_write_bw", "of a user with root's daemon: ib_write_bw, 1 MiB", "GB/s",
               lambda: forwarded(lambda place: bw_gbs("ib_write_bw", MIB, 2000, place)),
               Peer("own daemon", lambda: bw_gbs("ib_write_bw", MIB, 2000, WIRE))),
        Figure("forwarded_send_lat", "of a user with root's daemon: ib_send_lat, 64 B", "us",
               lambda: forwarded(wire_lat_us), Peer("own daemon", lambda: wire_lat_us(WIRE))),
    ]
