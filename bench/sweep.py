# SPDX-License-Identifier: BSD-2-Clause
"""Latency and bandwidth of WRITE, SEND and READ over the size of the message, beside UCX over POSIX shared memory and
TCP over loopback.

TCP has no WRITE and no READ. A SEND or WRITE is compared with a message in one direction (qperf). A READ is
compared with a request of 64 bytes and an answer of the size (bench-rpc, polling). A latency of WRITE or SEND
is half of a round trip; a latency of READ is a whole one.
"""

import re
import subprocess
import sys

from bench import pairs, rpc
from bench.places import HERE, OURS
from bench.ucx import POSIX, ucx

SIZES = [2, 8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288, 2097152, 8388608]
OPERATIONS = ["WRITE", "SEND", "READ"]
LATENCY, BANDWIDTH = "latency, us", "bandwidth, GB/s"
READS = 16  # outstanding requests of a bandwidth over TCP: as many READs as a queue pair may have
OURS_NAME, UCX_NAME, TCP_NAME = "usrdma", "UCX posix", "TCP"


def iterations(size, most):
    """About a GB of data, at least 50 messages."""
    return max(50, min(most, (1 << 30) // size))


def ours(operation, quantity, size):
    program = f"ib_{operation.lower()}_{'lat' if quantity == LATENCY else 'bw'}"
    if quantity == LATENCY:
        return pairs.lat_us(OURS, program, size, iterations(size, 50000))
    return pairs.bw_gbs(OURS, program, size, iterations(size, 500000))


def ucx_posix(operation, quantity, size):
    """`ucp_get` polls for each reply in latency tests; with -O it keeps requests outstanding."""
    kind = "lat" if quantity == LATENCY else "bw"
    test, options = {"WRITE": (f"ucp_put_{kind}", ()), "SEND": (f"tag_{kind}", ()),
                     "READ": ("ucp_get", () if quantity == LATENCY else ("-O", str(READS)))}[operation]
    fields = ucx(test, size, iterations(size, 50000 if quantity == LATENCY else 500000), *options, UCX_TLS=POSIX)
    return fields[1] if quantity == LATENCY else fields[5] * 1048576 / 1e9


def qperf(test, size):
    """Runs one test of qperf for a second and returns its result in ns or in bytes per second."""
    port = pairs.new_port()
    printed = pairs.pair(HERE, ["qperf", "-lp", str(port)],
                         ["qperf", HERE.address, "-lp", str(port), "-t", "1", "-m", str(size), "-uu", test], port,
                         pairs.tcp_ready, serves_on=True)
    found = re.search(r"(?:latency|bw) += +(\d+)", printed)
    if not found:
        raise RuntimeError(printed)
    return float(found[1])


def tcp(operation, quantity, size):
    if operation == "READ":
        shape = (1, 1 if quantity == LATENCY else READS, size)
        rate = rpc.requests_per_second(lambda: rpc.HERE, "tcp", shape, "spin")
        return 1e6 / rate if quantity == LATENCY else rate * size / 1e9
    return qperf("tcp_lat", size) / 1e3 if quantity == LATENCY else qperf("tcp_bw", size) / 1e9


def sweep():
    """Measures everything. Returns the points: operation, quantity, implementation, size, value."""
    points = []
    for operation in OPERATIONS:
        for quantity in (LATENCY, BANDWIDTH):
            for size in SIZES:
                for name, measure in ((OURS_NAME, ours), (UCX_NAME, ucx_posix), (TCP_NAME, tcp)):
                    try:
                        points.append((operation, quantity, name, size, measure(operation, quantity, size)))
                    except (RuntimeError, subprocess.SubprocessError) as error:
                        print(f"{operation}, {quantity}, {name}, {size} B: {error}", file=sys.stderr)
            print(f"measured: {operation}, {quantity}", flush=True)
    return points
