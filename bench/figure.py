# SPDX-License-Identifier: BSD-2-Clause
"""One row of the result of `bench/run`: what is measured, what it is compared with, and the goal."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """The other implementation: its name, and the measurement in the unit of the figure."""
    name: str
    measure: Callable[[], float]


@dataclass(frozen=True)
class Goal:
    """`is_met` takes our result and its ratio to the peer's (None without a peer)."""
    text: str
    is_met: Callable[[float, float | None], bool]


@dataclass(frozen=True)
class Figure:
    """One row of the result. `ours` measures this implementation in `unit`; `summary` reduces three measurements to one
    number."""
    name: str
    what: str
    unit: str
    ours: Callable[[], float]
    peer: Peer | None = None
    goal: Goal | None = None
    summary: Callable[[list[float]], float] = statistics.median


def at_most(limit, unit):
    return Goal(f"<= {limit} {unit}", lambda ours, _: ours <= limit)


def at_least(limit, unit):
    return Goal(f">= {limit} {unit}", lambda ours, _: ours >= limit)


def at_most_times(limit):
    return Goal(f"<= {limit}x", lambda _, ratio: ratio <= limit)


def at_least_times(limit):
    return Goal(f">= {limit}x", lambda _, ratio: ratio >= limit)
