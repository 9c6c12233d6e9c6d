# SPDX-License-Identifier: BSD-2-Clause
"""Runs rdma-core's test suite as Debian packages it with pyverbs, except the tests for vendors' devices. Each of its
tests is a case here. The suite skips tests of features that the device does not have."""

import gzip
import os
import re
import shutil

from tests.programs import lab as laboratory
from tests.programs.debian_programs import RDMA_COMMAND
from tests.programs.lab import EVERY, Failure, check

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"
MODULES = ("addr", "atomic", "cq", "cq_events", "cqex", "device", "flow", "fork", "mr", "odp", "parent_domain", "pd",
           "qp", "qpex", "rdmacm", "relaxed_ordering", "rss_traffic", "shared_pd", "tag_matching")

# Runs the suite as run_tests.py does, from the unpacked copy.
RUNNER = """
import os, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]
import tests, unittest
from args_parser import parser
parser.parse_args()
unittest.main(module=tests)
"""

RESULT = re.compile(r"^(?P<name>test_\w+) \((?P<where>[\w.]+)\)(?P<between>.*?) \.\.\. .*?"
                    r"(?:(?P<ok>ok)|(?P<skip>skipped) (?P<why>[^\n]*)|(?P<bad>FAIL|ERROR))$", re.M | re.S)


def unpack(lab):
    """Makes a copy that can be run: Debian compresses the longer files."""
    where = os.path.join(lab.scratch, "tests")
    shutil.copytree(SUITE, where)
    for name in os.listdir(where):
        path = os.path.join(where, name)
        if name.endswith(".gz"):
            with gzip.open(path, "rb") as packed, open(path[:-3], "wb") as plain:
                shutil.copyfileobj(packed, plain)
            os.unlink(path)
    return where


def rdma_command(lab):
    """A directory with a command `rdma` that lists no device: the tests then look in sysfs for the interface."""
    where = os.path.join(lab.scratch, "bin")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "rdma"), "w", encoding="ascii") as script:
        script.write(RDMA_COMMAND)
    os.chmod(where, 0o755)
    os.chmod(os.path.join(where, "rdma"), 0o755)
    return where


def run_suite(lab, side):
    arguments = ["--dev", side["device"], "--port", "1", "-v"]
    for module in MODULES:
        arguments += ["-k", f"tests.test_{module}."]
    program = lab.start(PYTHON, "-c", RUNNER, *arguments, PATH=f"{rdma_command(lab)}:{os.environ['PATH']}")
    return program.finish(lab.seconds(200), None), program


def one(name, match, text):
    if match["bad"]:
        detail = text[text.find(f"{match['bad']}: {name} "):][:3000]
        raise Failure(detail)


def explained():
    """Returns the tests that docs/pyverbs.md permits to be skipped."""
    with open(os.path.join(laboratory.SOURCE, "docs", "pyverbs.md"), encoding="utf-8") as page:
        return set(re.findall(r"^\| `(test_\S+)` \|", page.read(), re.M))


def skip(cases, name, why):
    cases.number += 1
    print(f"ok {cases.number} - {name} # SKIP {why}")


def suite(lab, cases, side):
    text, program = run_suite(lab, side)
    seen = 0
    for match in RESULT.finditer(text):
        seen += 1
        if match["skip"]:
            skip(cases, f"{match['where']}, {side['name']}", match["why"])
        else:
            cases.run(f"{match['where']}, {side['name']}", one, match["name"], match, text)
    skipped = {match["where"].removeprefix("tests.") for match in RESULT.finditer(text) if match["skip"]}
    cases.run(f"docs/pyverbs.md explains each skip, {side['name']}", check, skipped <= explained(),
              f"not there: {sorted(skipped - explained())}")
    ran = re.search(r"^Ran (\d+) tests", text, re.M)
    cases.run(f"the whole suite, {side['name']}", check, ran and int(ran[1]) == seen,
              f"{seen} results of {ran and ran[1]}; {program.story()}")


def body(lab, cases):
    if not os.path.isdir(SUITE) or not os.path.exists("/usr/lib/python3/dist-packages/pyverbs"):
        skip(cases, "the suite", "no pyverbs, or this system was installed without its test suite")
        return
    unpack(lab)
    for side in lab.sides if EVERY else lab.sides[-1:]:
        suite(lab, cases, side)


if __name__ == "__main__":
    laboratory.main(body)
