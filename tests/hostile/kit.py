# SPDX-License-Identifier: BSD-2-Clause
"""Common functions of the attacks: laboratory and daemon of tests/programs, and programs that run as a given user.

The victim runs as user VICTIM (or root), the attacker as user ATTACKER, the daemon as root or nobody (see
daemon_kit.daemon).
"""

import os
import sys

from tests.programs import lab as laboratory
from tests.programs.daemon_kit import Child, as_uid, closing, daemon, refused, report
from tests.programs.lab import Failure, check, wait_until

__all__ = ["ATTACKER", "ROOT", "VICTIM", "Child", "Failure", "as_uid", "attack_program", "check", "closing", "daemon",
           "main", "refused", "report", "start_as", "wait_until"]

VICTIM = 1000
ATTACKER = 65533
ROOT = 0


def attack_program(lab, name):
    """The path of a program of this suite, readable by every user."""
    return os.path.join(lab.tree, "tests", "hostile", name)


def start_as(lab, uid, *argv, **extra_env):
    """Starts a program as this user. Requires root unless uid is the caller's."""
    return lab.start(*argv, user=uid, **extra_env)


def main(body):
    """As lab.main(). Without root the suite is skipped."""
    if os.geteuid() != 0 or laboratory.inside_user_namespace():
        print("ok 1 - attacks by other users # SKIP only root can start programs of several users")
        print("1..1")
        sys.exit(0)
    laboratory.main(body)
