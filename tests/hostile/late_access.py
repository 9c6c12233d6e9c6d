# SPDX-License-Identifier: BSD-2-Clause
"""Checks that no access of a peer takes effect after the owner's revoking call has returned.

USRDMA_ROUNDS is the number of rounds for each operation, size and call; 1000 for a thorough run. Cases that disturb the
peer run a tenth of this number, because most of their rounds start a new peer.
"""

import os
import signal

from tests.hostile import kit

ACTIONS = ("dereg", "rereg", "dealloc_mw", "destroy_qp", "err", "reset", "rdma_destroy_qp")


def rounds(lab, plain, sanitized=1, divisor=1):
    asked = os.environ.get("USRDMA_ROUNDS")
    if asked:
        return max(1, int(asked) // divisor)
    return sanitized if lab.sanitized else plain


def run(lab, action, disturbance, count, mappable=False):
    extra_env = {"LATE_ACCESS_MAPPABLE": "1"} if mappable else {}
    return kit.start_as(lab, kit.VICTIM, kit.attack_program(lab, "late_access"), "10.77.0.1", action, disturbance,
                        str(count), **extra_env)


def none_late(lab, action, disturbance, count, mappable=False):
    run(lab, action, disturbance, count, mappable).finish(lab.seconds(20) + 10 * count)


def daemon_dies_first(lab):
    """The peer is stopped during its access, then the daemon and the peer are killed. No process reports the peer's
    end, and the revoking call still returns."""
    lab.end_daemons()
    with kit.daemon(lab, uid=kit.ROOT) as daemon:
        victim = run(lab, "dereg", "daemon", 1)
        victim.says("stopped", lab.seconds(20))
        daemon.kill()
        daemon.wait()
        victim.signal(signal.SIGUSR1)
        victim.finish(lab.seconds(30))


def body(lab, suite):
    if not lab.isolated:
        suite.skip("late accesses", "no network namespace")
        return
    for mappable in (False, True):
        memory = ", mapped memory" if mappable else ""
        for action in ACTIONS:
            suite.run(f"no access takes effect after {action}{memory}", none_late, lab, action, "none", rounds(lab, 4),
                      mappable)
        for action in ("dereg", "destroy_qp"):
            for disturbance in ("stop", "kill", "closefrom"):
                suite.run(f"peer {disturbance}: none after {action}{memory}", none_late, lab, action, disturbance,
                          rounds(lab, 2, divisor=10), mappable)
        suite.run(f"none after exec(){memory}", none_late, lab, "exec", "-", rounds(lab, 10, 3), mappable)
    suite.run("peer stopped, daemon killed, peer killed: ibv_dereg_mr() returns", daemon_dies_first, lab)


kit.main(body)
