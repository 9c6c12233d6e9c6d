# SPDX-License-Identifier: BSD-2-Clause
"""Measurements of ucx_perftest: UCX over POSIX shared memory."""

import re

from bench import pairs
from tests.programs import versions

POSIX = "posix,self"  # UCX_TLS


def ucx(test, size, iterations, *options, **env):
    """Runs a test of ucx_perftest, UCP with UCX_TLS or one UCT transport with -x. Returns the fields of its result."""
    port = pairs.new_port()
    place = pairs.Place(env=dict(env, UCX_LOG_LEVEL="error"))
    command = [*map(str, versions.ucx_perftest()), "-p", str(port)]
    printed = pairs.pair(place, command,
                         command + ["127.0.0.1", "-t", test, "-s", str(size), "-n", str(iterations), *options],
                       port, pairs.tcp_ready)
    final = re.search(r"^Final:\s+(.*)$", printed, re.M)
    if not final:
        raise RuntimeError(printed)
    return [float(field) for field in final[1].split()]


def ucx_lat_us(test, iterations, size=8):
    """Median latency in microseconds over POSIX shared memory."""
    return ucx(test, size, iterations, UCX_TLS=POSIX)[1]


def ucx_bw_gbs(test, size, iterations):
    return ucx(test, size, iterations, UCX_TLS=POSIX)[5] * 1048576 / 1e9


def ucx_message_rate(test, iterations, size=8):
    """Messages in a million per second."""
    return ucx(test, size, iterations, UCX_TLS=POSIX)[7] / 1e6
