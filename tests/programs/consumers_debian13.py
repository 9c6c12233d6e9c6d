# SPDX-License-Identifier: BSD-2-Clause
"""Debian 13's programs: rdma-core 56, perftest 25.01, UCX 1.18, libfabric 2.1, Open MPI 5 and pyverbs 56."""

import re

from tests.programs.debian_programs import Release, complete, main
from tests.programs.lab import check


def cmtime(lab, side, words):
    """Runs cmtime of rdma-core 56: connections with queue pairs, or without queue pairs (-m), then without queue pairs
    again. Both sides number the queue pairs from the value of -q, with the same numbers in each step."""
    port = lab.port()
    words = ["cmtime", "-p", port, "-c", 50, *words]
    server = lab.start(*words, "-b", side["ip4"])
    lab.listens_tcp(server, port)
    printed = complete(lab, lab.start(*words, "-s", side["ip4"]))
    check(re.search(r"^cm_conn +50$", printed, re.M), printed)
    printed = complete(lab, server)
    check(re.search(r"^Accept \(50\) test - no QPs$", printed, re.M), printed)


TRIXIE = Release(
    name="Debian 13",
    codename="trixie",
    libraries=("libisal2", "libuv1t64", "libmnl0", "libjson-c5"),
    cmtime=cmtime,
    cmtime_options=((), ("-n", 4, "-m", 100, "-q", 5000)),
    oversubscribe=("--map-by", ":OVERSUBSCRIBE"),
    perftest=(("ib_write_bw", "--write_with_imm"),),
    # Debian 13's ucx_perftest is an MPI program unless told otherwise.
    ucx_options=("-P", 0),
    # UCX 1.18 flushes an endpoint of rc_v that has written by means of a key that only devices of mlx5 have
    # (uct_ib_md_is_flush_rkey_valid). On every other device the flush fails.
    ucx_flushes=("ud_v,self",),
    # The test expects a persistent FLUSH to be refused by the memory region. Here the queue pair refuses it first,
    # because no peer may ask for one (docs/completion-errors.md).
    pyverbs_differs=frozenset({"test_qp_ex_rc_flush_type_violate"}),
)

if __name__ == "__main__":
    main(TRIXIE)
