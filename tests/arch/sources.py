# SPDX-License-Identifier: BSD-2-Clause
"""What the architecture tests read: the files of the tree, their includes, their functions, their comments. The results
are stored, because many rules read the same files: a test must not change a file that it has read."""

import functools
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
NOT_OURS = {"build", "build-asan", "build-tsan", "build-fuzz", ".git", "__pycache__", "corpus"}


@functools.cache
def files(*suffixes, under=""):
    """Every file below `under` with one of these suffixes, as paths relative to the root, sorted."""
    found = []
    for where, dirs, names in os.walk(os.path.join(ROOT, under)):
        dirs[:] = [d for d in dirs if d not in NOT_OURS and not d.startswith("build-")]
        for name in names:
            if not suffixes or name.endswith(suffixes):
                found.append(os.path.relpath(os.path.join(where, name), ROOT))
    return tuple(sorted(found))


@functools.cache
def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


@functools.cache
def includes(path):
    """Pairs of (True where in angle brackets, name)."""
    return tuple((mark == "<", name) for mark, name in INCLUDE.findall(read(path)))


def module_of(path):
    parts = path.split(os.sep)
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


@functools.cache
def code_only(text):
    """The text with comments and literals blanked, every newline kept."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    return STRING.sub(blank, COMMENT.sub(blank, text))


FUNCTION = re.compile(r"^(?!typedef|struct [\w]+ ?\{|enum|union|extern \"C\")[A-Za-z_][^;{}#=]*?\b(\w+)"
                      r"\s*\([^;{}]*\)[^;{}()=]*\n\{", re.M)


@functools.cache
def functions(path):
    """Functions of a C file in kernel layout: (name, first line, last line), 1-based and inclusive."""
    text = code_only(read(path))
    found = []
    for match in FUNCTION.finditer(text):
        end = text.find("\n}", match.end() - 1)
        if end < 0:
            continue
        first = text.count("\n", 0, match.start()) + 1
        found.append((match[1], first, text.count("\n", 0, end) + 2))
    return tuple(found)


@functools.cache
def tracked():
    """What git would ship; None outside a checkout (a release tarball, a foreign owner)."""
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-co", "--exclude-standard"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode != 0:
        return None
    return tuple(name for name in done.stdout.splitlines() if os.path.isfile(os.path.join(ROOT, name)))


class Tap:
    """Collects findings rule by rule and prints them as TAP."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def rule(self, name, findings):
        self.count += 1
        findings = list(findings)
        if findings:
            self.failed += 1
        print(f"{'not ok' if findings else 'ok'} {self.count} - {name}")
        for finding in findings[:40]:
            print(f"#   {finding}")
        if len(findings) > 40:
            print(f"#   and {len(findings) - 40} more")

    def done(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0
