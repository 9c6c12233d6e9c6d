# SPDX-License-Identifier: BSD-2-Clause
"""Measurements inside a virtual machine: Debian's kernel, which has rxe and netem, on two emulated processors.

The virtual machine is slow, but both sides of a ratio are measured on it. Its clock source is the time stamp counter,
because each read of another clock source causes an exit from emulation.
"""

import os

from bench import pairs
from tests.interop.guest import Guest, prepare
from tests.programs.lab import Failure

KEPT = os.path.join(pairs.BUILD, "vm")
SECONDS = 240  # limit for one measurement


def inside(*words):
    """The command line that runs bench/inside.py in the guest, which has this machine's files at the same paths."""
    return ["env", f"USRDMA_BUILD={pairs.BUILD}", f"PYTHONPATH={pairs.ROOT}", "PYTHONDONTWRITEBYTECODE=1",
            "python3", "-m", "bench.inside", *words]


def boot():
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for a virtual machine over this machine's files")
    output = prepare(KEPT)
    if output:
        raise RuntimeError(f"the virtual machine could not be prepared:\n{output}")
    guest = Guest(KEPT, "bench", "none", VM_SMP="2", VM_KERNEL="tsc=reliable")
    try:
        guest.start(*inside("prepare")).finish(SECONDS)
    except Failure:
        guest.end()
        raise
    return guest


class Machine:
    """The virtual machine. The first measurement boots it; the end of the context stops it. If it does not boot, each
    measurement fails with the same reason."""

    def __init__(self):
        self.guest = None
        self.why_not = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.guest:
            self.guest.end()

    def boot_once(self):
        if self.guest:
            return
        if not self.why_not:
            try:
                self.guest = boot()
                return
            except (RuntimeError, Failure, OSError) as failure:
                self.why_not = str(failure)
        raise RuntimeError(self.why_not)

    def figure(self, whose, what):
        """Executes one measurement in the guest and returns its number."""
        self.boot_once()
        try:
            output = self.guest.start(*inside(whose, what), seconds=SECONDS).finish(SECONDS)
            return float(output.split()[-1])
        except (Failure, ValueError, IndexError) as failure:
            raise RuntimeError(str(failure)) from None
