# SPDX-License-Identifier: BSD-2-Clause
"""Checks that a process survives when a peer of the same user truncates the file of the peer's memory region."""

from tests.hostile import kit
from tests.hostile.late_access import free_huge_bytes

HANDLERS = ("none", "before", "after", "blocked", "fork")
HUGE_BYTES = 8 << 20


def survives(lab, kind, handler, rounds):
    path = kit.attack_program(lab, "cut_file")
    program = kit.start_as(lab, kit.VICTIM, path, "10.77.0.1", kind, handler, str(rounds))
    program.finish(lab.seconds(30))


def body(lab, suite):
    if not lab.isolated:
        suite.skip("truncated files", "no network namespace")
        return
    for handler in HANDLERS:
        suite.run(f"truncated memfd, peer with SIGBUS handler: {handler}", survives, lab, "unsealed", handler, 3)
    suite.run("truncated file of tmpfs", survives, lab, "tmpfs", "none", 3)
    if free_huge_bytes() < HUGE_BYTES:
        suite.skip("truncated huge pages", "the kernel has no free huge pages")
    else:
        suite.run("truncated huge pages", survives, lab, "huge", "none", 3)


if __name__ == "__main__":
    kit.main(body)
