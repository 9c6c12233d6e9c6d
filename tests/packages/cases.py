# SPDX-License-Identifier: BSD-2-Clause
"""Cases of the tests that run outside of `make test`: those of the packages and of the containers."""

import time

from tests.packages.roots import Failure


class Cases:
    """Runs the cases and counts them."""

    def __init__(self):
        self.passed = self.failed = 0

    def run(self, name, function, *argv, needed=False):
        """Runs one case. A case that the following ones need raises Failure again."""
        started = time.monotonic()
        try:
            function(*argv)
        except Failure as failure:
            self.failed += 1
            print(f"not ok - {name}\n" + "".join(f"# {line}\n" for line in str(failure).splitlines()[-60:]), end="",
                  flush=True)
            if needed:
                raise
        else:
            self.passed += 1
            print(f"ok - {name} ({time.monotonic() - started:.0f} s)", flush=True)

    def skip(self, name, why):
        print(f"ok - {name} # SKIP {why}", flush=True)
