#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs clang-tidy, with the checks of .clang-tidy, on each source file of src/ and tools/ that a clang build compiles.

    tests/arch/tidy.py BUILD [PATH...]      BUILD: a build directory configured with CC=clang; PATH: only these files
"""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

from sources import ROOT, Tap

CHECKED = ("src/", "tools/")
PROCESSES = 2


def sources(build):
    """The source files in the compilation database, as paths relative to the root, sorted."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    paths = {os.path.relpath(os.path.join(command["directory"], command["file"]), ROOT) for command in commands}
    return sorted(path for path in paths if path.startswith(CHECKED))


def tidy(build, path):
    """The lines that clang-tidy reports; a line for a failure without a report."""
    done = subprocess.run(["clang-tidy", "-p", build, "--quiet", os.path.join(ROOT, path)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0 and not done.stdout.strip():
        return []
    return done.stdout.splitlines() or [f"{path}: exit status {done.returncode}: {done.stderr.strip()[-300:]}"]


def main():
    build, *chosen = sys.argv[1:]
    if not shutil.which("clang-tidy"):
        print("1..0 # SKIP clang-tidy is not installed")
        return 0
    paths = chosen or sources(build)
    tap = Tap()
    tap.rule("the compilation database has source files", [] if paths else ["none"])
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        reports = list(pool.map(lambda path: tidy(build, path), paths))
    tap.rule(f"clang-tidy reports nothing in {len(paths)} files", [line for report in reports for line in report])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
