# SPDX-License-Identifier: BSD-2-Clause
"""What the built libraries export, name by name and version by version, and which libraries they need.

    symbols.py LIBIBVERBS LIBRDMACM
"""

import re
import subprocess
import sys

from tests.abi.tap import Tap, data

# The calls that programs ask for at a private node, in every release that renamed the node and in releases to come (ADR
# 0028). IBVERBS_PRIVATE_34 is in the list of v44.
FUTURE = range(66, 81)
PUBLIC_IN_PRIVATE_NODE = {
    "libibverbs":
        {("ibv_query_gid_type", "@", f"IBVERBS_PRIVATE_{release}") for release in (22, 25, 33, 57, 59, 64, 65,
                                                                                   *FUTURE)} |
        {("ibv_wr_opcode_str", "@@" if release == 64 else "@", f"IBVERBS_PRIVATE_{release}")
         for release in (57, 59, 64, 65, *FUTURE)},
    "librdmacm": set(),
}

# What libibverbs exports for librdmacm of the same release (src/base/librdmacm_calls.h).
OWN_NODE = "USRDMA_PRIVATE_1"
OWN = {
    "libibverbs": {(f"usrdma_{name}", "@@", OWN_NODE)
                   for name in ("catch_up", "copy_from_user", "copy_to_user", "device_id", "modify_qp", "serve_close",
                                "serve_open", "serve_wait", "take_cq_event", "wait_begins", "wait_ends")},
    "librdmacm": set(),
}

# The libraries that may be loaded along with each: libc's own parts, libgcc_s and ISA-L. libgcc_s runs the cleanup
# handlers of a cancelled thread (-fexceptions); libc loads it for pthread_exit(), and Debian's libc6 depends on its
# package.
MAY_NEED = re.compile(r"^(libc\.so\.|libpthread\.so\.|libm\.so\.|ld-linux|libgcc_s\.so\.|libisal\.so\.|"
                      r"libasan|libubsan|libtsan)")

OBJECTS = {"verbs_allow_disassociate_destroy": 1}


def listed(name):
    """Triples of name, @@ for the default version or @, and node."""
    return {re.match(r"(\w+)(@@?)(\S+)$", line).groups() for line in data(name)}


def expected(library):
    """All of v44, and of v64 and v65 whatever is not private. Their lists do not say what is a default; there, what v44
    did not have is one. v65's has only what v64 did not."""
    symbols = listed(f"{library}.syms")
    known = {name for name, _, _ in symbols}
    for name, _, node in listed(f"{library}.v64.syms") | listed(f"{library}.v65.syms"):
        if name not in known and "PRIVATE" not in node:
            symbols.add((name, "@@", node))
    return symbols | PUBLIC_IN_PRIVATE_NODE[library] | OWN[library]


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout


def exported(path):
    """Triples as above, with type and size, of every dynamic symbol that is defined; nodes themselves left out."""
    found = {}
    for line in readelf("--dyn-syms", path).splitlines():
        row = line.split()
        if len(row) < 8 or not row[0].endswith(":") or row[6] in ("UND", "Ndx") or row[4] not in ("GLOBAL", "WEAK"):
            continue
        if row[6] == "ABS" and row[1].strip("0") == "":
            continue
        match = re.match(r"(\w+)(?:(@@?)(\S+))?$", row[7])
        found[(match[1], match[2] or "", match[3] or "")] = (row[3], int(row[2], 0))
    return found


def parents(path):
    """Version nodes with the one each inherits from."""
    found = {}
    name = None
    for line in readelf("-V", path).split("Version needs section")[0].splitlines():
        if match := re.search(r"Rev: 1 .*Name: (\S+)", line):
            name = match[1]
            found[name] = None
        elif match := re.search(r"Parent \d+: (\S+)", line):
            found[name] = match[1]
    return found


def chain(nodes):
    """The expected line of descent: 1.0, 1.1 and so on by number; private nodes stand alone."""
    public = sorted((node for node in nodes if "PRIVATE" not in node),
                    key=lambda node: [int(part) for part in node.split("_")[-1].split(".")])
    descent = dict(zip(public, [None] + public, strict=False))
    return {**dict.fromkeys(nodes), **descent}


def dynamic(path, tag):
    return re.findall(rf"\({tag}\).*\[([^\]]+)\]", readelf("-d", path))


def shown(symbols):
    return sorted("".join(symbol) for symbol in symbols)


def check(tap, library, path):
    wanted, there = expected(library), exported(path)
    tap.rule(f"{library} exports every name at its version", shown(wanted - set(there)))
    tap.rule(f"{library} exports nothing else", shown(set(there) - wanted))
    tap.rule(f"{library}: functions are functions, data is data",
             [f"{symbol[0]} is {kind} of {size} bytes" for symbol, (kind, size) in sorted(there.items())
              if (kind != "FUNC" if symbol[0] not in OBJECTS else (kind, size) != ("OBJECT", OBJECTS[symbol[0]]))])

    soname = f"{library}.so.1"
    nodes = chain({node for _, _, node in wanted})
    have = {node: parent for node, parent in parents(path).items() if node != soname}
    tap.rule(f"{library}: each version inherits the one before",
             [f"{node} inherits {have.get(node, 'nothing: it is missing')}, should inherit {parent}"
              for node, parent in sorted(nodes.items()) if have.get(node, "missing") != parent])
    tap.rule(f"{library} has its soname", [name for name in dynamic(path, "SONAME") if name != soname] or
             ([] if dynamic(path, "SONAME") else ["none"]))
    allowed = {"libibverbs.so.1"} if library == "librdmacm" else set()
    tap.rule(f"{library} needs libc, libgcc_s and ISA-L alone",
             [name for name in dynamic(path, "NEEDED") if not MAY_NEED.match(name) and name not in allowed])


def main():
    tap = Tap()
    for library, path in zip(("libibverbs", "librdmacm"), sys.argv[1:3], strict=False):
        check(tap, library, path)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
