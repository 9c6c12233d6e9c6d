# SPDX-License-Identifier: BSD-2-Clause
"""In what the releases of Debian's programs that may be installed differ, as far as tests depend on it."""

import functools
import re
import subprocess


def printed(*argv):
    """What a program prints; nothing if it is not installed."""
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace", timeout=30, check=False).stdout
    except OSError:
        return ""


@functools.cache
def ucx_perftest():
    """The words that start ucx_perftest. Some builds are MPI programs unless told otherwise."""
    is_mpi = re.search(r"^\s+-P <0\|1>.*\(1\)", printed("ucx_perftest", "-h"), re.M)
    return ("ucx_perftest", "-P", 0) if is_mpi else ("ucx_perftest",)


@functools.cache
def perftest_asks_mlx5():
    """Whether perftest asks libmlx5 about each device with Mellanox's vendor_id, and ends if it does not answer."""
    version = re.search(r"^Version: (\d+)\.(\d+)", printed("ib_write_bw", "--version"), re.M)
    return version is not None and (int(version[1]), int(version[2])) >= (6, 24)


@functools.cache
def cmtime_counts():
    """Whether the server of cmtime has the number of connections as an option, too, and then ends."""
    return "num_threads" in printed("cmtime", "-h")


@functools.cache
def ucx_flushes_rc():
    """Whether UCX's rc_v flushes after it has written, on other devices than those of mlx5 (docs/known-issues.md)."""
    version = re.search(r"ersion:? (\d+)\.(\d+)", printed("ucx_info", "-v"))
    return version is None or (int(version[1]), int(version[2])) < (1, 18)
