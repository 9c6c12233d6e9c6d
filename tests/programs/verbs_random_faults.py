# SPDX-License-Identifier: BSD-2-Clause
"""The faults that verbs_random.py injects, and the reports of verbs_random that each of them explains.

A report is a line of one side in a round. It names the outcome: the status of the first error completion, the type of
an asynchronous event, the errno of a call, or a deviation of the completions. An injection explains the outcomes of its
fault, if it was in force between the beginning of the round and the report. After an explained outcome the queue pairs
are in an error state, which explains the outcomes of AFTERWARDS on both sides. Every other report is a failure.
"""

import dataclasses
import errno
import re

# Statuses of enum ibv_wc_status, and types of enum ibv_event_type.
FLUSH, LOC_ACCESS, REM_ACCESS, REM_OP, RETRY_EXC, GENERAL = 5, 8, 10, 11, 12, 21
CQ_ERR, QP_FATAL, QP_ACCESS_ERR, DEVICE_FATAL, PORT_ACTIVE, PORT_ERR = 0, 1, 3, 8, 9, 10
LID_CHANGE, SM_CHANGE, SRQ_LIMIT, LAST_WQE, CLIENT_REREGISTER, GID_CHANGE = 11, 13, 15, 16, 17, 18

# An event that arrives at the end of a round is read in a later one. The daemon reports it some time after its cause.
# A stopped process detects the end of its daemon or device when it continues. After a daemon was killed, the next one
# has no RoCE until the processes of the preceding one have left the UDP port.
LATE_NS = 5_000_000_000


def status(*numbers):
    return {f"status {number}" for number in numbers}


def event(*numbers):
    return {f"event {number}" for number in numbers}


def call(*numbers):
    return {f"call {number}" for number in numbers}


# What follows from an error of the own or the peer's queue pair.
AFTERWARDS = status(FLUSH, RETRY_EXC) | event(LAST_WQE)
# What follows when the peer destroys its objects, after both sides have ended the round.
TORN_DOWN = AFTERWARDS | status(REM_ACCESS) | event(QP_ACCESS_ERR)
# The enum vr_action of a round: what the peer and the victim get after the victim has revoked the access.
REFUSED = status(REM_ACCESS, RETRY_EXC, FLUSH) | event(QP_ACCESS_ERR, LAST_WQE)
ENDED = status(RETRY_EXC, FLUSH) | event(LAST_WQE)
ACTIONS = {1: REFUSED, 2: REFUSED, 3: ENDED, 4: ENDED, 5: ENDED}

SHARED, ROCE, ANY = "shared memory", "RoCE v2", "any"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A rule of usrdma fault, or a name for what the driver does itself. {dev} is the device, {pid} a process."""
    rule: str
    outcomes: frozenset
    transport: str = ANY
    ends_process: bool = False


def fault(rule, outcomes=(), transport=ANY, ends_process=False):
    return Fault(rule, frozenset(outcomes), transport, ends_process)


# Calls report EIO after the daemon's end, ENODEV if the device is not listed or the daemon has just ended.
# The queue pairs are in an error state before the event is reported.
GONE = event(DEVICE_FATAL) | call(errno.EIO, errno.ENODEV) | AFTERWARDS
# As long as a stopped process of the preceding daemon has a socket of the UDP port, the next daemon has no RoCE.
NO_PORT = call(errno.EOPNOTSUPP)
STOP = fault("stop", status(RETRY_EXC))
KILL = fault("kill", status(RETRY_EXC), ends_process=True)
DAEMON = fault("kill the daemon", GONE | NO_PORT)

RULES = (
    fault("message:drop:p=0.02", status(RETRY_EXC), SHARED),
    fault("message:delay=2ms~1ms:p=0.05", (), SHARED),
    fault("message:duplicate:p=0.1", {"duplicate"}, SHARED),
    fault("message:rate=20M", (), SHARED),
    fault("message.receive:drop:p=0.005", status(RETRY_EXC), SHARED),
    fault("message.receive:duplicate:p=0.1", {"duplicate"}, SHARED),
    fault("fifo.send:fail:p=0.2", (), SHARED),
    fault("packet:drop:p=0.02", status(RETRY_EXC), ROCE),
    fault("packet.receive:corrupt:p=0.01", status(RETRY_EXC), ROCE),
    fault("packet:duplicate:p=0.05", {"duplicate"}, ROCE),
    fault("packet.send:reorder=3:p=0.05", (), ROCE),
    fault("packet:delay=2ms~1ms:p=0.05", (), ROCE),
    fault("packet:rate=20M", (), ROCE),
    fault("packet:mark:p=0.2", (), ROCE),
    fault("receive:empty:p=0.05"),
    fault("access:deny:p=0.002", status(REM_ACCESS, LOC_ACCESS) | event(QP_ACCESS_ERR)),
    fault("completion:delay=2ms:p=0.05"),
    fault("completion:fail=GENERAL_ERR:p=0.001", status(GENERAL) | {"send-after-error"}),
    fault("completion:drop:p=0.02:op=WRITE", {"gap"}),
    fault("qp.event:error:p=0.001", event(QP_FATAL)),
    fault("qp.event:srq_limit:p=0.05", event(SRQ_LIMIT)),
    fault("qp.event:overrun:p=0.0005", event(CQ_ERR, QP_FATAL) | {"gap"}),
    fault("wr.post:fail=ENOMEM:p=0.02", call(errno.ENOMEM)),
    fault("wr.execute:fail=REM_OP_ERR:p=0.001", status(REM_OP)),
    fault("qp.modify:fail=ENOSPC:p=0.1", call(errno.ENOSPC)),
    fault("ipc.call:fail=EPROTO:p=0.1", call(errno.EPROTO)),
    fault("ipc.call:delay=10ms:p=0.5"),
    fault("call:fail=EMFILE:p=0.02", call(errno.EMFILE)),
    fault("call:delay=3ms:p=0.05"),
    fault("device:down:dev={dev}", event(PORT_ERR, PORT_ACTIVE)),
    fault("device:remove:dev={dev}", GONE),
    fault("device:gid_change:dev={dev}:times=2", event(GID_CHANGE)),
    fault("device:lid_change:dev={dev}:times=2", event(LID_CHANGE)),
    fault("device:sm_change:dev={dev}:times=2", event(SM_CHANGE)),
    fault("device:client_reregister:dev={dev}:times=2", event(CLIENT_REREGISTER)),
    fault("process:stop:pid={pid}", status(RETRY_EXC)),
    fault("process:kill:pid={pid}", status(RETRY_EXC), ends_process=True),
)


@dataclasses.dataclass
class Injection:
    """A fault in force. pair: None if it concerns all pairs. end_ns: 0 while it is in force."""
    fault: Fault
    pair: int
    start_ns: int
    end_ns: int = 0

    def __str__(self):
        return f"{self.fault.rule} pair {self.pair} from {self.start_ns} to {self.end_ns}"

    def is_near(self, report, slack_ns=2_000_000_000):
        """Whether it concerns the pair and was in force during the round, or ended so long before it."""
        return (self.pair in (None, report["pair"]) and self.start_ns <= report["to"] and
                (not self.end_ns or report["from"] <= self.end_ns + slack_ns))

    def explains(self, report, outcome):
        slack_ns = LATE_NS if outcome.startswith("event") or GONE <= self.fault.outcomes else 0
        return outcome in self.fault.outcomes and self.is_near(report, slack_ns)


def parse(line):
    """The fields of a report; numbers are integers."""
    fields = re.findall(r'(\w+)=("[^"]*"|\S+)', line)
    return {name: int(value) if value.isdigit() else value.strip('"') for name, value in fields}


def outcome_of(report):
    what = report["what"]
    if what in ("send", "recv"):
        return f"status {report['status']}"
    if what == "event":
        return f"event {report['type']}"
    return f"call {report['errno']}" if what == "call" else what


def unexplained(reports, injections):
    """Returns the reports of one round, from both sides, that no injection and no action explains."""
    left = []
    is_broken = False
    for report in reports:
        outcome = outcome_of(report)
        if any(injection.explains(report, outcome) for injection in injections):
            is_broken = True
        elif outcome not in ACTIONS.get(report["action"], ()) and not (report["end"] and outcome in TORN_DOWN):
            left.append(report)
    return [report for report in left if not (is_broken and outcome_of(report) in AFTERWARDS)]
