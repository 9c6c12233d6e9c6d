# SPDX-License-Identifier: BSD-2-Clause
"""The MOUNT protocol, version 3 (RFC 1813 appendix I), over TCP: a client of NFS version 3 asks for the file handle of
the exported directory. There is one export, and no rpcbind.

    python3 -m tests.interop.mountd ADDRESS PORT
"""

import socket
import socketserver
import struct
import sys
import threading

EXPORT = b"/disk"
# As in tests/interop/ulp/nfs_attributes.c: the magic number and the ID of the root directory.
ROOT_HANDLE = b"usrdma\0\0" + struct.pack(">Q", 1)
PROGRAM, VERSION = 100005, 3
NULL, MNT, UMNT = 0, 1, 3
CALL_BYTES_MAX = 4096
SUCCESS, PROGRAM_UNAVAILABLE, PROGRAM_MISMATCH, PROCEDURE_UNAVAILABLE, GARBAGE_ARGUMENTS = range(5)
STATUS_NOENT = 2
AUTH_SYS = 1


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


class Arguments:
    """Reads XDR. Raises ValueError if the message is too short."""

    def __init__(self, data):
        self.data = data

    def take(self, size):
        if size > len(self.data):
            raise ValueError(f"{size} bytes of {len(self.data)}")
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def number(self):
        return int.from_bytes(self.take(4), "big")

    def opaque(self):
        size = self.number()
        return self.take(size + -size % 4)[:size]


def execute(procedure, arguments, mounted):
    """Returns the accept status and the result. Adds the path to the list `mounted`."""
    if procedure == NULL:
        return SUCCESS, b""
    if procedure not in (MNT, UMNT):
        return PROCEDURE_UNAVAILABLE, b""
    try:
        path = arguments.opaque()
    except ValueError:
        return GARBAGE_ARGUMENTS, b""
    if procedure == UMNT:
        return SUCCESS, b""
    if path != EXPORT:
        return SUCCESS, struct.pack(">I", STATUS_NOENT)
    mounted.append(path)
    return SUCCESS, struct.pack(">I", 0) + opaque(ROOT_HANDLE) + struct.pack(">II", 1, AUTH_SYS)


def reply_to(call, mounted):
    """The reply to an RPC call. Raises ValueError if it is not one."""
    arguments = Arguments(call)
    xid, kind, rpc, program, version, procedure = (arguments.number() for _ in range(6))
    for _ in ("credentials", "verifier"):
        arguments.number()
        arguments.opaque()
    if kind != 0 or rpc != 2:
        raise ValueError(f"message type {kind}, RPC version {rpc}")
    if program != PROGRAM:
        status, result = PROGRAM_UNAVAILABLE, b""
    elif version != VERSION:
        status, result = PROGRAM_MISMATCH, struct.pack(">II", VERSION, VERSION)
    else:
        status, result = execute(procedure, arguments, mounted)
    return struct.pack(">6I", xid, 1, 0, 0, 0, status) + result


class Connection(socketserver.StreamRequestHandler):
    """One connection. A call is one fragment with the record mark of RFC 5531 §11. Other data end the connection."""

    def handle(self):
        while True:
            mark = self.rfile.read(4)
            size = int.from_bytes(mark, "big") & 0x7fffffff
            if len(mark) < 4 or not mark[0] & 0x80 or size > CALL_BYTES_MAX:
                return
            try:
                reply = reply_to(self.rfile.read(size), self.server.mounted)
            except ValueError:
                return
            self.wfile.write(struct.pack(">I", 0x80000000 | len(reply)) + reply)


class Mountd(socketserver.ThreadingTCPServer):
    """Serves while it is used as a context manager. `mounted` has the path of each successful MNT. Port 0: any."""
    daemon_threads = True
    allow_reuse_address = True
    address_family = socket.AF_INET

    def __init__(self, address, port=0):
        super().__init__((address, port), Connection)
        self.mounted = []
        self.port = self.server_address[1]

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


if __name__ == "__main__":
    Mountd(sys.argv[1], int(sys.argv[2])).serve_forever()
