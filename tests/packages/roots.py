# SPDX-License-Identifier: BSD-2-Clause
"""Copies of the Debian roots of tests/programs/debian_root.py, which the tests of the packages change."""

import hashlib
import os
import shutil
import stat
import subprocess

from tests.programs import debian_root
from tests.programs.debian_root import Unavailable

USER = "demo"
# A directory of the copy, for files of the tests. Snapshots do not contain it.
SHARED = "/shared"
PATH = f"{SHARED}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What apt and dpkg change in every run, whichever package they install.
VOLATILE = ("dev", "proc", "run", "shared", "sys", "tmp", "var/cache", "var/lib/apt", "var/lib/dpkg/available",
            "var/lib/dpkg/lock", "var/lib/dpkg/lock-frontend", "var/lib/dpkg/status", "var/lib/dpkg/status-old",
            "var/lib/dpkg/triggers", "var/log")

# The mounts end with the program, and so do all processes that it has started.
ENTER = """
set -e
root=$1 network=$2 user=$3
shift 3
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
if [ "$network" = own ]; then
	mount -t sysfs sys "$root/sys"
	ip link set lo up
fi
while [ "$1" != -- ]; do
	mkdir -p "$root$2"
	mount --bind "$1" "$root$2"
	shift 2
done
shift
exec chroot --userspec="$user" "$root" "$@"
"""


class Failure(Exception):
    """A program in the root has failed; the text is its output."""


class Root:
    """
    A copy of the root of a release with these packages. It is removed at the end of the `with` block. A directory of
    this machine in `binds` appears under a name of the root while a program runs there.
    """

    def __init__(self, release, packages, scratch, binds=None):
        self.release = release
        self.made = debian_root.make(release, packages)
        self.path = os.path.join(scratch, f"{release}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:6]}")
        self.binds = binds or {}

    def __enter__(self):
        subprocess.run(["cp", "-a", "--reflink=auto", self.made, self.path], check=True)
        os.makedirs(self.path + SHARED)
        if os.path.exists("/etc/resolv.conf"):
            shutil.copy("/etc/resolv.conf", self.path + "/etc/resolv.conf")
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", "--one-file-system", self.path], check=True)

    def run(self, *argv, user="root", own_network=False, seconds=1800, **env):
        """The output of a program in the root, with both streams. Raises Failure unless its status is 0."""
        binds = [word for source, name in self.binds.items() for word in (source, name)]
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] if own_network else []), "sh",
                   "-c", ENTER, "enter", self.path, "own" if own_network else "shared", user, *binds, "--", *argv]
        clean = {"PATH": PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                 "HOME": "/root" if user == "root" else f"/home/{user}", **env}
        try:
            done = subprocess.run(command, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                                  stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{' '.join(argv)}: longer than {seconds} s\n{late.stdout or ''}") from None
        if done.returncode != 0:
            raise Failure(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    def apt(self, *argv):
        """Runs apt-get. Maintainer scripts find programs in SHARED/bin first."""
        options = ("Acquire::Retries=3", "Dpkg::Use-Pty=0", f"DPkg::Path={PATH}")
        return self.run("apt-get", "-q", "-y", *(word for option in options for word in ("-o", option)), *argv)

    def put(self, files, directory):
        """Copies files of this machine to a directory below SHARED. Returns their names in the root."""
        where = os.path.join(SHARED, directory)
        os.makedirs(self.path + where, exist_ok=True)
        for file in files:
            shutil.copy(file, self.path + where)
        return [os.path.join(where, os.path.basename(file)) for file in files]

    def snapshot(self):
        """All files, except for VOLATILE: mode, owner and target of a link; for files in /etc also the content."""
        found = {}
        for where, dirs, names in os.walk(self.path):
            below = os.path.relpath(where, self.path)
            inside = {name: os.path.normpath(os.path.join(below, name)) for name in dirs + names}
            dirs[:] = [name for name in dirs if inside[name] not in VOLATILE]
            for name, path in inside.items():
                if path not in VOLATILE:
                    found[path] = description(os.path.join(where, name), path)
        return found


def description(file, path):
    state = os.lstat(file)
    text = f"{stat.filemode(state.st_mode)} {state.st_uid}:{state.st_gid}"
    if stat.S_ISLNK(state.st_mode):
        return f"{text} -> {os.readlink(file)}"
    # ldconfig writes the cache again whenever a library is installed.
    if stat.S_ISREG(state.st_mode) and path.startswith("etc/") and path != "etc/ld.so.cache":
        with open(file, "rb") as content:
            return f"{text} {hashlib.sha256(content.read()).hexdigest()}"
    return text


def differences(before, after):
    """Lines about what a second snapshot has, lacks, or has in another form."""
    return ([f"left behind: {path}" for path in sorted(after.keys() - before.keys())]
            + [f"removed: {path}" for path in sorted(before.keys() - after.keys())]
            + [f"changed: {path}: {before[path]}, now {after[path]}" for path in sorted(before.keys() & after.keys())
               if before[path] != after[path]])


__all__ = ["Failure", "Root", "SHARED", "USER", "Unavailable", "differences"]
