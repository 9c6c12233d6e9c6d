# SPDX-License-Identifier: BSD-2-Clause
"""Compares unmodified perftest on our libraries with UCX, TCP and rxe on this machine.

    bench/run [NAME...]     all measurements, or the named ones

Measurements that need rxe of Linux, or a network with packet loss, run in a virtual machine (machine.py, inside.py).

Each result is the median of three measurements. Our measurements and those of the other implementation alternate, so
that both run under the same conditions. The range of the ratio is that of the three pairs. A goal is a limit of our
result or of the ratio; the last column shows whether it is met.
"""

import re
import statistics
import subprocess
import sys

from bench.figures import figures
from bench.machine import Machine

TAKES = 3


def measure(figure):
    """Measures a figure. Returns its text and whether its goal is met; None: it has no goal."""
    mine, theirs = [], []
    for _ in range(TAKES):
        mine.append(figure.ours())
        if figure.peer:
            theirs.append(figure.peer.measure())
    own = figure.summary(mine)
    other = statistics.median(theirs) if theirs else None
    ratio = own / other if other else None
    ratios = sorted(left / right for left, right in zip(mine, theirs, strict=False))
    beside = f"{figure.peer.name} {other:.2f} {figure.unit}" if figure.peer else ""
    shown = f"{ratio:.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratio else ""
    is_met = figure.goal.is_met(own, ratio) if figure.goal else None
    verdict = {None: "", True: "met", False: "NOT met"}[is_met]
    goal = figure.goal.text if figure.goal else ""
    return f"{figure.what:<48} {own:>12.2f} {figure.unit:<5} {beside:<34} {shown:<22} {goal:<13} {verdict}", is_met


def gist(story):
    """The last lines of an output that report errors, or its last lines."""
    lines = [line.strip() for line in story.strip().split("\n")]
    told = [line for line in lines if re.search(r"error|fail|unable|cannot|not found|timed out|refused", line, re.I)]
    return " | ".join((told or lines)[-4:])


def measure_all(chosen):
    """Prints each figure when it has been measured, then the number of met goals. Returns whether all succeeded."""
    verdicts, missing = [], []
    print(f"{'what':<48} {'ours':>18} {'peer, same run':<34} {'ratio (range)':<22} {'goal':<13}")
    for figure in chosen:
        try:
            line, is_met = measure(figure)
            verdicts.append(is_met)
        except (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError) as error:
            missing.append(figure.name)
            line = f"{figure.what:<48} could not be measured: {gist(str(error))}"
        print(line, flush=True)
    print(f"goals: {verdicts.count(True)} met, {verdicts.count(False)} not met"
          + (f"; could not be measured: {', '.join(missing)}" if missing else ""))
    return not missing


def main():
    with Machine() as machine:
        every = figures(machine)
        wanted = sys.argv[1:]
        unknown = set(wanted) - {figure.name for figure in every}
        if unknown:
            names = ", ".join(figure.name for figure in every)
            print(f"no such figure: {', '.join(sorted(unknown))}; there are {names}")
            return 2
        return 0 if measure_all([figure for figure in every if not wanted or figure.name in wanted]) else 1


if __name__ == "__main__":
    sys.exit(main())
