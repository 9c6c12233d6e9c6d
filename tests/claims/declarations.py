# SPDX-License-Identifier: BSD-2-Clause
"""Compiles what declarations.txt requires of the public headers, as C and C++, with gcc and clang: the exact type of
each function, the types and the order of the members of each structure, and the types of constants."""

import os
import re
import subprocess
import sys
from collections import defaultdict

from tests.abi.tap import Tap
from tests.arch.sources import ROOT, read

TABLE = os.path.join("tests", "claims", "declarations.txt")
# gcc then reports an error where a macro is used, not where it is defined.
GCC = "-ftrack-macro-expansion=0"
COMPILERS = (("gcc", "-x", "c", "-std=gnu11", GCC), ("clang", "-x", "c", "-std=gnu11"),
             ("g++", "-x", "c++", "-std=c++11", GCC), ("clang++", "-x", "c++", "-std=c++11"))
PROLOGUE = """#include <pthread.h>
#include <stddef.h>
#include <rdma/rdma_cma.h>
#ifdef __cplusplus
#include <type_traits>
#define SAME(member, type) static_assert(std::is_same<decltype(member), type>::value, "type")
#define HOLDS(condition) static_assert(condition, "order")
#else
#define SAME(member, type) _Static_assert(__builtin_types_compatible_p(__typeof__(member), type), "type")
#define HOLDS(condition) _Static_assert(condition, "order")
#endif
"""
FUNCTION = re.compile(r"^(?P<ret>[\w ]+?\**) ?(?P<name>\brdma_\w+)\((?P<params>.*)\);$", re.M)
STRUCT = re.compile(r"^struct (?P<name>\w+) \{\n(?P<members>(?:\t.*\n)+)\};$", re.M)
MEMBER = re.compile(r"^\t(?P<type>.*?[ *])(?P<name>[\w.]+);$", re.M)
CONSTANTS = re.compile(r"^constants of (?P<name>[\w ]+): (?P<type>[\w ]+) \{\n(?P<members>(?:\t\w+;\n)+)\};$", re.M)
ERROR = re.compile(r"^<stdin>:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", re.M)


def of_function(match):
    name = match["name"]
    return [f"extern __typeof__({name}) {name};",
            f"{match['ret']} (*const check_{name})({match['params']}) __attribute__((unused)) = {name};"]


def of_struct(match):
    lines, before = [], None
    for member in MEMBER.finditer(match["members"]):
        lines.append(f"SAME(((struct {match['name']} *)0)->{member['name']}, {member['type'].strip()});")
        if before:
            lines.append(f"HOLDS(offsetof(struct {match['name']}, {before}) <= "
                         f"offsetof(struct {match['name']}, {member['name']}));")
        before = member["name"]
    return lines


def of_constants(match):
    return [f"static const {match['type']} check_{name} __attribute__((unused)) = {name};"
            for name in re.findall(r"\w+", match["members"])]


def requirements(text):
    """Pairs of an item, which is a case of this test, and the lines that compile if the headers declare it so."""
    for match in FUNCTION.finditer(text):
        yield match["name"], of_function(match)
    for match in STRUCT.finditer(text):
        yield f"struct {match['name']}", of_struct(match)
    for match in CONSTANTS.finditer(text):
        yield match["name"], of_constants(match)


def cases():
    return [item for item, _ in requirements(read(TABLE))]


def unread(text):
    """Lines of the table that no requirement has read."""
    for pattern in (FUNCTION, STRUCT, CONSTANTS):
        text = pattern.sub("", text)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def errors(text, include):
    """Pairs of an item and a compiler's error, or of an empty item and an error that belongs to no line of an item."""
    items, lines = {}, PROLOGUE.splitlines()
    for item, own in requirements(text):
        for line in own:
            lines.append(line)
            items[len(lines)] = item
    source = "\n".join(lines) + "\n"
    for command in COMPILERS:
        done = subprocess.run([*command, "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-D_GNU_SOURCE",
                               f"-I{include}", "-fsyntax-only", "-"],
                              input=source, capture_output=True, text=True, check=False)
        found = ERROR.findall(done.stderr)
        for line, message in found:
            yield items.get(int(line), ""), f"{command[0]}: {message}"
        if done.returncode and not found:
            yield "", f"{command[0]}: {done.stderr[-300:]}"


def check_that_it_can_fail(tap, text, include):
    """A parameter, a return type, a member's type, an order and a constant's type that differ from the headers."""
    wrong = (("rdma_listen", "rdma_listen(struct rdma_cm_id *, int)", "rdma_listen(struct rdma_cm_id *, long)"),
             ("rdma_destroy_ep", "void rdma_destroy_ep", "int rdma_destroy_ep"),
             ("struct ibv_mr", "\tsize_t length;\n", "\tint length;\n"),
             ("struct ibv_qp_cap", "\tuint32_t max_send_wr;\n\tuint32_t max_recv_wr;\n",
              "\tuint32_t max_recv_wr;\n\tuint32_t max_send_wr;\n"),
             ("address flags", "constants of address flags: int", "constants of address flags: struct rdma_cm_id"))
    for _, before, after in wrong:
        assert text.count(before) >= 1, before
        text = text.replace(before, after)
    seen = defaultdict(set)
    for item, message in errors(text, include):
        seen[item].add(message.split(":")[0])
    tap.rule("each compiler reports declarations that differ",
             [f"{item}: only {sorted(seen[item])}" for item, _, _ in wrong if len(seen[item]) < len(COMPILERS)])


def main():
    tap = Tap()
    include = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "include")
    text = read(TABLE)
    tap.rule("every line of the table is read", unread(text))
    found = defaultdict(list)
    for item, message in errors(text, include):
        found[item].append(message)
    tap.rule("the table compiles", found.pop("", []))
    for item in cases():
        tap.rule(item, found[item])
    check_that_it_can_fail(tap, text, include)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
