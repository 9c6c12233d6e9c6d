# SPDX-License-Identifier: BSD-2-Clause
"""The figures of `bench/run`: what is measured, what it is compared with, and the goal."""

import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import tempfile

from bench import pairs
from bench.fairness import fairness_figures
from bench.figure import Figure, Goal, Peer, at_least_times, at_most, at_most_times
from bench.host import lat_us, message_rate, own_figures, same_host_figures
from bench.network import network_figures
from bench.pairs import BUILD, RUN
from bench.places import OURS
from bench.preload import preload_figures
from bench.rpc import rpc_figures

TRACED = 200000  # messages of a traced run


@functools.lru_cache
def crowd_bytes():
    """Memory per connection with 50,000 established connections: in the daemon (both ends), and in a process (one end
    with its queue pair). A slot has 32,766 queue pairs; therefore each side has two processes."""
    twos, each = 2, 25000
    with contextlib.ExitStack() as running, tempfile.TemporaryDirectory() as folder:
        def start(role, number, port):
            out = running.enter_context(open(os.path.join(folder, f"{role}{number}"), "w+", encoding="utf-8"))
            process = subprocess.Popen(RUN + [CROWD, role, "127.0.0.1", str(port), str(each)], stdout=out)
            running.callback(process.wait)
            running.callback(process.kill)
            return process, out

        def cost(program):
            process, out = program
            out.seek(0)
            found = re.search(r"bytes_per_connection (\d+)", out.read())
            if not found and process.poll() is not None:
                raise RuntimeError(f"{process.args}: exit status {process.returncode}")
            return int(found[1]) if found else None

        ports = [pairs.new_port() for _ in range(twos)]
        programs = [start("serve", number, port) for number, port in enumerate(ports)]
        pairs.wait_for(lambda: all(pairs.cm_ready(OURS, None, port) for port in ports), 10, "the listeners")
        daemon = json.loads(subprocess.run([RUN[0], "status", "--json"], stdout=subprocess.PIPE,
                                           check=True).stdout)["daemon"]["pid"]
        before = resident_bytes(daemon)
        programs += [start("drive", number, port) for number, port in enumerate(ports)]
        pairs.wait_for(lambda: all(cost(program) for program in programs), 300, "the connections")
        in_daemon = (resident_bytes(daemon) - before) / (twos * each)
        for process, _ in programs[twos:]:
            process.terminate()
        for process, _ in programs:
            if process.wait(300):
                raise RuntimeError(f"{process.args}: exit status {process.returncode}")
        return in_daemon, statistics.mean(cost(program) for program in programs)


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CROWD = os.path.join(BUILD, "tests", "programs", "crowd")
IDLE = os.path.join(BUILD, "tests", "programs", "many")
REGISTER = os.path.join(BUILD, "bench", "bench-register")
LOOKUP = os.path.join(BUILD, "bench", "bench-lookup")


def lookup_ns(regions, queue_pairs):
    """Time to post and poll a WRITE while this number of memory regions and queue pairs exists, in ns."""
    return own_figures(LOOKUP, str(regions), str(queue_pairs))["write_ns"]


@contextlib.contextmanager
def tracing(*options):
    """All processes are traced until the end of the block; the text goes to a file."""
    with tempfile.TemporaryFile() as out:
        tracer = subprocess.Popen([RUN[0], "trace", *options], stdout=out)
        try:
            pairs.wait_for(lambda: maps_trace_ring(tracer), 10, "the trace")
            yield
        finally:
            tracer.terminate()
            tracer.wait(60)


def maps_trace_ring(tracer):
    """Whether the tracer has received the daemon's ring, and so traces every process that starts from now on."""
    if tracer.poll() is not None:
        raise RuntimeError(f"usrdma trace: exit status {tracer.returncode}")
    with open(f"/proc/{tracer.pid}/maps", encoding="ascii") as maps:
        return "usrdma-trace" in maps.read()


def traced(measure, *options):
    with tracing(*options):
        return measure()


def trace_figures():
    """What `usrdma trace` costs the traced programs. The tracer runs on the same processors."""
    return [
        Figure("traced_send_lat", "ib_send_lat, 8 B, traced as text", "us",
               lambda: traced(lambda: lat_us("ib_send_lat", 8, TRACED)),
               Peer("not traced", lambda: lat_us("ib_send_lat", 8, TRACED)), at_most_times(2)),
        Figure("traced_send_rate", "ib_send_bw, 8 B, traced as text", "M/s",
               lambda: traced(lambda: message_rate("ib_send_bw", TRACED)),
               Peer("not traced", lambda: message_rate("ib_send_bw", TRACED))),
    ]


def object_figures():
    """Connections, registration, lookup, and what idle objects cost."""
    few = Peer("among 10 and 10", lambda: lookup_ns(10, 10))
    return [
        Figure("cmtime", "cmtime -c 10000, connect", "/s", lambda: pairs.cm_connections(OURS, 10000, pairs.cm_ready),
               goal=Goal(">= 10000/s", lambda ours, _: ours >= 10000)),
        Figure("register", "ibv_reg_mr, 1 GiB", "us", lambda: own_figures(REGISTER)["reg_ns"] / 1000,
               goal=Goal("microseconds", lambda ours, _: ours < 1000)),
        Figure("lookup_1k", "a WRITE of 8 B among 1,000 MRs and 1,000 QPs", "ns", lambda: lookup_ns(1000, 1000),
               few, at_most_times(1.5)),
        Figure("lookup_100k", "a WRITE of 8 B among 100,000 MRs and 10,000 QPs", "ns", lambda: lookup_ns(100000, 10000),
               few, at_most_times(1.5)),
        Figure("qp_memory", "memory a queue pair, its queues untouched", "B",
               lambda: own_figures(IDLE, "idle", "1000", "1")["bytes_per_qp"], goal=at_most(4096, "B")),
        Figure("crowd_daemon", "memory a connection of 50,000, in the daemon", "B", lambda: crowd_bytes()[0]),
        Figure("crowd_process", "memory a connection of 50,000, in a process", "B", lambda: crowd_bytes()[1]),
        Figure("idle_cpu", "processor time of 1,000 idle queue pairs in 5 s", "us",
               lambda: own_figures(IDLE, "idle", "1000", "5")["idle_cpu_us"], goal=at_most(1000, "us")),
    ]


def guest_figures(machine):
    """In a virtual machine, beside Linux's rxe and TCP."""
    def of(whose, what, scale=1):
        return lambda: machine.figure(whose, what) * scale

    return [
        Figure("vm_write_64k", "in a VM, RoCEv2: ib_write_bw, 64 KiB", "MB/s", of("ours", "write_64k", 1000),
               Peer("rxe", of("rxe", "write_64k", 1000)), at_least_times(5)),
        Figure("vm_write_1m", "in a VM, RoCEv2: ib_write_bw, 1 MiB", "MB/s", of("ours", "write_1m", 1000),
               Peer("rxe", of("rxe", "write_1m", 1000)), at_least_times(5)),
        Figure("vm_send_lat", "in a VM, RoCEv2: ib_send_lat, 64 B", "us", of("ours", "send_lat"),
               Peer("rxe", of("rxe", "send_lat")), at_most_times(1)),
        Figure("vm_memory_write_1m", "in a VM, as it comes: ib_write_bw, 1 MiB", "MB/s",
               of("ours", "memory_write_1m", 1000), Peer("rxe", of("rxe", "write_1m", 1000)), at_least_times(5)),
        Figure("vm_memory_send_lat", "in a VM, as it comes: ib_send_lat, 64 B", "us", of("ours", "memory_send_lat"),
               Peer("rxe", of("rxe", "send_lat")), at_most_times(1)),
        Figure("vm_cmtime", "in a VM: cmtime, connect", "/s", of("ours", "cmtime"),
               Peer("rxe", of("rxe", "cmtime")), at_least_times(3)),
        Figure("vm_loss", "in a VM, 1 % loss, 1 ms: ib_write_bw, 1 MiB", "MB/s", of("ours", "road", 1000),
               Peer("TCP, iperf3", of("tcp", "road", 1000)), at_least_times(1)),
    ]


def figures(machine):
    """All figures, in the order in which they are measured."""
    return (same_host_figures() + network_figures() + fairness_figures() + rpc_figures() + preload_figures() +
            trace_figures() + object_figures() + guest_figures(machine))
