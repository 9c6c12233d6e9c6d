# SPDX-License-Identifier: BSD-2-Clause
"""A FUSE file system (linux/fuse.h) with one file, served by the test in its own user namespace. The server does not
reply to FUSE_FLUSH of other processes, so that their close() of the file blocks, or to FUSE_GETATTR, so that their
fstat() blocks."""

import ctypes
import os
import struct
import threading

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
FORGET, GETATTR, OPEN, FLUSH, INIT, INTERRUPT = 2, 3, 14, 25, 26, 36
ENOSYS = 38
PR_SET_DUMPABLE = 4
IN_HEADER = struct.Struct("=IIQQIIII")
OUT_HEADER = struct.Struct("=IiQ")
LIBC = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def write_file(path, text):
    with open(path, "wb") as file:
        file.write(text.encode())


class HangingFile:
    """Mounts the file system over a file in `folder`; `fd` is the opened file. Changes the namespaces of the calling
    process. That process must close the file before it exits, because the server ends with it. `silent`: the request
    of other processes that has no reply."""

    def __init__(self, folder, silent=FLUSH):
        uid, gid = os.geteuid(), os.getegid()
        # After a change of the user id, a process does not own its files in /proc unless it is dumpable.
        must(LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")
        must(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        write_file("/proc/self/setgroups", "deny")
        write_file("/proc/self/uid_map", f"{uid} {uid} 1")
        write_file("/proc/self/gid_map", f"{gid} {gid} 1")
        path = os.path.join(folder, f"hanging-{os.getpid()}")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=100000,user_id={uid},group_id={gid}"
        must(LIBC.mount(b"fuse", path.encode(), b"fuse", 0, options.encode()), "mount")
        self.silent = silent
        self.attribute_seconds = 3600 if silent == FLUSH else 0
        self.flushes = []
        self.has_flush = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()
        self.fd = os.open(path, os.O_RDONLY)

    def answer(self, unique, body=b"", error=0):
        os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + len(body), error, unique) + body)

    def serve(self):
        attributes = struct.pack("=QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o100600, 1, os.getuid(), os.getgid(),
                                 0, 4096, 0)
        while True:
            request = os.read(self.device, 1 << 17)
            _, opcode, unique, _, _, _, pid, _ = IN_HEADER.unpack_from(request)
            if opcode == INIT:
                self.answer(unique, struct.pack("=IIIIHHIIHHIII", 7, 31, 4096, 0, 1, 1, 4096, 1, 1, 0, 0, 0, 0) +
                            bytes(16))
            elif opcode == GETATTR and (self.silent != GETATTR or pid == os.getpid()):
                self.answer(unique, struct.pack("=QII", self.attribute_seconds, 0, 0) + attributes)
            elif opcode == OPEN:
                self.answer(unique, struct.pack("=QII", 0, 0, 0))
            elif opcode == FLUSH and self.silent == FLUSH and pid != os.getpid():
                self.flushes.append(unique)
                self.has_flush.set()
            elif opcode == FLUSH:
                self.answer(unique)
            elif opcode not in (FORGET, INTERRUPT, GETATTR):
                self.answer(unique, error=-ENOSYS)
