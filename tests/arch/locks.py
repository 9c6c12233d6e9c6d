# SPDX-License-Identifier: BSD-2-Clause
"""Functions of src whose comment states a lock, and whether they check it (docs/adr/0079).

    python3 tests/arch/locks.py core local     the functions of these modules that do not
"""

import dataclasses
import os
import re
import sys

from sources import COMMENT, code_only, files, module_of, read

# What a comment states of the callers. "may be held" and "held while" state something else.
LOCK = r"(?:\block\b|\blocks\b|_lock\b|lock\(\)|`\w+`)"
HELD = re.compile(rf"{LOCK}(?:(?!may be|\bwhile\b|\bnot\b|\bnever\b|\bno\b)[^.;:])*\bheld\b"
                  rf"|\b[Cc]allers? (?:must )?holds? (?:(?!\bno\b)[^.;:])*{LOCK}")
NOT_HELD = re.compile(rf"\b[Cc]alled (?:[^.;:]*\b)?without [^.;]*{LOCK}|\bWithout [^.;:]*{LOCK}\."
                      rf"|\b[Nn]o lock (?:is )?held|{LOCK} must not be held")
# A comment of all functions of a header, or of those with a parameter of one of the named types.
ALL = re.compile(r"\b[Aa]ll functions( with an? `struct \w+`(?: or an? `struct \w+`)*)? are called\b")

ASSERT = re.compile(r"\b\w+_assert_(?:\w+_)?(?:un)?locked\(")

# A prototype or the head of a definition at the beginning of a line.
DECLARATION = re.compile(r"(?:^#define [^\n]*\n)*^(?!typedef|return|struct \w+ ?\{|enum \w+ ?\{|#|static_assert)"
                         r"[A-Za-z_][^;{}#=()]*?\b(\w+)\s*\(((?!\*)[^;{}]*)\)[^;{}()=]*"
                         r"(?:__attribute__\(\(\w+\)\)\s*)?(;|\{)", re.M)


VARIABLE = re.compile(r"\n(?:(?:struct|union|enum) \w+ \{|static )")


@dataclasses.dataclass(frozen=True)
class Claim:
    """A function whose comment states that a lock is held (or, if not is_held, that none is)."""
    path: str
    line: int
    name: str
    is_held: bool


def comment_text(match):
    return re.sub(r"\s*\n\s*\*?\s*", " ", match[0])[2:-2].strip()


def followers(text, at):
    """The names of the functions whose declarations follow a comment at this place without a blank line or another
    comment."""
    names = []
    while True:
        at += re.match(r"[ \t]*\n?", text[at:]).end()
        match = DECLARATION.match(text, at)
        if not match:
            return names
        names.append(match[1])
        if match[3] == "{":
            return names
        at = match.end()


def of_header(text, at, types):
    """The names of the functions that a header declares after this place. types: text that names the types of
    parameters; None: all functions."""
    parameter = "|".join(re.findall(r"`struct (\w+)`", types or ""))
    return [found[1] for found in DECLARATION.finditer(code_only(text), at)
            if not parameter or re.search(rf"\bstruct (?:{parameter}) \*", found[2])]


def claims(path, text):
    """The claims of one file. A claim without a function has the name None."""
    if os.path.basename(path).startswith("lock_check."):
        return
    for match in COMMENT.finditer(text):
        comment = comment_text(match)
        is_held = bool(HELD.search(comment))
        if text[match.start() - 1] != "\n" or not (is_held or NOT_HELD.search(comment)):
            continue
        every = path.endswith(".h") and ALL.search(comment)
        names = of_header(text, match.end(), every[1]) if every else followers(text, match.end())
        # The lock of fields or of a variable.
        if not names and VARIABLE.match(text, match.end()):
            continue
        for name in names or [None]:
            yield Claim(path, text.count("\n", 0, match.start()) + 1, name, is_held)


def bodies(module):
    """The text of each function that a module defines."""
    found = {}
    for path in files(".c", ".h", under=os.path.join("src", module)):
        code = code_only(read(path))
        for match in DECLARATION.finditer(code):
            if match[3] == "{":
                found.setdefault(match[1], code[match.start():code.find("\n}", match.end() - 1)])
    return found


def unchecked(module):
    """Pairs of a claim and the text of the function, which does not check it. None: no such function exists."""
    defined = bodies(module)
    for path in files(".c", ".h", under=os.path.join("src", module)):
        for claim in claims(path, read(path)):
            body = defined.get(claim.name)
            if not body or not ASSERT.search(body):
                yield claim, body


# Functions that do not check the lock of their comment, and the reason.
UNCHECKED = {
    "fault_call_cold": "no lock of any module is held; base knows none of them",
    "fault_call_fails_cold": "as fault_call_cold()",
    "local_requester_is_reliable": "reads the type of the QP, which does not change",
}

# Modules whose functions do not check their locks, and the number of functions with such a comment. They have locks of
# their own, and none of the engine. The number must not rise.
UNCHECKED_MODULES = {"arena": 5, "rsocket": 40, "rspreload": 24}


def missing_checks():
    used = set()
    for module in sorted({module_of(path) for path in files(".c", under="src")} - {None}):
        found = list(unchecked(module))
        if module in UNCHECKED_MODULES:
            if len(found) != UNCHECKED_MODULES[module]:
                yield (f"src/{module}: {len(found)} functions whose comment states a lock do not check it; "
                       f"UNCHECKED_MODULES has {UNCHECKED_MODULES[module]}")
            continue
        for claim, _ in found:
            if claim.name in UNCHECKED:
                used.add(claim.name)
            elif claim.name:
                yield f"{claim.path}:{claim.line}: {claim.name}() does not check the lock that its comment states"
            else:
                yield f"{claim.path}:{claim.line}: states a lock that is held, but no function follows"
    for name in sorted(UNCHECKED.keys() - used):
        yield f"UNCHECKED: {name}() states no lock, or checks it"


EXAMPLE = """
/* Changes it. engine.lock held. */
void one(struct engine *engine);
void two(struct engine *engine);

/* Returns it. The caller holds
 * the lock, which is released while the thread waits. */
int three(struct qp *qp) __attribute__((warn_unused_result));
void four(void);

/* Called without locks. */
static inline bool five(void)
{
}
/* engine.lock may be held. */
void six(void);

/* Guarded by engine.lock, held for a short time. */
struct seven {
	int lock; /* cq.lock held */
};

/* All functions with a `struct cq` are called with cq.lock held. */

void eight(void);
void nine(struct cq *cq);
"""


def wrong_claims():
    """The claims of the example that were not found, and those that are not there."""
    found = [(claim.name, claim.is_held) for claim in claims("example.h", EXAMPLE)]
    expected = [("one", True), ("two", True), ("three", True), ("four", True), ("five", False), ("nine", True)]
    if found != expected:
        yield f"found {found}, not {expected}"


if __name__ == "__main__":
    for arg in sys.argv[1:]:
        for one, text_of in unchecked(arg):
            head = re.sub(r"\s+", " ", text_of.split("{")[0]).strip() if text_of else f"({one.name})"
            print(f"{one.path[4:]}:{one.line}: {'held' if one.is_held else 'not held'}: {head}")
