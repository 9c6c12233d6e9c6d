#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""libfabric as Debian ships it: fi_info finds our devices, fi_pingpong runs over verbs' connected endpoints and over the
reliable datagrams that ofi_rxm makes of them, its data checked."""

import errno
import re
import subprocess

import lab as laboratory
from lab import check, wait_until

# Provider, endpoint type, and how it sends.
ROADS = (("verbs", "msg", "msg"), ("verbs;ofi_rxm", "rdm", "msg"), ("verbs;ofi_rxm", "rdm", "tagged"))

ROW = re.compile(r"^\s*(\d+[kmg]?)\s+(\d+)\s", re.M | re.I)
DEFAULT_ROWS = 6


def info(lab, side, provider, endpoint):
    """Every device of a side is a domain of the provider."""
    heard = lab.start("fi_info", "-p", provider, "-t", "FI_EP_" + endpoint.upper()).finish(lab.seconds(30))
    check(re.search(rf"^\s*domain: {side['device']}\b", heard, re.M), heard)


# So often the last message may fall to ofi_rxm's own race (docs/adr/0021) before that is too much.
TRIES = 5

# What our library says (USRDMA_LOG=debug) of a queue pair that goes before all of its completions were polled.
ENDS = re.compile(r"QP 0x[0-9a-f]+ ends: nobody polled (\d+) of its receives and (\d+) of its sends, (\d+) sends are under way")


def forsaken(program):
    """How many receives, and how many sends, it gave up with its queue pairs, though they had succeeded or still could."""
    counts = [[int(count) for count in found] for found in ENDS.findall(program.output())]
    return sum(count[0] for count in counts), sum(count[1] + count[2] for count in counts)


def is_libfabrics(program):
    """
    Whether the program tripped over itself: between its last look at the CQ and the news that its peer has gone, the last
    message came; on that news ofi_rxm destroys the queue pair, and with it the completion, and looks at the CQ afterwards.
    Then it waits for ever for a message that it had, or believes that a send which succeeded was flushed. Only what was
    there and was given up counts, as our library says; who waits for what never came, waits because of us.
    """
    receives, sends = forsaken(program)
    if program.running():
        return receives > 0
    return program.process.returncode == errno.ECANCELED and sends > 0 and "Work Request Flushed Error" in program.output()


def finish(program, seconds):
    """Waits for its end, or until it waits for what it gave up itself; says whether it tripped over itself."""
    try:
        wait_until(lambda: not program.running() or is_libfabrics(program), seconds, "its end")
        # What it gave up may be no news to it, or may make it end in a moment.
        program.process.wait(5)
    except laboratory.Failure as failure:
        raise laboratory.Failure(f"{failure}: {program.story()}") from None
    except subprocess.TimeoutExpired:
        pass
    tripped = is_libfabrics(program)
    if program.running():
        program.end()
    return tripped


def pingpong_once(lab, side, road, *options):
    """Whether it ended in order, but for libfabric's own race; what else is wrong is a failure."""
    provider, endpoint, transmit = road
    port = lab.port()
    words = ["fi_pingpong", "-p", provider, "-d", side["device"], "-e", endpoint, "-m", transmit, "-I", 20, *options]
    server = lab.start(*words, "-B", port, USRDMA_LOG="debug")
    lab.listens_tcp(server, port)
    client = lab.client(*words, "-P", port, side["ip4"], USRDMA_LOG="debug")
    tripped = [program for program in (client, server) if finish(program, lab.seconds(60)) and "ofi_rxm" in provider]
    # Only a side that has everything ends the connection: the other one alone can trip over that.
    check(len(tripped) < 2, client.story() + "\n" + server.story())
    for program in (client, server):
        if program in tripped:
            continue
        check(program.process.returncode == 0 and "error" not in program.output().lower(), program.story())
        rows = ROW.findall(program.output())
        check(len(rows) >= (1 if "-S" in options else DEFAULT_ROWS), program.story())
    return not tripped


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
