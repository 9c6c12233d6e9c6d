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


def ended_well(program, provider):
    """
    Either side of ofi_rxm may end with a last send that was flushed: libfabric closes an endpoint as soon as it hears that
    its peer has, without another look at the completion queue. What was acknowledged before is lost with the queue pair if
    the program did not run between its last look and the peer's end. It says so with ECANCELED for an exit status.
    """
    code, heard = program.process.returncode, program.output()
    if "ofi_rxm" in provider and code == errno.ECANCELED and "Work Request Flushed Error" in heard:
        return
    check(code == 0 and "error" not in heard.lower(), program.story())


def pingpong(lab, side, road, *options):
    provider, endpoint, transmit = road
    port = lab.port()
    words = ["fi_pingpong", "-p", provider, "-d", side["device"], "-e", endpoint, "-m", transmit, "-I", 20, *options]
    server = lab.start(*words, "-B", port)
    lab.listens_tcp(server, port)
    client = lab.client(*words, "-P", port, side["ip4"])
    client.finish(lab.seconds(60), None)
    server.finish(lab.seconds(20), None)
    ended_well(client, provider)
    ended_well(server, provider)
    rows = ROW.findall(client.output())
    check(len(rows) >= (1 if "-S" in options else DEFAULT_ROWS), client.story())


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
