# SPDX-License-Identifier: BSD-2-Clause
"""The figures of `bench/run`: what is measured, what it is compared with, and the goal."""

import atexit
import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from bench import pairs, rpc
from bench.pairs import BUILD, RUN


@dataclass(frozen=True)
class Peer:
    """The other implementation: its name, and the measurement in the unit of the figure."""
    name: str
    measure: Callable[[], float]


@dataclass(frozen=True)
class Goal:
    """`is_met` takes our result and its ratio to the peer's (None without a peer)."""
    text: str
    is_met: Callable[[float, float | None], bool]


@dataclass(frozen=True)
class Figure:
    """One row of the result. `ours` measures this implementation in `unit`."""
    name: str
    what: str
    unit: str
    ours: Callable[[], float]
    peer: Peer | None = None
    goal: Goal | None = None


def at_most(limit, unit):
    return Goal(f"<= {limit} {unit}", lambda ours, _: ours <= limit)


def at_most_times(limit):
    return Goal(f"<= {limit}x", lambda _, ratio: ratio <= limit)


def at_least_times(limit):
    return Goal(f">= {limit}x", lambda _, ratio: ratio >= limit)


HERE = pairs.Place()
OURS = pairs.Place(RUN, RUN)
# RoCEv2 packets over loopback UDP, also between processes of this host.
WIRE = pairs.Place(RUN, RUN, env={"USRDMA_TRANSPORT": "roce"})


# The same for a user other than root, to whom root's daemon forwards packets (ADR 0023).
FORWARDED = pairs.Place(*[["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] + RUN] * 2,
                        env={"USRDMA_TRANSPORT": "roce"})


@functools.lru_cache
def root_daemon():
    """Starts a daemon of root that runs until this program exits, unless a daemon is running already."""
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for a daemon of root's")
    daemon = subprocess.Popen([os.path.join(BUILD, "usrdmad"), "--foreground", "--idle-seconds", "0"],
                              stderr=subprocess.DEVNULL)
    atexit.register(daemon.kill)
    pairs.wait_for(lambda: subprocess.run([RUN[0], "status", "--json"], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL, check=False).returncode == 0, 10, "the daemon")


def forwarded(measure):
    root_daemon()
    return measure(FORWARDED)


def lat_us(program, size=8, place=OURS):
    return pairs.lat_us(place, program, size, 100000)


def bw_gbs(program, size, iterations, place=OURS):
    return pairs.bw_gbs(place, program, size, iterations)


def ucx(test, size, iterations, *options, **env):
    """Runs a test of ucx_perftest, UCP with UCX_TLS or one UCT transport with -x. Returns the fields of its result."""
    port = pairs.new_port()
    place = pairs.Place(env=dict(env, UCX_LOG_LEVEL="error"))
    command = ["ucx_perftest", "-p", str(port)]
    printed = pairs.pair(place, command,
                         command + ["127.0.0.1", "-t", test, "-s", str(size), "-n", str(iterations), *options],
                       port, pairs.tcp_ready)
    final = re.search(r"^Final:\s+(.*)$", printed, re.M)
    if not final:
        raise RuntimeError(printed)
    return [float(field) for field in final[1].split()]


def ucx_posix_lat_us(test):
    return ucx(test, 8, 100000, UCX_TLS="posix,self")[1]


def ucx_posix_bw_gbs(test, size, iterations):
    return ucx(test, size, iterations, UCX_TLS="posix,self")[5] * 1048576 / 1e9


def ucx_cma_bw_gbs(size, iterations):
    return ucx("put_bw", size, iterations, "-x", "cma", "-d", "memory", "-D", "zcopy")[5] * 1048576 / 1e9


def udp_lat_us(size):
    """Median of half of the round-trip time of datagrams of `size` bytes over loopback, in microseconds."""
    port = pairs.new_port()
    printed = pairs.pair(HERE, [UDP, str(port)], [UDP, str(port), HERE.address, str(size), "100000"], port,
                         pairs.udp_ready)
    return float(printed.split()[1]) / 1000


def own_figures(*command):
    """Runs one of our programs and returns the name and value pairs that it prints."""
    done = subprocess.run(RUN + list(command), stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return {name: float(value) for name, value in re.findall(r"([a-z_]+) (\d+)", done.stdout)}


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
UDP = os.path.join(BUILD, "bench", "bench-udp")
# A SEND of 64 bytes is a UDP payload of this size: BTH, payload, ICRC.
SEND_64_PACKET = 12 + 64 + 4


def lookup_ns(regions, queue_pairs):
    """Time to post and poll a WRITE while this number of memory regions and queue pairs exists, in ns."""
    return own_figures(LOOKUP, str(regions), str(queue_pairs))["write_ns"]


MIB = 1048576


def same_host_figures():
    """Between two processes of this host, with the transport that is selected by default."""
    return [
        Figure("write_lat", "ib_write_lat, 8 B", "us", lambda: lat_us("ib_write_lat"),
               Peer("UCX posix put_lat", lambda: ucx_posix_lat_us("ucp_put_lat")), at_most(2, "us")),
        Figure("send_lat", "ib_send_lat, 8 B", "us", lambda: lat_us("ib_send_lat"),
               Peer("UCX posix tag_lat", lambda: ucx_posix_lat_us("tag_lat")), at_most_times(3)),
        Figure("write_bw", "ib_write_bw, 1 MiB", "GB/s", lambda: bw_gbs("ib_write_bw", MIB, 5000),
               Peer("UCX CMA put_bw", lambda: ucx_cma_bw_gbs(MIB, 5000)), at_least_times(1)),
        Figure("send_bw", "ib_send_bw, 64 KiB", "GB/s", lambda: bw_gbs("ib_send_bw", 65536, 50000),
               Peer("UCX posix tag_bw", lambda: ucx_posix_bw_gbs("tag_bw", 65536, 50000)), at_least_times(0.5)),
        Figure("read_lat", "ib_read_lat, 8 B", "us", lambda: lat_us("ib_read_lat")),
        Figure("read_bw", "ib_read_bw, 1 MiB", "GB/s", lambda: bw_gbs("ib_read_bw", MIB, 5000)),
    ]


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


def small_rate(place=OURS):
    """Messages of 8 B in a million per second."""
    return pairs.perftest(place, "ib_send_bw", 8, 500000)[4]


def trace_figures():
    """What `usrdma trace` costs the traced programs. The tracer runs on the same processors."""
    return [
        Figure("traced_send_lat", "ib_send_lat, 8 B, traced as text", "us",
               lambda: traced(lambda: lat_us("ib_send_lat")),
               Peer("not traced", lambda: lat_us("ib_send_lat")), at_most_times(2)),
        Figure("traced_send_rate", "ib_send_bw, 8 B, traced as text", "M/s", lambda: traced(small_rate),
               Peer("not traced", small_rate)),
    ]


def loopback_figures():
    """RoCEv2 packets over loopback UDP."""
    return [
        Figure("wire_write_bw", "over loopback UDP: ib_write_bw, 1 MiB", "GB/s",
               lambda: bw_gbs("ib_write_bw", MIB, 2000, WIRE),
               Peer("TCP, iperf3", lambda: pairs.tcp_bw_gbs(HERE, 3)), at_least_times(1.3)),
        Figure("wire_send_lat", "over loopback UDP: ib_send_lat, 64 B", "us", lambda: lat_us("ib_send_lat", 64, WIRE),
               Peer("raw UDP, polling", lambda: udp_lat_us(SEND_64_PACKET)), at_most_times(1.3)),
        Figure("forwarded_write_bw", "of a user with root's daemon: ib_write_bw, 1 MiB", "GB/s",
               lambda: forwarded(lambda place: bw_gbs("ib_write_bw", MIB, 2000, place)),
               Peer("own daemon", lambda: bw_gbs("ib_write_bw", MIB, 2000, WIRE))),
        Figure("forwarded_send_lat", "of a user with root's daemon: ib_send_lat, 64 B", "us",
               lambda: forwarded(lambda place: lat_us("ib_send_lat", 64, place)),
               Peer("own daemon", lambda: lat_us("ib_send_lat", 64, WIRE))),
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


def rpc_figures():
    """Threads that sleep until a message arrives."""
    def over(protocol, find_place, shape):
        return lambda: rpc.requests_per_second(find_place, protocol, shape)
    return [Figure(name, what, "/s", over("rdma", find_place, shape), Peer("TCP", over("tcp", find_place, shape)),
                   at_least_times(least))
            for name, what, find_place, shape, least in rpc.rows()]


def figures(machine):
    """All figures, in the order in which they are measured."""
    return (same_host_figures() + loopback_figures() + rpc_figures() + trace_figures() + object_figures() +
            guest_figures(machine))
