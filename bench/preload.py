# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified TCP programs on one host with librspreload, beside the same programs over plain TCP."""

import os
import re
import statistics

from bench import pairs
from bench.figure import Figure, Peer, at_least_times
from bench.pairs import BUILD, RUN, Place
from bench.places import HERE

RSOCKETS = Place(RUN, RUN, env={"LD_PRELOAD": os.path.join(BUILD, "lib", "rsocket", "librspreload.so")})
IPERF_SECONDS = 2
# Row, options of redis-benchmark, requests of each command.
REDIS = [("redis_64", ("-c", "50", "-d", "64"), 50000),
         ("redis_64_pipelined", ("-c", "50", "-d", "64", "-P", "16"), 200000),
         ("redis_64k", ("-c", "4", "-d", "65536"), 20000)]
MEMCACHED_THREADS, MEMCACHED_REQUESTS = 4, 20000


def serve(place, server, client, port):
    """Runs a server and a client, and returns the client's output. The server does not exit and is killed."""
    ready = pairs.cm_ready if place is RSOCKETS else pairs.tcp_ready
    return pairs.pair(place, server, client, port, ready, serves_on=True, processor=pairs.anywhere)


def iperf3_gbs(place):
    ready = pairs.cm_ready if place is RSOCKETS else pairs.tcp_ready
    return pairs.tcp_bw_gbs(place, IPERF_SECONDS, ready)


def redis_rate(place, options, requests):
    """Thousands of requests in a second, the same number of SET and GET commands."""
    port = pairs.new_port()
    printed = serve(place, ["redis-server", "--port", str(port), "--bind", place.address, "--save", ""],
                    ["redis-benchmark", "-h", place.address, "-p", str(port), "-t", "set,get", "-n", str(requests),
                     "--csv", *options], port)
    rates = [float(rate) for rate in re.findall(r'^"[SG]ET","([\d.]+)"', printed, re.M)]
    if len(rates) != 2:
        raise RuntimeError(printed)
    return statistics.harmonic_mean(rates) / 1000


def memcached_rate(place):
    """Thousands of get requests in a second."""
    port = pairs.new_port()
    user = ["-u", "root"] if os.geteuid() == 0 else []
    printed = serve(place, ["memcached", *user, "-l", place.address, "-p", str(port)],
                    ["memcslap", "-s", f"{place.address}:{port}", "-t", "get", "-N", "-c", str(MEMCACHED_THREADS),
                     "-e", str(MEMCACHED_REQUESTS)], port)
    found = re.search(r"^Time to get +(\d+) keys by +\d+ threads: +([\d.]+) seconds", printed, re.M)
    if not found:
        raise RuntimeError(printed)
    return float(found[1]) / float(found[2]) / 1000


def preload_figures():
    def beside_tcp(name, what, unit, measure):
        return Figure(name, f"librspreload: {what}", unit, lambda: measure(RSOCKETS),
                      Peer("TCP", lambda: measure(HERE)), at_least_times(1))

    def redis(name, options, requests):
        return beside_tcp(name, " ".join(["redis", *options]), "k/s",
                          lambda place: redis_rate(place, options, requests))
    return [
        beside_tcp("iperf3", "iperf3", "GB/s", iperf3_gbs),
        *[redis(*row) for row in REDIS],
        beside_tcp("memcached", f"memcached, memcslap -c {MEMCACHED_THREADS}", "k/s", memcached_rate),
    ]
