# SPDX-License-Identifier: BSD-2-Clause
"""Writes mdoc(7): plain text with the marks of our docstrings in, macro lines out."""

import errno
import re

from docs.man.docstrings import Literal

# What a word of a docstring can be, bare of the punctuation around it.
ARGUMENT = re.compile(r"\*(\w+)\*$")
CALL = re.compile(r"(\w+)\(\)$")
MANUAL = re.compile(r"([\w.-]+)\((\d)\)$")
CONSTANT = re.compile(r"(?:_?[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]|EAI_[A-Z]+|NULL)$")
LITERAL = re.compile(r"`([^`]+)`$")
WORD = re.compile(r"(?P<before>[(\[]*)(?P<core>.*?)(?P<after>[)\],.:;!?]*)$", re.S)
ENDS_SENTENCE = re.compile(r"[.!?]\)?$")
ABBREVIATION = re.compile(r"(?:e\.g|i\.e|…)\.?$")
ERRNOS = {name for name in dir(errno) if name.isupper()}

LONG_CHARS = 80

# What groff puts in front of the volume's name, instead of "BSD".
VOLUME = ".ds doc-volume-operating-system usrdma"

SPECIAL = {"\\": "\\e", "§": "\\(sc", "…": "...", "→": "\\(->", "≥": ">=", "≤": "<=", "µ": "\\(mc", "×": "\\(mu"}


def escape(text):
    """Text in which roff sees no command; a sign before a number is a minus."""
    text = "".join(SPECIAL.get(char, char if ord(char) < 128 else f"\\[u{ord(char):04X}]") for char in text)
    return re.sub(r"(?<![\w])-(?=\d)", r"\\-", text)


def argument(text):
    """Text as one argument of a macro line."""
    text = escape(text)
    return f'"{text}"' if not text or " " in text or '"' in text else text


class Page:
    """Lines of one page about `names`. The mention of another call of `calls` becomes a reference to section 3."""

    def __init__(self, date, names, section, calls):
        self.names = names
        self.calls = calls
        self.lines = ['.\\" SPDX-License-Identifier: BSD-2-Clause', '.\\" Made from the headers; change it there.',
                      f".Dd {date}", VOLUME, f".Dt {names[0].upper()} {section}", ".Os usrdma"]

    def macro(self, *words):
        self.lines.append("." + " ".join(words))

    def section(self, name):
        self.macro("Sh", name)

    def literal(self, text):
        """A display as it stands."""
        self.macro("Bd -literal")
        for line in text.expandtabs(8).split("\n"):
            escaped = escape(line)
            self.lines.append("\\&" + escaped if escaped.startswith((".", "'")) else escaped)
        self.macro("Ed")

    def text(self, text):
        """Running text; each sentence begins a line."""
        open_line = []
        for word in words_of(text):
            mark = self.marked(word)
            if mark:
                before, line = mark
                self.flush(open_line, before)
                self.lines.append(line)
            else:
                open_line.append(escape(word))
            if ENDS_SENTENCE.search(word) and not ABBREVIATION.search(word):
                self.flush(open_line)
        self.flush(open_line)

    def flush(self, words, glued=""):
        """Ends the line of plain words; `glued` stands right before the macro that follows."""
        if glued:
            words.append(glued + "\\c")
        if words:
            line = " ".join(words)
            self.lines.append("\\&" + line if line.startswith((".", "'")) else line)
        words.clear()

    def marked(self, word):
        """A word that means more than itself, as a macro line with what stands before it; or None."""
        match = WORD.match(word)
        # A call's own parentheses are no punctuation; nor is a hyphen's other half.
        core, after = match["core"], match["after"]
        if after.startswith(")") and re.search(r"\w\($|\w\(\d$", core + ("" if after else "")):
            core, after = core + ")", after[1:]
        macro = self.macro_of(core)
        if not macro:
            return None
        return match["before"], " ".join(["." + macro] + list(after))

    def macro_of(self, core):
        if match := ARGUMENT.match(core):
            return f"Fa {match[1]}"
        if match := MANUAL.match(core):
            return f"Xr {match[1]} {match[2]}"
        if match := CALL.match(core):
            is_elsewhere = match[1] in self.calls and match[1] not in self.names
            return f"Xr {match[1]} 3" if is_elsewhere else f"Fn {match[1]}"
        if core in ERRNOS:
            return f"Er {core}"
        if match := LITERAL.match(core):
            return f"Ql {argument(match[1])}"
        if CONSTANT.match(core):
            return f"Dv {core}"
        return None

    def blocks(self, blocks, apart=True):
        """Paragraphs, lists and displays, one below the other."""
        for number, block in enumerate(blocks):
            if isinstance(block, list):
                self.macro("Bl -bullet -compact")
                for item in block:
                    self.macro("It")
                    self.text(item)
                self.macro("El")
                continue
            if isinstance(block, Literal):
                self.literal(block)
                continue
            if number and apart:
                self.macro("Pp")
            self.text(block)

    def finish(self):
        return "\n".join(self.lines) + "\n"


def words_of(text):
    """Words; what stands in backquotes is one."""
    return re.findall(r"(?:[^\s`]*`[^`]+`[^\s`]*)|\S+", text)


def first_sentence(text):
    """Up to the full stop that ends it."""
    match = re.match(r"(.*?[^.])\.(?=\s|$)", text, re.S)
    return match[1] if match else text


def description(text):
    """A sentence as the one line of NAME: no full stop, and no capital that only stood for the beginning. Of a long one
    what stands before a colon or semicolon has to do."""
    text = " ".join(re.sub(r"\*(\w+)\*|`", r"\1", text).split()).rstrip(".:")
    if len(text) > LONG_CHARS:
        text = re.split(r"[:;] ", text)[0]
    head = text.split(" ", 1)[0]
    return text if len(head) > 1 and not head[1:].islower() else text[:1].lower() + text[1:]
