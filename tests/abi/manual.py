# SPDX-License-Identifier: BSD-2-Clause
"""The manual: a page for each name that the libraries export and each call that the headers declare, docstrings that
say everything a page has to say, references that lead somewhere, and pages that mandoc and groff have nothing to say
about.

    manual.py MANUAL LIBIBVERBS LIBRDMACM
"""

import errno
import os
import re
import shutil
import subprocess
import sys

from docs.man import docstrings, generate
from tests.abi.symbols import exported
from tests.abi.tap import Tap
from tests.arch.sources import ROOT

NAME_MAX_CHARS = 100

# Calls of the headers that are not for applications: the insides of macros, and what other parts of the headers use.
INSIDE = re.compile(r"^_|^(verbs_get_ctx|rdma_verbs_\w+|htonll|ntohll)$")
DECLARED = re.compile(r"^(?:static inline |)(?!typedef|return|else)[a-z_][\w ]*[ *]+\**(?P<name>\w+)"
                      r"\((?!\*)[^;{=]*\)\s*[;{]", re.M)

REFERENCE = re.compile(r"^\.(?:It )?Xr (\S+) (\d)", re.M)
OURS = re.compile(r"^(ibv_|rdma_|usrdma|libibverbs|rsocket)")
LINE = re.compile(r"^mandoc: \S+:\d+:\d+: (WARNING|ERROR|UNSUPP)")


def pages(manual):
    """Every page as (name, section, text); links are left out."""
    for where, _, names in os.walk(manual):
        for name in names:
            with open(os.path.join(where, name), encoding="ascii") as file:
                text = file.read()
            if not text.startswith(".so "):
                yield *name.rsplit(".", 1), text


def links(manual):
    """Pairs of path and target."""
    for where, _, names in os.walk(manual):
        for name in names:
            with open(os.path.join(where, name), encoding="ascii") as file:
                match = re.match(r"\.so (\S+)\n$", file.read())
            if match:
                yield os.path.join(os.path.basename(where), name), match[1]


def without_page(manual, libraries):
    for library in libraries:
        for name in sorted({symbol[0] for symbol in exported(library)}):
            # Version nodes are not names. The only object is listed with the private names as well.
            if not re.match(r"(IBVERBS|RDMACM)_", name) and not there(manual, name, 3):
                yield f"{name} of {os.path.basename(library)}"


def there(manual, name, section):
    return os.path.exists(os.path.join(manual, f"man{section}", f"{name}.{section}"))


def undocumented(symbols):
    for header in generate.HEADERS:
        with open(os.path.join(ROOT, "include", header), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for match in DECLARED.finditer(text):
            if match["name"] not in symbols and not INSIDE.match(match["name"]):
                yield f"{header}: {match['name']}() has no docstring"


def is_refused(symbol):
    """Whether usrdma does not have this call: its one answer is EOPNOTSUPP."""
    return bool(re.search(r"EOPNOTSUPP\.$", symbol.text("Returns").split(" See also")[0]))


def unsaid(symbols):
    """What the docstrings of calls leave out."""
    for symbol in filter(lambda symbol: symbol.is_function and not is_refused(symbol), symbols.values()):
        lead = symbols[symbol.page]
        told = {name for names, _ in symbol.parameters + lead.parameters for name in names}
        for name in symbol.argument_names():
            if name not in told | {"void"}:
                yield f"{symbol.name}: nothing about *{name}*"
        for names, _ in symbol.parameters:
            for name in set(names) - set(symbol.argument_names()) - {"..."}:
                yield f"{symbol.name}: *{name}* is not one of its parameters"
        if symbol.prototype[0] != "void" and "Returns" not in symbol.fields:
            yield f"{symbol.name}: no \"Returns\""
        for key in ("Threads", "Source"):
            if key not in lead.fields:
                yield f"{symbol.name}: no \"{key}:\""
        if not {"Since", "Inline"} & (set(symbol.fields) | set(lead.fields)):
            yield f"{symbol.name}: no \"Since\""


def unexplained(symbols):
    """Errors are an errno, a colon and when it comes."""
    for symbol in symbols.values():
        for names, text in symbol.errors():
            for name in re.findall(docstrings.ERRNO, names):
                if not hasattr(errno, name) and not name.startswith("EAI_"):
                    yield f"{symbol.name}: {name} is no errno"
            if names and not text.strip("."):
                yield f"{symbol.name}: when {names}?"
            # The text of one errno that explains another was not taken apart.
            for other in re.findall(rf"\b({docstrings.ERRNO}): ", text if names else ""):
                if hasattr(errno, other):
                    yield f"{symbol.name}: {other} is listed under {names}"


def bad_names(manual):
    for name, section, text in pages(manual):
        line = re.search(r"^\.Nd (.*)$", text, re.M)
        if not line or len(line[1]) > NAME_MAX_CHARS:
            yield f"{name}({section}): \"{line[1] if line else ''}\" is no line for NAME"


def lost_references(manual):
    for name, section, text in pages(manual):
        for other, where in set(REFERENCE.findall(text)):
            if OURS.match(other) and not there(manual, other, where):
                yield f"{name}({section}): there is no {other}({where})"
        for mark in re.findall(r"@[a-z]+@|^@.*", text, re.M):
            yield f"{name}({section}): {mark} was not filled in"


def lost_links(manual):
    for path, target in links(manual):
        if not os.path.isfile(os.path.join(manual, target)):
            yield f"{path}: there is no {target}"


def real_files(manual):
    return [os.path.join(manual, f"man{section}", f"{name}.{section}") for name, section, _ in pages(manual)]


def complaints(command, paths, wanted):
    done = subprocess.run(command + paths, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return [line for line in done.stdout.splitlines() if wanted.search(line)][:20]


def main():
    manual, *libraries = sys.argv[1:]
    symbols = generate.read_all(os.path.join(ROOT, "include"))
    tap = Tap()
    tap.rule("every exported name has a page", without_page(manual, libraries))
    tap.rule("every declared call has a docstring", undocumented(symbols))
    tap.rule("docstrings of calls say everything", unsaid(symbols))
    tap.rule("every errno is explained", unexplained(symbols))
    tap.rule("NAME is one line", bad_names(manual))
    tap.rule("references lead to pages", lost_references(manual))
    tap.rule("links lead to pages", lost_links(manual))
    files = real_files(manual)
    for tool, command, wanted in (("mandoc", ["mandoc", "-Tlint", "-W", "warning"], LINE),
                                  # Without adjustment: groff 1.23 warns of lines that have no space to widen.
                                  ("groff", ["groff", "-dAD=l", "-mandoc", "-ww", "-z", "-Tutf8"], re.compile("."))):
        if shutil.which(tool):
            tap.rule(f"{tool} has no warning", complaints(command, files, wanted))
        else:
            tap.skip(f"{tool} has no warning", f"no {tool}")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
