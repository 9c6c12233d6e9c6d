# SPDX-License-Identifier: BSD-2-Clause
"""Starts a daemon for a test, and contains the checks that several tests of the daemon use."""

import contextlib
import errno
import os
import signal
import subprocess

from tests.programs import wire
from tests.programs.lab import UID_NOBODY, check, wait_until

OTHER_UID = 65533


def refused(number, function, *args):
    """Checks that the call fails with this error of the daemon. Returns the body of the reply."""
    try:
        function(*args)
    except wire.Refused as answer:
        check(answer.errno == number, f"answered {errno.errorcode.get(answer.errno)}, not {errno.errorcode[number]}")
        return answer.content
    return check(False, f"answered success, not {errno.errorcode[number]}")


def as_uid(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


@contextlib.contextmanager
def daemon(lab, *options, uid=None, limited=()):
    """A daemon that the test started and that is listening. It is ended with the context, also after a failure."""
    check(not lab.daemons(), "another daemon runs")
    identity = as_uid(UID_NOBODY if uid is None else uid) if lab.drops else {}
    with open(os.path.join(lab.scratch, "daemon.err"), "wb") as err:
        process = subprocess.Popen([*limited, os.path.join(lab.tree, "usrdmad"), "--foreground", "--idle-seconds", "0",
                                    *options], stdin=subprocess.DEVNULL, stderr=err, env=lab.env, cwd=lab.scratch,
                                   **identity)
    try:
        wait_until(is_listening, lab.seconds(10), "the daemon")
        yield process
    finally:
        process.kill()
        process.wait()


def is_listening():
    try:
        wire.Connection().close()
        return True
    except ConnectionRefusedError:
        return False


@contextlib.contextmanager
def closing(*connections):
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def report(lab):
    status = lab.status()
    check(status, "no status")
    return status


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def none_kept(lab, process, before):
    """Waits until the daemon has closed its connections: it may detect the end of a connection later than the test."""
    wait_until(lambda: descriptors(process) <= before, lab.seconds(10), "the end of descriptors that came")


def counter(lab, name):
    return report(lab)["daemon"][name]


class Child:
    """A process of another user, forked from this one. It reports the result of its function, then waits to be
    killed."""

    def __init__(self, uid, function):
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                if uid != os.geteuid():
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                kept, result = function()
                os.write(theirs, result.encode())
                os.close(theirs)
                while kept is not None:
                    signal.pause()
            finally:
                os._exit(1)
        os.close(theirs)
        self.result = os.read(ours, 1000).decode()
        os.close(ours)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
