#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The layout of comments in C files, which clang-format does not change: at most WIDTH columns, and a comment of
several lines begins with a line "/*" (public docstrings: "/**") and ends with a line "*/". A comment of its own line
is not within a declaration.

    tests/arch/comments.py                 check (TAP)
    tests/arch/comments.py --fix PATH...   rewrite these files; prints the comments that have to be changed by hand

--fix moves a long comment behind code to a line of its own before it. Paragraphs, and the items of lists that begin
with "- " or a number, are wrapped again. Of lines with columns only the excess is wrapped.
"""

import re
import sys
import textwrap

from sources import Tap, files, read

WIDTH = 100

ITEM = re.compile(r"(?:- |\* |\d+[.)] |\(\d+\) )")
# Parts of a docstring: "*parameter*: text", "Returns: text", "*ERRNO*: text".
FIELD = re.compile(r"(?:\*[^*]+\*(?: \([^)]*\))?[:,]|"
                   r"(?:Returns|Threads|Since|Source|Events|Notes|Locks|Errors|See also)\b|E[A-Z0-9]+: )")
COLUMNS = re.compile(r"\t|\S {3,}\S")
# A line that only begins the declaration of a variable or a member.
BEGINS_DECLARATION = re.compile(r"^\t+(?!(?:do|else|for|if|switch|while)\b)\w[\w <>()]*[ *]*$")
# A comment behind these cannot be moved before them.
KEEPS_COMMENT = re.compile(r"^\s*(?:\}|case\b|default\b|#)|[{\\]\s*$")


def columns(line):
    return len(line.expandtabs(8))


def comment_start(line):
    """The position of "/*" outside of a string, or -1."""
    at, quote = 0, None
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = None
        elif char in "\"'":
            quote = char
        elif line.startswith("/*", at):
            return at
        elif line.startswith("//", at):
            return -1
        at += 1
    return -1


def comments(lines):
    """Yields for each comment its first line, the position of "/*" there, and its last line."""
    at = 0
    while at < len(lines):
        start = comment_start(lines[at])
        end = at
        if start >= 0:
            while "*/" not in (lines[end][start + 2:] if end == at else lines[end]):
                end += 1
            yield at, start, end
        at = end + 1


def text_of(lines, start):
    """The text of a comment, without the marks."""
    texts = []
    for number, line in enumerate(lines):
        text = line[start + 2:].lstrip("*") if number == 0 else re.sub(r"^\s*\*(?!/) ?", "", line)
        if number == len(lines) - 1:
            text = text[:text.rindex("*/")]
        texts.append((text[1:] if number == 0 and text.startswith(" ") else text).rstrip())
    while texts and not texts[0].strip():
        texts.pop(0)
    while texts and not texts[-1].strip():
        texts.pop()
    return texts


def pieces(texts, is_public):
    """Yields (True, lines of a paragraph or an item) or (False, lines that remain as they are)."""
    part = []
    for text in texts:
        bare = text.lstrip(" ")
        begins_item = ITEM.match(bare) or (is_public and FIELD.match(text))
        continues_item = part and ITEM.match(part[0].lstrip(" ")) and text != bare
        if bare and not begins_item and not continues_item and not COLUMNS.search(bare) and \
                len(text) - len(bare) < 2:
            part.append(text)
            continue
        if continues_item and not begins_item and bare:
            part.append(text)
            continue
        if part:
            yield True, part
        part = [text] if begins_item else []
        if not begins_item:
            yield False, [text]
    if part:
        yield True, part


def wrapped(texts, prefix):
    indent = " " * (len(texts[0]) - len(texts[0].lstrip(" ")))
    item = ITEM.match(texts[0].lstrip(" "))
    return textwrap.wrap(" ".join(text.strip() for text in texts), WIDTH - columns(prefix), initial_indent=indent,
                         subsequent_indent=indent + " " * len(item[0] if item else ""), break_long_words=False,
                         break_on_hyphens=False)


def wrapped_row(text, prefix):
    """A line with columns: what does not fit goes below the last column. Other lines are left as they are."""
    gaps = [match.end() for match in re.finditer(r"\S {2,}(?=\S)", text)]
    if columns(prefix + text) <= WIDTH or not gaps or "\t" in text:
        return [text]
    return textwrap.wrap(text, WIDTH - columns(prefix), subsequent_indent=" " * gaps[-1], break_long_words=False,
                         break_on_hyphens=False)


def laid_out(indent, texts, mark="/*"):
    """The lines of a comment with this text."""
    prefix = indent + " * "
    lines = []
    for is_text, part in pieces(texts, mark == "/**"):
        lines += wrapped(part, prefix) if is_text else wrapped_row(part[0], prefix) if part[0] else part
    if len(lines) == 1 and mark == "/*" and columns(f"{indent}/* {lines[0]} */") <= WIDTH:
        return [f"{indent}/* {lines[0]} */"]
    return [indent + mark] + [(prefix.rstrip() if line.startswith("\t") else prefix) + line if line else prefix.rstrip()
                              for line in lines] + [indent + " */"]


def has_text_beside_mark(lines, start):
    """Whether a comment of several lines has text beside its first or last mark."""
    return len(lines) > 1 and not lines[0][:start].strip() and \
        (lines[0].strip() not in ("/*", "/**") or lines[-1].lstrip().startswith("*") and lines[-1].strip() != "*/")


def is_within_declaration(lines, first, start):
    """Whether a comment of its own line follows only the type of a declaration."""
    return first > 0 and not lines[first][:start].strip() and bool(BEGINS_DECLARATION.match(lines[first - 1]))


def is_wrong(lines, start):
    """Whether the layout of the comment has to be changed."""
    return has_text_beside_mark(lines, start) or any(columns(line) > WIDTH for line in lines)


def is_in_expression(lines, at):
    """Whether the line continues the one before it, so that no comment is moved between them."""
    before = lines[at - 1].rstrip() if at else ""
    return lines[at].lstrip("\t").startswith(" ") or \
        before.endswith(("(", "\\", "&&", "||", "+", "|", "?", ":", "=")) or \
        (before.endswith(",") and before.count("(") > before.count(")"))


def fixed(lines):
    """The lines with all comments laid out, and the numbers of lines that have to be changed by hand."""
    out, by_hand, done = [], [], 0
    for first, start, last in comments(lines):
        out += lines[done:first]
        own, done = lines[first:last + 1], last + 1
        code, rest = own[0][:start].rstrip(), own[-1][own[-1].rindex("*/") + 2:].strip()
        indent = re.match(r"\t*", own[0])[0]
        mark = "/**" if own[0].strip().startswith("/**") else "/*"
        if not is_wrong(own, start):
            out += own
        elif rest or code and (KEEPS_COMMENT.search(code) or is_in_expression(lines, first)):
            by_hand.append(first + 1)
            out += own
        elif code:
            out += laid_out(indent, [" ".join(text_of(own, start))]) + [code]
        else:
            out += laid_out(indent, text_of(own, start), mark)
            if any(columns(line) > WIDTH for line in out[-len(own):]):
                by_hand.append(first + 1)
    return out + lines[done:], by_hand


def fix(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines, by_hand = fixed(text.split("\n"))
        if "\n".join(lines) != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
        for number in by_hand:
            print(f"{path}:{number}: change this comment by hand")


def wrong_comments(paths):
    for path in paths:
        lines = read(path).split("\n")
        for first, start, last in comments(lines):
            for number in range(first, last + 1):
                if columns(lines[number]) > WIDTH:
                    yield f"{path}:{number + 1}: {columns(lines[number])} columns in a comment, at most {WIDTH}"
            if has_text_beside_mark(lines[first:last + 1], start):
                yield f"{path}:{first + 1}: a comment of several lines begins with a line /* and ends with a line */"
            if is_within_declaration(lines, first, start):
                yield f"{path}:{first + 1}: a comment within a declaration: move it before the declaration"


EXAMPLE = [
    "/* A comment of",
    " * two lines. */",
    "/*",
    " * Another one. */",
    "\tint value; /* " + "word " * 20 + "*/",
    "/*",
    " * " + "word " * 20,
    " */",
    "/* short */",
    "\tchar text[] = \"/* " + "x" * 100 + "\";",
]


def rules_report_example():
    """The numbers of the faulty lines of EXAMPLE, and nothing after --fix."""
    lines, by_hand = fixed(EXAMPLE)
    if by_hand or any(is_wrong(lines[first:last + 1], start) for first, start, last in comments(lines)):
        yield f"--fix leaves {lines}"
    if lines[-1] != EXAMPLE[-1] or "/* short */" not in lines:
        yield f"--fix changed a line that is right: {lines}"
    wrong = [first for first, start, last in comments(EXAMPLE) if is_wrong(EXAMPLE[first:last + 1], start)]
    if wrong != [0, 2, 4, 5]:
        yield f"faults in lines {wrong} of the example"
    for text, is_within in (("\tstruct peer *", True), ("\tatomic_uint", True), ("\tint x;", False),
                            ("\telse", False), ("\tif (a)", False)):
        if is_within_declaration([text, "\t\t/* why */", "\t\tname;"], 1, 2) != is_within:
            yield f"a comment after {text!r}"


def main():
    if sys.argv[1:2] == ["--fix"]:
        fix(sys.argv[2:])
        return 0
    tap = Tap()
    tap.rule("comments have at most 100 columns, begin with a line /* and end with a line */",
             wrong_comments(files(".c", ".h")))
    tap.rule("the rule and --fix are right for an example", rules_report_example())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
