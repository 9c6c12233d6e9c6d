#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds every C file to .clang-format (version 14 or later).

    tests/arch/format.py                 check (TAP)
    tests/arch/format.py --fix PATH...   rewrite these files
"""

import re
import shutil
import subprocess
import sys

from sources import ROOT, Tap, files


def clang_format():
    """Newest that is installed; the layout was settled with 14."""
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            return name
    return None


def badly_formatted(tool, paths):
    command = [tool, "--dry-run", "--ferror-limit=0", "--style=file"] + paths
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False)
    seen = {}
    for match in re.finditer(r"^([^:\n]+):(\d+):\d+: (?:warning|error): code should be clang-formatted", done.stderr,
                             re.M):
        seen.setdefault(match[1], match[2])
    for path, line in sorted(seen.items()):
        yield f"{path}:{line}: run tests/arch/format.py --fix {path}"


def main():
    tool = clang_format()
    if not tool:
        print("1..1\nok 1 - layout # SKIP no clang-format here")
        return 0
    if sys.argv[1:2] == ["--fix"]:
        return subprocess.run([tool, "-i", "--style=file", *sys.argv[2:]], check=False).returncode
    tap = Tap()
    tap.rule("every C file is laid out as .clang-format says", badly_formatted(tool, files(".c", ".h")))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
