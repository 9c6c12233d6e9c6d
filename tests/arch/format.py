#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds every C file to .clang-format, as clang-format 14 reads it: later versions lay out some lines differently.

    tests/arch/format.py                 check (TAP)
    tests/arch/format.py --fix PATH...   rewrite these files
"""

import re
import shutil
import subprocess
import sys

from sources import ROOT, Tap, files


VERSION = 14


def clang_format():
    """The program of VERSION and None, or None and why not."""
    found = "no clang-format here"
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            printed = subprocess.run([name, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
            if re.search(rf"version {VERSION}\.", printed):
                return name, None
            found = f"the layout is that of clang-format {VERSION}; here is: {printed.strip()}"
    return None, found


def badly_formatted(tool, paths):
    command = [tool, "--dry-run", "--ferror-limit=0", "--style=file", *paths]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False)
    seen = {}
    for match in re.finditer(r"^([^:\n]+):(\d+):\d+: (?:warning|error): code should be clang-formatted", done.stderr,
                             re.M):
        seen.setdefault(match[1], match[2])
    for path, line in sorted(seen.items()):
        yield f"{path}:{line}: run tests/arch/format.py --fix {path}"


def main():
    tool, why = clang_format()
    if sys.argv[1:2] == ["--fix"]:
        if not tool:
            sys.exit(why)
        return subprocess.run([tool, "-i", "--style=file", *sys.argv[2:]], check=False).returncode
    if not tool:
        print(f"1..1\nok 1 - layout # SKIP {why}")
        return 0
    tap = Tap()
    tap.rule("every C file is laid out as .clang-format says", badly_formatted(tool, files(".c", ".h")))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
