# SPDX-License-Identifier: BSD-2-Clause
"""Tests the wheel: its platform tag, the libraries that it needs, its archive, and its use in a venv, with pytest."""

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile

from tests.programs import lab as laboratory
from tests.programs.lab import BUILD, SOURCE, check

WHEEL = os.path.join(SOURCE, "packaging", "wheel")
# A user namespace cannot map UID_NOBODY.
USER = 10654
# The libraries that PEP 600 permits and that this project uses.
PERMITTED = {"libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libpthread.so.0",
             "libdl.so.2", "libm.so.6", "librt.so.1"}
ALWAYS_IN = ("usrdma/prefix/bin/usrdma", "usrdma/prefix/libexec/usrdma/usrdmad", "usrdma/prefix/lib/usrdma/bin/rping",
             "usrdma/prefix/lib/usrdma/libibverbs.so.1", "usrdma/prefix/lib/usrdma/librdmacm.so.1",
             "usrdma/prefix/lib/usrdma/libusrdma-sysfs.so", "usrdma/prefix/lib/usrdma/libusrdma-arena.so",
             "usrdma/prefix/lib/usrdma/rsocket/librspreload.so", "usrdma/prefix/include/usrdma/infiniband/verbs.h",
             "usrdma/prefix/share/usrdma/man/man3/rdma_connect.3", "usrdma/pytest_plugin.py")
PYTHON = "/usr/bin/python3"


def pack(lab, name, *options, status=0):
    """Runs packaging/wheel/build; returns the path of the wheel, or its messages if another status is expected."""
    output = os.path.join(lab.scratch, name)
    done = subprocess.run([PYTHON, "-B", os.path.join(WHEEL, "build"), "--output", output, *options],
                          capture_output=True, text=True, check=False, timeout=lab.seconds(120))
    check(done.returncode == status, f"{done}")
    return done.stderr if status else done.stdout.strip()


def readelf(option, path):
    return subprocess.run(["readelf", option, "--wide", path], capture_output=True, text=True, check=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(top):
    return [path for where, _, names in os.walk(top) for path in (os.path.join(where, name) for name in names)
            if is_elf(path)]


def tag_is_right(wheel, contents):
    """The tag names the newest release of glibc whose symbols any file needs, and no older one."""
    needed = {tuple(map(int, version.split("."))) for path in elf_files(contents)
              for version in re.findall(r"Name: GLIBC_(\d+\.\d+)", readelf("--version-info", path))}
    tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_(x86_64|aarch64)\.whl$", wheel)
    check(tag and max(needed) == (int(tag[1]), int(tag[2])), f"{wheel}: {sorted(needed)[-3:]}")
    check(tag[3] == os.uname().machine, f"{tag[3]} on {os.uname().machine}")


def libraries_are_there(contents):
    """Each library that a file needs is permitted, or is in the wheel in a directory that the file names."""
    for path in elf_files(contents):
        text = readelf("--dynamic", path)
        runpath = re.search(r"\(RUNPATH\).*\[(.*)\]", text)
        where = [word.replace("$ORIGIN", os.path.dirname(path)) for word in runpath[1].split(":")] if runpath else []
        check(all(word.startswith(contents) for word in where), f"{path}: {where}")
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
            found = name in PERMITTED or any(os.path.exists(os.path.join(top, name)) for top in where)
            check(found, f"{path} needs {name}: {where}")
        check("bundled" not in path or re.search(r"SONAME.*-[0-9a-f]{8}\.so", text), f"{path} has a name of the system")


def archive_is_complete(wheel):
    """RECORD lists each file with its digest, programs are executable, and the licences of the libraries are there."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        record = next(name for name in names if name.endswith("RECORD"))
        listed = {row[0]: row[1] for row in csv.reader(file.read(record).decode().splitlines())}
        check(set(listed) == set(names) and len(names) == len(set(names)), f"{set(listed) ^ set(names)}")
        for name in set(names) - {record}:
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.read(name)).digest()).rstrip(b"=").decode()
            check(listed[name] == f"sha256={digest}", name)
        check(set(ALWAYS_IN) <= set(names), f"{set(ALWAYS_IN) - set(names)} are missing")
        for name in ALWAYS_IN[:3]:
            check(file.getinfo(name).external_attr >> 16 & 0o111 == 0o111, f"{name} is not executable")
        bundled = [name for name in names if "/bundled/" in name]
        licences = [name for name in names if name.endswith(".copyright")]
        check(0 < len(licences) <= len(bundled), f"{bundled} {licences}")


def same_bytes(lab, wheel):
    again = pack(lab, "again", "--build", BUILD)
    with open(wheel, "rb") as first, open(again, "rb") as second:
        check(first.read() == second.read(), "the second wheel differs")


def refuses(lab):
    """A tree without its libraries or for another machine is not packed."""
    destination = os.path.join(lab.scratch, "tree")
    subprocess.run(["meson", "install", "--quiet", "-C", BUILD, "--no-rebuild", "--destdir", destination], check=True,
                   stdout=subprocess.DEVNULL)
    nothing = os.path.join(lab.scratch, "nothing")
    os.mkdir(nothing)
    message = pack(lab, "refused", "--tree", destination, "--root", nothing, status=1)
    check(re.search(r"lib\S+\.so\.\d+ for \w+ was not found below", message), message)
    message = pack(lab, "refused", "--tree", nothing, status=1)
    check("has no bin/usrdma" in message, message)
    other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    message = pack(lab, "refused", "--tree", destination, "--machine", other, status=1)
    check(f"and not for {other}" in message, message)


def tags_of_other_files(lab):
    """elf.py on files of another machine, on no version, and on versions that no policy has."""
    sys.path.insert(0, WHEEL)
    sys.dont_write_bytecode = True
    import elf
    path = os.path.join(lab.scratch, "libalias.so")
    for machine in ("aarch64", "x86_64"):
        with open(path, "wb") as file:
            file.write(elf.alias("libalias.so", "libc.so.6", machine))
        check(elf.platform_tag([path]) == f"manylinux_2_17_{machine}", elf.platform_tag([path]))
    known = {"GLIBC_2.38": (2, 38), "GLIBC_2.2.5": (2, 17), "GLIBC_ABI_DT_RELR": (2, 36), "GCC_3.3.1": (2, 17),
             "GLIBC_PRIVATE": None, "GCC_14.0.0": None}
    for version, wanted in known.items():
        elf.versions = lambda _, name=version: [("libc.so.6", name)]
        try:
            found = elf.glibc(path)
        except elf.Unsuitable:
            found = None
        check(found == wanted, f"{version}: {found}")


def in_venv(lab, wheel):
    """packaging/wheel/in_venv.py as a user who may read nothing else of this tree."""
    home = os.path.join(lab.scratch, "home")
    os.mkdir(home)
    for file in (wheel, os.path.join(WHEEL, "in_venv.py")):
        shutil.copy(file, home)
    if lab.drops:
        os.chown(home, USER, USER)
    copies = [os.path.join(home, os.path.basename(name)) for name in ("in_venv.py", wheel)]
    program = lab.start(PYTHON, *copies, native=True, user=USER, TMPDIR=home)
    printed = program.finish(lab.seconds(120))
    check("failed" not in printed and printed.count("passed: ") >= 7, printed)


def body(lab, cases):
    if lab.sanitized or not os.path.exists("/etc/debian_version"):
        cases.skip("the wheel", "licences of libraries are those of Debian, and a wheel has no sanitizer")
        return
    wheel = pack(lab, "wheel", "--build", BUILD)
    contents = os.path.join(lab.scratch, "contents")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(contents)
    cases.run("the platform tag", tag_is_right, wheel, contents)
    cases.run("the libraries", libraries_are_there, contents)
    cases.run("the archive", archive_is_complete, wheel)
    cases.run("two builds have the same bytes", same_bytes, lab, wheel)
    cases.run("unsuitable trees are refused", refuses, lab)
    cases.run("tags of other files", tags_of_other_files, lab)
    cases.run("in a venv", in_venv, lab, wheel)


if __name__ == "__main__":
    laboratory.main(body)
