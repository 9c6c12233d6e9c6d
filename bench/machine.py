# SPDX-License-Identifier: BSD-2-Clause
"""Figures from inside a virtual machine: Debian's kernel, which has rxe and netem, on two emulated processors.

Slow as it is, it is the same slow machine for both sides of a ratio. Its clock is the processor's time stamp counter: what
else it offers costs an exit from emulation at each look.
"""

import os
import sys

import pairs

sys.path.insert(0, os.path.join(pairs.ROOT, "tests", "interop"))
from guest import Guest, prepare  # noqa: E402  pylint: disable=wrong-import-position
from lab import Failure  # noqa: E402  pylint: disable=wrong-import-position

KEPT = os.path.join(pairs.BUILD, "vm")
INSIDE = os.path.join(pairs.ROOT, "bench", "inside.py")
SECONDS = 240  # for one figure

booted = None
why_not = None


def boot():
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for a virtual machine over this machine's files")
    told = prepare(KEPT)
    if told:
        raise RuntimeError(f"the virtual machine could not be prepared:\n{told}")
    guest = Guest(KEPT, "bench", "none", VM_SMP="2", VM_KERNEL="tsc=reliable")
    try:
        guest.start(INSIDE, "prepare").finish(SECONDS)
    except Failure:
        guest.end()
        raise
    return guest


def figure(whose, what):
    """One measurement in the guest, which is booted for the first; it is there until end()."""
    global booted, why_not
    if why_not:
        raise RuntimeError(why_not)
    try:
        if not booted:
            booted = boot()
    except (RuntimeError, Failure, OSError) as failure:
        why_not = str(failure)
        raise RuntimeError(why_not) from None
    try:
        heard = booted.start("env", f"USRDMA_BUILD={pairs.BUILD}", INSIDE, whose, what,
                             seconds=SECONDS).finish(SECONDS)
        return float(heard.split()[-1])
    except (Failure, ValueError, IndexError) as failure:
        raise RuntimeError(str(failure)) from None


def end():
    global booted
    if booted:
        booted.end()
        booted = None
