# SPDX-License-Identifier: BSD-2-Clause
"""Runs UCX as packaged by Debian: its reliable protocol over datagrams (ud_verbs) and its connected transport
(rc_verbs), on one host by both transports of this project, and between two hosts."""

import functools
import re
import shutil

from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.lab import EVERY, WIRE, check
from tests.programs.why import no_warnings

FINAL = re.compile(r"^Final:\s+(\d+)\s+([\d.]+)", re.M)


def ucx(lab, side, tls, *test, **extra_env):
    port = lab.port()
    env = {"UCX_TLS": tls, "UCX_NET_DEVICES": f"{side['device']}:1", "UCX_IB_GID_INDEX": str(side["gid"]), **extra_env}
    common = [*versions.ucx_perftest(), "-p", port, *test]
    server = lab.start(*common, **env)
    lab.listens_tcp(server, port)
    client = lab.client(*common, side["ip4"], **env)
    printed = client.finish(lab.seconds(60))
    server.finish(lab.seconds(60))
    final = FINAL.search(printed)
    check(final and int(final[1]) == int(test[test.index("-n") + 1]), client.story())


# The connected transport finds its peer by datagrams.
TRANSPORTS = ("ud_verbs", "rc_verbs,ud_verbs:aux")

TESTS = {
    "tag_lat -s 64": ("-t", "tag_lat", "-n", 2000, "-s", 64),
    "tag_bw -s 3000": ("-t", "tag_bw", "-n", 2000, "-s", 3000),
    "tag_bw -s 200000": ("-t", "tag_bw", "-n", 100, "-s", 200000),
    "stream_lat -s 1000": ("-t", "stream_lat", "-n", 500, "-s", 1000),
    "ucp_put_lat -s 8": ("-t", "ucp_put_lat", "-n", 500, "-s", 8),
}


def one_host(lab, cases):
    for side in ({**each, "gid": 1} for each in lab.sides):
        for tls in TRANSPORTS:
            for name, test in TESTS.items() if EVERY or side["device"] == "lo" else ():
                cases.run(f"{tls}, {name}, {side['name']}", ucx, lab, side, tls, *test)
            cases.run(f"{tls}, tag_lat -s 64, {side['name']}, RoCEv2", functools.partial(
                ucx, lab, side, tls, *TESTS["tag_lat -s 64"], USRDMA_TRANSPORT="roce"))


def two_hosts(lab, cases):
    lab.add_host()
    for tls in TRANSPORTS:
        for name, test in TESTS.items():
            cases.run(f"{tls}, {name}, {WIRE['name']}", ucx, lab, WIRE, tls, *test)
        # Each host has a device lo, whose addresses UCX takes for reachable.
        for name in ("tag_lat -s 64", "tag_bw -s 200000"):
            cases.run(f"{tls}, {name}, {WIRE['name']}, beside lo", functools.partial(
                ucx, lab, WIRE, tls, *TESTS[name], UCX_NET_DEVICES=f"lo:1,{WIRE['device']}:1"))


def body(lab, cases):
    if not shutil.which("ucx_perftest"):
        cases.skip("UCX", "no ucx_perftest")
        return
    one_host(lab, cases)
    cases.run("no warnings", no_warnings, lab)
    if lab.isolated:
        two_hosts(lab, cases)


if __name__ == "__main__":
    laboratory.main(body)
