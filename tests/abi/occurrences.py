# SPDX-License-Identifier: BSD-2-Clause
"""What the documents say to happen is made to happen: each event of docs/events.md by the tests that its row names,
each option of the manual in a test that sets it or reads it."""

import glob
import os
import re
import sys

from docs.man import generate
from tests.abi.tap import Tap
from tests.arch.sources import ROOT

ROW = re.compile(r"^\| (?P<events>`[A-Z_]+`(?:, `[A-Z_]+`)*) \|(?P<rest>.*)\|$", re.M)
TEST = re.compile(r"`(?:tests/(?:api|programs)/)?(?P<name>\w+\.(?:c|py))`")
ENUM = re.compile(r"^\t(?P<prefix>IBV_EVENT|RDMA_CM_EVENT)_(?P<name>\w+)", re.M)
OPTION = re.compile(r"\b(?:SO|TCP|IP|IPV6|RDMA)_[A-Z][A-Z0-9_]*\b")
# Levels, and what the same pages say of other things.
NO_OPTION = re.compile(r"RDMA_OPTION_I[DB]$|RDMA_CM_EVENT")
OPTION_CALLS = ("rdma_set_option", "rsetsockopt", "rgetsockopt")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def sections():
    """Pairs of the prefix of an enum and the document's part on it."""
    verbs, cm = read("docs", "events.md").split("\n# Events of the connection manager\n")
    return ("IBV_EVENT", verbs), ("RDMA_CM_EVENT", cm)


def source_of(test):
    return read("tests", "api" if test.endswith(".c") else "programs", test)


def rows_without_event():
    """Tests that a row names and that do not know its event."""
    for prefix, text in sections():
        for row in ROW.finditer(text):
            tests = [match["name"] for match in TEST.finditer(row["rest"])]
            for event in re.findall(r"`(\w+)`", row["events"]):
                knowing = [test for test in tests if re.search(rf"\b{prefix}_{event}\b", source_of(test))]
                # Of two events, each test may make one.
                if len(knowing) < len(tests) and "," not in row["events"] or tests and not knowing:
                    yield f"{prefix}_{event}: not in {', '.join(set(tests) - set(knowing))}"


def events_without_row():
    enums = "".join(read("include", *header) for header in (("infiniband", "verbs.h"), ("rdma", "rdma_cma.h")))
    told = {(prefix, event) for prefix, text in sections() for row in ROW.finditer(text)
            for event in re.findall(r"`(\w+)`", row["events"])}
    for match in ENUM.finditer(enums):
        if (match["prefix"], match["name"]) not in told:
            yield f"{match['prefix']}_{match['name']} is not in docs/events.md"


def options_without_test():
    symbols = generate.read_all(os.path.join(ROOT, "include"))
    tests = "".join(read(path) for pattern in ("tests/api/test_*.c", "tests/unit/rsocket/test_*.c")
                    for path in sorted(glob.glob(os.path.join(ROOT, pattern))))
    for call in OPTION_CALLS:
        page = " ".join(str(block) for _, blocks in symbols[call].parameters for block in blocks)
        for option in sorted(set(OPTION.findall(page))):
            if not NO_OPTION.match(option) and not re.search(rf"\b{option}\b", tests):
                yield f"{call}: no test has {option}"


def main():
    tap = Tap()
    tap.rule("the tests of docs/events.md make its events", rows_without_event())
    tap.rule("docs/events.md has every event", events_without_row())
    tap.rule("every option has a test", options_without_test())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
