# SPDX-License-Identifier: BSD-2-Clause
"""Drives an unmodified program under a scenario of `usrdma fault`, and checks that the program's own message, the first
line of `usrdma why`, and the lines and packets of `usrdma trace` name the same status, queue pair and operation."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import typing

from tests.programs import capture, trace
from tests.programs.fault import command, fault, fired
from tests.programs.lab import check, wait_until

# Work completion statuses: the name in why, the beginning of the text in a trace.
STATUSES = {
    10: ("IBV_WC_REM_ACCESS_ERR", "remote access error"),
    12: ("IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded"),
    13: ("IBV_WC_RNR_RETRY_EXC_ERR", "RNR retry counter exceeded"),
}
# The environment of a program whose completions are late, so that a trace of a second is small.
PACED = {"USRDMA_FAULT": "completion:delay=2ms"}
PYTHON = "/usr/bin/python3"
SEVERITY_ERROR = 0x800000  # of tshark
# perftest 25.01 may first notice that it cannot exchange keys.
PERFTEST_MESSAGE = (r"Couldn't read remote address|Failed status (?P<status>\d+): wr_id (?P<wr_id>\d+) "
                    r"syndrom (?P<vendor_err>0x[0-9a-f]+)")
UCX_MESSAGE = (r"\[\w+:(?P<pid>\d+)\b.* send completion with error: {} \[qpn (?P<qpn>0x[0-9a-f]+) wrid "
               r"(?P<wr_id>0x[0-9a-f]+) ?vendor_err (?P<vendor_err>0x[0-9a-f]+)\]")


def perftest(at, name, *options):
    """The function that starts a server of perftest and then its client, with paced completions, at these addresses."""
    def start(lab):
        port = lab.port()
        common = [name, "-F", "-d", at["device"], "-x", at["gid"], "-p", port, "-D", 60, *options]
        server = lab.start(*common)
        lab.listens_tcp(server, port)
        return lab.client(*common, at["ip4"], **PACED), server
    return start


@dataclasses.dataclass
class Row:
    """A scenario, the program that runs under it, and the texts that it leads to.

    start: starts and returns the programs; the last one is the server. Rules are set when the first one sends messages.
    message: one of them prints it. Groups have the names of members of the failure in `why --json`, and their values.
    why: the first line of `usrdma why PID`; None: no failure is stored. The group `firings` is counted in the trace.
    trace: lines beside that of the completion. {pid}, {qpn}, {peer} and {peer_qpn} are those of the failure.
      {server} is the PID of the last program.
    """
    scenario: str
    program: str
    start: typing.Callable
    message: str
    why: typing.Optional[str]
    trace: tuple
    shown: tuple  # in tshark's column Info
    conditions: tuple = ()
    is_first: bool = False  # the rules are set before the programs start
    rules_on_far_host: bool = False
    seen_on_far_host: bool = False  # by why and trace


class Trace:
    """`usrdma trace` of the programs of a host, as text and as a capture file, until end()."""

    def __init__(self, lab):
        self.lab = lab
        self.path = os.path.join(lab.scratch, f"{lab.count()}.pcapng")
        self.tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "-w", self.path, "--text", native=True)
        self.tracer.says("usrdma: tracing", lab.seconds(10))

    def end(self):
        self.tracer.signal(signal.SIGINT)
        self.tracer.finish(self.lab.seconds(30))
        with open(self.tracer.paths[0], encoding="utf-8", errors="replace") as file:
            return file.read()


def has_line(text, pattern):
    check(re.search(pattern, text, re.M), f"no line '{pattern}' in the trace:\n" + "\n".join(text.splitlines()[-60:]))


def packets_are_right(path, shown):
    """tshark finds no malformed packet and its column Info has these texts. The ICRCs are computed a second time."""
    trace.icrcs_are_right(path)
    if not shutil.which("tshark"):
        return
    fields = [option for field in ("_ws.malformed", "_ws.expert.severity", "_ws.col.Info") for option in ("-e", field)]
    rows = [row.split("\t") for row in capture.tshark(path, *capture.without_guesses(), "-T", "fields", *fields)]
    bad = [row for row in rows if row[0] or str(SEVERITY_ERROR) in row[1].split(",")]
    check(not bad, f"malformed: {bad[:5]}")
    infos = "\n".join(sorted({row[2] for row in rows}))
    for text in shown:
        check(text in infos, f"tshark does not show '{text}':\n{infos[:3000]}")


def flows(lab, program, count=5):
    """Waits until the program has sent messages or packets."""
    def counted():
        check(program.running(), program.story())
        processes = [process for process in lab.status()["processes"] if process["pid"] == program.pid]
        counters = processes[0].get("counters", {}) if processes else {}
        return sum(group.get(name, 0) for group in counters.values()
                   for name in ("messages_sent", "onesided", "packets_sent")) >= count
    wait_until(counted, lab.seconds(20), "messages of the program")


def explained(lab, pid, expected):
    """The newest explanation of `why PID` as JSON, when its text begins as expected; None if no failure is expected.
    The normal end of a connection is not a failure."""
    if not expected:
        reports = [json.loads(line) for line in command(lab, "why", "--last", 0, "--json").splitlines()]
        about = [report for report in reports for failure in failures_of(report) if failure["pid"] == pid]
        check(not about, f"{about}")
        return None
    wait_until(lambda: re.match(expected, command(lab, "why", pid)), lab.seconds(10),
               f"'{expected}' as the explanation; now: {command(lab, 'why', pid)}")
    report = json.loads(command(lab, "why", pid, "--json").splitlines()[0])
    check(re.match(expected, report["cause"] + "\n"), f"{report}")
    return report


def firings_agree(row, text, report):
    """The number in the explanation is that of the firings in the trace, the first line of the row."""
    match = re.match(row.why, report["cause"] + "\n")
    if "firings" in match.groupdict():
        traced = len(re.findall(row.trace[0], text, re.M))
        check(int(match["firings"]) == traced, f"{traced} firings in the trace: {match[0]}")


def failures_of(report):
    return [report["first"], *report["then"]]


def failure_of(report, pid):
    """The failed work request of this process, or else the first failure. Both ends may have failed ones."""
    return next((failure for failure in failures_of(report) if failure["status"] in STATUSES and failure["pid"] == pid),
                report["first"])


def operation_of(cause):
    """The operation with which the explanation of a work request begins."""
    match = re.match(r"([A-Z][A-Z ]*[A-Z]) of ", cause)
    return match[1] if match else "[A-Z ]+"


def message_agrees(message, groups, first):
    """The numbers in the program's message are those of the failure."""
    for name, value in groups.items():
        check(int(value, 0) == first[name], f"the program prints {name} {value}, why has {first[name]}: {message}")


def trace_agrees(row, text, pid, server, report):
    names = {"pid": pid, "server": server}
    if report:
        failure = failure_of(report, pid)
        names.update(qpn=f"0x{failure['qpn']:x}", peer=failure["peer_pid"], peer_qpn=f"0x{failure['peer_qpn']:x}")
        if failure["status"]:
            name, status = STATUSES[failure["status"]]
            operation = operation_of(report["cause"])
            check(name in failure["seen"], f"why does not name {name}: {report}")
            has_line(text, rf"\[{pid}\] cqe: qpn {names['qpn']} wr_id 0x{failure['wr_id']:x} {operation} {status}")
    for line in row.trace:
        has_line(text, line.format(**names))


def printed(lab, row, programs):
    """The first program that prints the message, and the match."""
    def message():
        is_over = not any(program.running() for program in programs)
        found = [(program, match) for program in programs if (match := re.search(row.message, program.output()))]
        check(found or not is_over, programs[0].story())
        return found[0] if found else None
    return wait_until(message, lab.seconds(40), f"'{row.message}' of a program")


def missing(lab, program):
    """The reason why this program cannot run, or None."""
    if program == "MPI":
        return None if os.path.exists(lab.tool("ring")) else "mpicc is not installed"
    if program == "pyverbs":
        return None if os.path.exists("/usr/lib/python3/dist-packages/pyverbs") else "pyverbs is not installed"
    return None if shutil.which(program) else f"{program} is not installed"


def run(lab, cases, rows):
    for row in rows:
        name, reason = f"{row.scenario}, {row.program}", missing(lab, row.program)
        if reason:
            cases.skip(name, reason)
        else:
            cases.run(name, scenario, lab, row)
    if not shutil.which("tshark"):
        cases.skip("packets of the traces", "tshark is not installed")


def scenario(lab, row):
    """Runs the programs of a row and compares what they, why and the trace show."""
    far = lab.far or contextlib.nullcontext()
    rules_at = far if row.rules_on_far_host else contextlib.nullcontext()
    seen_at = far if row.seen_on_far_host else contextlib.nullcontext()
    with seen_at:
        tracer = Trace(lab)
    if row.is_first:
        with rules_at:
            fault(lab, "scenario", row.scenario, *row.conditions)
    programs = row.start(lab)
    with seen_at:
        if not row.is_first:
            flows(lab, programs[0])
    with rules_at:
        if not row.is_first:
            conditions = [condition.format(peer=programs[-1].pid) for condition in row.conditions]
            fault(lab, "scenario", row.scenario, *conditions)
    try:
        # The reports of the server are on its host.
        program, message = printed(lab, row, programs[:-1] if row.seen_on_far_host else programs)
        groups = {name: text for name, text in message.groupdict().items() if text}
        pid = int(groups.pop("pid", program.pid))
        with seen_at:
            report = explained(lab, pid, row.why)
            text = tracer.end()
    finally:
        with rules_at:
            firings = fired(lab)
            fault(lab, "clear")
    check(firings, "no rule fired")
    if report:
        message_agrees(message[0], groups, failure_of(report, pid))
        firings_agree(row, text, report)
    trace_agrees(row, text, pid, programs[-1].pid, report)
    packets_are_right(tracer.path, row.shown)
