# SPDX-License-Identifier: BSD-2-Clause
"""Runs Debian's rping with USRDMA_LOG=trace and USRDMA_FAULT and a daemon in the foreground. Connections are
established although messages of the communication manager are lost, duplicated and corrupted. The daemon's counters
show the effect of each fault, and its trace reports the fault."""

import contextlib
import os

from tests.programs import cm, daemon_kit
from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, check, wait_until

# Without a fault rule: the text of every kind of line that the daemon logs for a connection.
CONNECTED = ("mad sent: cm req tid 0x", "mad received: cm req tid 0x", "mad sent: cm rtu tid 0x",
             "mad received: cm drep tid 0x", "cm state: comm id 0x", " from req_sent to rep_rcvd on REP",
             " from rep_sent to established on RTU")


@contextlib.contextmanager
def traced_daemon(lab, rules):
    """A daemon in the foreground with these rules and a trace. lab.env passes them to the programs as well."""
    lab.env.update(USRDMA_LOG="trace", USRDMA_FAULT=rules)
    try:
        with daemon_kit.daemon(lab):
            yield
    finally:
        del lab.env["USRDMA_LOG"], lab.env["USRDMA_FAULT"]


def traced(lab, expected):
    with open(os.path.join(lab.scratch, "daemon.err"), encoding="utf-8") as file:
        trace = file.read()
    check(expected in trace, f"no '{expected}' in the daemon's trace:\n{trace}")


def rping_is_traced(lab):
    with traced_daemon(lab, ""):
        cm.rping(lab, LOOPBACK["ip4"])
    for expected in CONNECTED:
        traced(lab, expected)


def surplus(lab):
    """Returns the number of valid MADs received minus the number of MADs sent. Both peers are on this host."""
    status = lab.status()
    mads, resent = status["cm"], status["daemon"]["counters"]["cm"]["messages_resent"]
    return sum(mads["mads_received"].values()) - sum(mads["mads_sent"].values()) - resent


def rping_with(lab, point, action):
    """The rule applies to the first MAD, the REQ. The CM sends a lost or invalid REQ again. With seed 22, corrupt
    inverts a bit of the class version, so the MAD is invalid."""
    with traced_daemon(lab, f"seed=22;{point}:{action}:nth=1"):
        cm.rping(lab, LOOPBACK["ip4"])
        expected = 1 if action == "duplicate" else -1
        wait_until(lambda: surplus(lab) == expected, lab.seconds(5), f"{expected} MADs received more than sent")
        counters = lab.status()["daemon"]["counters"]["cm"]
    check(action == "duplicate" or counters["messages_resent"] > 0, f"the lost REQ was not sent again: {counters}")
    malformed = sum(count for name, count in counters.items() if name.startswith("malformed"))
    check(malformed == (action == "corrupt"), f"{malformed} malformed MADs: {counters}")
    traced(lab, f"fault: {point} {action} pass 1")


def invalid_rules(lab):
    program = lab.start("ibv_devinfo", USRDMA_FAULT="mad.send:lose")
    out = program.finish(lab.seconds(10))
    check("usrdma: invalid USRDMA_FAULT 'mad.send:lose': 'mad.send:lose': unknown action; " in out, out)


def body(lab, cases):
    cases.run("the daemon traces the connection", rping_is_traced, lab)
    for point in ("mad.send", "mad.receive"):
        for action in ("drop", "duplicate", "corrupt"):
            cases.run(f"{point} {action}", rping_with, lab, point, action)
    cases.run("invalid rules are reported and the program runs", invalid_rules, lab)


if __name__ == "__main__":
    laboratory.main(body)
