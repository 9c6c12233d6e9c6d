# SPDX-License-Identifier: BSD-2-Clause
"""Every errno that the manual gives a call has a test that asserts it: one assertion that holds the call and the errno.

    errnos.py              fails for each (call, errno) that no test shows
    errnos.py --list       prints which tests show which
    errnos.py --list CALL  … of this call

What counts is an assertion of tests/api or tests/unit whose first argument is the call itself and whose last is the
errno, as `assert_null_errno(ibv_reg_mr(pd, …), EFAULT)`: where the program passes, that call answered so. An error that
a page gives as another call's ("as ibv_reg_mr()") is that call's. What cannot be made to happen here is in
data/errnos.untested, with why.
"""

import glob
import os
import re
import sys
from collections import defaultdict

from docs.man import docstrings, generate
from tests.abi.tap import Tap, data
from tests.arch.sources import ROOT

TESTS = [os.path.join(ROOT, "tests", pattern) for pattern in ("api/test_*.c", "unit/*/test_*.c")]
# Those of refusal.h and shortage.h.
ASSERTION = re.compile(r"\b(?:assert_int_equal|"
                       r"(?:assert_(?:null|minus1)_errno|(?:refuses|starve)(?:_null|_minus1|_made)?))\(")
CALL = re.compile(r"(?:\(\w+\))?(?P<name>(?:ibv|rdma|r)_?\w+)\(")
ERRNO = re.compile(rf"-?(?P<errno>{docstrings.ERRNO})$")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
OTHERS = re.compile(r"(?:as|those of) \w+\(\)")


def arguments(source, start):
    """The arguments of what opens just before `start`."""
    depth, begin = 0, start
    for at in range(start, len(source)):
        char = source[at]
        if char in ")]}" and depth == 0:
            yield source[begin:at].strip()
            return
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield source[begin:at].strip()
            begin = at + 1


def asserted(path):
    """(call, errno, line) of every assertion of that kind in a file."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    source = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    source = STRING.sub(lambda match: '"' + " " * (len(match[0]) - 2) + '"', source)
    for match in ASSERTION.finditer(source):
        parts = list(arguments(source, match.end()))
        call, error = CALL.match(parts[0]), ERRNO.match(parts[-1])
        if call and error:
            yield call["name"], error["errno"], source.count("\n", 0, match.start()) + 1


def shown():
    """{(call, errno): [file:line, …]}"""
    table = defaultdict(list)
    for path in sorted(sum(map(glob.glob, TESTS), [])):
        for call, error, line in asserted(path):
            table[call, error].append(f"{os.path.basename(path)}:{line}")
    return table


def documented(symbols):
    """(call, errno, when) of every error that a page gives as its own."""
    for symbol in filter(lambda symbol: symbol.is_function, symbols.values()):
        for names, text in symbol.errors():
            if not OTHERS.match(text):
                for error in re.findall(docstrings.ERRNO, names):
                    yield symbol.name, error, text


def untested():
    """{(call, errno): why} of what cannot be made to happen; a call may end in "*"."""
    rows = [line.split(None, 2) for line in data("errnos.untested") if line[0] != "#"]
    return {(call, errno): why for call, errno, why in rows}


def holes(pairs, table, excused):
    for call, error, text in pairs:
        if (call, error) not in table and (call, error) not in excused:
            yield f"{call}: {error} ({text}) has no test"


def same_host_only():
    """The tests that are not run between RoCE queue pairs."""
    with open(os.path.join(ROOT, "tests", "api", "meson.build"), encoding="utf-8") as file:
        names = re.search(r"^same_host_only = \[(.*?)\]", file.read(), re.M | re.S)[1]
    return {f"test_{name}.c" for name in re.findall(r"'(\w+)'", names)}


def on_one_transport(pairs, table):
    """Errors of verbs that only such tests show."""
    lame = same_host_only()
    for call, error, _ in pairs:
        files = {place.split(":")[0] for place in table.get((call, error), [])}
        if call.startswith("ibv_") and files and files <= lame:
            yield f"{call}: {error} is shown by {', '.join(files)} alone"


def stale(pairs, table, excused):
    known = {(call, error) for call, error, _ in pairs}
    for pair in excused:
        if pair in table:
            yield f"{pair[0]}: {pair[1]} is excused, but {table[pair][0]} shows it"
        elif pair not in known:
            yield f"{pair[0]}: {pair[1]} is excused, but no page gives it"


def main():
    table, pairs = shown(), list(documented(generate.read_all(os.path.join(ROOT, "include"))))
    if sys.argv[1:2] == ["--list"]:
        for call, error in dict.fromkeys(pair[:2] for pair in pairs):
            if call in (sys.argv[2:] or [call]):
                print(f"{call:28} {error:16} {' '.join(table.get((call, error), ['-']))}")
        return 0
    excused = untested()
    tap = Tap()
    tap.rule("every documented errno has a test", holes(pairs, table, excused))
    tap.rule("errnos of verbs are shown on both transports", on_one_transport(pairs, table))
    tap.rule("what is excused is documented and not shown", stale(pairs, table, excused))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
