#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Counts words that docs/STYLE.md rules out, in documents, manual pages, comments, strings and docstrings.

    tests/arch/words.py              compares the count of each directory with its limit, prints TAP
    tests/arch/words.py PATH...      prints each place in these files or directories
    tests/arch/words.py --lower      lowers the limits in words.limits to the present counts

Documents have the limit 0. The other directories have the count of the time when the rule was introduced; the count
must not rise. Text in quotation marks or backquotes of a document is exempt, so that a document can name a word.
"""

import io
import os
import re
import sys
import tokenize

from sources import ROOT, Tap, read, tracked

LIMITS = os.path.join("tests", "arch", "words.limits")

RULES = {
    "indefinite person: name the process, thread or caller":
        r"nobody|whoever|somebody|strangers?|elders?",
    "personification: state what is sent, stored, returned or reported":
        r"owe[sd]?|hears?|heard|wish(?:es)?|says|said|tells|told|forgets?|forgotten|lies? there|has its way|says so",
    "negation by \"none\": write invalid, unknown, missing, not found":
        r"is none|are none|that is none|is no \w+ of|what is not|that there is not",
    "archaic or vague adverb: name the time or the condition":
        r"anew|for ever|in vain|meanwhile|in its turn|at all times|goes by",
    "metaphor: use module, dependency rule, path, message":
        r"the house|of the house|rooms|floors",
}
WORD = re.compile(r"\b(?:" + "|".join(RULES.values()) + r")\b", re.I)

PAGES = (".1", ".3", ".7", ".8")
KINDS = (".c", ".h", ".md", ".py", ".build") + PAGES
GENERATED = {os.path.join("docs", "spec-map.md"), os.path.join("docs", "cm-states.md")}
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
C_TEXT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)


def blank(text, keep):
    """The text with everything but the matches of `keep` blanked, every newline kept."""
    out, at = [], 0
    for match in keep.finditer(text):
        out.append(re.sub(r"[^\n]", " ", text[at:match.start()]))
        out.append(match[0])
        at = match.end()
    return "".join(out) + re.sub(r"[^\n]", " ", text[at:])


def python_prose(text):
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.split("\n")):
                lines[token.start[0] - 1 + offset] += " " + line
    return "\n".join(lines)


def prose(path):
    """What a person reads of the file, at its line numbers."""
    text = read(path)
    if path.endswith((".c", ".h")):
        return blank(text, C_TEXT)
    if path.endswith(".py"):
        return python_prose(text)
    if path.endswith(".build"):
        return blank(text, re.compile(r"#.*"))
    if path.endswith(".md"):
        return "\n".join(QUOTED.sub("", line) for line in text.split("\n"))
    return text


def hits(path):
    for number, line in enumerate(prose(path).split("\n"), 1):
        for match in WORD.finditer(line):
            yield number, match[0]


def counted():
    own = os.path.relpath(os.path.abspath(__file__), ROOT)
    return [path for path in tracked() or [] if path.endswith(KINDS) and path not in GENERATED and path != own]


def group_of(path):
    """The group whose limit counts the file: a module of src, a suite of tests, a top directory, or the documents."""
    parts = path.split(os.sep)
    if path.endswith(".md"):
        return "documents"
    if len(parts) > 2 and parts[0] in ("src", "tests", "docs", "tools"):
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "."


def counts():
    found = {}
    for path in counted():
        group = found.setdefault(group_of(path), [])
        group += [(path, number, word) for number, word in hits(path)]
    return found


def limits():
    rows = (line.split() for line in read(LIMITS).splitlines() if line and not line.startswith("#"))
    return {group: int(count) for group, count in rows}


def lower():
    old, now = limits(), counts()
    with open(os.path.join(ROOT, LIMITS), "w", encoding="utf-8") as file:
        file.write("# SPDX-License-Identifier: BSD-2-Clause\n"
                   "# Written by tests/arch/words.py --lower. A limit is never raised.\n")
        for group in sorted(now):
            file.write(f"{group} {min(len(now[group]), old.get(group, 0) if old else len(now[group]))}\n")


def show(paths):
    for path in counted():
        if any(path == wanted or path.startswith(wanted.rstrip("/") + "/") for wanted in paths):
            for number, word in hits(path):
                print(f"{path}:{number}: {word}")


def too_many(group, found, limit):
    if len(found) <= limit:
        return
    yield (f"{len(found)} words in {group}, at most {limit}; see \"Text\" in docs/STYLE.md; "
           f"all places: tests/arch/words.py {group}")
    for path, number, word in found if limit == 0 else []:
        yield f"{path}:{number}: {word}"


def main():
    if sys.argv[1:] == ["--lower"]:
        lower()
        return 0
    if sys.argv[1:]:
        show(sys.argv[1:])
        return 0
    tap = Tap()
    permitted = limits()
    for group, found in sorted(counts().items()):
        tap.rule(f"words of {group}", too_many(group, found, permitted.get(group, 0)))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
