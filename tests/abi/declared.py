# SPDX-License-Identifier: BSD-2-Clause
"""The declarations of a set of public headers, as clang parses them, and the layouts that the compiler gives them."""

import json
import os
import re
import subprocess
import tempfile

HEADERS = [
    "infiniband/verbs.h",
    "infiniband/verbs_api.h",
    "infiniband/ib_user_ioctl_verbs.h",
    "infiniband/sa.h",
    "infiniband/arch.h",
    "infiniband/opcode.h",
    "infiniband/tm_types.h",
    "infiniband/ib.h",
    "rdma/rdma_cma.h",
    "rdma/rdma_verbs.h",
    "rdma/rsocket.h",
]

# The names of the interface; everything else in the translation unit is libc's or the kernel's.
TYPE = re.compile(r"^(_?_?ibv_|_compat_ibv_|verbs_|rdma_|ib_|sockaddr_ib$)")
CONSTANT = re.compile(r"^(IBV|RDMA|IB|VERBS|RAI|IBTA)_|^(SOL_RDMA|AF_IB|PF_IB|ETHERNET_LL_SIZE)$")
FUNCTION = re.compile(r"^(_*ibv_|mult_to_ibv|mbps_to_ibv|verbs_get_|rdma_|ib_addr_|htonll$|ntohll$|r[a-z]+$)")
MACRO = re.compile(r"^(_*ibv_|sib_|htonll$|ntohll$|verbs_|IBV_|RDMA_[A-Z]+_[A-Z_]+$)(?!.*_H$)")
# C library functions that look like rsockets.
LIBC = {"read", "readv", "recv", "recvfrom", "recvmsg", "rename", "remove", "rewind", "realloc", "random", "rand",
        "raise",
        "regcomp", "regexec", "regfree", "regerror", "reallocarray", "renameat", "readlink", "readlinkat", "rmdir",
        "revoke", "recvmmsg", "rpmatch", "realpath"}


def source():
    """A C file that includes every header, silently about the obsolete ones."""
    lines = ["#include <stddef.h>", "#include <stdio.h>"]
    lines += [f"#include <{header}>" for header in HEADERS]
    return "\n".join(lines) + "\n"


def run(command, text):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr[-4000:]}")
    return done.stdout


class Declared:
    """Structures with their fields, enumerators, constant macros and functions of the headers below `include`
    (None: those of the system)."""

    def __init__(self, include):
        self.flags = ["-D_GNU_SOURCE", "-w"] + ([f"-I{include}"] if include else [])
        self.fields = {}
        self.enums = set()
        self.constants = set()
        self.macros = set()
        self.functions = {}
        tree = json.loads(run(["clang", "-x", "c", "-std=gnu11", *self.flags, "-fsyntax-only", "-Xclang",
                               "-ast-dump=json", "-"], source()))
        self._walk(tree)
        self._macros()
        self.values = None

    def _walk(self, node):
        kind, name = node.get("kind"), node.get("name", "")
        if kind == "RecordDecl" and node.get("completeDefinition") and TYPE.match(name):
            key = f"{node['tagUsed']} {name}"
            self.fields[key] = dict(fields_of(node))
        elif kind == "EnumDecl" and TYPE.match(name):
            self.enums.add(f"enum {name}")
        elif kind == "EnumConstantDecl" and CONSTANT.match(name):
            self.constants.add(name)
        elif kind == "FunctionDecl" and FUNCTION.match(name) and name not in LIBC:
            self.functions[name] = node["type"]["qualType"]
        for inner in node.get("inner", []):
            self._walk(inner)

    def _macros(self):
        text = run(["clang", "-x", "c", "-std=gnu11", *self.flags, "-dM", "-E", "-"], source())
        self.macros = {name for name in re.findall(r"^#define (\w+)", text, re.M) if MACRO.match(name)}
        for name, value in re.findall(r"^#define (\w+) (.+)$", text, re.M):
            if CONSTANT.match(name) and not name.endswith("_H") and not value.startswith('"'):
                self.constants.add(name)

    def measure(self, compiler):
        """Sizes, offsets and values by name, out of a program that `compiler` makes."""
        probes = []
        for key, fields in self.fields.items():
            probes.append((f"sizeof {key}", f"sizeof({key})"))
            probes += [(f"{key}.{field}", f"offsetof({key}, {field})") for field in fields]
            probes += [(f"sizeof {key}.{field}", f"sizeof((({key} *)0)->{field})")
                       for field, of_type in fields.items() if not of_type.endswith("[]")]
        probes += [(f"sizeof {name}", f"sizeof({name})") for name in self.enums]
        probes += [(name, name) for name in self.constants]
        lines = [f'\tprintf("%s\\t%lld\\n", "{name}", (long long)({what}));' for name, what in probes]
        program = source() + "int main(void)\n{\n" + "\n".join(lines) + "\n\treturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as where:
            binary = os.path.join(where, "probe")
            run([*compiler, "-x", "c", "-std=gnu11", *self.flags, "-o", binary, "-"], program)
            output = run([binary], "")
        self.values = {name: int(value) for name, value in (line.split("\t") for line in output.splitlines())}
        return self.values


def fields_of(record, prefix=""):
    """Members by the paths that offsetof() takes, into unnamed structures and unions too, with their types."""
    unnamed = None
    for inner in record.get("inner", []):
        kind, name = inner.get("kind"), inner.get("name")
        if kind == "RecordDecl" and not name:
            unnamed = inner
        elif kind == "FieldDecl" and not inner.get("isBitfield"):
            of_unnamed = unnamed is not None and re.search(r"\((unnamed|anonymous)", inner["type"]["qualType"])
            if not name:
                if unnamed is not None:
                    yield from fields_of(unnamed, prefix)
                    unnamed = None
                continue
            yield prefix + name, "unnamed" if of_unnamed else inner["type"]["qualType"]
            if of_unnamed:
                if "[" not in inner["type"]["qualType"]:
                    yield from fields_of(unnamed, prefix + name + ".")
                unnamed = None
