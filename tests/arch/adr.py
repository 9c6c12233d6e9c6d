#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/adr/README.md: number, title and status of each design decision, and the decisions that change it.

    tests/arch/adr.py           writes docs/adr/README.md
    tests/arch/adr.py --check   checks the list, the names, the statuses and the references

The file name of a record is its number and its title: 0007-after-fork-the-child-starts-with-a-new-engine.md. Its line
"Status:" is "accepted" or "replaced by" a record, followed by the records that it replaces or amends, or that amend it:

    Status: accepted; amends [0043](0043-….md) (thread domains); amended by [0061](0061-….md)
"""

import os
import re
import sys

from sources import ROOT, Tap, read, tracked

FOLDER = os.path.join("docs", "adr")
INDEX = os.path.join(FOLDER, "README.md")
TEMPLATE = "0000-template.md"
TITLE_MAX_CHARS = 75

# The numbers without a record, and the reason. A number is not used for another decision.
UNUSED = {number: "no record with this number is in the repository or its history"
          for number in ("0022", "0026", "0047", "0049", "0051", "0052")}

HEAD = re.compile(r"# (?P<number>\d{4}): (?P<title>.+)\n\nStatus: (?P<status>.+?)\n\n", re.S)
LINK = r"\[\d{4}\]\([\w.-]+\)(?: \([^()]*\))?"
LINKED = re.compile(r"\[(\d{4})\]\(([\w.-]+)\)(?: \(([^()]*)\))?")
CLAUSE = re.compile(rf"(?:accepted|(replaced by|replaces|amended by|amends) ({LINK}(?:, {LINK})*))\Z")
INVERSE = {"replaced by": "replaces", "replaces": "replaced by", "amended by": "amends", "amends": "amended by"}
# A file of docs/adr that a text names, with or without the folder.
REFERENCE = re.compile(r"(?<![\w/-])(?:[\w./-]*adr/)?(\d{4}-[a-z][\w-]*\.md)\b")


class Record:
    def __init__(self, name):
        self.name = name
        match = HEAD.match(read(os.path.join(FOLDER, name)))
        self.is_valid = bool(match)
        self.number = match["number"] if match else name[:4]
        self.title = match["title"] if match else ""
        self.relations = {}
        self.faults = [] if match else [f"{name} does not begin with its title and \"Status:\""]
        for clause in re.sub(r"\s+", " ", match["status"]).split("; ") if match else ():
            found = CLAUSE.match(clause)
            if not found:
                self.faults.append(f"{name}: \"{clause}\" has not the form that tests/arch/adr.py describes")
            elif found[1]:
                self.relations.setdefault(found[1], []).extend(LINKED.findall(found[2]))

    def others(self, relation):
        return [number for number, _, _ in self.relations.get(relation, ())]


def slug(title):
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"['`]", "", title.lower())).strip("-")


def names():
    return sorted(name for name in os.listdir(os.path.join(ROOT, FOLDER))
                  if re.match(r"\d{4}-.*\.md$", name) and name != TEMPLATE)


def records():
    return {record.number: record for record in map(Record, names())}


def wrong_records():
    """Titles, file names and lines "Status:" that do not have their form."""
    every = records()
    for record in every.values():
        yield from record.faults
        wanted = f"{record.number}-{slug(record.title)}.md"
        if record.is_valid and record.name != wanted:
            yield f"{record.name}: the title needs the name {wanted}"
        if len(record.title) > TITLE_MAX_CHARS:
            yield f"{record.name}: the title has more than {TITLE_MAX_CHARS} characters"
        if re.match(r"(?!usrdma\b|librspreload\b|cmd_fd\b)[a-z]", record.title):
            yield f"{record.name}: the title begins with a lower-case letter"
        for relation, numbers in record.relations.items():
            for number, name, _ in numbers:
                other = every.get(number)
                if not other or other.name != name:
                    yield f"{record.name}: \"{relation}\" links to {name}, which is not record {number}"
                elif record.number not in other.others(INVERSE[relation]):
                    yield f"{other.name}: \"Status:\" does not contain \"{INVERSE[relation]} {record.number}\""
    if len(every) != len(names()):
        yield "two records have the same number"


def gaps():
    """Numbers without a record for which UNUSED has no reason, and reasons for numbers with a record."""
    used = {int(number) for number in records()}
    missing = {f"{number:04}" for number in range(1, max(used)) if number not in used}
    for number in sorted(missing - set(UNUSED)):
        yield f"there is no record {number}; tests/arch/adr.py needs the reason"
    for number in sorted(set(UNUSED) - missing):
        yield f"record {number} exists, but UNUSED in tests/arch/adr.py has it"


def lost_references():
    """Names of records in any text that are not files."""
    known = {*names(), TEMPLATE}
    for path in tracked() or ():
        if path.endswith((".md", ".c", ".h", ".py", ".build", ".in", ".1", ".3", ".7", ".8")):
            for name in REFERENCE.findall(read(path)):
                if name not in known and path != os.path.relpath(os.path.abspath(__file__), ROOT):
                    yield f"{path}: there is no {os.path.join(FOLDER, name)}"


def cell(record):
    """The status with links, without the records that this one changes."""
    texts = []
    for relation in ("replaced by", "amended by"):
        if record.relations.get(relation):
            links = (f"[{number}]({name}){f' ({what})' if what else ''}"
                     for number, name, what in record.relations[relation])
            texts.append(f"{relation} {', '.join(links)}")
    return "; ".join(texts if record.relations.get("replaced by") else ["accepted"] + texts)


def render():
    lines = [
        "<!-- Written by tests/arch/adr.py; do not edit. -->",
        "# Design decisions",
        "",
        "A record states the problem, the decision, the alternatives and the consequences. A later decision that",
        "changes it has its own record; the line \"Status:\" of both names the other. To add a record,",
        "copy [0000-template.md](0000-template.md) to the next number, name the file as its title, and run",
        "`tests/arch/adr.py`. `tests/arch/check.py` checks names, statuses and references.",
        "",
        "| number | decision | status |",
        "|---|---|---|",
    ]
    for record in records().values():
        lines.append(f"| {record.number} | [{record.title}]({record.name}) | {cell(record)} |")
    by_reason = {}
    for number, reason in sorted(UNUSED.items()):
        by_reason.setdefault(reason, []).append(number)
    lines += ["", "Numbers without a record; none is used for another decision:", ""]
    lines += [f"- {', '.join(numbers)}: {reason}." for reason, numbers in by_reason.items()]
    return "\n".join(lines) + "\n"


def stale():
    if not os.path.exists(os.path.join(ROOT, INDEX)) or read(INDEX) != render():
        yield f"{INDEX} is out of date: run tests/arch/adr.py"


def rules(tap):
    """Findings for the architecture test."""
    tap.rule("each design decision has the name of its title, and a status that agrees with the records it names",
             wrong_records())
    tap.rule("each gap in the numbers of the design decisions is explained", gaps())
    tap.rule("references to design decisions lead to files", lost_references())
    tap.rule(f"{INDEX} is what tests/arch/adr.py writes", stale())


def main():
    if "--check" in sys.argv[1:]:
        tap = Tap()
        rules(tap)
        return tap.done()
    with open(os.path.join(ROOT, INDEX), "w", encoding="utf-8") as out:
        out.write(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
