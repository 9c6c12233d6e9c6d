# SPDX-License-Identifier: BSD-2-Clause
"""Runs libfabric as packaged by Debian. fi_info finds our devices. fi_pingpong runs over connected endpoints of the
verbs provider and over the reliable datagrams of ofi_rxm, with verification of the data."""

import errno
import re
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import check, wait_until

# Provider, endpoint type and method of transmission.
ROADS = (("verbs", "msg", "msg"), ("verbs;ofi_rxm", "rdm", "msg"), ("verbs;ofi_rxm", "rdm", "tagged"))

ROW = re.compile(r"^\s*(\d+[kmg]?)\s+(\d+)\s", re.M | re.I)
DEFAULT_ROWS = 6


def info(lab, side, provider, endpoint):
    """Every device of a side is a domain of the provider."""
    printed = lab.start("fi_info", "-p", provider, "-t", "FI_EP_" + endpoint.upper()).finish(lab.seconds(30))
    check(re.search(rf"^\s*domain: {side['device']}\b", printed, re.M), printed)


# Number of tries. The race in ofi_rxm (docs/adr/0021) may spoil the last message of all but one of them.
TRIES = 5

# The line of USRDMA_LOG=debug for a queue pair that is destroyed before all of its completions were polled.
ENDS = re.compile(r"QP 0x[0-9a-f]+ is destroyed or reset: (\d+) receive and (\d+) send completions were not polled, "
                  r"(\d+) sends are outstanding")


def forsaken(program):
    """Returns how many receives and how many sends completed, or could still complete, when their queue pairs were
    destroyed."""
    counts = [[int(count) for count in found] for found in ENDS.findall(program.output())]
    return sum(count[0] for count in counts), sum(count[1] + count[2] for count in counts)


def is_libfabrics(program):
    """Whether the race in ofi_rxm occurred. The last message arrives between ofi_rxm's last poll of the CQ and the
    event for the end of the connection. On that event ofi_rxm destroys the queue pair and its completions, and polls
    the CQ afterwards. Then it waits indefinitely for a message that had arrived, or treats a successful send as
    flushed. Only completions that our library reports as discarded count; a program that waits for any other message
    has found an error of our library."""
    receives, sends = forsaken(program)
    if program.running():
        return receives > 0
    return (program.process.returncode == errno.ECANCELED and sends > 0
            and "Work Request Flushed Error" in program.output())


def finish(program, seconds):
    """Waits for the program's end, or until it waits for a discarded completion; returns whether the race occurred."""
    try:
        wait_until(lambda: not program.running() or is_libfabrics(program), seconds, "its end")
        # A program that discarded a completion may still exit.
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
    """Returns whether both programs succeeded; False if the race in libfabric occurred. Any other error is a
    failure."""
    provider, endpoint, transmit = road
    port = lab.port()
    words = ["fi_pingpong", "-p", provider, "-d", side["device"], "-e", endpoint, "-m", transmit, "-I", 20, *options]
    server = lab.start(*words, "-B", port, USRDMA_LOG="debug")
    lab.listens_tcp(server, port)
    client = lab.client(*words, "-P", port, side["ip4"], USRDMA_LOG="debug")
    tripped = [program for program in (client, server) if finish(program, lab.seconds(60)) and "ofi_rxm" in provider]
    # Only a side that has received everything ends the connection, so the race occurs on the other side only.
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
    # A server uses the addresses of libfabric's list of interfaces, which does not contain the loopback interface.
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
