# SPDX-License-Identifier: BSD-2-Clause
"""Remote procedure calls of threads that sleep in completion channels, beside the same calls over TCP, on one host and
between two network namespaces. rpc.c describes the messages."""

import atexit
import functools
import os
import re
import subprocess

from bench import pairs
from bench.pairs import BUILD, RUN, Place

PROGRAM = os.path.join(BUILD, "bench", "bench-rpc")
SECONDS = 2
# Connections, requests outstanding on each, bytes of an answer.
SHAPES = [(1, 1, 64), (4, 32, 4096), (1, 1, 32768), (4, 1, 32768), (4, 1, 65536)]
HERE = Place(devices=("lo", "lo"), options=["0"])


def ip_command(*words):
    subprocess.run(["ip", *words], check=True)


@functools.lru_cache
def namespaces():
    """Two network namespaces with one veth pair, until this program exits."""
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for network namespaces")
    names = [f"bench{os.getpid()}{end}" for end in "ab"]
    for name in names:
        ip_command("netns", "add", name)
        atexit.register(subprocess.run, ["ip", "netns", "del", name], check=False)
    ip_command("link", "add", "bench0", "netns", names[0], "type", "veth", "peer", "name", "bench0", "netns", names[1])
    for number, name in enumerate(names, 1):
        ip_command("-n", name, "address", "add", f"10.98.0.{number}/24", "dev", "bench0")
        ip_command("-n", name, "link", "set", "lo", "up")
        ip_command("-n", name, "link", "set", "bench0", "up")
    return Place(["ip", "netns", "exec", names[0]], ["ip", "netns", "exec", names[1]], ("bench0", "bench0"),
                 "10.98.0.1", ["1"])


def requests_per_second(find_place, protocol, shape, waiting="wait"):
    """Answered requests in a second over `protocol`: rdma or tcp."""
    place = find_place()
    port = pairs.new_port()
    run = RUN if protocol == "rdma" else []

    def command(device):
        return [*run, PROGRAM, protocol, str(port), device, *place.options, waiting]
    wanted = [place.address, *[str(number) for number in shape], str(SECONDS)]
    printed = pairs.pair(place, command(place.devices[0]), command(place.devices[1]) + wanted, port, pairs.tcp_ready,
                         processor=pairs.anywhere)
    found = re.search(r"^requests_per_second (\d+)", printed, re.M)
    if not found:
        raise RuntimeError(printed)
    return float(found[1])


def rows():
    """Name, description, place, shape and the least ratio to TCP of each row."""
    for where, find_place, least in (("host", lambda: HERE, 1.5), ("netns", namespaces, 1)):
        for shape in SHAPES:
            connections, depth, size = shape
            yield (f"rpc_{where}_{connections}x{depth}_{size}",
                   f"RPC, {where}, {connections} connections x {depth}, answers of {size} B", find_place, shape, least)
