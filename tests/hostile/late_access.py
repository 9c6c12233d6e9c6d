# SPDX-License-Identifier: BSD-2-Clause
"""Checks that no access of a peer takes effect after the owner's revoking call has returned.

USRDMA_ROUNDS is the number of rounds for each operation, size and call; 1000 for a thorough run. Cases that disturb the
peer run a tenth of this number, because most of their rounds start a new peer.
"""

import os
import signal

from tests.hostile import kit

# Two buffers of 64 MB in each process.
HUGE_BYTES = 256 << 20
ACTIONS = ("dereg", "rereg", "dealloc_mw", "destroy_qp", "err", "reset", "rdma_destroy_qp")


def rounds(lab, plain, sanitized=1, divisor=1):
    asked = os.environ.get("USRDMA_ROUNDS")
    if asked:
        return max(1, int(asked) // divisor)
    return sanitized if lab.sanitized else plain


def run(lab, action, disturbance, count, memory="private"):
    return kit.start_as(lab, kit.VICTIM, kit.attack_program(lab, "late_access"), "10.77.0.1", action, disturbance,
                        str(count), LATE_ACCESS_MEMORY=memory)


def none_late(lab, action, disturbance, count, memory):
    run(lab, action, disturbance, count, memory).finish(lab.seconds(20) + 10 * count)


def free_huge_bytes():
    """Of the pages that memfd_create(MFD_HUGETLB) uses."""
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["HugePages_Free"]) * int(fields["Hugepagesize"].split()[0]) * 1024


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
    # ThreadSanitizer observes the threads of the process, which treat all kinds of memory alike, and not the accesses,
    # which are assembler instructions.
    has_tsan = "tsan" in lab.env.get("LD_PRELOAD", "")
    for memory in ("private",) if has_tsan else ("private", "sealed"):
        for action in ACTIONS:
            suite.run(f"no access takes effect after {action}, {memory} memory", none_late, lab, action, "none",
                      rounds(lab, 4), memory)
        for action in ("dereg", "destroy_qp"):
            for disturbance in ("stop", "kill", "closefrom"):
                suite.run(f"peer {disturbance}: none after {action}, {memory} memory", none_late, lab, action,
                          disturbance, rounds(lab, 2, divisor=10), memory)
        suite.run(f"none after exec(), {memory} memory", none_late, lab, "exec", "-", rounds(lab, 10, 3), memory)
    for memory in () if has_tsan else ("unsealed", "tmpfs", "sysv", "huge"):
        if memory == "huge" and free_huge_bytes() < HUGE_BYTES:
            suite.skip("huge pages", f"the kernel has less than {HUGE_BYTES >> 20} MB of free huge pages")
            continue
        suite.run(f"no access takes effect after dereg, {memory} memory", none_late, lab, "dereg", "none",
                  rounds(lab, 2), memory)
        suite.run(f"peer stop: none after destroy_qp, {memory} memory", none_late, lab, "destroy_qp", "stop",
                  rounds(lab, 1, divisor=10), memory)
        suite.run(f"none after exec(), {memory} memory", none_late, lab, "exec", "-", rounds(lab, 3), memory)
    suite.run("peer stopped, daemon killed, peer killed: ibv_dereg_mr() returns", daemon_dies_first, lab)


if __name__ == "__main__":
    kit.main(body)
