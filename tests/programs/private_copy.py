# SPDX-License-Identifier: BSD-2-Clause
"""Creates copies of programs and libraries whose libibverbs and librdmacm have private names, as auditwheel does for
the libraries of a Python wheel: the soname, and the names in the files that need the library, have a hash."""

import os
import struct

from tests.programs.lab import check

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_STRTAB, DT_SONAME, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 14, 0x6ffffffe, 0x6fffffff

# Each new name replaces an undefined weak symbol of the startup files, which no program calls, in the string table.
RENAMED = {
    b"libibverbs.so.1": (b"libibverbs-9f3e41ab.so.1", b"_ITM_deregisterTMCloneTable"),
    b"librdmacm.so.1": (b"librdmacm-9f3e41ab.so.1", b"_ITM_registerTMCloneTable"),
}


class Image:
    """An ELF file of 64 bits and little endian."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = bytearray(file.read())
        check(self.data[:6] == b"\x7fELF\x02\x01", f"{path} is not an ELF file of 64 bits")
        start, size, count = (*struct.unpack_from("<Q", self.data, 32), *struct.unpack_from("<HH", self.data, 54))
        self.segments = [struct.unpack_from("<IIQQQQ", self.data, start + size * i) for i in range(count)]
        dynamic, length = next((place, length) for kind, _, place, _, _, length in self.segments if kind == PT_DYNAMIC)
        self.entries = [(place, *struct.unpack_from("<QQ", self.data, place))
                        for place in range(dynamic, dynamic + length, 16)]
        self.strings = self.offset(self.first(DT_STRTAB))

    def first(self, tag):
        return next((value for _, entry, value in self.entries if entry == tag), None)

    def offset(self, address):
        """The offset in the file of what is loaded to this address."""
        return next(address - start + place for kind, _, place, start, _, length in self.segments
                    if kind == PT_LOAD and start <= address < start + length)

    def text(self, index):
        start = self.strings + index
        return bytes(self.data[start:self.data.index(0, start)])

    def rename_string(self, place, form):
        """Renames the string whose index is stored at this place, if it is one of RENAMED."""
        index, = struct.unpack_from(form, self.data, place)
        if self.text(index) not in RENAMED:
            return
        new, unused = RENAMED[self.text(index)]
        found = self.data.find(b"\0" + new + b"\0", self.strings)
        if found < 0:
            found = self.data.find(b"\0" + unused + b"\0", self.strings)
            check(found >= 0, f"no unused string for {new.decode()}")
            self.data[found + 1:found + 1 + len(new) + 1] = new + b"\0"
        struct.pack_into(form, self.data, place, found + 1 - self.strings)

    def rename(self):
        for place, tag, _ in self.entries:
            if tag in (DT_NEEDED, DT_SONAME):
                self.rename_string(place + 8, "<Q")
        if self.first(DT_VERNEED):
            place = self.offset(self.first(DT_VERNEED))
            for _ in range(self.first(DT_VERNEEDNUM)):
                self.rename_string(place + 4, "<I")
                place += struct.unpack_from("<I", self.data, place + 12)[0]


def copy(source, target):
    """Writes a copy of the file with the private names."""
    image = Image(source)
    image.rename()
    with open(target, "wb") as file:
        file.write(image.data)
    os.chmod(target, 0o755)


def copy_libraries(directory, folder):
    """Writes both libraries of the system, with private names, to the folder."""
    for name, (new, _) in RENAMED.items():
        copy(os.path.join(directory, name.decode()), os.path.join(folder, new.decode()))
