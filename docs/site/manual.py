# SPDX-License-Identifier: BSD-2-Clause
"""The manual pages as pages of the site: mandoc makes the HTML."""

import glob
import os
import re
import subprocess

SECTIONS = {"1": "Commands", "3": "Calls and structures", "7": "Overviews", "8": "The daemon"}
LINK = re.compile(r'<a class="Xr" href="([^"]+)">(.*?)</a>', re.S)


def path_of(name, section):
    return f"man/{name}.{section}.md"


def indexes():
    return [(f"{section}: {title}", f"man/section{section}.md") for section, title in SECTIONS.items()]


def write(manual, stage):
    """Writes a page for each one of the manual. Returns their paths by name and section."""
    sources = sorted(glob.glob(os.path.join(manual, "man*", "*")))
    pages = {tuple(os.path.basename(path).rsplit(".", 1)): path for path in sources}
    if not pages:
        raise SystemExit(f"docs/site/build: {manual} contains no manual pages; build it first")
    os.makedirs(os.path.join(stage, "man"))
    briefs = {}
    for (name, section), path in pages.items():
        body, briefs[name, section] = html(path, pages)
        with open(os.path.join(stage, path_of(name, section)), "w", encoding="utf-8") as file:
            file.write(f"---\ntitle: {name}({section})\n---\n\n<div class=\"manual\">\n{body}\n</div>\n")
    for section, title in SECTIONS.items():
        rows = [f"| [{name}({number})]({name}.{number}.md) | {briefs[name, number]} |"
                for name, number in sorted(pages) if number == section]
        with open(os.path.join(stage, "man", f"section{section}.md"), "w", encoding="utf-8") as file:
            file.write(f"# {title}\n\nSection {section}. `usrdma man NAME` shows a page in a terminal.\n\n")
            file.write("\n".join(["| page | content |", "|---|---|", *rows]) + "\n")
    return {key: path_of(*key) for key in pages}


def html(path, pages):
    """The page as HTML without links to pages of other packages, and its one-line description."""
    made = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S", path], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    made = LINK.sub(lambda match: linked(match, pages), made)
    # The heading of the page is its title; sections are below it. An empty line would end the block of HTML for mkdocs.
    made = re.sub(r"<(/?)h2\b", r"<\1h3", made)
    made = re.sub(r"<(/?)h1\b", r"<\1h2", made)
    brief = re.search(r'class="Nd"[^>]*>(.*?)</', made, re.S)
    return unbroken(made), " ".join(re.sub(r"<[^>]+>", "", brief[1]).split()) if brief else ""


def linked(match, pages):
    name, section = match[1].rsplit(".", 1)
    return f'<a class="Xr" href="../{name}.{section}/">{match[2]}</a>' if (name, section) in pages else match[2]


def unbroken(made):
    """The HTML without empty lines outside of <pre>, and with their entity inside."""
    parts = re.split(r"(<pre\b.*?</pre>)", made, flags=re.S)
    parts[::2] = [re.sub(r"\n\s*\n", "\n", part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"\n(?=\n)", "\n&#8203;", part) for part in parts[1::2]]
    return "".join(parts).strip()
