# SPDX-License-Identifier: BSD-2-Clause
"""Tests the manual's generator: every sentence of a docstring stays in its field, and every errno has its own text."""

import dataclasses
import glob
import os
import re
import subprocess
import sys
import tempfile

from docs.man import docstrings, generate
from tests.abi.tap import Tap
from tests.arch.sources import ROOT

HEADER = """
/**
 * Sends bytes. They are copied.
 *
 * *data*, *length*: bytes for the peer; NULL and 0 for none. In an event: the peer's.
 * *flags*: 0; or more.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: other family, or past this step. On a synchronous id also what the event reports; ETIMEDOUT: the time
 * is over; as send_other() for *data*.
 * Threads: any.
 */
int send_bytes(const void *data, int length, int flags);
"""


# Words that resemble a field, in the middle of a line and at the start of a line that continues a sentence.
LOOKALIKES = """
/**
 * Reads bytes. Returns early at the end. State: unchanged. Errors: counted.
 *
 * *data*: filled in. *length*: see there. Threads: one. A thread that
 * Returns from a call, or of which the
 * State: is unknown, does not read.
 * *length*: bytes. Events: none.
 * Returns the number of bytes. Returns 0 at the end.
 * Errors: EINVAL: *length* is 0; as of today. Threads: count as well.
 * Threads: any. Inline. Source: nothing(3). See
 * also: other().
 */
int read_bytes(void *data, int length);
"""

TYPES = """
/**
 * Limits of a call.
 *
 * *count*: 1 to 9.
 */
struct limits {
	int count;
};

/**
 * Sets limits.
 *
 * *limits*: the limits.
 * Types: struct limits.
 * Returns 0.
 * Threads: any. Since v1.
 */
int set_limits(struct limits *limits);
"""


def symbol_of(text):
    return symbols_of(text)[0]


def symbols_of(text):
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"generator-{os.getpid()}.h")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        return list(docstrings.read_header(path, "test.h"))
    finally:
        os.unlink(path)


def wrong_fields(symbol):
    """Names that share a text share it whole."""
    wanted = [(["data", "length"], ["bytes for the peer; NULL and 0 for none. In an event: the peer's."]),
              (["flags"], ["0; or more."])]
    if symbol.parameters != wanted:
        yield f"{symbol.parameters}"


def wrong_errors(symbol):
    wanted = [("EINVAL", "other family, or past this step."),
              ("", "On a synchronous id also what the event reports"),
              ("ETIMEDOUT", "the time is over"), ("", "as send_other() for *data*.")]
    if [(names, text.strip()) for names, text in symbol.errors()] != wanted:
        yield f"{symbol.errors()}"


def torn(symbol):
    """Each entry of the page begins with all names that the docstring gives it, and has all of their text."""
    items = generate_items(symbol)
    if [names for names, _ in items] != [["data", "length"], ["flags"]]:
        yield f"{items}"
    elif "the peer's" not in items[0][1] or "0 for none" not in items[0][1]:
        yield f"{items[0]}"


def generate_items(symbol):
    """Pairs of names and text of the entries that generate.parameters() writes."""
    entries = []

    class Recorder:
        @staticmethod
        def macro(name, *words):
            if name == "It":
                entries.append((re.findall(r"Fa (\w+)", " ".join(words)), ""))

        @staticmethod
        def blocks(blocks):
            entries[-1] = (entries[-1][0], " ".join(blocks))

    generate.parameters(Recorder, symbol)
    return entries


def wrong_lookalikes(symbol):
    """A field begins only at the start of a line that begins a sentence."""
    wanted = (["Reads bytes. Returns early at the end. State: unchanged. Errors: counted."],
              [(["data"], ["filled in. *length*: see there. Threads: one. A thread that Returns from a call, or of "
                           "which the State: is unknown, does not read."]),
               (["length"], ["bytes. Events: none."])],
              {"Returns": ["the number of bytes. Returns 0 at the end."],
               "Errors": ["EINVAL: *length* is 0; as of today. Threads: count as well."],
               "Threads": ["any."], "Inline": ["."], "Source": ["nothing(3)."], "See also": ["other()."]})
    for got, want in zip((symbol.purpose, symbol.parameters, symbol.fields), wanted, strict=True):
        if got != want:
            yield f"{got}, not {want}"
    if list(symbol.errors()) != [("EINVAL", "*length* is 0; as of today. Threads: count as well.")]:
        yield f"{list(symbol.errors())}"


def missing_types():
    """The page of a call has the members of the types that it names."""
    symbols = {symbol.name: symbol for symbol in symbols_of(TYPES)}
    page = generate.mdoc.Page("January 1, 2026", ["set_limits"], 3, set(symbols))
    manual = type("Manual", (), {"symbols": symbols})
    generate.types(page, manual, symbols["set_limits"])
    text = "\n".join(page.lines)
    for part in (".Ss struct limits", "int count;", ".It Fa count", "1 to 9."):
        if part not in text:
            yield f"{part} is missing in {text}"


def unfinished_sentences(symbol):
    """Text about all errnos ends before the sentence that the page adds."""
    page = generate.mdoc.Page("January 1, 2026", ["send_bytes"], 3, {"send_bytes"})
    generate.errors(page, dataclasses.replace(symbol, header="rdma/rdma_cma.h"))
    text = " ".join(page.lines)
    for sentence in ("what the event reports.", "for .Fa data . Errors that every call"):
        if sentence not in text:
            yield f"\"{sentence}\" is missing in {text}"


WAITING = """
/** Events.
 *
 * *RDMA_CM_EVENT_DONE*: done.
 * *RDMA_CM_EVENT_OVER*: over.
 */
enum rdma_cm_event_type {
	RDMA_CM_EVENT_DONE = 0,
	RDMA_CM_EVENT_OVER = 1
};

/**
 * Waits.
 *
 * Returns 0. Sync: DONE, or OVER if DONE was received before; not of a QP.
 * Threads: any. Since v1.
 */
int wait_for_it(void);
"""


def wrong_waits():
    symbols = {symbol.name: symbol for symbol in symbols_of(WAITING)}
    wanted = ["On a synchronous id the call waits for RDMA_CM_EVENT_DONE, or RDMA_CM_EVENT_OVER if RDMA_CM_EVENT_DONE "
              "was received before; not of a QP."]
    got = generate.synchronous(symbols["wait_for_it"], symbols)
    if got != wanted:
        yield f"{got}"


def torn_in_headers():
    """No text of the public headers loses a word or ends in the middle of a sentence."""
    include = os.path.join(ROOT, "include")
    for name in generate.HEADERS:
        with open(os.path.join(include, name), encoding="utf-8") as file:
            comments = docstrings.DOCUMENTED.findall(file.read())
        for comment in comments:
            yield from (f"{name}: {text}" for text in torn_texts(comment))


def torn_texts(comment):
    purpose, parameters, fields = docstrings.docstring(comment)
    texts = [purpose] + [blocks for _, blocks in parameters] + list(fields.values())
    for blocks in texts:
        for block in blocks:
            if isinstance(block, str) and not isinstance(block, docstrings.Literal) and not re.search(r"[.:)]$", block):
                yield f"...{block[-60:]}"
    kept = " ".join(flattened(block) for blocks in texts for block in blocks)
    kept += " ".join(name for names, _ in parameters for name in names)
    labels = {"see", "also"} | {key.lower() for key in docstrings.FIELD_NAMES}
    for word in sorted(set(re.findall(r"\w+", comment)) - set(re.findall(r"\w+", kept))):
        if word.lower() not in labels:
            yield f"lost: {word}"


def wrong_dates():
    """Generated and hand-written pages have one date, that of SOURCE_DATE_EPOCH."""
    source = os.path.join(ROOT, "src")
    with tempfile.TemporaryDirectory(prefix="usrdma-test-") as folder:
        output = os.path.join(folder, "man")
        subprocess.run([sys.executable, "-B", "-m", "docs.man.generate", os.path.join(ROOT, "include"),
                        os.path.join(source, "libibverbs.map"), os.path.join(source, "librdmacm.map"), output],
                       cwd=ROOT, env=dict(os.environ, SOURCE_DATE_EPOCH="31536000"), check=True)
        for path in glob.glob(os.path.join(output, "man*", "*")):
            with open(path, encoding="utf-8") as page:
                text = page.read()
            if not text.startswith(".so ") and text.count(".Dd January 1, 1971\n") != 1:
                yield os.path.basename(path)


def flattened(block):
    return " ".join(block) if isinstance(block, list) else block


def main():
    symbol = symbol_of(HEADER)
    tap = Tap()
    tap.rule("a text of several names is one entry", wrong_fields(symbol))
    tap.rule("the page does not divide the text of several names", torn(symbol))
    tap.rule("a sentence about all errnos is under none", wrong_errors(symbol))
    tap.rule("words that resemble a field stay in their sentence", wrong_lookalikes(symbol_of(LOOKALIKES)))
    tap.rule("a page shows the types that its call names", missing_types())
    tap.rule("a text about all errnos is a sentence", unfinished_sentences(symbol))
    tap.rule("the events that a synchronous call waits for have their full names", wrong_waits())
    tap.rule("all pages have the date of SOURCE_DATE_EPOCH", wrong_dates())
    tap.rule("the headers' texts are whole", torn_in_headers())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
