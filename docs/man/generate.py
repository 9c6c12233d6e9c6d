# SPDX-License-Identifier: BSD-2-Clause
"""Makes the manual: a page of section 3 for every call, structure and enumeration that the public headers document,
from their docstrings; the pages beside this program, copied; and a link for each further name that a page tells about.

    generate.py INCLUDE MAP... OUTPUT

INCLUDE: the public headers. MAP: the version scripts, for the names of private nodes. OUTPUT: replaced, has man1 to
man8.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys

from docs.man import docstrings, mdoc

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = ("infiniband/verbs.h", "infiniband/sa.h", "infiniband/ib.h", "infiniband/tm_types.h", "rdma/rdma_cma.h",
           "rdma/rdma_verbs.h", "rdma/rsocket.h")

# The page of section 7 that says what the calls of a header have in common.
ABOUT = {"infiniband": "libibverbs", "rdma/rdma_cma.h": "rdma_cm", "rdma/rdma_verbs.h": "rdma_cm",
         "rdma/rsocket.h": "rsocket"}
PRIVATE_PAGE = "ibv_private"

WRITTEN = re.compile(r".+\.[1-8]$")


def about(symbol):
    return ABOUT.get(symbol.header) or ABOUT[symbol.header.split("/")[0]]


def commit_time():
    """The time of the last commit, if the sources are a git work tree of their own; else an empty string."""
    source = os.path.dirname(os.path.dirname(HERE))
    if not os.path.exists(os.path.join(source, ".git")):
        return ""
    try:
        done = subprocess.run(["git", "-C", source, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def date_of_pages():
    """The date of all pages: SOURCE_DATE_EPOCH, else that of the last commit, else that of the page usrdma(7)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or commit_time()
    if epoch:
        day = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
        return f"{day:%B} {day.day}, {day.year}"
    with open(os.path.join(HERE, "usrdma.7"), encoding="utf-8") as file:
        return re.search(r"^\.Dd (.*)$", file.read(), re.M)[1]


def read_all(include):
    """Every documented symbol by its name, in the headers' order."""
    symbols = {}
    for name in HEADERS:
        for symbol in docstrings.read_header(os.path.join(include, name), name):
            if symbol.name in symbols:
                sys.exit(f"{name}: {symbol.name} has two docstrings")
            symbols[symbol.name] = symbol
    return symbols


def written_names(path):
    """Every name that a hand-written page says it is about."""
    with open(path, encoding="utf-8") as file:
        head = file.read().split(".Sh SYNOPSIS")[0].split(".Sh DESCRIPTION")[0]
    return re.findall(r"^\.Nm (\S+)", head, re.M)


def exported_names(path):
    """Pairs of name and version node in a version script."""
    with open(path, encoding="utf-8") as file:
        script = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    for node, body in re.findall(r"(\w+)\s*\{(.*?)\}", script, re.S):
        for name in re.findall(r"\b(\w+);", body):
            yield name, node


class Manual:
    """All pages: from `symbols`, and from the files beside this program. `calls`: each name that section 3
    documents."""

    def __init__(self, include, symbols, date, output):
        self.include = include
        self.symbols = symbols
        self.date = date
        self.output = output
        self.written = sorted(name for name in os.listdir(HERE) if WRITTEN.match(name))
        self.calls = set(symbols)
        for name in filter(lambda name: name.endswith(".3"), self.written):
            self.calls.update(written_names(os.path.join(HERE, name)))

    def write(self, name, section, text):
        folder = os.path.join(self.output, f"man{section}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{name}.{section}"), "w", encoding="ascii") as file:
            file.write(text)

    def link(self, name, page, section=3):
        if not os.path.exists(os.path.join(self.output, f"man{section}", f"{name}.{section}")):
            self.write(name, section, f".so man{section}/{page}.{section}\n")

    def make(self, exported):
        pages = {}
        for symbol in self.symbols.values():
            pages.setdefault(symbol.page, []).append(symbol)
        for name in self.written:
            self.write(*name.rsplit(".", 1), self.filled_in(name))
        for name, told in pages.items():
            told.sort(key=lambda symbol: symbol.name != name)
            if told[0].name != name:
                sys.exit(f"{told[0].header}: {told[0].name} belongs to the page of {name}, which has no docstring")
            page = function_page(self, told) if told[0].is_function else type_page(self, told[0])
            self.write(name, 3, page)
        self.links(exported)

    def filled_in(self, name):
        """A hand-written page. @header NAME@ becomes the rules that this header states for all its calls, @file NAME@
        the listing of a program beside this one, and @tools@ the list of the other pages of section 1."""
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"^\.Dd .*$", f".Dd {self.date}\n{mdoc.VOLUME}", text, count=1, flags=re.M)
        text = re.sub(r"^@header (\S+)@\n", lambda match: self.rules(match[1]), text, flags=re.M)
        text = re.sub(r"^@file (\S+)@\n", lambda match: self.listing(match[1]), text, flags=re.M)
        return re.sub(r"^@tools@\n", lambda _: self.tools(), text, flags=re.M)

    def listing(self, name):
        """A program, without the comment that names the licence."""
        page = mdoc.Page(self.date, [name], 7, self.calls)
        page.lines.clear()
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            page.literal(re.sub(r"\A/\* SPDX.*?\*/\n", "", file.read()).rstrip())
        return page.finish()

    def rules(self, header):
        page = mdoc.Page(self.date, [header], 7, self.calls)
        page.lines.clear()
        page.blocks(docstrings.top_comment(os.path.join(self.include, header)))
        return page.finish()

    def tools(self):
        """One entry a tool, with the line that its page has for a name."""
        lines = []
        for name in self.written:
            stem, section = name.rsplit(".", 1)
            if section == "1" and stem != "usrdma":
                with open(os.path.join(HERE, name), encoding="utf-8") as file:
                    lines += [f".It Xr {stem} 1", re.search(r"^\.Nd (.*)$", file.read(), re.M)[1]]
        return "\n".join(lines) + "\n" if lines else ""

    def links(self, exported):
        for symbol in self.symbols.values():
            if symbol.page != symbol.name:
                self.link(symbol.name, symbol.page)
        for name in self.written:
            stem, section = name.rsplit(".", 1)
            for other in written_names(os.path.join(HERE, name)):
                self.link(other, stem, int(section))
        for name, node in exported:
            # The page of an inline function also documents the symbol that it calls: its own name after an underscore.
            told = name.lstrip("_")
            if told in self.symbols:
                self.link(name, self.symbols[told].page)
            elif "PRIVATE" in node:
                self.link(name, PRIVATE_PAGE)


def function_page(manual, told):
    """One call, or several on one page; the first gives the page its name."""
    lead = told[0]
    page = mdoc.Page(manual.date, [symbol.name for symbol in told], 3, manual.calls)
    page.section("NAME")
    for number, symbol in enumerate(told):
        page.macro("Nm", symbol.name, *([","] if number < len(told) - 1 else []))
    page.macro("Nd", mdoc.escape(mdoc.description(mdoc.first_sentence(lead.purpose[0]))))
    page.section("SYNOPSIS")
    page.macro("In", lead.header)
    for symbol in told:
        synopsis(page, symbol)
    page.section("DESCRIPTION")
    page.blocks(lead.purpose)
    parameters(page, lead)
    if len(told) > 1:
        members(page, told[1:])
    types(page, manual, lead)
    returns(page, lead, told)
    if "Example" in lead.fields:
        page.section("EXAMPLES")
        page.blocks(sentence_case(lead.fields["Example"]))
    errors(page, lead)
    for key, title in (("Sync", "SYNCHRONOUS OPERATION"), ("Threads", "THREADS"), ("State", "STATE"),
                       ("Events", "EVENTS"), ("Notes", "NOTES")):
        if key in lead.fields:
            page.section(title)
            blocks = synchronous(lead, manual.symbols) if key == "Sync" else lead.fields[key]
            page.blocks(sentence_case(blocks))
    see_also(page, manual, told)
    standards(page, lead)
    return page.finish()


def synopsis(page, symbol):
    page.macro("Ft", mdoc.argument(symbol.prototype[0]))
    page.macro("Fo", symbol.name)
    for parameter in symbol.prototype[1]:
        page.macro("Fa", mdoc.argument(parameter))
    page.macro("Fc")


def parameters(page, symbol, compact=False):
    if not symbol.parameters:
        return
    page.macro("Bl -tag -width Ds" + (" -compact" if compact else ""))
    for names, blocks in symbol.parameters:
        # Names that share a text share the entry: a text is never divided among them.
        page.macro("It", " , ".join(f"{'Dv' if name.isupper() else 'Fa'} {name}" for name in names))
        page.blocks(sentence_case(blocks))
    page.macro("El")


def types(page, manual, symbol):
    """The types that a call takes or fills, each with its declaration and the meaning of its members."""
    for name in re.findall(r"(?:struct|union|enum) (\w+)", symbol.text("Types")):
        if name not in manual.symbols:
            sys.exit(f"{symbol.header}: {symbol.name} shows {name}, which has no docstring")
        shown = manual.symbols[name]
        page.macro("Ss", f"{shown.kind} {name}")
        page.blocks(shown.purpose)
        page.literal(shown.declaration)
        parameters(page, shown)


def members(page, told):
    """The other calls of a page, each with what is particular to it."""
    page.macro("Bl -tag -width Ds")
    for symbol in told:
        page.macro("It", "Fn", symbol.name)
        page.blocks(symbol.purpose)
        if "Returns" in symbol.fields:
            page.text("Returns")
            page.blocks(symbol.fields["Returns"])
        parameters(page, symbol, compact=True)
    page.macro("El")


def returns(page, lead, told):
    if "Returns" not in lead.fields:
        if all(symbol.prototype[0] != "void" for symbol in told):
            return
        page.section("RETURN VALUES")
        page.text("None.")
        return
    page.section("RETURN VALUES")
    page.blocks(["Returns " + lead.fields["Returns"][0]] + lead.fields["Returns"][1:])


def errors(page, symbol):
    if "Errors" not in symbol.fields:
        if re.search(r"\bEOPNOTSUPP\.$", symbol.text("Returns")):
            page.section("ERRORS")
            page.macro("Bl -tag -width Er")
            page.macro("It", "Bq", "Er", "EOPNOTSUPP")
            page.text("Always. usrdma devices do not have this feature.")
            page.macro("El")
        return
    page.section("ERRORS")
    named = [pair for pair in symbol.errors() if pair[0]]
    if named:
        page.macro("Bl -tag -width Er")
        for names, text in named:
            page.macro("It", "Bq", "Er", " , ".join(re.findall(docstrings.ERRNO, names)))
            page.blocks(sentence_case([text.rstrip(".") + "."]) if text else [])
        page.macro("El")
        page.macro("Pp")
    for _, text in (pair for pair in symbol.errors() if not pair[0]):
        page.blocks(sentence_case([text.rstrip(".") + "."]))
    page.text(f"Errors that every call can report are in {about(symbol)}(7).")


def synchronous(symbol, symbols):
    """What a call waits for on an id without a channel. The header names events without their common prefix."""
    prefix = "RDMA_CM_EVENT_"
    events = re.findall(rf"\b{prefix}(\w+)", symbols["rdma_cm_event_type"].declaration)
    text = re.sub(rf"\b(?=(?:{'|'.join(events)})\b)", prefix, symbol.text("Sync").rstrip("."))
    return [f"On a synchronous id the call waits for {text}."]


def see_also(page, manual, told):
    """What the docstrings name, the types that the calls take, and the page of what all have in common."""
    names = set()
    for symbol in told:
        names |= set(re.findall(r"(\w+)\(\)", symbol.text("See also")))
        names |= set(re.findall(r"(?:enum|struct|union) (\w+)", symbol.text("See also") + symbol.text("Types")))
        names |= set(re.findall(r"(?:enum|struct|union) (\w+)", str(symbol.prototype) + str(symbol.parameters)))
    named = {name: 3 for name in names if name in manual.calls}
    named[about(told[0])] = 7
    for name, section in re.findall(r"([\w-]+)\((\d)\)", " ".join(symbol.text("See also") for symbol in told)):
        named[name] = int(section)
    own = {symbol.name for symbol in told}
    references(page, {name: section for name, section in named.items() if section != 3 or name not in own})


def references(page, named):
    page.section("SEE ALSO")
    ordered = sorted(named.items(), key=lambda item: (item[1], item[0]))
    for number, (name, section) in enumerate(ordered):
        page.macro("Xr", name, str(section), *([","] if number < len(ordered) - 1 else []))


def standards(page, symbol):
    source = symbol.text("Source").rstrip(".")
    documents = re.sub(r"\b[\w-]+\(\d\)(, )?", "", source).strip(" ,")
    pages = re.findall(r"\b([\w-]+)\(\d\)", source)
    if source:
        page.section("STANDARDS")
        said = [f"The manual of rdma-core: {', '.join(pages)}."] if pages else []
        page.text(" ".join(said + ([documents + "."] if documents else [])))
    since = symbol.text("Since").rstrip(".")
    if since or "Inline" in symbol.fields:
        page.section("HISTORY")
        page.text(history(since))


def history(since):
    """Since which version there is this, in a sentence."""
    version, _, rest = since.partition(", ")
    if rest == "inline":
        return f"An inline function, in rdma-core since {version}; it carries no symbol version."
    if not since:
        return "An inline function; it carries no symbol version."
    return f"Exported at version {since}."


def type_page(manual, symbol):
    page = mdoc.Page(manual.date, [symbol.name], 3, manual.calls)
    page.section("NAME")
    page.macro("Nm", symbol.name)
    page.macro("Nd", mdoc.escape(mdoc.description(mdoc.first_sentence(symbol.purpose[0]))))
    page.section("SYNOPSIS")
    page.macro("In", symbol.header)
    page.literal(symbol.declaration)
    page.section("DESCRIPTION")
    page.blocks(symbol.purpose)
    parameters(page, symbol)
    named = {name: 3 for name in re.findall(r"(?:struct|enum|union) (\w+)", symbol.declaration + str(symbol.purpose))
             if name in manual.symbols and name != symbol.name}
    for other in manual.symbols.values():
        if other.is_function and any(re.search(rf"\b{symbol.name}\b", text) for text in other.prototype[1]):
            named[other.page] = 3
    named[about(symbol)] = 7
    references(page, named)
    standards(page, symbol)
    return page.finish()


def sentence_case(blocks):
    """The first word of a field as that of a sentence."""
    if not blocks or not isinstance(blocks[0], str):
        return blocks
    first = blocks[0]
    is_word = re.match(r"(?!enum |struct |union )[a-z]+[\s,.;:]", first)
    return [first[:1].upper() + first[1:] if is_word else first] + blocks[1:]


def main():
    include, *scripts, output = sys.argv[1:]
    symbols = read_all(include)
    shutil.rmtree(output, ignore_errors=True)
    manual = Manual(include, symbols, date_of_pages(), output)
    manual.make([pair for script in scripts for pair in exported_names(script)])


if __name__ == "__main__":
    main()
