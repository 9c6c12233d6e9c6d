#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""libfabric as Debian ships it: fi_info finds our devices, fi_pingpong runs over verbs' connected endpoints and over the
reliable datagrams that ofi_rxm makes of them, its data checked."""

import errno
import re

import lab as laboratory
from lab import check

# Provider, endpoint type, and how it sends.
ROADS = (("verbs", "msg", "msg"), ("verbs;ofi_rxm", "rdm", "msg"), ("verbs;ofi_rxm", "rdm", "tagged"))

ROW = re.compile(r"^\s*(\d+[kmg]?)\s+(\d+)\s", re.M | re.I)
DEFAULT_ROWS = 6


def info(lab, side, provider, endpoint):
    """Every device of a side is a domain of the provider."""
    heard = lab.start("fi_info", "-p", provider, "-t", "FI_EP_" + endpoint.upper()).finish(lab.seconds(30))
    check(re.search(rf"^\s*domain: {side['device']}\b", heard, re.M), heard)


# So often ofi_rxm may end in disorder before that is ours.
TRIES = 3


def is_libfabrics(provider, client, server):
    """
    Whether a pair ended in the disorder that ofi_rxm makes by itself: it destroys a queue pair as soon as it hears that its
    peer is gone, without another look at the completion queue. A process that did not run between its last look and its
    peer's end, on a busy machine, loses what had completed by then: a last send is said to be flushed (ECANCELED is then the
    exit status), or a last message is waited for in vain. Where the completions outlived their queue pair, it was seen to
    crash instead.
    """
    return "ofi_rxm" in provider and any(
        not program or (program.process.returncode == errno.ECANCELED and "Work Request Flushed Error" in program.output())
        for program in (client, server))


def ended(program, seconds):
    """The program, or None if it had to be ended."""
    try:
        program.finish(seconds, None)
        return program
    except laboratory.Failure:
        return None


def pingpong_once(lab, side, road, *options):
    """Whether it ended in order; what is wrong otherwise is a failure."""
    provider, endpoint, transmit = road
    port = lab.port()
    words = ["fi_pingpong", "-p", provider, "-d", side["device"], "-e", endpoint, "-m", transmit, "-I", 20, *options]
    server = lab.start(*words, "-B", port)
    lab.listens_tcp(server, port)
    client = lab.client(*words, "-P", port, side["ip4"])
    if is_libfabrics(provider, ended(client, lab.seconds(60)), ended(server, lab.seconds(20))):
        return False
    for program in (client, server):
        check(program.process.returncode == 0 and "error" not in program.output().lower(), program.story())
    rows = ROW.findall(client.output())
    check(len(rows) >= (1 if "-S" in options else DEFAULT_ROWS), client.story())
    return True


def pingpong(lab, side, road, *options):
    check(any(pingpong_once(lab, side, road, *options) for _ in range(TRIES)), "never in order")


def everything(lab, cases, side):
    where = side["name"]
    # A server takes the addresses of libfabric's own list of interfaces, which leaves the loopback interface out.
    roads = () if side == laboratory.LOOPBACK else ROADS
    for provider, endpoint in (("verbs", "msg"), ("verbs;ofi_rxm", "rdm")):
        cases.run(f"fi_info -p {provider} -t {endpoint}, {where}", info, lab, side, provider, endpoint)
    for road in roads:
        for options in (("-c",), ("-c", "-S", 1 << 22)):
            words = " ".join(str(word) for word in options)
            cases.run(f"fi_pingpong {' '.join(road)} {words}, {where}", pingpong, lab, side, road, *options)


def body(lab, cases):
    for side in lab.sides:
        everything(lab, cases, side)
    if lab.isolated:
        lab.add_host()
        everything(lab, cases, laboratory.WIRE)


if __name__ == "__main__":
    laboratory.main(body)
