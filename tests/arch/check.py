#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The house rules that a machine can hold: floors, sizes, forbidden words, what a library may call."""

import os
import re
import sys

import cite
from sources import ROOT, Tap, code_only, files, functions, includes, read, room_of, tracked

FILE_MAX_LINES = 600
FUNCTION_MAX_LINES = 80

PUBLIC = ("infiniband/", "rdma/")

# Room: what of ours it may include. "public" is include/; a room may always include itself and config.h.
FLOORS = {
    "base": set(),
    "wire": {"base"},
    "link": {"base", "wire"},
    "core": {"base", "wire", "ipc/client.h", "ipc/msg.h", "ipc/segment.h", "public"},
    "roce": {"base", "wire", "link", "core"},
    "local": {"base", "wire", "core", "ipc/msg.h", "ipc/segment.h", "public"},
    "iwarp": {"base", "wire", "core"},
    "cm": {"base", "wire"},
    "ipc": {"base"},
    "rdmacm": {"base", "ipc", "public"},
    "rsocket": {"base", "public"},
    "sysfs": {"base", "ipc"},
    "rspreload": {"base", "public"},
    "daemon": {"base", "wire", "link", "ipc", "cm", "public"},
}

# Pure rooms take bytes and the time as arguments: no sockets, no threads, no clock.
PURE = {"wire", "cm", "roce"}
IMPURE_HEADERS = re.compile(r"^(sys/socket|sys/un|sys/epoll|sys/mman|sys/timerfd|poll|pthread|threads|time|uv|libmnl/.*)\.h$")
IMPURE_CALLS = re.compile(r"\b(socket|sendmsg|recvmsg|clock_gettime|gettimeofday|time|pthread_\w+|open|read|write)\s*\(")
ALLOCATES = re.compile(r"\b(malloc|calloc|realloc|strdup|free)\s*\(")

# What loads into a stranger's process never prints, ends the process, changes signals or the environment.
LIBRARY_ROOMS = {"base", "wire", "link", "core", "roce", "local", "ipc", "rdmacm", "rsocket", "sysfs", "rspreload"}
RUDE = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|abort|signal|sigaction|setenv|putenv|"
                  r"system|popen|atoi|gets|strcpy|strcat|sprintf|vsprintf|strtok|setlocale|srand|rand)\s*\(")
RUDE_ALLOWED = {
    # The child between fork() and exec() has no other way to end.
    ("src/ipc", "_exit"),
    # Only asks whether handlers were installed with SA_RESTART.
    ("src/rsocket", "sigaction"),
}

PROMISES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|not implemented yet|\bfor now\b")

LICENSED = (".c", ".h", ".py", ".sh", ".map", "meson.build", "meson_options.txt", "Makefile")
SPDX = "SPDX-License-Identifier: BSD-2-Clause"


def target_of(name):
    """The room a quoted or public include names."""
    if name.startswith(PUBLIC):
        return "public"
    return name.split("/")[0] if "/" in name else None


def floor_breaks():
    for path in files(".c", ".h", under="src"):
        room = room_of(path)
        if room is None:
            continue
        allowed = FLOORS.get(room)
        if allowed is None:
            yield f"{path}: room {room} has no floor"
            continue
        for angle, name in includes(path):
            target = target_of(name)
            if name == "config.h" or (angle and target != "public"):
                continue
            if target is None:
                yield f"{path}: includes \"{name}\"; ours are named \"room/file.h\""
            elif target != room and target not in allowed and name not in allowed:
                yield f"{path}: {room} may not include {name}"


def public_header_breaks():
    for path in files(".h", under="include"):
        for angle, name in includes(path):
            if not angle:
                yield f"{path}: includes \"{name}\"; an installed header names others as <...>"
            elif target_of(name) in FLOORS:
                yield f"{path}: shows the inside ({name})"


def impure():
    for path in files(".c", ".h", under="src"):
        room = room_of(path)
        if room not in PURE:
            continue
        for _, name in includes(path):
            if IMPURE_HEADERS.match(name):
                yield f"{path}: includes <{name}>"
        code = code_only(read(path))
        for match in IMPURE_CALLS.finditer(code):
            yield f"{path}:{line_of(code, match)}: calls {match[1]}()"
        if room == "wire":
            for match in ALLOCATES.finditer(code):
                yield f"{path}:{line_of(code, match)}: calls {match[1]}()"


def rude_calls():
    for path in files(".c", ".h", under="src"):
        if room_of(path) not in LIBRARY_ROOMS:
            continue
        code = code_only(read(path))
        for match in RUDE.finditer(code):
            if (os.path.dirname(path), match[1]) not in RUDE_ALLOWED:
                yield f"{path}:{line_of(code, match)}: a library does not call {match[1]}()"


def line_of(text, match):
    return text.count("\n", 0, match.start()) + 1


def long_files():
    for path in files(".c", ".h", ".py"):
        if path.startswith("include" + os.sep):
            continue
        lines = read(path).count("\n")
        if lines > FILE_MAX_LINES:
            yield f"{path}: {lines} lines, at most {FILE_MAX_LINES}: is it two nouns?"


def long_functions():
    for path in files(".c", under="src") + files(".c", under="tools"):
        for name, first, last in functions(path):
            if last - first + 1 > FUNCTION_MAX_LINES:
                yield f"{path}:{first}: {name}() has {last - first + 1} lines, at most {FUNCTION_MAX_LINES}"


def promises():
    for path in files(".c", ".h", ".build", ".py", ".map", "Makefile", ".md"):
        if path == os.path.join("tests", "arch", "check.py"):
            continue
        text = read(path)
        for match in PROMISES.finditer(text):
            yield f"{path}:{line_of(text, match)}: says \"{match[0]}\""


def unlicensed():
    for path in tracked() or files(*LICENSED):
        if not path.endswith(LICENSED):
            continue
        head = read(path).split("\n", 2)[:2]
        if not any(SPDX in line for line in head):
            yield f"{path}: no \"{SPDX}\" in its first two lines"


def machine_paths():
    """The path of this checkout's parent has no business in the tree."""
    parent = os.path.dirname(ROOT) + "/"
    if parent.count("/") < 2 or parent in ("/usr/", "/tmp/", "/home/", "/src/", "/root/"):
        return
    for path in tracked() or []:
        if parent in read(path):
            yield f"{path}: names {parent}"


def orphans():
    for path in files(".c", under="src"):
        room = room_of(path)
        if room is None or path == os.path.join("src", "daemon", "main.c"):
            continue
        inside = os.path.relpath(path, os.path.join("src", room))
        if f"'{inside}'" not in read(os.path.join("src", room, "meson.build")):
            yield f"{path}: not in src/{room}/meson.build"
    for path in files(".c", under=os.path.join("tests", "unit")):
        folder, name = os.path.split(path)
        if f"'{name}'" not in read(os.path.join(folder, "meson.build")):
            yield f"{path}: not in {folder}/meson.build"


def header_guards():
    for path in files(".h"):
        code = code_only(read(path))
        if "#pragma once" not in code and not re.search(r"^\s*#\s*ifndef \w+\s*\n\s*#\s*define \w+", code, re.M):
            yield f"{path}: no include guard"


def line_ends():
    for path in tracked() or []:
        if not path.endswith((".c", ".h", ".py", ".md", ".build", ".map", ".txt", ".sh", "Makefile")):
            continue
        for number, line in enumerate(read(path).split("\n"), 1):
            if line != line.rstrip() and not path.endswith(".md"):
                yield f"{path}:{number}: blanks at the end of the line"


def main():
    tap = Tap()
    tap.rule("every room includes only what its floor allows", floor_breaks())
    tap.rule("public headers show nothing of the inside", public_header_breaks())
    tap.rule("pure rooms have no sockets, threads, clock; wire does not allocate", impure())
    tap.rule("libraries do not print, exit or change the process", rude_calls())
    tap.rule(f"no file is longer than {FILE_MAX_LINES} lines", long_files())
    tap.rule(f"no function is longer than {FUNCTION_MAX_LINES} lines", long_functions())
    tap.rule("no promises in comments", promises())
    tap.rule("every file names its licence", unlicensed())
    tap.rule("no path of one machine", machine_paths())
    tap.rule("every source file is built", orphans())
    tap.rule("every header is guarded", header_guards())
    tap.rule("no blanks at the end of lines", line_ends())
    tap.rule("docs/spec-map.md is what tests/arch/cite.py writes", cite.stale())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
