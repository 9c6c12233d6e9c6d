# SPDX-License-Identifier: BSD-2-Clause
"""Runs perftest's RC programs and qperf's rdma_cm RC tests as packaged by Debian."""

import contextlib
import os
import re

from tests.programs import lab as laboratory
from tests.programs.lab import EVERY, check

# The programs, and which of these options each has: -a (all sizes), -b (bidirectional), -q (queue pairs), -e (events).
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

XRC_PROGRAMS = ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_read_lat", "ib_atomic_bw")
# The files of its XRC domains. Their names are the same for all users, and the programs do not remove them.
XRC_FILES = ("/tmp/xrc_domain_server", "/tmp/xrc_domain_client")

# A group of each family in the format of --MGID, and the index of a source GID of that family.
GROUPS = {"IPv4": (1, "0:0:0:0:0:0:0:0:0:0:255:255:239:77:1:9"), "IPv6": (2, "255:14:0:0:0:0:0:0:0:0:0:0:0:0:1:9")}

# perftest measures the processor's clock first. On a busy machine it may fail, and then all times are printed as "inf".
ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(?:inf|[\d.]+)\s+(?:inf|[\d.]+)", re.M)

QPERF = ["rc_bw", "rc_bi_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
         "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]


def perftest(lab, program, side, *options):
    port = lab.port()
    iterations = 20 if "-a" in options else 200
    until = [] if "-D" in options or "-n" in options else ["-n", iterations]
    common = [program, "-F", "-d", side["device"], "-x", side["gid"], "-p", port, *until, *options]
    server = lab.start(*common)
    if "-R" in options:
        lab.listens_cm(server, port)
    else:
        lab.listens_tcp(server, port)
    client = lab.client(*common, side["ip4"])
    printed = client.finish(lab.seconds(60))
    server.finish(lab.seconds(60))
    rows = ROW.findall(printed)
    check(len(rows) == (23 if "-a" in options else 1), client.story())
    check(all(int(iterations) > 0 for _, iterations in rows), client.story())


def forget_xrc_files():
    for path in XRC_FILES:
        with contextlib.suppress(OSError):
            os.unlink(path)


def xrc(lab, program, side, *options):
    forget_xrc_files()
    try:
        perftest(lab, program, side, "-c", "XRC", *options)
    finally:
        forget_xrc_files()


def multicast(lab, program, side, family):
    gid, group = GROUPS[family]
    perftest(lab, program, {**side, "gid": gid}, "-c", "UD", "-g", "-M", group)


def qperf(lab, side, tests):
    port = lab.port()
    server = lab.start("qperf", "-lp", port)
    lab.listens_tcp(server, port)
    for test in tests:
        client = lab.client("qperf", side["ip4"], "-lp", port, "-cm", 1, "-t", 1, test)
        printed = client.finish(lab.seconds(20))
        check(test + ":" in printed and "failed" not in printed, client.story())
        check("=" in printed or test.startswith("ver_"), client.story())
    lab.client("qperf", side["ip4"], "-lp", port, "quit").finish(lab.seconds(10), None)
    server.finish(lab.seconds(10))


def variants(lab, side, offers):
    """Options of a program: all of them with the first side. The other sides differ from it only in device and
    addresses. All sizes with the programs that measure a bandwidth; tests/soak also runs the other ones with them."""
    if side is lab.sides[0] or EVERY:
        yield ()
    if side is not lab.sides[0]:
        yield ("-R",)
        return
    if lab.sanitized:
        yield ("-R", "-e") if "e" in offers else ("-R",)
        return
    if "a" in offers and ("b" in offers or EVERY):
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
    for side in lab.sides:
        where = side["name"]
        for program, offers in PROGRAMS.items():
            for options in variants(lab, side, offers):
                words = " ".join(str(word) for word in (program, *options))
                cases.run(f"{words}, {where}", perftest, lab, program, side, *options)
        if side is lab.sides[0] or EVERY:
            cases.run(f"ib_write_bw -c UC, {where}", perftest, lab, "ib_write_bw", side, "-c", "UC")
            cases.run(f"ib_send_bw -c UC, {where}", perftest, lab, "ib_send_bw", side, "-c", "UC")
            for program in XRC_PROGRAMS:
                cases.run(f"{program} -c XRC, {where}", xrc, lab, program, side)
        for program in ("ib_send_bw", "ib_send_lat"):
            cases.run(f"{program} -c UD, {where}", perftest, lab, program, side, "-c", "UD")
            # No route of the kernel leads IPv6 groups to lo.
            for family in ("IPv4",) if side["device"] == "lo" else GROUPS:
                cases.run(f"{program} -c UD -g, {family}, {where}", multicast, lab, program, side, family)
    # Each test of qperf takes one second.
    cases.run("qperf -cm 1", qperf, lab, lab.sides[0], QPERF)


if __name__ == "__main__":
    laboratory.main(body)
