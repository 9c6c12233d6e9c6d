# SPDX-License-Identifier: BSD-2-Clause
"""Compares our public headers with Debian's installed ones, and with those of rdma-core v64 and v65 if these are newer.

    layout.py [INCLUDE]        INCLUDE: the headers to test, default include/

Names come out of Debian's headers by way of clang, so what is compared is everything they declare. Sizes, offsets and
values are printed by a program that is generated from those names and compiled against either set of headers. What v64
changed or added is in data/: sizes.v64 and offsets.txt are whole tables, added.v64 has the rest, name by name.
added.v65 has what v65 added to v64, which changed nothing.
"""

import os
import re
import shutil
import struct
import sys
import tempfile

from tests.abi.declared import Declared
from tests.abi.tap import Tap, data
from tests.arch.sources import ROOT

# How many names Debian's headers are known to have, roughly: fewer means that reading them went wrong.
NAMES_MIN = 4000
FUNCTIONS_MIN = 250

# Builds the enumerators of opcode.h in rdma-core; no part of the interface.
MACROS_NOT_NEEDED = {"IBV_OPCODE"}


def aggregate(name, measured):
    """`struct name` or `union name`, whichever there is."""
    return f"union {name}" if f"sizeof union {name}" in measured else f"struct {name}"


def sizes_v64(measured):
    pairs = [line.split() for line in data("sizes.v64")]
    return {f"sizeof {aggregate(name, measured)}": int(size) for name, size in pairs}


def offsets_v64(measured):
    """The table gives v64's line of a structure only where it differs from v44's."""
    found = {}
    name = None
    for line in data("offsets.txt"):
        if line.startswith("## "):
            name = aggregate(line.split()[1], measured)
            continue
        for field, offset in re.findall(r"(\w+)@(\d+)", line):
            found[f"{name}.{field}"] = int(offset)
    return found


def added(table):
    """Lines of a name, blanks, a value; names have blanks too."""
    lines = [line for line in data(table) if not line.startswith("#")]
    return {name: int(value) for name, value in (line.rsplit(None, 1) for line in lines)}


def differences(expected, measured):
    for name, value in sorted(expected.items()):
        if name not in measured:
            yield f"{name} is missing, should be {value}"
        elif measured[name] != value:
            yield f"{name} is {measured[name]}, should be {value}"


def types_of(declared):
    return {f"{key}.{field}": of_type for key, fields in declared.fields.items() for field, of_type in fields.items()}


def operations_from_the_end(measured, where):
    """How far each operation lies before the ibv_context: what an inlined verb of a compiled program counts with."""
    context = measured["struct verbs_context.context"]
    return {f"{name}, back from context": context - value for name, value in where.items()
            if name.startswith("struct verbs_context.")}


def swapped(include, where):
    """The headers again, below `where`, with two fields of rdma_conn_param in each other's place."""
    shutil.copytree(include, where)
    header = os.path.join(where, "rdma", "rdma_cma.h")
    with open(header, encoding="utf-8") as file:
        text = file.read()
    text = re.sub("responder_resources|initiator_depth",
                  lambda name: "initiator_depth" if name[0] == "responder_resources" else "responder_resources", text)
    with open(header, "w", encoding="utf-8") as file:
        file.write(text)
    return Declared(where)


def check_that_it_can_fail(tap, include, expected):
    with tempfile.TemporaryDirectory() as directory:
        wrong = swapped(include, os.path.join(directory, "include"))
        wrong.measure([os.environ.get("CC", "cc")])
    seen = list(differences(expected, wrong.values))
    tap.rule("two fields that changed places are seen",
             [] if len(seen) == 2 and all("rdma_conn_param" in line for line in seen) else [f"seen: {seen}"])


def check_against_system(tap, ours, system, newer):
    """`newer`: what v64 changed, by name, which is then not Debian's any more."""
    names = system.values
    same = {name: value for name, value in names.items() if newer.get(name, value) == value}
    tap.rule("Debian's headers were read", [f"only {len(names)} names"] if len(names) < NAMES_MIN else [])
    tap.rule("sizes, offsets and enum values are Debian's", differences(same, ours.values))

    back = {name: value for name, value in names.items() if not name.startswith("sizeof")}
    tap.rule("operations lie where inlined verbs look for them",
             differences(operations_from_the_end(names, back), operations_from_the_end(ours.values, ours.values)))

    types, own_types = types_of(system), types_of(ours)
    tap.rule("fields have Debian's types",
             [f"{name} is {own_types.get(name)}, should be {of_type}" for name, of_type in types.items()
              if own_types.get(name) != of_type and f"sizeof {name}" not in newer])

    tap.rule("functions have Debian's parameters",
             [f"{name}: {ours.functions.get(name)}, should be {of_type}"
              for name, of_type in sorted(system.functions.items()) if ours.functions.get(name) != of_type]
             + ([] if len(system.functions) >= FUNCTIONS_MIN else [f"only {len(system.functions)} were read"]))
    tap.rule("macros have Debian's names",
             [f"{name} is missing" for name in sorted(system.macros - ours.macros - MACROS_NOT_NEEDED)])


def main():
    tap = Tap()
    if struct.calcsize("P") != 8:
        tap.skip("layouts", "the tables are those of 64-bit machines")
        return tap.done()
    include = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "include")
    ours = Declared(include)
    ours.measure([os.environ.get("CC", "cc")])
    newer = dict(sizes_v64(ours.values), **offsets_v64(ours.values), **added("added.v64"), **added("added.v65"))

    tap.rule("sizes are those of v64", differences(sizes_v64(ours.values), ours.values))
    tap.rule("offsets are those of v64", differences(offsets_v64(ours.values), ours.values))
    tap.rule("what v64 added is there", differences(added("added.v64"), ours.values))
    tap.rule("what v65 added is there", differences(added("added.v65"), ours.values))
    check_that_it_can_fail(tap, include, offsets_v64(ours.values))
    tap.rule("clang lays out the same", differences(dict(ours.values), ours.measure(["clang"])))

    if os.path.exists("/usr/include/rdma/rdma_cma.h"):
        system = Declared(None)
        system.measure([os.environ.get("CC", "cc")])
        check_against_system(tap, ours, system, newer)
    else:
        tap.skip("sizes, offsets and enum values are Debian's", "libibverbs-dev or librdmacm-dev is not installed")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
