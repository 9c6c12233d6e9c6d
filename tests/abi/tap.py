# SPDX-License-Identifier: BSD-2-Clause
"""The architecture tests' TAP, and how to skip a rule."""

import os

from tests.arch.sources import Tap as Rules

HERE = os.path.dirname(os.path.abspath(__file__))


class Tap(Rules):
    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}")


def data(name):
    """Lines of a file in data/ that say something."""
    with open(os.path.join(HERE, "data", name), encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines if line.strip()]
