# SPDX-License-Identifier: BSD-2-Clause
"""Reads the public headers: every declaration that has a docstring (a comment that begins with /**), taken apart into
the fields of docs/STYLE.md: purpose, parameters, Returns, Errors, Threads, State, Events, Notes, Example, Types, Since,
Source, See also.

A docstring with "Page: other()." is documented on the page of that other call. "Types: struct one, enum two." puts the
description of these types on the page of the call.
"""

import re
from dataclasses import dataclass, field

DOCUMENTED = re.compile(r"/\*\*(?P<text>.*?)\*/\s*", re.S)
TYPE = re.compile(r"(?P<kind>struct|union|enum)\s+(?P<name>\w+)\s*\{")
FUNCTION = re.compile(r"(?P<returns>[\w\s*]+?)(?P<name>\w+)\((?P<parameters>.*)\)\s*$", re.S)
NO_TYPE = re.compile(r"\b(static|inline|extern|__attribute_const)\b|__attribute__\s*\(\(.*?\)\)")

# A field begins at the start of a line, after the end of a sentence. The short fields at the end of a docstring may
# follow one another on a line. Words of a sentence that look like a field stay in their sentence in every other place.
KEYS = "Returns|Errors|Threads|State|Events"
FIELD = re.compile(
    r"(?:\A|(?<=[.:)]\n))"
    r"(?:(?P<names>\*\w+\*(?:,\s\*\w+\*)*):\s"
    rf"|(?P<keys>(?:{KEYS})(?:, (?:{KEYS.lower()}))+):\s"
    r"|(?P<returns>Returns)\s"
    r"|(?P<key>Errors|Threads|State|Events|Notes|Example|Types):(?:\s|\Z)"
    r"|(?P<since>Since)\s(?=IBVERBS|RDMACM|v\d))"
    r"|(?:\A|(?<=[.)]\s))(?:(?P<last>Sync|Source|See\salso|Page):\s|(?P<inline>Inline)(?=\.))")

FIELD_NAMES = ("Returns", "Errors", "Threads", "State", "Events", "Notes", "Example", "Types", "Since", "Sync",
               "Source", "See also", "Page", "Inline")

ERRNO = r"(?:EAI_[A-Z]+|E[A-Z][A-Z0-9]+)"
# These mean the same wherever they come, so a docstring may leave it at the name.
PLAIN = {"ENOMEM": "no memory", "EIO": "the daemon is gone, or the object was made before fork() and this is the child"}
ERROR = re.compile(rf"(?P<names>{ERRNO}(?:(?:, | or | and ){ERRNO})*)(?P<text>:? ?.*)$", re.S)
# An errno's text ends before the next errno, and before what is said of all errnos of another kind.
ERROR_BREAK = re.compile(rf"(?:; (?=(?:{ERRNO}|(?:else )?(?:as|those of) (?:of |for )?\w+\(\)))"
                         rf"|(?<=\. )(?=(?:{ERRNO}|On a synchronous id)\b))")


@dataclass
class Symbol:
    """One documented declaration."""

    kind: str  # function, struct, union, enum
    name: str
    header: str
    declaration: str
    purpose: list  # of blocks
    parameters: list = field(default_factory=list)  # of (names, blocks)
    fields: dict = field(default_factory=dict)  # key: blocks
    prototype: tuple = ()  # type, list of parameters; of functions

    @property
    def is_function(self):
        return self.kind == "function"

    @property
    def page(self):
        """The page that documents it."""
        named = re.match(r"(\w+)\(\)", self.text("Page"))
        return named[1] if named else self.name

    def text(self, key):
        """A field as one string."""
        return " ".join(block for block in self.fields.get(key, []) if isinstance(block, str))

    def argument_names(self):
        return re.findall(r"(\w+)(?:\[\w*\])?\s*(?:,|$)", ",".join(self.prototype[1])) if self.is_function else []

    def errors(self):
        """Pairs of (errno names, text); names is empty for text that belongs to none."""
        return list(split_errors(self.text("Errors")))


def split_errors(text):
    for piece in filter(None, (part.strip() for part in ERROR_BREAK.split(text))):
        match = ERROR.match(piece)
        if not match:
            yield "", piece
            continue
        words = match["text"].lstrip(":, ")
        yield match["names"], (words if words.strip(".") else PLAIN.get(match["names"], ""))


def read_header(path, name):
    """Yields every Symbol of a header; `name` is how a program includes it."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    for match in DOCUMENTED.finditer(source):
        declaration = declaration_at(source, match.end())
        kind = TYPE.match(declaration)
        purpose, parameters, fields = docstring(match["text"])
        if kind:
            yield Symbol(kind["kind"], kind["name"], name, declaration, purpose, parameters, fields)
            continue
        head = FUNCTION.match(plain(declaration))
        if head:
            yield Symbol("function", head["name"], name, declaration, purpose, parameters, fields,
                         (" ".join(head["returns"].split()), split_arguments(head["parameters"])))


def declaration_at(source, start):
    """The declaration that begins here: a whole type, or a function up to its semicolon or body."""
    depth = 0
    is_type = TYPE.match(source, start)
    for at in range(start, len(source)):
        char = source[at]
        if char == "{" and not is_type:
            return source[start:at]
        depth += (char in "({") - (char in ")}")
        if char == ";" and depth == 0:
            return source[start:at + 1]
    return source[start:]


def plain(declaration):
    """Removes storage classes and attributes, and names the type that the macro of the same name takes."""
    words = NO_TYPE.sub(" ", declaration).replace("struct _compat_", "struct ")
    return " ".join(words.rstrip("; \n").split())


def split_arguments(text):
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()]


class Literal(str):
    """A paragraph that was indented with tabs: it stays as it is."""


def paragraphs(comment):
    """Paragraphs as strings with their line ends, lists as lists of strings."""
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment.strip("\n").split("\n")]
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if block.startswith("- "):
            yield [" ".join(item.split()) for item in re.split(r"^- ", block, flags=re.M) if item]
        elif all(line.startswith("\t") for line in block.split("\n")):
            yield Literal("\n".join(line[1:] for line in block.split("\n")))
        else:
            yield block


def flat(text):
    return " ".join(text.split())


def top_comment(path):
    """What a header says of all its calls: its first comment after the licence, without the source, and without a first
    paragraph that is one sentence and says what the header is."""
    with open(path, encoding="utf-8") as file:
        comment = re.match(r"/\*.*?\*/\s*/\*(.*?)\*/", file.read(), re.S)[1]
    blocks = [block if isinstance(block, (list, Literal)) else flat(re.split(r"\bSource: ", block)[0])
              for block in paragraphs(comment)]
    return [block for number, block in enumerate(blocks) if block and (number > 0 or ". " in block)]


def docstring(comment):
    """Purpose, parameters and fields of a docstring. What follows a field, up to the next, belongs to it."""
    purpose, parameters, fields = [], [], {}
    current = [purpose]
    for block in paragraphs(comment):
        if isinstance(block, (list, Literal)):
            for place in current:
                place.append(block)
            continue
        marks = list(FIELD.finditer(block))
        before = block[:marks[0].start()] if marks else block
        add(current, before)
        for mark, following in zip(marks, marks[1:] + [None], strict=False):
            current = places(mark, parameters, fields)
            add(current, block[mark.end():following.start() if following else len(block)])
    return purpose, parameters, fields


def add(current, text):
    for place in current:
        if text.strip():
            place.append(flat(text))


def places(mark, parameters, fields):
    """Where the text of a field goes."""
    if mark["names"]:
        parameters.append((re.findall(r"\w+", mark["names"]), []))
        return [parameters[-1][1]]
    if mark["keys"]:
        keys = [key.capitalize() for key in mark["keys"].split(", ")]
    elif mark["returns"] or mark["since"]:
        keys = [(mark["returns"] or mark["since"]).strip()]
    else:
        keys = [flat(mark["key"] or mark["last"] or mark["inline"])]
    return [fields.setdefault(key, []) for key in keys]
