#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Collects the citations in comments into docs/spec-map.md: section of a standard -> function -> tests that name it.

    tests/arch/cite.py           writes docs/spec-map.md
    tests/arch/cite.py --check   says whether it is up to date

One greppable form: "IBA 1.x §9.7.5.1", "IBA A17 §2" (annexes), "RFC 5041 §5".
"""

import os
import re
import sys

from sources import COMMENT, ROOT, Tap, files, functions, read

MAP = os.path.join("docs", "spec-map.md")
CITATION = re.compile(r"\b(IBA (?:\d+\.(?:\d+|x)|A\d+)|RFC \d+)(?: \([^)]*\))?(?:,? §\s?([\dA-Z][\w.]*\w|\d))?")


def place(path, line, spans):
    """The function a comment belongs to: around it, or just below it."""
    for name, first, last in spans:
        if first <= line <= last:
            return name + "()"
    below = [(first, name) for name, first, _ in spans if first > line]
    if below and min(below)[0] - line <= 12:
        return min(below)[1] + "()"
    return ""


def citations(paths):
    """(standard, section) -> set of (path, function)."""
    found = {}
    for path in paths:
        text = read(path)
        spans = functions(path) if path.endswith(".c") else []
        for comment in COMMENT.finditer(text):
            flat = re.sub(r"\n\s*\*?\s*", " ", comment[0])
            ends = text.count("\n", 0, comment.end()) + 1
            for hit in CITATION.finditer(flat):
                key = (hit[1], (hit[2] or "").rstrip("."))
                found.setdefault(key, set()).add((path, place(path, ends, spans)))
    return found


def order(key):
    standard, section = key
    parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in section.split(".")]
    return standard, parts


def render():
    code = citations(files(".c", ".h", under="src") + files(".h", under="include"))
    tests = citations(files(".c", under="tests"))
    lines = [
        "<!-- Written by tests/arch/cite.py; do not edit. -->",
        "# Sections of the standards and the code that implements them",
        "",
        "Each row is a section that a comment cites: the code that follows it, and the tests that name it.",
    ]
    standard = None
    for key in sorted(set(code) | set(tests), key=order):
        if key[0] != standard:
            standard = key[0]
            lines += ["", f"## {standard}", "", "| section | code | tests |", "|---|---|---|"]
        section = f"§{key[1]}" if key[1] else "(as a whole)"
        lines.append(f"| {section} | {cell(code.get(key))} | {cell(tests.get(key))} |")
    return "\n".join(lines) + "\n"


def cell(places):
    return "<br>".join(f"`{path}` {name}".strip() for path, name in sorted(places or []))


def stale():
    """Findings for the architecture test."""
    if not os.path.exists(os.path.join(ROOT, MAP)) or read(MAP) != render():
        yield f"{MAP} is out of date: run tests/arch/cite.py"


def main():
    if "--check" in sys.argv[1:]:
        tap = Tap()
        tap.rule(f"{MAP} is up to date", stale())
        return tap.done()
    os.makedirs(os.path.join(ROOT, "docs"), exist_ok=True)
    with open(os.path.join(ROOT, MAP), "w", encoding="utf-8") as out:
        out.write(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
