# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the project for other architectures, and runs unit tests and the suite sim of these builds in qemu-user.

    python3 -m tests.cross                      all architectures
    python3 -m tests.cross s390x                selected ones: arm64, s390x (big-endian), riscv64, i386
    python3 -m tests.cross s390x wire cm        only the unit tests of these modules, and no simulations

The build for i386 must be refused, with the reason. qemu-user executes loads and stores in the order of the processor
that it runs on, and has no restartable sequences.

Needs debootstrap, cross compilers and qemu-user; tests/soak installs them. The root file systems with the libraries of
each architecture, and the builds, are kept in build/cross.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

from tests.programs import debian_root

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(os.environ.get("USRDMA_BUILD", os.path.join(SOURCE, "build")), "cross")
# gcc of riscv64 calls libatomic for atomics of 1 and 2 bytes.
LIBRARIES = ("libmnl-dev", "libjson-c-dev", "libisal-dev", "libuv1-dev", "libcmocka-dev", "libatomic1",
             "libc6-dev")
# The Debian release of the libraries; None: that of this machine. Debian 12 does not have riscv64.
RELEASES = {"arm64": None, "s390x": None, "riscv64": "trixie"}
REFUSED = {"i386": "usrdma supports 64-bit hosts only"}
SIMULATIONS = ("roce", "cm", "xrc")
# qemu-user is about ten times slower than the processor.
TIMEOUT_FACTOR = "10"
# Tests of what qemu-user does not have, or does in another way than Linux, and the reason.
OMITTED = {
    "base-fdpass": "recvmsg() does not set MSG_CTRUNC",
    "base-user_copy": "madvise() ignores MADV_GUARD_INSTALL; SIGBUS has another address",
    "base-user_fault": "SIGBUS has another address",
    "ipc-spawn": "clone() permits the flags of fork() and of threads only",
    "link-udp": "an ioctl() that the test needs is missing",
    "link-udp_group": "an ioctl() that the test needs is missing",
}
# Modules whose unit tests need little of the operating system, and so run in qemu-user.
MODULES = ("base", "cm", "ipc", "link", "profile", "roce", "trace", "wire")


def run(*command, **options):
    """Runs a command; its output appears only if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **options)
    if done.returncode:
        print(re.sub("^", "# ", done.stdout[-4000:], flags=re.M))
        sys.exit(f"{' '.join(command)} failed")
    return done.stdout


def release():
    with open("/etc/os-release", encoding="utf-8") as file:
        return re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M)[1]


def make_root(root, architecture, packages):
    """Unpacks Debian's packages. No program of them is executed, so that nothing is configured."""
    if os.path.exists(os.path.join(root, "complete")):
        return
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    keyring = [f"--keyring={debian_root.KEYRING}"] if os.path.exists(debian_root.KEYRING) else []
    run("debootstrap", "--foreign", "--variant=minbase", f"--arch={architecture}", *keyring,
        "--include=" + ",".join(packages), RELEASES[architecture] or release(), root, debian_root.mirror())
    for package in glob.glob(os.path.join(root, "var/cache/apt/archives/*.deb")):
        run("dpkg", "-x", package, root)
        os.unlink(package)
    with open(os.path.join(root, "complete"), "w", encoding="utf-8"):
        pass


def cross_files(work, architecture, root):
    """The options of meson for this architecture, whose libraries are in the root."""
    constants = os.path.join(work, "root.ini")
    with open(constants, "w", encoding="utf-8") as file:
        file.write(f"[constants]\nroot = '{root}'\n")
    return ["--cross-file", constants,
            "--cross-file", os.path.join(SOURCE, "packaging", "cross", f"{architecture}.ini")]


def configure(architecture):
    """The directory of the build."""
    work = os.path.join(WORK, architecture)
    root = os.path.join(work, "root")
    build = os.path.join(work, "build")
    make_root(root, architecture, LIBRARIES)
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run("meson", "setup", build, SOURCE, *cross_files(work, architecture, root), "-Dtests=enabled")
    return build


def wanted(build, modules):
    """The names of the tests, and the programs that they run."""
    tests = json.loads(run("meson", "introspect", "--tests", build))
    for test in tests:
        name, program = test["name"], test["cmd"][0]
        is_unit = any(suite.endswith("unit") for suite in test["suite"])
        if name in OMITTED or not program.startswith(build):
            continue
        if is_unit and name.split("-")[0] in (modules or MODULES):
            yield name, program
        elif not modules and name in [f"sim-{simulation}" for simulation in SIMULATIONS]:
            yield name, program


def check_runs(architecture, modules):
    """Returns a list of what failed."""
    build = configure(architecture)
    tests = dict(wanted(build, modules))
    targets = [os.path.relpath(program, build) for program in tests.values()]
    run("ninja", "-C", build, *([] if modules else ["all"]), *sorted(set(targets)))
    command = ["meson", "test", "-C", build, "--no-rebuild", "-t", TIMEOUT_FACTOR, "--print-errorlogs", *tests]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    return [] if done.returncode == 0 else [architecture]


def check_is_refused(architecture):
    """The build must end with the reason."""
    work = os.path.join(WORK, architecture)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    done = subprocess.run(["meson", "setup", os.path.join(work, "build"), SOURCE,
                           *cross_files(work, architecture, "/")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return [] if done.returncode and REFUSED[architecture] in done.stdout else [architecture]


def main():
    chosen = [name for name in sys.argv[1:] if name in RELEASES or name in REFUSED]
    modules = [name for name in sys.argv[1:] if name not in chosen]
    names = chosen or [*RELEASES, *REFUSED]
    failed = []
    for number, name in enumerate(names, 1):
        wrong = check_is_refused(name) if name in REFUSED else check_runs(name, modules)
        failed += wrong
        what = "is refused with the reason" if name in REFUSED else "compiles, and its tests pass in qemu-user"
        print(f"{'not ok' if wrong else 'ok'} {number} - {name} {what}", flush=True)
    print(f"1..{len(names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
