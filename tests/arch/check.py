#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Enforces the rules of docs/STYLE.md and ARCHITECTURE.md: includes, sizes, forbidden words, library calls, Python."""

import collections
import os
import re
import sys

import adr
import cite
import layers
import locks
import python_rules
from sources import ROOT, Tap, code_only, files, functions, includes, module_of, read, tracked

FILE_MAX_LINES = 600
FUNCTION_MAX_LINES = 80

PUBLIC = ("infiniband/", "rdma/")

# The modules, or single headers, that each module may include. "public" is include/. A module may always include itself
# and config.h.
MAY_INCLUDE = {
    "base": set(),
    "profile": {"base", "ipc/msg.h", "public"},
    "wire": {"base"},
    "link": {"base", "wire"},
    "core": {"base", "profile", "wire", "ipc/client.h", "ipc/daemon_end.h", "ipc/msg.h", "ipc/msg_failure.h",
             "ipc/queue.h", "ipc/segment.h", "public"},
    "roce": {"base", "wire", "link", "core"},
    "local": {"base", "wire", "core", "ipc/msg.h", "ipc/msg_failure.h", "ipc/segment.h", "public"},
    "cm": {"base", "wire"},
    "ipc": {"base"},
    "rdmacm": {"base", "ipc", "public"},
    "rsocket": {"base", "public"},
    "sysfs": {"base", "ipc", "profile", "public"},
    "rspreload": {"base", "public"},
    "arena": {"base"},
    "providers": {"base"},
    "daemon": {"base", "wire", "link", "ipc", "cm", "public"},
}

# The headers that a module reaches through headers of other modules only, and the reason. Reached headers are those
# that the compiler reads for a file of the module. The module uses their types as members of other types, but calls
# none of their functions.
CONNECTION = ("core/engine/engine.h: struct engine contains the connection to the daemon; "
              "core/engine/engine.h has the functions for other modules")
PROFILE = "core/object/objects.h: struct device contains the profile of the device"
MAY_REACH = {
    "roce": {
        "infiniband/verbs.h": "core/object/objects.h: the objects of core start with the public structs",
        "ipc/msg.h": "core/object/objects.h: struct device contains the daemon's description of the device",
        "ipc/msg_failure.h": "core/engine/engine.h: struct engine contains the reports of failures that are pending",
        "ipc/client.h": CONNECTION,
        "ipc/queue.h": CONNECTION,
        "profile/profile.h": PROFILE,
        "ipc/segment.h": "core/report/usage.h: the numbers of a QP that usrdma top shows are in the segment",
    },
    "local": {
        "profile/profile.h": PROFILE,
        "ipc/client.h": CONNECTION,
        "ipc/queue.h": CONNECTION,
    },
}

# Pure modules take bytes and the time as arguments. They use no sockets, threads or clock.
PURE = {"wire", "cm", "roce"}
IMPURE_HEADERS = re.compile(r"^(sys/socket|sys/un|sys/epoll|sys/mman|sys/timerfd|poll|pthread|threads|time|uv|"
                            r"libmnl/.*)\.h$")
IMPURE_CALLS = re.compile(r"\b(socket|sendmsg|recvmsg|clock_gettime|gettimeofday|time|pthread_\w+|open|read|write)"
                          r"\s*\(")
ALLOCATES = re.compile(r"\b(malloc|calloc|realloc|strdup|free)\s*\(")

# Libraries are loaded into programs of other authors: they do not print, end the process, or change signals and
# environment.
LIBRARY_MODULES = {"base", "profile", "wire", "link", "core", "roce", "local", "ipc", "rdmacm", "rsocket", "sysfs",
                   "rspreload", "providers", "arena"}
RUDE = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|abort|signal|sigaction|setenv|putenv|"
                  r"system|popen|atoi|gets|strcpy|strcat|sprintf|vsprintf|strtok|setlocale|srand|rand)\s*\(")
RUDE_ALLOWED = {
    # A lock check has failed; only in checking builds.
    ("src/base", "abort"),
    # The child between fork() and exec() has no other way to end.
    ("src/ipc", "_exit"),
    # Only asks whether handlers were installed with SA_RESTART.
    ("src/base", "sigaction"),
    # The handler of SIGBUS for accesses to files of a peer that can shrink (ADR 0050).
    ("src/local", "sigaction"),
}

# A library's function is no cancellation point (pthreads(7)) but where its page says that it waits: a thread that is
# cancelled anywhere else would leave locks behind. base/syscalls.h has system calls that are no cancellation points. In
# librspreload the C library's own functions are called as real.NAME().
CANCELLABLE = re.compile(r"(?:(?<![\w.>*])|(?<=\breal\.))(accept4?|clock_nanosleep|close|connect|creat|epoll_p?wait2?|"
                         r"eventfd_read|eventfd_write|fclose|fdatasync|fgets|fopen|fprintf|fputs|fread|fscanf|fsync|"
                         r"fwrite|getaddrinfo|getline|getnameinfo|getrandom|lockf|mq_\w+|msync|nanosleep|open|openat|"
                         r"opendir|pause|poll|ppoll|pread|preadv2?|pselect|pthread_cond_(?:timed)?wait|pthread_join|"
                         r"pthread_testcancel|pwrite|pwritev2?|read|readdir|readv|recv|recvfrom|recvmmsg|recvmsg|"
                         r"select|sem_timedwait|sem_wait|send|sendmmsg|sendmsg|sendto|sigsuspend|sigtimedwait|sigwait|"
                         r"sigwaitinfo|sleep|splice|syslog|tee|usleep|vfprintf|wait|waitid|waitpid|write|writev)\(")
CANCELLABLE_MODULES = LIBRARY_MODULES - {"sysfs"}
CANCELLABLE_ALLOWED = {
    # Waits of the application's: nothing is held while they last, or a cleanup handler gives it back.
    "src/core/object/event_fd.c": {"read", "poll"},
    "src/core/engine/engine_serve.c": {"epoll_wait"},
    "src/core/serve_call.c": {"epoll_wait"},
    "src/rdmacm/event.c": {"recv"},
    "src/rsocket/poll.c": {"poll"},
    "src/rsocket/watch.c": {"poll"},
    "src/rspreload/preload.c": {"epoll_pwait", "epoll_wait", "poll", "ppoll"},
    "src/rspreload/tcp.c": {"poll", "recv", "opendir", "readdir"},
    # The C library's functions of these names are cancellation points, and so are those that stand in front of them.
    "src/rspreload/wrap_descriptor.c": {"close"},
    "src/rspreload/wrap_epoll.c": {"epoll_pwait", "epoll_pwait2", "epoll_wait"},
    "src/rspreload/wrap_open.c": {"creat", "open", "openat"},
    "src/rspreload/wrap_socket.c": {"accept", "accept4", "connect"},
    "src/rspreload/wrap_stdio.c": {"close", "read", "write"},
    "src/rspreload/wrap_transfer.c": {"read", "readv", "recv", "recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg",
                                      "sendmsg", "sendto", "write", "writev"},
    "src/rspreload/wrap_wait.c": {"poll", "ppoll", "pselect", "select"},
    # Threads of the library's own, which no application can cancel.
    "src/core/engine/engine_thread.c": {"epoll_wait", "ppoll"},
    # Cancellation is disabled around them, by the caller in the cases of spawn.c and daemon_end.c.
    "src/base/resize.c": {"sigtimedwait"},
    "src/base/select.c": {"fopen", "fgets", "fclose"},
    "src/base/syscalls.h": {"close", "nanosleep"},
    "src/core/engine/channel.c": {"pthread_cond_wait"},
    "src/core/device/async.c": {"pthread_cond_timedwait", "pthread_cond_wait"},
    "src/core/device/command_file.c": {"pread", "pwrite"},
    "src/core/qp/xrc_remote_client.c": {"pthread_cond_timedwait"},
    "src/ipc/daemon_end.c": {"poll"},
    "src/ipc/spawn.c": {"open", "close", "read", "poll", "waitpid"},
    "src/rsocket/dgram_udp.c": {"poll"},
    "src/rdmacm/addrinfo.c": {"getaddrinfo"},
    "src/rdmacm/id.c": {"pthread_cond_timedwait", "pthread_cond_wait"},
    "src/rsocket/config.c": {"fopen", "fgets", "fclose"},
    "src/rsocket/service.c": {"epoll_wait", "pthread_cond_wait"},
    "src/rsocket/stream_shutdown.c": {"fopen", "fscanf", "fclose"},
    "src/rspreload/epoll_member.c": {"fopen", "fgets", "fclose"},
    "src/rspreload/real.h": {"close"},
    "src/rspreload/rules.c": {"fopen", "getline", "fclose"},
}

PROMISES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|not implemented yet|\bfor now\b")

LICENSED = (".c", ".h", ".py", ".sh", ".map", "meson.build", "meson_options.txt", "Makefile")
SPDX = "SPDX-License-Identifier: BSD-2-Clause"


def target_of(name):
    """The module a quoted or public include names."""
    if name.startswith(PUBLIC):
        return "public"
    return name.split("/")[0] if "/" in name else None


def include_breaks():
    for path in files(".c", ".h", under="src"):
        module = module_of(path)
        if module is None:
            continue
        allowed = MAY_INCLUDE.get(module)
        if allowed is None:
            yield f"{path}: module {module} is missing in MAY_INCLUDE"
            continue
        for angle, name in includes(path):
            target = target_of(name)
            if name == "config.h" or (angle and target != "public"):
                continue
            if target is None:
                yield f"{path}: includes \"{name}\"; write \"module/file.h\""
            elif target != module and target not in allowed and name not in allowed:
                yield f"{path}: {module} may not include {name}"


def reached(path):
    """Pairs of the name of a header that the compiler reads for this file, and the headers on a shortest way to it."""
    ways = {}
    waiting = [(path, ())]
    while waiting:
        reader, through = waiting.pop(0)
        for angle, name in includes(reader):
            if name == "config.h" or (angle and target_of(name) != "public") or name in ways:
                continue
            ways[name] = through
            header = os.path.join("src", name)
            if os.path.exists(os.path.join(ROOT, header)):
                waiting.append((header, (*through, name)))
    return ways.items()


def reach_breaks():
    reported = set()
    for path in files(".c", ".h", under="src"):
        module = module_of(path)
        allowed = {module, *MAY_INCLUDE.get(module, ()), *MAY_REACH.get(module, ())}
        for name, through in reached(path) if module else ():
            if through and not {name, target_of(name)} & allowed and (module, name) not in reported:
                reported.add((module, name))
                yield f"{path}: {module} may not reach {name} (through {', '.join(through)})"


def declared(header):
    """The functions that a header declares."""
    return set(re.findall(r"^[a-z][\w *]*[ *](\w+)\(", code_only(read(os.path.join("src", header))), re.M))


def reach_calls():
    for module, headers in MAY_REACH.items():
        names = {name: header for header in headers if target_of(header) != "public" for name in declared(header)}
        for path in files(".c", ".h", under=os.path.join("src", module)):
            code = code_only(read(path))
            for match in re.finditer(r"\b(\w+)\s*\(", code):
                if match[1] in names:
                    yield f"{path}:{line_of(code, match)}: {module} may not call {match[1]}() of {names[match[1]]}"


def unused_reach():
    for module, headers in MAY_REACH.items():
        found = {name for path in files(".c", ".h", under=os.path.join("src", module)) for name, _ in reached(path)}
        for header in headers:
            if header not in found:
                yield f"MAY_REACH: {module} does not reach {header}"


def include_cycles():
    """Headers that include themselves through others: include guards hide this until a type is missing."""
    for path in files(".h", under="src"):
        for name, through in reached(path):
            if os.path.join("src", name) == path:
                yield f"{path}: includes itself (through {', '.join(through)})"


def cm_breaks():
    """The other files of the daemon reach a connection manager through daemon/cm_ops.h."""
    for path in files(".c", ".h", under=os.path.join("src", "daemon")):
        if not os.path.basename(path).startswith(("cma_ib", "gsi")):
            for _, name in includes(path):
                if name.startswith(("cm/", "daemon/cma_ib", "daemon/gsi")):
                    yield f"{path}: includes {name}; only daemon/cma_ib* and daemon/gsi* use the InfiniBand CM"


def public_header_breaks():
    for path in files(".h", under="include"):
        for angle, name in includes(path):
            if not angle:
                yield f"{path}: includes \"{name}\"; an installed header names others as <...>"
            elif target_of(name) in MAY_INCLUDE:
                yield f"{path}: shows the inside ({name})"


def impure():
    for path in files(".c", ".h", under="src"):
        module = module_of(path)
        if module not in PURE:
            continue
        for _, name in includes(path):
            if IMPURE_HEADERS.match(name):
                yield f"{path}: includes <{name}>"
        code = code_only(read(path))
        for match in IMPURE_CALLS.finditer(code):
            yield f"{path}:{line_of(code, match)}: calls {match[1]}()"
        if module == "wire":
            for match in ALLOCATES.finditer(code):
                yield f"{path}:{line_of(code, match)}: calls {match[1]}()"


def rude_calls():
    for path in files(".c", ".h", under="src"):
        if module_of(path) not in LIBRARY_MODULES:
            continue
        code = code_only(read(path))
        for match in RUDE.finditer(code):
            if (os.path.dirname(path), match[1]) not in RUDE_ALLOWED:
                yield f"{path}:{line_of(code, match)}: a library does not call {match[1]}()"


def cancellation_points():
    for path in files(".c", ".h", under="src"):
        if module_of(path) not in CANCELLABLE_MODULES:
            continue
        code = code_only(read(path))
        for match in CANCELLABLE.finditer(code):
            if match[1] not in CANCELLABLE_ALLOWED.get(path, ()):
                yield f"{path}:{line_of(code, match)}: {match[1]}() is a cancellation point: take base/syscalls.h's"


def line_of(text, match):
    return text.count("\n", 0, match.start()) + 1


def long_files():
    for path in files(".c", ".h", ".py"):
        if path.startswith("include" + os.sep):
            continue
        lines = read(path).count("\n")
        if lines > FILE_MAX_LINES:
            yield f"{path}: {lines} lines, at most {FILE_MAX_LINES}: split it by responsibility"


def long_functions():
    for path in files(".c", under="src") + files(".c", under="tools"):
        for name, first, last in functions(path):
            if last - first + 1 > FUNCTION_MAX_LINES:
                yield f"{path}:{first}: {name}() has {last - first + 1} lines, at most {FUNCTION_MAX_LINES}"


def repeated_statics():
    """A backtrace, a profile and a search name a static function without its file."""
    defined = {}
    for path in files(".c", under="src") + files(".h", under="src"):
        lines = read(path).splitlines()
        for name, first, _ in functions(path):
            if lines[first - 1].startswith("static") and defined.setdefault(name, path) != path:
                yield f"{path}:{first}: {name}() is defined in {defined[name]}, too"


def repeated_atforks():
    """The order of a module's handlers is that of calls in one function, not that of registration (ARCHITECTURE.md)."""
    registered = {}
    for path in files(".c", ".h", under="src"):
        text = read(path)
        for match in re.finditer(r"\bpthread_atfork\s*\(", text):
            module = path.split("/")[1]
            if registered.setdefault(module, (path, match.start())) != (path, match.start()):
                yield f"{path}:{line_of(text, match)}: {registered[module][0]} has the fork handlers of {module}"


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
        module = module_of(path)
        if module is None or path == os.path.join("src", "daemon", "main.c"):
            continue
        inside = os.path.relpath(path, os.path.join("src", module))
        if f"'{inside}'" not in read(os.path.join("src", module, "meson.build")):
            yield f"{path}: not in src/{module}/meson.build"
    for path in files(".c", under=os.path.join("tests", "unit")):
        folder, name = os.path.split(path)
        if f"'{name}'" not in read(os.path.join(folder, "meson.build")):
            yield f"{path}: not in {folder}/meson.build"


def unlisted_threads():
    """Unit tests that start a thread and are not in the suite threads."""
    for path in files("meson.build", under=os.path.join("tests", "unit")):
        text, folder = read(path), os.path.dirname(path)
        listed = set(re.findall(r"'([\w-]+)'", " ".join(re.findall(r"(?s)^unit_threads \+= \[(.*?)\]", text, re.M))))
        for name, sources in re.findall(r"(?s)'([\w-]+)': files\((.*?)\)", text):
            paths = [os.path.normpath(os.path.join(folder, source)) for source in re.findall(r"'([^']+)'", sources)]
            if name not in listed and any("pthread_create(" in read(source) for source in paths):
                yield f"{path}: '{name}' is not in unit_threads"


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


def unnamed_tests():
    """Test cases whose name does not begin with a function, a file or a module of src or tools (docs/STYLE.md)."""
    subjects = set()
    for path in files(".c", ".h", under="src") + files(".h", under="include") + files(".h", under="tools"):
        subjects |= set(re.findall(r"\b([a-z]\w+)\(", read(path)))
        subjects |= {os.path.basename(path).rsplit(".", 1)[0], path.split("/")[1]}
    for path in files(".c", under="tests"):
        if "/test_" not in path:
            continue
        text = read(path)
        uses = collections.Counter(re.findall(r"\w+", text))
        for match in re.finditer(r"^static void (\w+)\(void \*\*\w+\)", text, re.M):
            words = match[1].split("_")
            is_case = uses[match[1]] > 1
            if is_case and not any("_".join(words[:count]) in subjects for count in range(1, len(words) - 1)):
                yield f"{path}:{line_of(text, match)}: {match[1]}"


def unknown_messages():
    """Messages in the first column of the table in docs/debugging.md that src does not contain. "…" is a value."""
    path = os.path.join("docs", "debugging.md")
    section = re.search(r"^## The program finds no device$.*?(?=^## )", read(path), re.M | re.S)
    messages = re.findall(r"^\| `([^`]+)` \|", section[0], re.M) if section else []
    source = "\n".join(re.sub(r'"\s*"', "", read(name)) for name in files(".c", under="src"))
    if not messages:
        yield f"{path}: no table of messages"
    for message in messages:
        if not all(part in source for part in message.split("…")):
            yield f"{path}: src has no message \"{message}\""


def unlisted_documents():
    """Documents that docs/README.md, the list by reader, does not have."""
    listed = read("docs/README.md")
    for path in files(".md", under="docs"):
        name = os.path.relpath(path, "docs")
        if os.sep not in name and name != "README.md" and f"({name})" not in listed:
            yield f"docs/README.md does not list {name}"


def main():
    tap = Tap()
    tap.rule("modules include only what MAY_INCLUDE permits", include_breaks())
    tap.rule("modules reach only what MAY_INCLUDE and MAY_REACH permit", reach_breaks())
    tap.rule("modules call no function of a header in MAY_REACH", reach_calls())
    tap.rule("each header in MAY_REACH is reached", unused_reach())
    tap.rule("no header of src includes itself through others", include_cycles())
    tap.rule("the InfiniBand CM is used through daemon/cm_ops.h", cm_breaks())
    tap.rule("public headers show nothing of the inside", public_header_breaks())
    tap.rule("pure modules have no sockets, threads, clock; wire does not allocate", impure())
    tap.rule("libraries do not print, exit or change the process", rude_calls())
    tap.rule("library functions are no cancellation points, except where they wait for the application",
             cancellation_points())
    tap.rule("the directories of src/core/ include and call the lower layers, with the listed exceptions",
             layers.layer_breaks())
    tap.rule(f"a directory of src/core/ has at most {layers.FILES_MAX} files, and includes of at most "
             f"{layers.LEVELS_MAX} levels", layers.layer_sizes())
    tap.rule(f"no file is longer than {FILE_MAX_LINES} lines", long_files())
    tap.rule(f"no function is longer than {FUNCTION_MAX_LINES} lines", long_functions())
    tap.rule("no name of a static function is used twice", repeated_statics())
    tap.rule("test cases are named <function>_<condition>_<result>", unnamed_tests())
    tap.rule("each module calls pthread_atfork() once", repeated_atforks())
    tap.rule("a function whose comment states a lock checks it", locks.missing_checks())
    tap.rule("the rule for locks finds the functions of an example", locks.wrong_claims())
    tap.rule("no promises in comments", promises())
    tap.rule("every file names its licence", unlicensed())
    tap.rule("no path of one machine", machine_paths())
    tap.rule("every source file is built", orphans())
    tap.rule("unit tests with threads run with ThreadSanitizer", unlisted_threads())
    tap.rule("every header is guarded", header_guards())
    tap.rule("no blanks at the end of lines", line_ends())
    tap.rule("Python parses and has no long lines, unused imports or bare excepts", python_rules.breaks())
    tap.rule("the rules for Python report each fault of an example", python_rules.wrong_reports())
    tap.rule("src contains the messages that docs/debugging.md explains", unknown_messages())
    tap.rule("docs/spec-map.md is what tests/arch/cite.py writes", cite.stale())
    adr.rules(tap)
    tap.rule("docs/README.md lists each document", unlisted_documents())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
