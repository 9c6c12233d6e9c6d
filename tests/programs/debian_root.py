# SPDX-License-Identifier: BSD-2-Clause
"""A root file system of another Debian release, to run that release's programs in: made once by debootstrap, and kept
in $XDG_CACHE_HOME/usrdma (~/.cache/usrdma). Its name has a hash of the package list, so another list makes another
root."""

import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FALLBACK_MIRROR = "http://deb.debian.org/debian"
SECONDS = 900


class Unavailable(Exception):
    """The root cannot be made here."""


def cache_directory():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "usrdma")


def mirror():
    """The mirror of this machine's own APT sources, without security updates and third parties."""
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = re.search(r"^(?:deb\s(?:.*\s)?|URIs:\s*)(https?://\S+/debian)/?\s", file.read(), re.M)
        except OSError:
            continue
        if found:
            return found[1]
    return FALLBACK_MIRROR


def run(log, *argv):
    with open(log, "ab") as output:
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=SECONDS,
                                  check=False, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C"))
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise Unavailable(str(failure)) from None
    if done.returncode != 0:
        with open(log, encoding="utf-8", errors="replace") as output:
            last = output.read().strip().splitlines()[-1:]
        raise Unavailable(f"{' '.join(argv[:3])}: status {done.returncode}: {''.join(last)}")


def build(where, release, packages, log):
    keyring = [f"--keyring={KEYRING}"] if os.path.exists(KEYRING) else []
    run(log, "debootstrap", "--variant=minbase", *keyring, release, where, mirror())
    if os.path.exists("/etc/resolv.conf"):
        shutil.copy("/etc/resolv.conf", os.path.join(where, "etc/resolv.conf"))
    run(log, "chroot", where, "apt-get", "-qq", "-y", "install", "--no-install-recommends", *packages)
    run(log, "chroot", where, "apt-get", "clean")
    shutil.rmtree(os.path.join(where, "var/lib/apt/lists"), ignore_errors=True)


def libc_version(*command):
    """The version of the C library, as a tuple of numbers. The command runs in the root, if it begins with chroot."""
    done = subprocess.run([*command, "getconf", "GNU_LIBC_VERSION"], stdout=subprocess.PIPE, text=True, check=True)
    return tuple(int(number) for number in re.findall(r"\d+", done.stdout))


def newer_libraries(root, tree):
    """
    Pairs of a library of this machine and the file of the root in whose place it has to be mounted. What was built here
    does not run with a C library that is older than this machine's; the programs of the root do run with one that is
    newer.
    """
    if libc_version() <= libc_version("chroot", root):
        return []
    found = {}
    for name in ("usrdmad", "usrdma", "lib/libibverbs.so.1"):
        done = subprocess.run(["ldd", os.path.join(tree, name)], stdout=subprocess.PIPE, text=True, check=True)
        found.update(re.findall(r"(lib\S+) => (/\S+)", done.stdout))
    # The other libraries of the C library, and the dynamic linker, are of the same version as libc.so.6 or do not work.
    pairs = []
    for listing in glob.glob(f"{root}/var/lib/dpkg/info/libc6:*.list"):
        with open(listing, encoding="utf-8") as lines:
            places = [line.strip() for line in lines if re.search(r"/lib/[^/]+/[^/]+\.so\.\d+$", line)]
        pairs += [(os.path.join(os.path.dirname(found["libc.so.6"]), os.path.basename(place)), root + place)
                  for place in places]
    of_libc = {os.path.basename(source) for source, _ in pairs}
    for name, source in found.items():
        if name not in of_libc and not source.startswith(tree):
            pairs += [(source, place) for place in glob.glob(f"{root}/usr/lib/*/{name}")]
    return [(os.path.realpath(source), os.path.realpath(place)) for source, place in pairs if os.path.exists(source)]


def make(release, packages):
    """The directory of the root, or Unavailable with the reason."""
    if os.geteuid() != 0:
        raise Unavailable("only root can make it and change into it")
    if not shutil.which("debootstrap"):
        raise Unavailable("debootstrap is not installed")
    digest = hashlib.sha256(" ".join([release, *packages]).encode()).hexdigest()[:12]
    root = os.path.join(cache_directory(), f"{release}-{digest}")
    os.makedirs(cache_directory(), exist_ok=True)
    with open(root + ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(root):
            return root
        unfinished = root + ".unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        log = root + ".log"
        if os.path.exists(log):
            os.unlink(log)
        build(unfinished, release, packages, log)
        os.rename(unfinished, root)
    return root
