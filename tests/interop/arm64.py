# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the project for arm64 and runs Debian's programs of arm64 with it, on Debian's arm64 kernel in an emulated
machine. So the restartable sequences for mapped memory (src/local/mapped_copy.c), the locks and the clock of that
architecture are executed. The emulation does not reorder loads and stores as an arm64 processor does.

Needs debootstrap, a cross compiler and qemu-system-aarch64; tests/soak installs them. The root file system is kept in
build/arm64.
"""

import glob
import os
import re
import shutil
import sys

from tests.cross import LIBRARIES, cross_files, make_root, run

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(os.environ.get("USRDMA_BUILD", os.path.join(SOURCE, "build")), "arm64")
ROOT = os.path.join(WORK, "root")
PACKAGES = ("linux-image-arm64", "busybox-static", "perftest", "rdmacm-utils", "ibverbs-utils", *LIBRARIES)
BOOT_AND_RUN_SECONDS = 1500
# Both sides with the same arguments; the client also has the address.
PAIRS = {
    "shared memory": (None, ("ib_write_lat -n 2000", "ib_write_bw -n 2000 -s 8", "ib_write_bw -n 200 -s 1048576",
                             "ib_read_lat -n 2000", "ib_atomic_lat -n 2000", "ib_atomic_bw -A CMP_AND_SWAP -n 500",
                             "ib_send_lat -n 2000", "ib_send_bw -n 2000 -s 65536")),
    "UDP": ("roce", ("ib_write_bw -n 500 -s 65536", "ib_read_bw -n 500 -s 65536", "ib_send_lat -n 500",
                     "ib_send_bw -n 500 -c UD -s 1024")),
}
UNIT_TESTS = ("local-mapped_copy", "local-mapped_fault", "local-guarded_copy", "base-biased_lock", "base-user_copy",
              "base-user_fault", "base-user_words", "base-trace", "local-ring")

INIT = r"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for d in /dev/shm /tmp /run; do $b mkdir -p $d; $b mount -t tmpfs tmpfs $d; done
export PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/tmp
$b ip link set lo up
ended() { echo "ENDED $1: $2"; }
pair() {
	name=$1; shift
	usrdma run -- "$@" > /tmp/server 2>&1 &
	server=$!
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		$b netstat -ltn | $b grep -q ':18515 ' && break
		$b sleep 1
	done
	$b timeout 120 usrdma run -- "$@" 127.0.0.1 > /tmp/client 2>&1
	client=$?
	wait $server
	ended "$name" $((client + $?))
	$b tail -n 3 /tmp/client
}
"""


def compile_for_arm64():
    build = os.path.join(WORK, "build")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run("meson", "setup", build, SOURCE, *cross_files(WORK, "arm64", ROOT), "--prefix=/usr/local",
            "-Dtests=enabled")
    run("ninja", "-C", build, "all", *[f"tests/unit/test-{name}" for name in UNIT_TESTS])
    run("meson", "install", "-C", build, "--no-rebuild", env=dict(os.environ, DESTDIR=ROOT))
    os.makedirs(os.path.join(ROOT, "t"), exist_ok=True)
    for name in UNIT_TESTS:
        shutil.copy(os.path.join(build, "tests", "unit", f"test-{name}"), os.path.join(ROOT, "t"))


def cases():
    """The names of the cases and the shell commands that run them."""
    for name in UNIT_TESTS:
        yield name, f'$b timeout 300 /t/test-{name} > /tmp/unit 2>&1; ended "{name}" $?'
    for where, (transport, commands) in PAIRS.items():
        yield None, f"export USRDMA_TRANSPORT={transport}" if transport else "unset USRDMA_TRANSPORT"
        for command in commands:
            yield f"{command}, {where}", f'pair "{command}, {where}" {command}'
    yield None, "unset USRDMA_TRANSPORT"
    yield "rping", """usrdma run -- rping -s -C 20 -V > /tmp/server 2>&1 &
$b sleep 5
$b timeout 120 usrdma run -- rping -c -a 127.0.0.1 -C 20 -V > /tmp/client 2>&1; ended rping $?"""


def make_initrd():
    """The parts of the root that the programs need, as an initial file system."""
    tree = os.path.join(WORK, "initrd")
    shutil.rmtree(tree, ignore_errors=True)
    for directory in ("proc", "sys", "dev", "tmp", "run"):
        os.makedirs(os.path.join(tree, directory))
    leave_out = shutil.ignore_patterns("share", "include", "python3*", "modules", "firmware", "gcc", "*.a", "debug",
                                       "perl*")
    for name in ("usr", "lib", "bin", "sbin", "t"):
        at = os.path.join(ROOT, name)
        if os.path.islink(at):
            os.symlink(os.readlink(at), os.path.join(tree, name))
        elif os.path.isdir(at):
            shutil.copytree(at, os.path.join(tree, name), symlinks=True, ignore=leave_out)
    with open(os.path.join(tree, "init"), "w", encoding="utf-8") as file:
        file.write(INIT + "\n".join(command for _, command in cases()) +
                   "\nusrdma status | $b grep onesided\n$b poweroff -f\n")
    os.chmod(os.path.join(tree, "init"), 0o755)
    initrd = os.path.join(WORK, "initrd.gz")
    run("sh", "-c", f"cd {tree} && find . | cpio -o -H newc --quiet | gzip -1 > {initrd}")
    return initrd


def main():
    make_root(ROOT, "arm64", PACKAGES)
    compile_for_arm64()
    kernel = glob.glob(os.path.join(ROOT, "boot", "vmlinuz-*-arm64"))[0]
    printed = run("timeout", str(BOOT_AND_RUN_SECONDS), "qemu-system-aarch64", "-M", "virt", "-cpu", "max", "-smp", "2",
                  "-m", "3000", "-nographic", "-no-reboot", "-kernel", kernel, "-initrd", make_initrd(),
                  "-append", "console=ttyAMA0 quiet rdinit=/init panic=-1")
    ended = dict(re.findall(r"^ENDED (.*): (\d+)\r?$", printed, re.M))
    failed = 0
    names = [name for name, _ in cases() if name]
    mapped = re.search(r"onesided_in_mapped_memory (\d+)", printed)
    ended["one-sided operations in mapped memory"] = "0" if mapped and int(mapped[1]) else "none"
    names.append("one-sided operations in mapped memory")
    for number, name in enumerate(names, 1):
        good = ended.get(name) == "0"
        failed += not good
        why = "" if good else f" # status {ended.get(name)}"
        print(f"{'ok' if good else 'not ok'} {number} - arm64: {name}{why}")
    print(f"1..{len(names)}")
    if failed:
        print(re.sub("^", "# ", printed, flags=re.M))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
