# SPDX-License-Identifier: BSD-2-Clause
"""scripts/release in a repository of its own: date, commit and tag, and the reasons for which it refuses. Also the
form of CHANGELOG.md."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from sources import ROOT, Tap, read

KINDS = ("Added", "Changed", "Fixed", "Performance", "Security")
CHANGELOG = "# Changelog\n\n## 1.2.0 (unreleased)\n\n### Fixed\n\n- One.\n\n## 1.1.0 (2026-01-02)\n\nFirst version.\n"


def run(folder, *argv):
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env.update(GIT_AUTHOR_NAME="test", GIT_AUTHOR_EMAIL="test@localhost", GIT_COMMITTER_NAME="test",
               GIT_COMMITTER_EMAIL="test@localhost", GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull)
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def commit(folder):
    run(folder, "git", "add", "-A")
    run(folder, "git", "commit", "-qm", "change")


def tags_release():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "scripts"))
        shutil.copy(os.path.join(ROOT, "scripts", "release"), os.path.join(folder, "scripts"))
        write(folder, "meson.build", "project('p', 'c',\n  version: '1.2.0',\n)\n")
        write(folder, "CHANGELOG.md", CHANGELOG)
        run(folder, "git", "init", "-q")
        done = run(folder, "scripts/release")
        if "has changes" not in done.stderr or not done.returncode:
            yield f"a work tree with changes: {done}"
        commit(folder)
        done = run(folder, "scripts/release")
        if done.returncode:
            yield f"{done}"
        now = run(folder, "git", "show", "v1.2.0:CHANGELOG.md").stdout
        if re.sub(r"(?m)^(## 1\.2\.0) \(\d{4}-\d\d-\d\d\)$", r"\1 (unreleased)", now) != CHANGELOG or now == CHANGELOG:
            yield f"the tagged CHANGELOG.md is {now!r}"
        message = run(folder, "git", "tag", "-l", "--format=%(contents)", "v1.2.0").stdout.strip()
        if message != "### Fixed\n\n- One.":
            yield f"the tag's message is {message!r}"
        done = run(folder, "scripts/release")
        if "exists" not in done.stderr or not done.returncode:
            yield f"a second release: {done}"
        write(folder, "meson.build", "project('p', 'c',\n  version: '1.3.0',\n)\n")
        commit(folder)
        done = run(folder, "scripts/release")
        if "no heading" not in done.stderr or not done.returncode:
            yield f"a version without a heading: {done}"


def changelog():
    """Each version has a date or is unreleased; its kinds of changes are those of KINDS, in this order, once."""
    versions = re.split(r"(?m)^## ", read("CHANGELOG.md"))[1:]
    for number, text in enumerate(versions):
        head = text.split("\n", 1)[0]
        if not re.fullmatch(r"\d+\.\d+\.\d+ \((\d{4}-\d\d-\d\d|unreleased)\)", head):
            yield f"\"{head}\" is not a version with its date"
        if "unreleased" in head and number:
            yield f"\"{head}\" precedes a released version"
        kinds = re.findall(r"(?m)^### (.*)$", text)
        if kinds != [kind for kind in KINDS if kind in kinds]:
            yield f"{head}: the kinds of changes are {', '.join(kinds)}; the order is {', '.join(KINDS)}"


def main():
    tap = Tap()
    tap.rule("CHANGELOG.md has dates and the kinds of changes", changelog())
    if shutil.which("git"):
        tap.rule("scripts/release dates, commits and tags a version, or reports why not", tags_release())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
