# SPDX-License-Identifier: BSD-2-Clause
"""How a queue pair shares a path with a TCP stream: both go through the same router, whose link has a rate and a buffer
with tail drop."""

import atexit
import contextlib
import functools
import json
import os
import subprocess

from bench import pairs
from bench.figure import Figure, at_least
from bench.pairs import RUN, Place
from bench.places import ip_command, link_is_up

SECONDS = 8
# The first seconds belong to slow start and to the start of the other stream.
SKIPPED = 3
# Rate of the link in Mbit/s, and its buffer in KB.
SHAPES = [(200, 60), (200, 500), (200, 1000), (1000, 60), (1000, 200), (1000, 500)]


def in_namespace(name, *command):
    return ["ip", "netns", "exec", name, *command]


@functools.lru_cache
def road():
    """Three network namespaces in a row, until this program exits. The one in the middle forwards. Returns it and a
    Place of the other two."""
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for network namespaces")
    client, router, server = (f"road{os.getpid()}{end}" for end in "arb")
    for name in (client, router, server):
        ip_command("netns", "add", name)
        atexit.register(subprocess.run, ["ip", "netns", "del", name], check=False)
        ip_command("-n", name, "link", "set", "lo", "up")
    for number, (name, device) in enumerate(((client, "road1"), (server, "road2")), 1):
        ip_command("link", "add", "road0", "netns", name, "type", "veth", "peer", "name", device, "netns", router)
        for end, address, link in ((name, 1, "road0"), (router, 2, device)):
            ip_command("-n", end, "address", "add", f"10.99.{number}.{address}/24", "dev", link)
            ip_command("-n", end, "link", "set", link, "up")
        ip_command("-n", name, "route", "add", "default", "via", f"10.99.{number}.2")
    subprocess.run(in_namespace(router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"), check=True)
    for name, device in ((client, "road0"), (router, "road1"), (router, "road2"), (server, "road0")):
        pairs.wait_for(lambda name=name, device=device: link_is_up(name, device), 10, f"the carrier of {device}")
    return router, Place(in_namespace(server), in_namespace(client), ("road0", "road0"), "10.99.2.1", ["-x", "1"])


def limit_rate(router, mbit, kilobytes):
    """Gives the router's link to the server this rate and this buffer."""
    subprocess.run(["tc", "-n", router, "qdisc", "replace", "dev", "road2", "root", "tbf", "rate", f"{mbit}mbit",
                    "burst", "32k", "limit", str(kilobytes * 1000)], check=True)


def write_gbs(place):
    """The rate of RDMA WRITEs of 64 KiB."""
    ours = Place(place.server + RUN, place.client + RUN, place.devices, place.address, place.options)
    port = pairs.new_port()

    def command(device):
        return ["ib_write_bw", "-F", "-d", device, "-p", str(port), "-s", "65536", "-D", str(SECONDS), *place.options]
    printed = pairs.pair(ours, command(place.devices[0]), command(place.devices[1]) + [place.address], port,
                         pairs.tcp_ready, processor=pairs.anywhere)
    return pairs.result_row(printed)[3] * 1048576 / 1e9


@contextlib.contextmanager
def killed_at_end(*command):
    """Runs the command, with its output in a pipe, and kills it at the end of the block if it is still running."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def jain(mbit, kilobytes):
    """Jain's index of a stream of WRITEs and a TCP stream (CUBIC) that share the link: 1 if their rates are equal, 0.5
    if one has everything."""
    router, place = road()
    limit_rate(router, mbit, kilobytes)
    port = str(pairs.new_port())
    with killed_at_end(*place.server, "iperf3", "-s", "-1", "-p", port) as server:
        pairs.wait_for(lambda: pairs.tcp_ready(place, server, int(port)), 10, "iperf3")
        with killed_at_end(*place.client, "iperf3", "-c", place.address, "-p", port, "-C", "cubic", "-t",
                           str(SECONDS + SKIPPED), "-J") as client:
            ours = write_gbs(place)
            printed = client.communicate()[0]
    seconds = [interval["sum"]["bits_per_second"] / 8e9 for interval in json.loads(printed)["intervals"]]
    shared = seconds[SKIPPED:SECONDS]
    theirs = sum(shared) / len(shared)
    return (ours + theirs) ** 2 / (2 * (ours ** 2 + theirs ** 2))


def fairness_figures():
    return [Figure(f"fair_{mbit}_{kilobytes}", f"Jain's index beside TCP, {mbit} Mbit/s, buffer of {kilobytes} KB", "",
                   lambda mbit=mbit, kilobytes=kilobytes: jain(mbit, kilobytes), goal=at_least(0.9, ""))
            for mbit, kilobytes in SHAPES]
