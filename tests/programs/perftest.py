#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""perftest's RC programs and qperf's rdma_cm RC tests, as Debian ships them."""

import re

import lab as laboratory
from lab import check

# Programs, and what each offers of -a (all sizes), -b (both directions), -q (queue pairs), -e (events).
PROGRAMS = {
    "ib_write_bw": "abq",
    "ib_write_lat": "a",
    "ib_read_bw": "abqe",
    "ib_read_lat": "ae",
    "ib_send_bw": "abqe",
    "ib_send_lat": "ae",
    "ib_atomic_bw": "bqe",
    "ib_atomic_lat": "e",
}

ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+[\d.]+\s+[\d.]+", re.M)

QPERF = ["rc_bw", "rc_bi_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
         "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]


def perftest(lab, program, side, *options):
    port = lab.port()
    iterations = 20 if "-a" in options else 200
    common = [program, "-F", "-d", side["device"], "-x", side["gid"], "-p", port, "-n", iterations, *options]
    server = lab.start(*common)
    if "-R" in options:
        lab.listens_cm(server, port)
    else:
        lab.listens_tcp(server, port)
    client = lab.client(*common, side["ip4"])
    heard = client.finish(lab.seconds(60))
    server.finish(lab.seconds(60))
    rows = ROW.findall(heard)
    check(len(rows) == (23 if "-a" in options else 1), client.story())
    check(all(int(iterations) > 0 for _, iterations in rows), client.story())


def qperf(lab, side, tests):
    port = lab.port()
    server = lab.start("qperf", "-lp", port)
    lab.listens_tcp(server, port)
    for test in tests:
        client = lab.client("qperf", side["ip4"], "-lp", port, "-cm", 1, "-t", 1, test)
        heard = client.finish(lab.seconds(20))
        check(test + ":" in heard and "failed" not in heard, client.story())
        check("=" in heard or test.startswith("ver_"), client.story())
    lab.client("qperf", side["ip4"], "-lp", port, "quit").finish(lab.seconds(10), None)
    server.finish(lab.seconds(10))


def variants(lab, offers):
    yield ()
    if lab.sanitized:
        yield ("-R", "-e") if "e" in offers else ("-R",)
        return
    if "a" in offers:
        yield ("-a",)
    if "b" in offers:
        yield ("-b",)
    if "q" in offers:
        yield ("-q", 16)
    if "e" in offers:
        yield ("-e",)
    yield ("-R",)
    if "e" in offers:
        yield ("-R", "-e")
    if "b" in offers:
        yield ("-R", "-b", "-q", 16)


def body(lab, cases):
    for time in lab.times:
        for side in lab.sides:
            where = side["name"]
            for program, offers in PROGRAMS.items():
                for options in variants(lab, offers):
                    words = " ".join(str(word) for word in (program, *options))
                    cases.run(f"{words}, {where}, {time}", perftest, lab, program, side, *options)
            cases.run(f"ib_write_bw -c UC, {where}, {time}", perftest, lab, "ib_write_bw", side, "-c", "UC")
            cases.run(f"ib_send_bw -c UC, {where}, {time}", perftest, lab, "ib_send_bw", side, "-c", "UC")
            cases.run(f"qperf -cm 1, {where}, {time}", qperf, lab, side, QPERF)


if __name__ == "__main__":
    laboratory.main(body)
