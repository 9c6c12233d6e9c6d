# SPDX-License-Identifier: BSD-2-Clause
"""Compares the pages of the built manual with pages.txt, and checks that every page exists to which the documents of
the claims refer.

    pages.py MANUAL
"""

import os
import re
import sys

from tests.abi.tap import Tap
from tests.arch.sources import read

TABLE = os.path.join("tests", "claims", "pages.txt")
ENTRY = re.compile(r"^\.It (?:Fa|Dv|Fl|Va) (.*)", re.M)

REFERENCES = "references exist"
# The pages that the documents of the claims name, apart from those of pages.txt.
REFERRED = """rdma_dereg_mr rdma_event_str rdma_get_recv_comp rdma_get_send_comp rdma_get_remote_ece rdma_set_local_ece
rdma_post_read rdma_post_readv rdma_post_recv rdma_post_recvv rdma_post_send rdma_post_sendv rdma_post_ud_send
rdma_post_write rdma_post_writev rdma_reg_msgs rdma_reg_read rdma_reg_write ibv_create_qp ibv_modify_qp
ibv_destroy_qp""".split()


def pages(text):
    """The table as {page: {kind: [requirement, …]}}."""
    found = {}
    for line in text.splitlines():
        if line.startswith("\t"):
            kind, rest = line.strip().split(" ", 1)
            split = {"entries": r" ", "sections": r", ", "words": r"; "}[kind]
            found[page][kind] = re.split(split, rest)
        elif line and not line.startswith("#"):
            page = line
            found[page] = {}
    return found


def cases():
    return list(pages(read(TABLE))) + [REFERENCES]


def path_of(manual, page):
    section = page.rsplit(".", 1)[1]
    return os.path.join(manual, f"man{section}", page)


def source_of(manual, page):
    """The mdoc source of a page, through the links of the manual."""
    with open(path_of(manual, page), encoding="ascii") as file:
        text = file.read()
    link = re.match(r"\.so man\d/(\S+)\n$", text)
    return source_of(manual, link[1]) if link else text


MACROS = re.compile(r"(?:^\.|(?<= ))(?:Ar|Bq|Dv|Er|Fa|Fl|Fn|Fo|Ft|In|It|Nd|Nm|Op|Pq|Ql|Sh|Ss|Va|Xr)(?= |$)")


def running_text(source):
    """The text without macros, in lower case and on one line."""
    lines = []
    for line in re.sub(r"\\c$|\\&", "", source.replace("\\-", "-"), flags=re.M).splitlines():
        if line.startswith("."):
            line = MACROS.sub("", re.sub(r"(?:^\.|\b)Xr (\S+) \d", r"\1", line))
        lines.append(line.replace('"', ""))
    return re.sub(r" ([,.;:)])", r"\1", " ".join(" ".join(lines).split())).lower()


def entries_of(source):
    """The names that the lists of a page explain."""
    found = set()
    for line in ENTRY.findall(source):
        found |= set(re.findall(r"\w+", re.sub(r" (?:Ar|No) .*", "", line)))
    return found


def missing(manual, page, required):
    if not os.path.exists(path_of(manual, page)):
        yield "the page does not exist"
        return
    source = source_of(manual, page)
    entries, text = entries_of(source), running_text(source)
    for name in required.get("entries", []):
        if name not in entries:
            yield f"no entry for {name}"
    for section in required.get("sections", []):
        if not re.search(rf'^\.Sh "?{section}"?$', source, re.M):
            yield f"no section {section}"
    for words in required.get("words", []):
        if words.lower() not in text:
            yield f"the text does not contain \"{words}\""


def main():
    tap = Tap()
    manual = sys.argv[1]
    table = pages(read(TABLE))
    for page, required in table.items():
        tap.rule(page, missing(manual, page, required))
    tap.rule(REFERENCES, [name for name in REFERRED if not os.path.exists(path_of(manual, f"{name}.3"))])
    first = next(iter(table))
    kinds = ("entries", "sections", "words")
    tap.rule("missing entries, sections and words are found",
             [kind for kind in kinds if not list(missing(manual, first, {kind: ["absent"]}))])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
