# SPDX-License-Identifier: BSD-2-Clause
"""Checks the links of the site: each target is a file of the site, each fragment an id of it, and nothing that a page
loads is elsewhere."""

import html.parser
import os
import urllib.parse

LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data")}


class Page(html.parser.HTMLParser):
    """The ids, the links and the loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        for key in ("href", "src", "data"):
            if not attrs.get(key):
                continue
            is_loaded = (tag, key) in LOADED and attrs.get("rel") not in ("canonical", "alternate", "prev", "next")
            (self.loaded if is_loaded else self.links).append(attrs[key])


def target_of(site, path, link):
    """The file and the fragment of a link, or (None, ...) if the target is outside of the site's directory."""
    parts = urllib.parse.urlsplit(link)
    where = os.path.join(site, path)
    if parts.path:
        where = os.path.normpath(os.path.join(os.path.dirname(where), urllib.parse.unquote(parts.path)))
    if os.path.isdir(where):
        where = os.path.join(where, "index.html")
    if not os.path.abspath(where).startswith(os.path.abspath(site) + os.sep):
        where = None
    return where, urllib.parse.unquote(parts.fragment)


def check(site):
    """The faults, and the links to other sites."""
    pages, faults, external = {}, [], set()
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.relpath(os.path.join(folder, name), site)
                pages[path] = Page(os.path.join(site, path))
    for path, page in sorted(pages.items()):
        # A page that a server shows for each missing path has links from the top directory.
        if path == "404.html":
            continue
        for link in page.links + page.loaded:
            if urllib.parse.urlsplit(link).scheme or link.startswith("//"):
                if link in page.loaded:
                    faults.append(f"{path} loads {link}")
                external.add(link)
                continue
            where, fragment = target_of(site, path, link)
            if not where or not os.path.exists(where):
                faults.append(f"{path}: {link} does not exist")
            elif fragment and where.endswith(".html") and \
                    fragment not in pages[os.path.relpath(where, site)].ids:
                faults.append(f"{path}: {link}: the page has no such id")
    return faults, external
