# SPDX-License-Identifier: BSD-2-Clause
"""Attacks of users on tracing and fault injection: trace rings and rules of other users; malformed rules."""

import contextlib
import errno
import fcntl
import os

from tests.hostile import kit
from tests.programs import wire

RULES_MAX = 60 * 1024
UNTIL_DROPPED = 200


def rules_file(text, seals=wire.SEAL_SHRINK | wire.SEAL_WRITE):
    fd = os.memfd_create("rules", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, text)
    fcntl.fcntl(fd, wire.F_ADD_SEALS, seals)
    return fd


def refused_with(call, *args):
    """The name of the errno with which the daemon refuses the request; "" if it does not."""
    try:
        call(*args)
        return ""
    except wire.Refused as refused:
        return errno.errorcode[refused.errno]


def set_rules(connection, uid, fd):
    try:
        connection.request(wire.FAULT_SET, wire.body("fault_set", uid, 0), [fd])
    finally:
        os.close(fd)


def rings_of(connection):
    """The pids of all rings that the tracer can receive now."""
    pids = []
    while True:
        try:
            reply, ring = connection.request_fd(wire.TRACE_NEXT)
        except wire.Refused as refused:
            if refused.errno != errno.EAGAIN:
                raise
            return pids
        os.close(ring)
        pids.append(wire.MESSAGES.packer("ipc_trace_next_reply", 1).unpack(reply)[0])


def traces_everything():
    with kit.closing(wire.Connection(wire.CONTROL)) as (connection,):
        connection.request(wire.TRACE_START, wire.body("trace_start", 0, 0))
        own = wire.Engine()
        pids = rings_of(connection)
        own.close()
        return None, " ".join(str(pid) for pid in pids)


def another_users_events(lab):
    """A tracer receives the rings of its own user's processes only; root's receives all."""
    with kit.daemon(lab, uid=0), kit.closing(wire.Engine()) as (_,):
        with kit.Child(kit.ATTACKER, traces_everything) as attacker:
            rings = attacker.result
            kit.check(rings == str(attacker.pid), f"rings of {rings}, not only of {attacker.pid}")
            with kit.closing(wire.Connection(wire.CONTROL)) as (root,):
                root.request(wire.TRACE_START, wire.body("trace_start", 0, 0))
                kit.check(os.getpid() in rings_of(root), "root does not receive the ring of its own engine")


def sets_rules_for_root():
    with kit.closing(wire.Connection(wire.CONTROL)) as (connection,):
        return None, refused_with(set_rules, connection, 0, rules_file(b"packet.send:drop"))


def another_users_rules(lab):
    with kit.daemon(lab, uid=0), kit.Child(kit.ATTACKER, sets_rules_for_root) as attacker:
        answer = attacker.result
        kit.check(answer == "EPERM", f"the daemon's answer is {answer or 'success'}")


def malformed_rules(lab):
    cases = (
        ("a writable file", b"packet.send:drop", wire.SEAL_SHRINK, "EINVAL"),
        ("a file that can shrink", b"packet.send:drop", wire.SEAL_WRITE, "EINVAL"),
        ("text that is no rule", b"gibberish", wire.SEAL_SHRINK | wire.SEAL_WRITE, "EINVAL"),
        ("a NUL byte", b"packet.send:drop\0", wire.SEAL_SHRINK | wire.SEAL_WRITE, "EINVAL"),
        ("too many bytes", b" " * RULES_MAX, wire.SEAL_SHRINK | wire.SEAL_WRITE, "E2BIG"),
        ("valid rules", b"packet.send:drop:nth=1", wire.SEAL_SHRINK | wire.SEAL_WRITE, ""),
        ("no rules", b"", wire.SEAL_SHRINK | wire.SEAL_WRITE, ""),
    )
    with kit.daemon(lab, uid=0), kit.closing(wire.Connection(wire.CONTROL)) as (connection,):
        for name, text, seals, expected in cases:
            got = refused_with(set_rules, connection, os.geteuid(), rules_file(text, seals))
            kit.check(got == expected, f"{name}: {got or 'success'} instead of {expected or 'success'}")
        pipe_end, other = os.pipe()
        got = refused_with(set_rules, connection, os.geteuid(), pipe_end)
        kit.check(got == "EINVAL", f"a pipe: {got or 'success'}")
        os.close(other)
        kit.check(connection.is_answered(), "the daemon does not serve the client any more")


def too_many_tracers(lab):
    """The number of tracers is limited, and the rings of ended processes do not fill the daemon."""
    with kit.daemon(lab, uid=0) as process:
        tracers = [wire.Connection(wire.CONTROL) for _ in range(wire.TRACERS_MAX + 1)]
        answers = [refused_with(tracer.request, wire.TRACE_START, wire.body("trace_start", 0, 0)) for tracer in tracers]
        kit.check(answers == [""] * wire.TRACERS_MAX + ["EDQUOT"], f"{answers}")
        invalid = refused_with(tracers[-1].request, wire.TRACE_START, wire.body("trace_start", 0, 2))
        kit.check(invalid == "EINVAL", f"unknown flags: {invalid}")
        again = refused_with(tracers[0].request, wire.TRACE_START, wire.body("trace_start", 0, 0))
        kit.check(again == "EALREADY", f"a second TRACE_START: {again}")
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        for _ in range(UNTIL_DROPPED):
            wire.Engine().close()
        kit.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= before + 64, lab.seconds(20),
                       "the end of old rings")
        for tracer in tracers:
            tracer.close()
        kit.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) < before, lab.seconds(20),
                       "the end of all rings")


def has_pushes(engines, kind, count):
    """Whether each engine has received this number of pushes of this kind; `count` has those received so far."""
    for engine in engines:
        while engine.has_notice():
            got, _, fds = engine.notice()
            for fd in fds:
                os.close(fd)
            count[engine] = count.get(engine, 0) + (got == kind)
    return all(count.get(engine, 0) >= 1 for engine in engines)


def many_engines(lab):
    """The daemon notifies the engines of a user in several turns; each of them gets its ring and each notice."""
    with kit.daemon(lab, uid=0), contextlib.ExitStack() as stack:
        engines = [stack.enter_context(contextlib.closing(wire.Engine())) for _ in range(100)]
        with kit.closing(wire.Connection(wire.CONTROL)) as (tracer,):
            tracer.request(wire.TRACE_START, wire.body("trace_start", 0, 0))
            rings = []
            kit.wait_until(lambda: rings.extend(rings_of(tracer)) or len(rings) == len(engines) + 1, lab.seconds(20),
                           "a ring of each engine and of the daemon")
            count = {}
            kit.wait_until(lambda: has_pushes(engines, wire.PROBES, count), lab.seconds(20), "each ring's push")
            kit.check(set(count.values()) == {1}, f"{sorted(count.values())} pushes")
        count = {}
        kit.wait_until(lambda: has_pushes(engines, wire.PROBES, count), lab.seconds(20), "notices of the end")
        with kit.closing(wire.Connection(wire.CONTROL)) as (connection,):
            count = {}
            set_rules(connection, os.geteuid(), rules_file(b"packet.send:drop:nth=1"))
            kit.wait_until(lambda: has_pushes(engines, wire.PROBES, count), lab.seconds(20), "each notice of a rule")


def body(lab, cases):
    for case in (another_users_events, another_users_rules, malformed_rules, too_many_tracers, many_engines):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
