# SPDX-License-Identifier: BSD-2-Clause
"""Runs UCX as packaged by Debian: all UCP tests of ucx_perftest with each selection of verbs transports, and io_demo,
which connects by the rdma_cm and verifies its data. Tests that select a GID or a protocol are in ucx.py."""

import re

from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.lab import EVERY, WIRE, check

TRANSPORTS = ("rc_v,self", "ud_v,self", "rc_v,ud_v,self")
# The steps in which each side takes a test's sizes with each transport: 1, every size; 2, every second; 3, the first. A
# side that has no step for a transport runs it only in tests/soak, which runs all in every size.
STEPS = {"lo": {TRANSPORTS[0]: 1, TRANSPORTS[1]: 2}, "own0": {TRANSPORTS[2]: 3},
         "wire0": {TRANSPORTS[0]: 2, TRANSPORTS[1]: 3}}

# Each test of ucx_perftest with its message sizes: a size that fits a request, a size that is copied, a size that uses
# the rendezvous protocol. Atomics use 4 or 8 bytes.
SIZES = (8, 4096, 1 << 20)
TESTS = {
    "tag_lat": SIZES, "tag_bw": SIZES, "tag_sync_lat": (8,), "tag_sync_bw": (8,),
    "ucp_put_lat": SIZES, "ucp_put_bw": SIZES, "ucp_get": SIZES,
    "ucp_add": (4, 8), "ucp_fadd": (4, 8), "ucp_swap": (4, 8), "ucp_cswap": (4, 8),
    "stream_bw": SIZES, "stream_lat": (8,), "ucp_am_lat": SIZES, "ucp_am_bw": SIZES,
}


def settings(side, transports):
    return {"UCX_TLS": transports, "UCX_NET_DEVICES": side["device"] + ":1", "UCX_LOG_LEVEL": "error"}


def complaints(program):
    return re.findall(r"^.*\bERROR\b.*$", program.output(), re.M)


# These flush an endpoint after they have written to the peer's memory.
FLUSHING = ("ucp_put_bw", "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")

# Both sides sleep in ucp_worker_wait(), which depends on ibv_req_notify_cq() for completions that arrived before it.
SLEEPING = ("-E", "sleep", "-e")


def perftest(lab, side, transports, test, size, *options):
    port = lab.port()
    # Without keepalive messages, nothing wakes a thread that missed an event.
    env = dict(settings(side, transports), UCX_KEEPALIVE_INTERVAL="inf")
    server = lab.start(*versions.ucx_perftest(), "-p", port, *options, **env)
    lab.listens_tcp(server, port)
    iterations = 50 if size > 4096 else 500
    client = lab.client(*versions.ucx_perftest(), "-p", port, side["ip4"], "-t", test, "-s", size, "-n", iterations,
                        "-w", 10, *options, **env)
    printed = client.finish(lab.seconds(60))
    server.finish(lab.seconds(20))
    final = re.search(r"^Final:\s+(\d+)", printed, re.M)
    # A bandwidth test also counts the operations that were outstanding at its end.
    check(final and int(final[1]) >= iterations, client.story())
    check(not complaints(client) and not complaints(server), client.story() + "\n" + server.story())


def io_demo(lab, side, transports):
    """Reads and writes over connections made by the rdma_cm; every byte is verified by the receiver."""
    port = lab.port()
    env = dict(settings(side, transports), UCX_SOCKADDR_TLS_PRIORITY="rdmacm")
    server = lab.start("io_demo", "-p", port, "-q", "-d", "64:1048576", **env)
    lab.listens_cm(server, port)
    client = lab.client("io_demo", "-p", port, "-q", "-d", "64:1048576", "-i", 200, "-o", "read,write", side["ip4"],
                        **env)
    printed = client.finish(lab.seconds(60))
    check(not complaints(client) and not complaints(server), client.story() + "\n" + server.story())
    check("corrupt" not in printed, client.story())


def atomics(lab, side):
    """UCX of Debian 12 uses the atomics of a device only if the device reports them as most NICs do."""
    printed = lab.start("ucx_info", "-d", **settings(side, "rc_v")).finish(lab.seconds(30))
    check(re.search(r"^#\s+atomic_cswap: ", printed, re.M), printed)


def body(lab, cases):
    for side in lab.sides:
        cases.run(f"atomics of rc_verbs, {side['name']}", atomics, lab, side)
        everything(lab, cases, side)
    if lab.isolated:
        lab.add_host()
        everything(lab, cases, WIRE)


def everything(lab, cases, side):
    where = side["name"]
    for transports in TRANSPORTS:
        step = 1 if EVERY else STEPS[side["device"]].get(transports)
        if not step:
            continue
        for test, sizes in TESTS.items():
            if test in FLUSHING and "rc_v" in transports and not versions.ucx_flushes_rc():
                continue
            for size in sizes[::3 if lab.sanitized else step]:
                cases.run(f"ucx_perftest {test}, {size} bytes, {transports}, {where}",
                          perftest, lab, side, transports, test, size)
        cases.run(f"ucx_perftest tag_lat, sleeping, {transports}, {where}",
                  perftest, lab, side, transports, "tag_lat", 8, *SLEEPING)
        cases.run(f"io_demo with rdmacm, {transports}, {where}", io_demo, lab, side, transports)


if __name__ == "__main__":
    laboratory.main(body)
