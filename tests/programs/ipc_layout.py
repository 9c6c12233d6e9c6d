# SPDX-License-Identifier: BSD-2-Clause
"""Reads the messages of the daemon's protocol from src/ipc/msg.h and msg_cm.h: constants, and the layouts of structs as
formats of the module `struct`.

    ipc_layout.py OUTPUT    writes a C program that compiles only if the compiler uses the same constants and layouts
"""

import os
import re
import struct
import sys

IPC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "ipc")
HEADERS = ("msg.h", "msg_cm.h", "msg_failure.h")

# C type: format, size, alignment.
SCALARS = {
    "char": ("s", 1, 1),
    "uint8_t": ("B", 1, 1),
    "uint16_t": ("H", 2, 2),
    "uint32_t": ("I", 4, 4),
    "int32_t": ("i", 4, 4),
    "uint64_t": ("Q", 8, 8),
    "struct sockaddr_storage": ("128s", 128, 8),
}

DEFINE = re.compile(r"^#define\s+(IPC_\w+)[ \t]+(.+)$", re.M)
ENUM = re.compile(r"\benum\s+\w+\s*\{(.*?)\}\s*;", re.S)
STRUCT = re.compile(r"^struct\s+(ipc_\w+)\s*\{(.*?)^\};", re.M | re.S)
FIELD = re.compile(r"^\s*((?:struct\s+)?\w+)\s+(\w+)\s*(?:\[(\w+)\])?\s*$")


class Struct:
    """The layout of a struct: name, size and alignment, and (field, offset, format) of each field."""

    def __init__(self, name):
        self.name, self.size, self.alignment, self.fields = name, 0, 1, []

    def add(self, field, form, size, alignment):
        offset = -(-self.size // alignment) * alignment
        self.fields.append((field, offset, form))
        self.size, self.alignment = offset + size, max(self.alignment, alignment)

    def finish(self):
        self.size = -(-self.size // self.alignment) * self.alignment

    def format(self, first=0, end=None):
        """The format of the fields [first, end), with the padding between them."""
        text, at = "", self.fields[first][1]
        for _, offset, form in self.fields[first:end]:
            text += f"{offset - at}x" * (offset > at) + form
            at = offset + struct.calcsize("=" + form)
        if end is None and at < self.size:
            text += f"{self.size - at}x"
        return text


class Messages:
    """The constants (IPC_*) and structs (ipc_*) of the headers."""

    def __init__(self, text):
        self.constants, self.structs = {}, {}
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
        for name, value in DEFINE.findall(text):
            self.constants[name] = self.value(value)
        for body in ENUM.findall(text):
            self.add_enum(body)
        for name, body in STRUCT.findall(text):
            self.add_struct(name, body)

    def value(self, text):
        """The value of a constant expression or a string."""
        text = text.strip()
        if text.startswith('"'):
            return text.strip('"')
        return eval(re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uU]?[lL]*\b", r"\1", text), {}, self.constants)

    def add_enum(self, body):
        following = 0
        for entry in filter(None, (entry.strip() for entry in body.split(","))):
            name, _, value = entry.partition("=")
            following = self.value(value) if value else following
            self.constants[name.strip()] = following
            following += 1

    def add_struct(self, name, body):
        """Adds a struct, unless it has a member that no message has, such as a pointer."""
        found = Struct(name)
        for line in filter(None, (line.strip() for line in body.split(";"))):
            match = FIELD.match(line)
            if not match or not self.type_of(match[1]):
                return
            form, size, alignment = self.type_of(match[1])
            count = self.value(match[3]) if match[3] else None
            if count is not None:
                form = f"{count}s" if size == 1 else form * count
                size *= count
            found.add(match[2], form, size, alignment)
        found.finish()
        self.structs[name] = found

    def type_of(self, name):
        """The format, size and alignment of a type; None: not a type of messages."""
        inner = self.structs.get(name.removeprefix("struct "))
        return (inner.format(), inner.size, inner.alignment) if inner else SCALARS.get(name)

    def packer(self, name, first=0, end=None):
        """The fields [first, end) of a struct, as a struct.Struct. A message's header is its field 0."""
        return struct.Struct("=" + self.structs[name].format(first, end))

    def field(self, name, field):
        """The index of a field."""
        return [entry[0] for entry in self.structs[name].fields].index(field)

    def checks(self):
        """A C program whose compilation fails if a constant or a layout differs."""
        yield "/* Written by tests/programs/ipc_layout.py. */\n#include <stdio.h>\n"
        yield "".join(f'#include "ipc/{header}"\n' for header in HEADERS)
        for name, value in self.constants.items():
            if isinstance(value, int):
                yield f'static_assert({name} == {value}, "{name}");\n'
        for name, found in self.structs.items():
            yield f'static_assert(sizeof(struct {name}) == {found.size}, "{name}");\n'
            for field, offset, _ in found.fields:
                yield f'static_assert(offsetof(struct {name}, {field}) == {offset}, "{name}.{field}");\n'
        yield 'int main(void)\n{\n\tputs("ok 1 - ipc_layout_is_that_of_the_compiler\\n1..1");\n\treturn 0;\n}\n'


def read():
    text = ""
    for header in HEADERS:
        with open(os.path.join(IPC, header), encoding="utf-8") as file:
            text += file.read()
    return Messages(text)


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as output:
        output.writelines(read().checks())
