# SPDX-License-Identifier: BSD-2-Clause
"""The names that a fault rule for calls accepts are those that the libraries pass, and every call with an errno in the
manual is one of them, except those of data/calls.without_fault. The operations of fault rules are those of
usrdma(7)."""

import glob
import itertools
import os
import re
import sys

from docs.man import generate
from tests.abi.tap import Tap, data
from tests.arch.sources import ROOT

FUNCTION = re.compile(r"^(?!static)\w[^;{}()]*\b\(?_?(?P<name>(?:ibv|rdma)_\w+)\)?\(")
POINT = re.compile(r"\b(?:fault_call(?:_fails)?|qp_create_for|rcm_public_call)\((?:\"(?P<name>\w+)\")?")
PASSED_ON = re.compile(r"fault_call\(call\)|qp_create_for\(const|#define ")


def listed():
    with open(os.path.join(ROOT, "src", "base", "fault_calls.c"), encoding="utf-8") as file:
        return set(re.findall(r'^\t"(\w+)",$', file.read(), re.M))


def passed():
    """The names in the libraries: a string, or that of the function around."""
    paths = [path for part in ("core", "rdmacm")
             for path in glob.glob(os.path.join(ROOT, "src", part, "**", "*.c"), recursive=True)]
    for path in sorted(paths):
        function = None
        with open(path, encoding="utf-8") as file:
            for line in file:
                start = FUNCTION.match(line)
                function = start["name"] if start else function
                for match in () if PASSED_ON.search(line) else POINT.finditer(line):
                    yield match["name"] or function


def documented():
    for symbol in generate.read_all(os.path.join(ROOT, "include")).values():
        if symbol.is_function and re.match("(ibv|rdma)_", symbol.name) and any(symbol.errors()):
            yield symbol.name


def operations():
    """The words of the condition `op`: those of the table, and those of the manual."""
    with open(os.path.join(ROOT, "src", "base", "fault_op.h"), encoding="utf-8") as file:
        table = re.findall(r"^\tOP\((\w+)\)", file.read(), re.M)
    with open(os.path.join(ROOT, "docs", "man", "usrdma.7"), encoding="utf-8") as file:
        text = file.read().split(".It Ic op Ns", 1)[1].split("\n", 1)[1].split("\n.It ", 1)[0]
    return table, [word for line in re.findall(r"^\.Ic (.*)$", text, re.M) for word in re.findall(r"\w+", line)]


def main():
    table, names = listed(), set(passed())
    excused = dict(line.split(None, 1) for line in data("calls.without_fault") if line[0] != "#")
    tap = Tap()
    tap.rule("every name of the table is that of a fault point",
             (f"{name}: no function passes it" for name in sorted(table - names)))
    tap.rule("every fault point of a call is in the table",
             (f"{name} is not in src/base/fault_calls.c" for name in sorted(names - table)))
    tap.rule("every call with an errno passes the point call",
             (f"{name}: add fault_call_fails(), or an entry of data/calls.without_fault"
              for name in sorted(set(documented()) - table - set(excused))))
    words, manual = operations()
    tap.rule("usrdma(7) has the operations of src/base/fault_op.h in their order",
             (f"number {i}: {word} in the table, {named} in the manual"
              for i, (word, named) in enumerate(itertools.zip_longest(words, manual)) if word != named))
    tap.rule("exceptions have no fault point", (f"{name} has one" for name in sorted(table & set(excused))))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
