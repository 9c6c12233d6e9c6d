# SPDX-License-Identifier: BSD-2-Clause
"""Checks that two processes survive when registered memory becomes inaccessible after its registration, on every
transport and whatever the program does with the signals of such accesses, and that the work requests fail with the
right status."""

import ctypes
import errno
import mmap

from tests.hostile import kit

CHANGES = ("none", "read-only", "unmapped", "cut", "guard")
PROGRAMS = ("default", "handler", "later", "blocked", "off")
MADV_GUARD_INSTALL = 102


def has_guard_pages():
    """Whether the kernel has MADV_GUARD_INSTALL (Linux 6.13)."""
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.madvise(ctypes.c_void_p(address), mmap.PAGESIZE, MADV_GUARD_INSTALL)
    return not failed or ctypes.get_errno() != errno.EINVAL


def survives(lab, change, program, env):
    path = kit.attack_program(lab, "gone_memory")
    kit.start_as(lab, kit.VICTIM, path, "10.77.0.1", change, program, **env).finish(lab.seconds(30))


def body(lab, suite):
    if not lab.isolated:
        suite.skip("inaccessible memory", "no network namespace")
        return
    for transport in ("auto", "roce"):
        env = {} if transport == "auto" else {"USRDMA_TRANSPORT": transport}
        for change in CHANGES:
            if change == "guard" and not has_guard_pages():
                suite.skip(f"guard page, {transport}", "the kernel has no guard pages")
                continue
            suite.run(f"memory becomes inaccessible: {change}, {transport}", survives, lab, change, "default", env)
        for program in PROGRAMS[1:]:
            for change in ("none", "cut"):
                suite.run(f"memory becomes inaccessible: {change}, {transport}, signals: {program}", survives, lab,
                          change, program, env)


if __name__ == "__main__":
    kit.main(body)
