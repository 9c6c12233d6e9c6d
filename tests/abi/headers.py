# SPDX-License-Identifier: BSD-2-Clause
"""Every public header compiles alone and included twice, without a warning, as C and C++, with gcc and clang."""

import os
import subprocess
import sys

from tests.abi.declared import HEADERS
from tests.abi.tap import Tap
from tests.arch.sources import ROOT

WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]
DIALECTS = [
    (["gcc", "-x", "c", "-Wstrict-prototypes", "-Wmissing-prototypes"], ["c99", "gnu11", "gnu2x"]),
    (["clang", "-x", "c", "-Wstrict-prototypes", "-Wmissing-prototypes"], ["c99", "gnu11"]),
    (["g++", "-x", "c++"], ["c++11", "gnu++17"]),
    (["clang++", "-x", "c++"], ["c++11", "gnu++20"]),
]


def complaint(command, text):
    """The first line of what the compiler says, or None."""
    done = subprocess.run([*command, "-fsyntax-only", "-"], input=text, capture_output=True, text=True,
                          check=False)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return (lines or done.stderr.splitlines() or [f"status {done.returncode}"])[0]


def complaints(include, header):
    text = f"#include <{header}>\n#include <{header}>\n"
    for compiler, standards in DIALECTS:
        for standard in standards:
            for define in ([], ["-DNDEBUG"]):
                command = [*compiler, f"-std={standard}", *WARNINGS, *define, f"-I{include}"]
                found = complaint(command, text)
                if found:
                    yield f"{compiler[0]} -std={standard} {' '.join(define)}: {found}"


def main():
    tap = Tap()
    include = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "include")
    tap.rule("the compilers do complain", [] if complaint(["gcc", *WARNINGS, "-x", "c"], "int f() { int x; }\n") else
             ["gcc took what it should not"])
    listed = sorted(os.path.join(room, name) for room in ("infiniband", "rdma")
                    for name in os.listdir(os.path.join(include, room)) if name.endswith(".h"))
    tap.rule("every header is on the list", sorted(set(listed) ^ set(HEADERS)))
    for header in HEADERS:
        tap.rule(f"{header} stands alone", complaints(include, header))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
