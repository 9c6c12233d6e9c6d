#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each file that meson installs is in one Debian package, each line of packaging/debian/*.install names such a file,
and the RPM spec has the version of meson.build. `make package-test` builds the packages."""

import fnmatch
import glob
import json
import os
import re
import subprocess
import sys

from sources import ROOT, Tap, read

DEBIAN = os.path.join("packaging", "debian")
# debian/rules renames them, so that debhelper installs them.
BY_RULES = {f"usr/lib/systemd/system/usrdmad.{kind}" for kind in ("service", "socket")}
# meson lists this directory as one output; its pages are in several packages.
MANUAL = "usr/share/usrdma/man"


def manual_pages():
    """The pages that docs/man/generate.py writes: the files, and a directory for those of section 3."""
    pages = [os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "docs/man/*.[178]"))]
    return {f"{MANUAL}/man{page[-1]}/{page}" for page in pages} | {f"{MANUAL}/man3"}


def installed(build):
    """What meson installs, for the prefix /usr and the libdir of Debian."""
    options = {option["name"]: option["value"] for option in introspect(build, "--buildoptions")}
    prefix = options["prefix"]
    libdir = options["libdir"].rstrip("/")
    paths = set()
    for path in introspect(build, "--installed").values():
        below = os.path.relpath(path, prefix)
        # The units have a fixed directory, and the user's units replace them for other prefixes.
        if below.endswith((".service", ".socket")):
            below = "lib/systemd/system/" + os.path.basename(below)
        elif below.startswith(libdir + "/"):
            below = "lib/MULTIARCH/" + below[len(libdir) + 1:]
        paths.add("usr/" + below)
    return paths - {MANUAL} - BY_RULES | manual_pages()


def introspect(build, what):
    shown = subprocess.run(["meson", "introspect", what, build], stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(shown)


def patterns():
    for path in sorted(glob.glob(os.path.join(ROOT, DEBIAN, "*.install"))):
        name = os.path.relpath(path, ROOT)
        for line in read(name).split():
            yield name, line


def covers(pattern, path):
    """Whether dh_install takes the path for the pattern: a file, or a directory above it. * does not match a slash."""
    wanted, parts = pattern.split("/"), path.split("/")
    return len(wanted) <= len(parts) and all(map(fnmatch.fnmatch, parts, wanted))


def is_below(pattern, path):
    """Whether meson lists a directory above the pattern only."""
    return pattern.startswith(path + "/")


def faults(paths, lines):
    lines = list(lines)
    for name, line in lines:
        if not any(covers(line, path) or is_below(line, path) for path in paths):
            yield f"{name}: meson installs no {line}"
    for path in sorted(paths):
        holders = {name for name, line in lines if covers(line, path)}
        if len(holders) != 1:
            yield f"{path} is in {len(holders)} packages: {', '.join(sorted(holders))}"


def spec_version():
    versions = [re.search(rf"^ *{word}(.+?)'?,?$", read(path), re.M)[1]
                for path, word in (("meson.build", "version: '"), ("packaging/usrdma.spec", "Version: +"))]
    if versions[0] != versions[1]:
        yield f"packaging/usrdma.spec has version {versions[1]}, meson.build {versions[0]}"


def wrong_lines_are_reported():
    """The check itself: a line without a file, a file without a line, and a file in two packages."""
    paths = {"usr/bin/a", "usr/lib/MULTIARCH/b", "usr/share/c/d"}
    lines = [("x", "usr/bin/none"), ("x", "usr/lib/*/b"), ("x", "usr/share/c"), ("y", "usr/share/c/d")]
    found = list(faults(paths, lines))
    if [fault.split()[0] for fault in found] != ["x:", "usr/bin/a", "usr/share/c/d"]:
        yield f"{found}"


def main():
    tap = Tap()
    build = os.environ["USRDMA_BUILD"]
    tap.rule("each installed file is in one package", faults(installed(build), patterns()))
    tap.rule("wrong lines are reported", wrong_lines_are_reported())
    tap.rule("the spec has the version of meson.build", spec_version())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
