# SPDX-License-Identifier: BSD-2-Clause
"""Executes the command `usrdma`, which replaces the process of Python."""

import os
import signal
import sys

from usrdma import pkgconfig_dir, program


def main():
    if sys.argv[1:] == ["--pkgconfigdir"]:
        print(pkgconfig_dir())
        return 0
    # Python ignores these signals, and ignored signals stay ignored.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(program(), ["usrdma", *sys.argv[1:]])
    except OSError as failure:
        print(f"usrdma: cannot execute {program()}: {failure.strerror}; install the package again", file=sys.stderr)
    return 126


if __name__ == "__main__":
    sys.exit(main())
