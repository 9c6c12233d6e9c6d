# SPDX-License-Identifier: BSD-2-Clause
"""Runs the command `usrdma` for a test, and reads what it prints on a terminal."""

import os
import select
import subprocess

from tests.programs.lab import UID_NOBODY, check


def usrdma(lab, *argv, uid=UID_NOBODY, prefix=(), path=None, **env):
    """Returns exit status, standard output and standard error of the command. If this process is root, the command runs
    as the user `uid`. `prefix` is a command line that executes it, and `path` is the path of another copy of it."""
    identity = {"user": uid, "group": uid, "extra_groups": []} if lab.drops else {}
    done = subprocess.run([*prefix, path or os.path.join(lab.tree, "usrdma"), *map(str, argv)],
                          env=dict(lab.env, **env), check=False, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, cwd="/", timeout=lab.seconds(30), **identity)
    return done.returncode, done.stdout, done.stderr


def read_until(lab, fd, text):
    """Reads from a terminal until this text has appeared. Returns what was read."""
    printed = b""
    while text not in printed:
        check(select.select([fd], [], [], lab.seconds(10))[0], f"no {text} within the time limit: {printed}")
        printed += os.read(fd, 4096)
    return printed
