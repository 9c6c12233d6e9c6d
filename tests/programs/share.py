# SPDX-License-Identifier: BSD-2-Clause
"""Tests memory that `usrdma run` makes shareable when a program allocates it: the program finds the same behaviour as
without the library, and buffers of unmodified programs are in the file that peers map."""

import glob
import os
import re

from tests.programs import lab as laboratory
from tests.programs.lab import check, wait_until

PYTHON = "/usr/bin/python3"
CASES = ("functions", "resize", "threads", "forks", "writers", "snapshot", "advice", "protection", "registered",
         "stale", "address_space", "data_limit", "file_size", "descriptors", "closed", "mappings", "bound",
         "orphan", "fragments", "stacks", "cloned", "remap", "wiped", "rooted", "handlers")
ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2*")

# Sizes of the mappings of the arena, in /proc/PID/maps.
ARENA = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-s .*/memfd:usrdma-arena", re.M)

# Processes that inherit a block read it and change their own copies.
POOL = """
import ctypes, multiprocessing, os
libc = ctypes.CDLL(None)
libc.memalign.restype = ctypes.c_void_p
BYTES = 1 << 20
block = (ctypes.c_char * BYTES).from_address(libc.memalign(4096, BYTES))

def work(i):
    before = bytes(block)
    block[:4] = b'%04d' % i
    return before[4:] == bytes(block)[4:] and hash(before[4:])

if __name__ == '__main__':
    block[:] = content = os.urandom(BYTES)
    with multiprocessing.get_context('fork').Pool(4) as pool:
        results = set(pool.map(work, range(200)))
    print(results == {hash(content[4:])} and bytes(block) == content)
"""


def block(lab, case, value):
    """Runs the case with the allocator of the C library or with the arena."""
    if value != "off":
        program = lab.start(lab.tool("blocks"), "--arena", case, USRDMA_SHARE=value)
    else:
        program = lab.start(lab.tool("blocks"), case, USRDMA_SHARE=value)
    program.finish(lab.seconds(60))


def arena_bytes(program):
    with open(f"/proc/{program.pid}/maps", encoding="utf-8") as file:
        return sum(int(end, 16) - int(start, 16) for start, end in ARENA.findall(file.read()))


def allocators(lab):
    """A program with an allocator of its own has no arena, in each order of the libraries."""
    found = [path for name in ALLOCATORS for path in sorted(glob.glob("/usr/lib/*/" + name))[:1]]
    for path in found:
        lab.start(lab.tool("blocks"), "other_allocator", USRDMA_SHARE="on", LD_PRELOAD=path).finish(lab.seconds(30))
        lab.start("env", "LD_PRELOAD=" + os.path.join(lab.tree, "lib/libusrdma-arena.so") + ":" + path,
                  lab.tool("blocks"), "other_allocator", native=True).finish(lab.seconds(30))


def sanitizer(lab):
    lab.start(lab.tool("blocks"), "other_allocator", USRDMA_SHARE="on").finish(lab.seconds(30))


def pool(lab):
    printed = lab.start(PYTHON, "-c", POOL, USRDMA_SHARE="on").finish(lab.seconds(60))
    check(printed.strip() == "True", printed)


def compiler(lab):
    """gcc and make run hundreds of short processes."""
    names = [os.path.join(lab.scratch, f"many{i}.c") for i in range(8)]
    for name in names:
        with open(name, "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")
    objects = " ".join(name[:-1] + "o" for name in names)
    makefile = os.path.join(lab.scratch, "many.mk")
    with open(makefile, "w", encoding="utf-8") as file:
        file.write(f"all: {objects}\n%.o: %.c\n\tgcc -pipe -O2 -c -o $@ $<\n")
    lab.start("make", "-j4", "-f", makefile, USRDMA_SHARE="on").finish(lab.seconds(60))


def perftest(lab):
    """The buffers of both sides are in the arena."""
    port = lab.port()
    common = ["ib_write_bw", "-F", "-d", "lo", "-x", "1", "-p", port, "-s", "1048576", "-D", "3"]
    server = lab.start(*common, USRDMA_SHARE="on")
    lab.listens_tcp(server, port)
    client = lab.start(*common, "127.0.0.1", USRDMA_SHARE="on")
    wait_until(lambda: arena_bytes(server) >= 2 << 20 and arena_bytes(client) >= 2 << 20, lab.seconds(20),
               "blocks of 2 MB in the arena")
    client.finish(lab.seconds(60))
    server.finish(lab.seconds(60))


def body(lab, cases):
    if lab.sanitized:
        cases.run("a sanitizer's allocator remains", sanitizer, lab)
        return
    for value in ("off", "on"):
        for name in CASES:
            cases.run(f"{name.replace('_', ' ')}, {value}", block, lab, name, value)
    cases.run("bound, default", block, lab, "bound", "")
    cases.run("other allocators", allocators, lab)
    cases.run("multiprocessing", pool, lab)
    cases.run("compiler", compiler, lab)
    cases.run("ib_write_bw", perftest, lab)


if __name__ == "__main__":
    laboratory.main(body)
