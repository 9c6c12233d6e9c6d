# SPDX-License-Identifier: BSD-2-Clause
"""The checks of docs/site: links.py reports each kind of faulty link, and each section of the manual has an index.
`make site` builds the site."""

import glob
import os
import sys
import tempfile

from sources import ROOT, Tap

sys.path.insert(0, os.path.join(ROOT, "docs", "site"))
import links  # noqa: E402
import manual  # noqa: E402

INDEX = """<html><head><link rel="stylesheet" href="{style}"><script src="//elsewhere.test/a.js"></script></head>
<body><h1 id="top">Site</h1><a href="sub/">a</a><a href="sub/#here">b</a><a href="#top">c</a>
<a href="https://elsewhere.test">d</a>
<a href="sub/#nowhere">e</a><a href="none/">f</a><a href="../outside">g</a><a href="%73ub/">h</a></body></html>"""


def faulty_links_are_reported():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "sub"))
        for name, text in (("index.html", INDEX.format(style="style.css")), ("sub/index.html", '<p id="here">')):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        faults, external = links.check(folder)
    wanted = {"index.html: sub/#nowhere: the page has no such id", "index.html: none/ does not exist",
              "index.html: ../outside does not exist", "index.html: style.css does not exist",
              "index.html loads //elsewhere.test/a.js"}
    if set(faults) != wanted or external != {"https://elsewhere.test", "//elsewhere.test/a.js"}:
        yield f"{sorted(faults)}, {external}"


def links_of_manual_pages():
    """Links to pages of other packages become text."""
    text = manual.LINK.sub(lambda match: manual.linked(match, {("rping", "1")}),
                           '<a class="Xr" href="rping.1">rping(1)</a> <a class="Xr" href="poll.2">poll(2)</a>')
    if text != '<a class="Xr" href="../rping.1/">rping(1)</a> poll(2)':
        yield text


def sections_without_index():
    for path in glob.glob(os.path.join(ROOT, "docs/man/*.[0-9]")):
        if path[-1] not in manual.SECTIONS:
            yield f"{os.path.basename(path)}: docs/site/manual.py has no section {path[-1]}"


def main():
    tap = Tap()
    tap.rule("faulty links are reported", faulty_links_are_reported())
    tap.rule("links to manual pages of other packages become text", links_of_manual_pages())
    tap.rule("each section of the manual has an index", sections_without_index())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
