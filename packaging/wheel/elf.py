# SPDX-License-Identifier: BSD-2-Clause
"""What the wheel needs to know about ELF files: machine, libraries and symbol versions. Also writes a library without
code."""

import dataclasses
import functools
import re
import struct
import subprocess

MACHINES = {62: "x86_64", 183: "aarch64"}
ET_DYN = 3
PT_LOAD, PT_DYNAMIC = 1, 2
PF_R, PF_W = 4, 2
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME, DT_RUNPATH = 1, 4, 5, 6, 10, 11, 14, 29

# The libraries of glibc and of GCC that every policy of manylinux permits (PEP 600).
POLICY = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "libutil.so.1",
          "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# manylinux2014 is the oldest policy for both machines; its libgcc has the versions up to 4.8.0.
OLDEST_GLIBC = (2, 17)
NEWEST_GCC = (4, 8, 0)
# A version that names a feature of the dynamic linker, and the first glibc that has it.
FEATURES = {"GLIBC_ABI_DT_RELR": (2, 36)}


class Unsuitable(Exception):
    """A file cannot be part of a wheel."""


@dataclasses.dataclass(frozen=True)
class Dynamic:
    """The entries of the dynamic section that name libraries and directories."""
    needed: tuple
    soname: str
    runpath: tuple


def machine(path):
    """The machine of an ELF file, or None for another file."""
    with open(path, "rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    number = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)[0]
    return MACHINES.get(number, f"machine {number}")


def readelf(option, path):
    return subprocess.run(["readelf", option, "--wide", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}).stdout


def dynamic(path):
    text = readelf("--dynamic", path)
    runpath = re.search(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text)
    soname = re.search(r"\(SONAME\).*\[(.*)\]", text)
    return Dynamic(tuple(re.findall(r"\(NEEDED\).*\[(.*)\]", text)), soname[1] if soname else None,
                   tuple(runpath[1].split(":")) if runpath else ())


def versions(path):
    """Pairs of a library and a version of its symbols that the file needs."""
    library = None
    section = readelf("--version-info", path).partition("Version needs section")[2]
    for file, name in re.findall(r"File: (\S+)|Name: (\S+)", section):
        if file:
            library = file
        else:
            yield library, name


def numbers(text):
    return tuple(int(number) for number in text.split("."))


def glibc(path):
    """The oldest release of glibc that has all symbols that this file needs."""
    needed = OLDEST_GLIBC
    for library, version in versions(path):
        kind, _, number = version.partition("_")
        is_number = re.fullmatch(r"\d+(\.\d+)+", number)
        if version in FEATURES:
            needed = max(needed, FEATURES[version])
        elif kind == "GLIBC" and is_number:
            needed = max(needed, numbers(number)[:2])
        elif kind == "GCC" and is_number:
            if numbers(number) > NEWEST_GCC:
                raise Unsuitable(f"{path} needs {version} of {library}; no manylinux policy before GCC 5 has it")
        elif library in POLICY:
            raise Unsuitable(f"{path} needs {version} of {library}, which no manylinux policy has")
    return needed


def platform_tag(paths):
    """The tag of PEP 600 for these ELF files, which have the same machine."""
    found = {machine(path) for path in paths}
    if len(found) != 1 or not found <= set(MACHINES.values()):
        raise Unsuitable(f"the programs and libraries are for {', '.join(sorted(map(str, found)))}; one of "
                         f"{', '.join(MACHINES.values())} is possible")
    major, minor = functools.reduce(max, map(glibc, paths), OLDEST_GLIBC)
    return f"manylinux_{major}_{minor}_{found.pop()}"


def alias(name, needed, of_machine):
    """
    The bytes of a library with this name and without symbols. It needs another library in its directory. dlsym(3) with
    the handle of the alias finds the symbols of that library, which is loaded once.
    """
    number = next(number for number, known in MACHINES.items() if known == of_machine)
    strings = b"\0" + b"\0".join(text.encode() for text in (name, needed, "$ORIGIN")) + b"\0"
    headers = 64 + 2 * 56
    # A hash table with one bucket and one symbol, and the symbol 0, which every table has.
    hashes, symbols = headers, headers + 24
    texts = symbols + 24
    entries = (texts + len(strings) + 7) // 8 * 8
    at = {text: strings.index(text.encode() + b"\0") for text in (name, needed, "$ORIGIN")}
    section = b"".join(struct.pack("<QQ", *entry) for entry in (
        (DT_SONAME, at[name]), (DT_NEEDED, at[needed]), (DT_RUNPATH, at["$ORIGIN"]), (DT_HASH, hashes),
        (DT_STRTAB, texts), (DT_SYMTAB, symbols), (DT_STRSZ, len(strings)), (DT_SYMENT, 24), (0, 0)))
    end = entries + len(section)
    page = 0x10000
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", ET_DYN, number, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    head += struct.pack("<IIQQQQQQ", PT_LOAD, PF_R | PF_W, 0, 0, 0, end, end, page)
    head += struct.pack("<IIQQQQQQ", PT_DYNAMIC, PF_R | PF_W, entries, entries, entries, len(section), len(section), 8)
    body = head + struct.pack("<IIIIII", 1, 1, 0, 0, 0, 0) + bytes(24) + strings
    return body.ljust(entries, b"\0") + section
