# SPDX-License-Identifier: BSD-2-Clause
"""A daemon started by hand, and what the tests of it ask again and again."""

import contextlib
import errno
import os
import signal
import subprocess

import wire
from lab import NOBODY, check, wait_until

OTHER_UID = 65533


def refused(number, function, *args):
    """That the daemon answers this error, and no other."""
    try:
        function(*args)
    except wire.Refused as answer:
        check(answer.errno == number, f"answered {errno.errorcode.get(answer.errno)}, not {errno.errorcode[number]}")
        return
    check(False, f"answered success, not {errno.errorcode[number]}")


def as_uid(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


@contextlib.contextmanager
def daemon(lab, *options, uid=None, limited=()):
    """A daemon started by hand, listening; ends with it, whatever happens."""
    check(not lab.daemons(), "another daemon runs")
    identity = as_uid(NOBODY if uid is None else uid) if lab.drops else {}
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
    """The daemon may hear a moment later than we that a connection is over."""
    wait_until(lambda: descriptors(process) <= before, lab.seconds(10), "the end of descriptors that came")


def counter(lab, name):
    return report(lab)["daemon"][name]


class Child:
    """A process of another user, as a copy of this one: says what its function returned, then waits to be killed."""

    def __init__(self, uid, function):
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                if uid != os.geteuid():
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                kept, said = function()
                os.write(theirs, said.encode())
                os.close(theirs)
                while kept is not None:
                    signal.pause()
            finally:
                os._exit(1)
        os.close(theirs)
        self.said = os.read(ours, 1000).decode()
        os.close(ours)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
