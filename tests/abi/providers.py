# SPDX-License-Identifier: BSD-2-Clause
"""What the provider libraries export, beside the public symbols that rdma-core v44, v56 and v65 export.

    providers.py LIBRARY...     each named lib<provider>.so
"""

import os
import re
import sys

from tests.abi.symbols import MAY_NEED, dynamic, exported, parents
from tests.abi.tap import Tap, data


def listed():
    """By library: its symbols as triples of name, @@ for the default version or @, and node."""
    found = {}
    for line in data("providers.syms"):
        library, _, symbol = line.split()
        found.setdefault(library, set()).add(re.match(r"(\w+)(@@?)(\S+)$", symbol).groups())
    return found


def number(node):
    return [int(part) for part in node.split("_")[-1].split(".")]


def expected_parents(nodes):
    """Each node inherits the preceding one of two numbers. A node of three numbers, MLX5_1.25.1, inherits MLX5_1.25."""
    found, before = {}, None
    for node in sorted(nodes, key=number):
        if len(number(node)) > 2:
            found[node] = node.rsplit(".", 1)[0]
        else:
            found[node], before = before, node
    return found


def shown(symbols):
    return sorted("".join(symbol) for symbol in symbols)


def check(tap, library, path, wanted):
    there = exported(path)
    tap.rule(f"{library} exports every public symbol at its version", shown(wanted - set(there)))
    tap.rule(f"{library} exports no other symbol", shown(set(there) - wanted))
    tap.rule(f"{library} exports functions", [name for (name, _, _), (kind, _) in there.items() if kind != "FUNC"])
    soname = f"{library}.so.1"
    nodes = expected_parents({node for _, _, node in wanted})
    have = {node: parent for node, parent in parents(path).items() if node != soname}
    tap.rule(f"{library}: each version inherits the preceding one",
             [f"{node} inherits {have.get(node, 'nothing')}, expected {parent}"
              for node, parent in nodes.items() if have.get(node, "missing") != parent])
    tap.rule(f"{library} has its soname",
             [] if dynamic(path, "SONAME") == [soname] else dynamic(path, "SONAME") or ["none"])
    tap.rule(f"{library} needs libc only", [name for name in dynamic(path, "NEEDED") if not MAY_NEED.match(name)])


def main():
    tap = Tap()
    paths = {os.path.basename(path).split(".")[0]: path for path in sys.argv[1:]}
    tables = listed()
    tap.rule("every provider library is built", sorted(set(tables) - set(paths)))
    tap.rule("every provider library has a table", sorted(set(paths) - set(tables)))
    for library in sorted(set(tables) & set(paths)):
        check(tap, library, paths[library], tables[library])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
