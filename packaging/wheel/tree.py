# SPDX-License-Identifier: BSD-2-Clause
"""Turns an installed tree into one that a wheel can contain: without symbolic links, without absolute paths, and with
the libraries that no manylinux policy permits."""

import glob
import hashlib
import os
import re
import shutil
import subprocess

import elf

LIBRARIES = "lib/usrdma"
BUNDLED = "lib/usrdma/bundled"
# Directories whose files belong to a system, and not to a directory of Python packages.
LEFT_OUT = ("lib/systemd", "share/systemd", "share/man", "share/bash-completion", "share/zsh", "share/fish")
LINK_SCRIPT = "/* `usrdma run` provides the library under this name; linkers read this file instead. */\nINPUT(../{})\n"


def files(top):
    for where, _, names in os.walk(top):
        for name in names:
            yield os.path.join(where, name)


def binaries(top):
    return sorted(path for path in files(top) if not os.path.islink(path) and elf.machine(path))


def prefix_in(top):
    """The directory below `top` that is the installation prefix."""
    for where, _, names in os.walk(top):
        if os.path.basename(where) == "bin" and "usrdma" in names and not where.endswith(LIBRARIES + "/bin"):
            return os.path.dirname(where)
    raise elf.Unsuitable(f"{top} has no bin/usrdma: install usrdma there, with DESTDIR={top}")


def copy(prefix, to):
    """Copies the prefix without what LEFT_OUT names."""
    left_out = {os.path.join(prefix, name) for name in LEFT_OUT}
    shutil.copytree(prefix, to, symlinks=True,
                    ignore=lambda where, names: [name for name in names if os.path.join(where, name) in left_out])


def resolve_libraries(directory):
    """Gives each library one file, with the name that programs load it by: a wheel has no symbolic links."""
    for path in glob.glob(f"{directory}/*.so*"):
        if os.path.islink(path):
            os.unlink(path)
    for path in glob.glob(f"{directory}/*.so.*"):
        soname = elf.dynamic(path).soname
        os.rename(path, os.path.join(directory, soname))


def name_for_linkers(tree):
    """
    Provides each library under its name without a number. Programs load this name with dlopen(3), and linkers search
    it. With a copy a program could load the library twice, and linkers refuse a library that only needs another one.
    """
    links = os.path.join(tree, LIBRARIES, "link")
    os.mkdir(links)
    for path in sorted(glob.glob(os.path.join(tree, LIBRARIES, "lib*.so.*"))):
        soname = os.path.basename(path)
        name = soname.partition(".so")[0] + ".so"
        with open(os.path.join(tree, LIBRARIES, name), "wb") as file:
            file.write(elf.alias(name, soname, elf.machine(path)))
        with open(os.path.join(links, name), "w", encoding="ascii") as file:
            file.write(LINK_SCRIPT.format(soname))


def rspreload(tree):
    """LD_PRELOAD names librspreload.so."""
    directory = os.path.join(tree, LIBRARIES, "rsocket")
    resolve_libraries(directory)
    os.rename(os.path.join(directory, "librspreload.so.1"), os.path.join(directory, "librspreload.so"))


def flatten(tree):
    resolve_libraries(os.path.join(tree, LIBRARIES))
    rspreload(tree)
    name_for_linkers(tree)
    for path in list(files(tree)):
        if os.path.islink(path):
            target = os.path.realpath(path)
            if not target.startswith(os.path.realpath(tree) + os.sep):
                raise elf.Unsuitable(f"{path} is a symbolic link to {target}")
            os.unlink(path)
            shutil.copy(target, path)


def relocate_pkg_config(tree):
    """The prefix follows from the place of the file, and linkers search the directory of name_for_linkers()."""
    for path in glob.glob(f"{tree}/lib/pkgconfig/usrdma/*.pc"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(?m)^prefix=.*$", "prefix=${pcfiledir}/../../..", text)
        text = text.replace("-L${libdir}/usrdma ", "-L${libdir}/usrdma/link ")
        if "usrdma/link" not in text:
            raise elf.Unsuitable(f"{path} has no -L${{libdir}}/usrdma")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


class Bundle:
    """The libraries of the system that are copied into the tree, each with a name that no other library has."""

    def __init__(self, tree, machine, root):
        self.tree = tree
        self.machine = machine
        self.root = root
        self.copies = {}
        self.sources = set()

    def find(self, name):
        triplet = f"{self.machine}-linux-gnu"
        for directory in (f"usr/lib/{triplet}", f"lib/{triplet}", f"usr/{triplet}/lib", "usr/lib64", "lib64",
                          "usr/local/lib", "usr/lib", "lib"):
            path = os.path.join(self.root, directory, name)
            if os.path.exists(path) and elf.machine(path) == self.machine:
                return os.path.realpath(path)
        raise elf.Unsuitable(f"{name} for {self.machine} was not found below {self.root}; --root names a root file "
                             "system with the libraries")

    def add(self, name):
        """Copies the library and those that it needs; returns the name of the copy."""
        if name not in self.copies:
            source = self.find(name)
            with open(source, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()[:8]
            stem, _, number = name.partition(".so")
            self.copies[name] = f"{stem}-{digest}.so{number}"
            copy_path = os.path.join(self.tree, BUNDLED, self.copies[name])
            os.makedirs(os.path.dirname(copy_path), exist_ok=True)
            shutil.copyfile(source, copy_path)
            os.chmod(copy_path, 0o755)
            self.sources.add(source)
            patchelf("--set-soname", self.copies[name], copy_path)
            self.redirect(copy_path, set())
        return self.copies[name]

    def redirect(self, path, own):
        """Makes the file load the copies. `own` are the libraries that the tree has anyway."""
        read = elf.dynamic(path)
        foreign = [name for name in read.needed if name not in elf.POLICY | own]
        if not foreign:
            return
        # patchelf 0.14 writes wrong entries if one call makes both changes.
        for name in foreign:
            patchelf("--replace-needed", name, self.add(name), path)
        below = os.path.relpath(os.path.join(self.tree, BUNDLED), os.path.dirname(path))
        bundled = "$ORIGIN" if below == "." else f"$ORIGIN/{below}"
        patchelf("--set-rpath", ":".join(dict.fromkeys((*read.runpath, bundled))), path)


def patchelf(*words):
    subprocess.run(["patchelf", *words], check=True)


def bundle(tree, root):
    """Copies the libraries that no policy permits into the tree; returns the files that were copied."""
    found = binaries(tree)
    copies = Bundle(tree, elf.machine(os.path.join(tree, "bin/usrdma")), root)
    own = {os.path.basename(path) for path in found}
    for path in found:
        copies.redirect(path, own)
    return sorted(copies.sources)


def licence_of(library, root):
    """
    The package of Debian that contains a library, and the path of its copyright file. The name of the package follows
    from the soname (Debian Policy §8.1); t64 marks the transition to 64-bit times.
    """
    name, _, number = elf.dynamic(library).soname.partition(".so.")
    for package in (f"{name}{number}", f"{name}-{number}", f"{name}{number}t64", f"{name}-{number}t64"):
        path = os.path.join(root, "usr/share/doc", package, "copyright")
        if os.path.exists(path):
            return package, path
    raise elf.Unsuitable(f"{os.path.join(root, 'usr/share/doc')} has no copyright file of a package of Debian for "
                         f"{library}: a wheel with the library must contain its licence")
