# SPDX-License-Identifier: BSD-2-Clause
"""Every claim of the documents that this project implements has a test.

    check.py                compares the tables with the tests, prints TAP and the number of claims
    check.py --list [WORD]  prints the claims whose id contains WORD, with their tests

Each file *.claims is the table of one document. A claim is a line with its id, which begins with the name of the
file, followed by indented lines: a statement in words of this project; "differs:", where Linux and this project differ
from the document; "see:", a file of this project and words in it that inform users of the difference; and the test, a
file below tests/ and the name of a case. A case of a test in C is a cmocka test. A case of a test in Python is the
start of the name of a case or a rule. A case of a table of this directory is an item of the table.
"""

import glob
import os
import re
import sys

from tests.abi.tap import Tap
from tests.arch.sources import ROOT, read
from tests.claims import declarations, pages

ID = re.compile(r"^(?P<id>[a-z]\w*(?:\.\w+)+)$")
TEST = re.compile(r"^(?P<file>[\w/]+\.(?:c|py|txt)): (?P<case>.+)$")
C_CASE = re.compile(r"\b(?:cmocka_unit_test\w*|[A-Z_]*TEST)\(\s*(\w+)")
PY_CASE = re.compile(r"\b(?:cases\.(?:run|skip)|tap\.rule)\(\s*f?\"([^\"]*)\"")
TABLES = {"claims/declarations.txt": declarations, "claims/pages.txt": pages}
# Test programs that exist for the claims: each of their cases proves one.
DEDICATED = ("api/test_cm_flow.c", "api/test_cm_info.c", "api/test_cm_params.c", "api/test_cm_transfer.c",
             "api/test_objects.c", "claims/declarations.txt", "claims/pages.txt")
WORDS_MAX = 30


class Claim:
    """`tests` are pairs of a file and a case. `seen` are pairs of a file and words in it."""

    def __init__(self, place, name):
        self.place, self.name = place, name
        self.text, self.differs = [], []
        self.tests, self.seen = [], []

    def add(self, line):
        test = TEST.match(line)
        if line.startswith("differs: "):
            self.differs.append(line.removeprefix("differs: "))
        elif line.startswith("see: "):
            self.seen.append(tuple(line.removeprefix("see: ").split(": ", 1)))
        elif test:
            self.tests.append((test["file"], test["case"]))
        else:
            self.text.append(line)


def claims_of(path):
    """The claims of a table, and the lines that are not part of one."""
    found, stray = [], []
    for number, line in enumerate(read(path).splitlines(), 1):
        place = f"{path}:{number}"
        match = ID.match(line)
        if match:
            found.append(Claim(place, match["id"]))
        elif line.startswith("\t") and found:
            found[-1].add(line.strip())
        elif line and not line.startswith("#"):
            stray.append(place)
    return found, stray


def tables():
    return sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "tests", "claims", "*.claims")))


def cases_of(file):
    """The names of the cases of a test; of a test in Python also the beginnings of names."""
    if file in TABLES:
        return TABLES[file].cases()
    return (C_CASE if file.endswith(".c") else PY_CASE).findall(read(os.path.join("tests", file)))


def has_case(file, case):
    """Whether the test has this case. Parts that a test in Python fills in must be strings of the test."""
    if not file.endswith(".py"):
        return case in cases_of(file)
    strings = set(re.findall(r"\"([^\"]*)\"", read(os.path.join("tests", file))))
    for name in cases_of(file):
        match = re.fullmatch("(.+)".join(map(re.escape, re.split(r"\{[^}]*\}", name))), case)
        if name.startswith(case) or match and set(match.groups()) <= strings:
            return True
    return False


def is_built(file):
    """Whether a meson.build names the test, so that the suites run it."""
    if file in TABLES:
        return f"'tests.claims.{os.path.basename(file)[:-4]}'" in read("tests/claims/meson.build")
    folder, name = os.path.split(file)
    build = read(os.path.join("tests", folder, "meson.build"))
    subject = name.rsplit(".", 1)[0]
    return any(f"'{word}'" in build for word in (name, subject, subject.removeprefix("test_"),
                                                 f"tests.{folder}.{subject}"))


def malformed(claims, stray):
    yield from (f"{place}: not part of a claim" for place in stray)
    names = set()
    for claim in claims:
        table = os.path.basename(claim.place.split(":")[0]).removesuffix(".claims")
        if claim.name in names or not claim.name.startswith(table + "."):
            yield f"{claim.place}: {claim.name} is repeated, or does not begin with \"{table}.\""
        names.add(claim.name)
        text = " ".join(claim.text)
        if len(claim.text) != 1 or not text.endswith(".") or len(text.split()) > WORDS_MAX:
            yield f"{claim.place}: {claim.name} has no statement of one line, of at most {WORDS_MAX} words"


def untested(claims):
    """Claims that do not have exactly one test, and tests that do not exist or are not run."""
    built = {}
    for claim in claims:
        if len(claim.tests) != 1:
            yield f"{claim.place}: {claim.name} has {len(claim.tests)} tests"
        for file, case in claim.tests:
            if not os.path.exists(os.path.join(ROOT, "tests", file)):
                yield f"{claim.place}: tests/{file} does not exist"
                continue
            if file not in built:
                built[file] = is_built(file)
            if not has_case(file, case):
                yield f"{claim.place}: tests/{file} has no case \"{case}\""
            elif not built[file]:
                yield f"{claim.place}: no suite runs tests/{file}"


def unclaimed(claims):
    """Cases of the dedicated tests that no claim names."""
    named = {test for claim in claims for test in claim.tests}
    for file in DEDICATED:
        for case in cases_of(file):
            if (file, case) not in named:
                yield f"tests/{file}: no claim names \"{case}\""


def undocumented(claims):
    """Differences that a document of this project does not state."""
    for claim in claims:
        if len(claim.differs) != len(claim.seen) or len(claim.differs) > 1:
            yield f"{claim.place}: {claim.name} needs \"see:\" where it has \"differs:\", and only there"
        for file, words in claim.seen:
            text = re.sub(r"\s+(?:\* )?", " ", read(file)) if os.path.exists(os.path.join(ROOT, file)) else ""
            if words not in text:
                yield f"{claim.place}: {file} does not contain \"{words}\""


def check_that_it_can_fail(tap, claims):
    """A claim without a test, with an unknown case, with an undocumented difference, and a case without a claim."""
    first = next(claim for claim in claims if claim.tests[0][0] in DEDICATED and not claim.differs)
    without, wrong, different = (Claim(first.place, first.name) for _ in range(3))
    wrong.tests = [(first.tests[0][0], "absent_case")]
    different.differs = ["x"]
    tap.rule("claims and tests that do not fit are found",
             [name for name, found in (("no test", untested([without])), ("unknown case", untested([wrong])),
                                       ("undocumented", undocumented([different])),
                                       ("no claim", unclaimed([wrong]))) if not list(found)])


def print_list(claims, word):
    for claim in claims:
        if word in claim.name:
            tests = ", ".join(f"tests/{file}: {case}" for file, case in claim.tests)
            print(f"{claim.name}\n    {' '.join(claim.text)}\n    {tests}")


def main():
    read_tables = {path: claims_of(path) for path in tables()}
    claims = [claim for found, _ in read_tables.values() for claim in found]
    if sys.argv[1:2] == ["--list"]:
        print_list(claims, "".join(sys.argv[2:3]))
        return 0
    tap = Tap()
    stray = [line for _, lines in read_tables.values() for line in lines]
    tap.rule("the tables are well-formed", malformed(claims, stray))
    without = list(untested(claims))
    tap.rule("every claim has a test that exists and is run", without)
    tap.rule("every case of the dedicated tests has a claim", unclaimed(claims))
    tap.rule("every difference is documented", undocumented(claims))
    check_that_it_can_fail(tap, claims)
    for path, (found, _) in read_tables.items():
        print(f"# {os.path.basename(path)}: {len(found)} claims, {sum(bool(claim.differs) for claim in found)} differ")
    print(f"# {len(claims)} claims, {len(claims) - len({line.split(': ')[0] for line in without})} with a test")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
