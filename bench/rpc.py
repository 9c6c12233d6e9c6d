# SPDX-License-Identifier: BSD-2-Clause
"""Remote procedure calls of threads that sleep in completion channels or in poll(2), or that poll, beside the same
calls over TCP, on one host and between two network namespaces. rpc.c describes the messages."""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys

from bench import pairs
from bench.figure import Figure, Peer, at_least_times
from bench.pairs import BUILD, RUN, Place
from bench.places import namespaces

PROGRAM = os.path.join(BUILD, "bench", "bench-rpc")
SECONDS = 1
# Connections, requests outstanding on each, bytes of an answer.
SHAPES = [(1, 1, 64), (4, 32, 4096), (1, 1, 32768), (4, 1, 32768), (4, 1, 65536)]
# As NVMe over Fabrics: a target and an initiator that poll, blocks of 4 KiB, commands outstanding on one queue pair.
POLLED = [(1, 32, 4096), (1, 128, 4096)]
# Threads with an event loop, which wait in poll(2).
SELECTED = [(1, 1, 64), (4, 1, 32768)]
HERE = Place(devices=("lo", "lo"), options=["0"])


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


def beside_tcp(where, find_place, shape, waiting, least):
    """One row. `least`: the ratio to TCP that is the goal."""
    def over(protocol):
        return lambda: requests_per_second(find_place, protocol, shape, waiting) / 1000
    connections, depth, size = shape
    name, mode = {"wait": ("rpc", ""), "select": ("rpc_select", ", poll(2)"), "spin": ("nvmf", ", polling")}[waiting]
    return Figure(f"{name}_{where}_{connections}x{depth}_{size}",
                  f"RPC{mode}, {where}, {connections} QPs x {depth}, {size} B", "k/s", over("rdma"),
                  Peer("TCP", over("tcp")), at_least_times(least))


@contextlib.contextmanager
def other_work():
    """A program for each processor that computes until the end of the block."""
    with contextlib.ExitStack() as running:
        for _ in os.sched_getaffinity(0):
            program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            running.callback(program.wait)
            running.callback(program.kill)
        yield


def on_a_busy_machine(row):
    """The same row, both sides measured beside other_work()."""
    def beside_other_work(measure):
        def measured():
            with other_work():
                return measure()
        return measured
    return dataclasses.replace(row, name=f"busy_{row.name}", what=f"{row.what}, busy",
                               ours=beside_other_work(row.ours),
                               peer=dataclasses.replace(row.peer, measure=beside_other_work(row.peer.measure)))


def rpc_figures():
    rows = [on_a_busy_machine(beside_tcp("host", lambda: HERE, (1, 1, 64), waiting, 0.5))
            for waiting in ("wait", "select")]
    for where, find_place, least, polled_least in (("host", lambda: HERE, 1.5, 2), ("netns", namespaces, 1, 1)):
        rows += [beside_tcp(where, find_place, shape, "wait", least) for shape in SHAPES]
        rows += [beside_tcp(where, find_place, shape, "select", least) for shape in SELECTED]
        rows += [beside_tcp(where, find_place, shape, "spin", polled_least) for shape in POLLED]
    return rows
