# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's protocol (src/ipc/msg.h), implemented for tests that send messages which the library would not send.
ipc_layout.py reads constants and layouts from the headers."""

import array
import contextlib
import errno
import fcntl
import json
import mmap
import os
import socket
import struct

from tests.programs import ipc_layout

MESSAGES = ipc_layout.read()
SHORT = ("IPC_", "IPC_ROLE_", "IPC_DEVICE_", "IPC_PEER_")


def __getattr__(name):
    """The constants of the headers without prefix: DEVICE_GET is IPC_DEVICE_GET, VERBS is IPC_ROLE_VERBS."""
    for prefix in SHORT:
        if prefix + name in MESSAGES.constants:
            return MESSAGES.constants[prefix + name]
    raise AttributeError(name)


def ipc(name):
    return MESSAGES.constants["IPC_" + name]


def body(name, *values):
    """The fields of struct ipc_<name> after the header."""
    return MESSAGES.packer("ipc_" + name, 1).pack(*values)


NAME = b"\0" + ipc("NAME").encode()
PS_TCP, QPT_RC, CM_EVENT_USER = 0x0106, 2, 18

HEADER = MESSAGES.packer("ipc_hdr")
HELLO_REPLY = MESSAGES.packer("ipc_hello_reply", 1)
VERSION_REPLY = MESSAGES.packer("ipc_version_reply", 1)
PEER_BODY = MESSAGES.packer("ipc_peer", 1)
HELLO_BODY = MESSAGES.packer("ipc_hello", 1)
GONE_BODY = MESSAGES.packer("ipc_peer_gone", 1)
NOTICE_BODY = MESSAGES.packer("ipc_device_notice", 1)
DEVICE_HEAD = MESSAGES.packer("ipc_device_reply", 1, MESSAGES.field("ipc_device_reply", "gids"))
DEVICE_FIELDS = [name for name, _, _ in MESSAGES.structs["ipc_device_reply"].fields][1:-1]
GID = MESSAGES.packer("ipc_gid")

F_ADD_SEALS = 1033
SEAL_SHRINK, SEAL_GROW, SEAL_WRITE, SEAL_FUTURE_WRITE = 2, 4, 8, 16
SEGMENT_SEALS = SEAL_SHRINK | SEAL_GROW | SEAL_FUTURE_WRITE


def message(kind, content=b"", seq=1, status=0, reserved=0, length=None):
    return HEADER.pack(kind, reserved, seq, status, HEADER.size + len(content) if length is None else length) + content


VERSION, MAGIC = ipc("VERSION"), ipc("MAGIC")


def hello(role, version=VERSION, magic=MAGIC, reserved=0):
    return message(ipc("HELLO"), body("hello", magic, version, role, reserved))


class Refused(OSError):
    """The daemon replied with an error, and this body."""

    def __init__(self, status, content):
        super().__init__(-status, errno.errorcode.get(-status, status))
        self.content = content


class Hangup(ConnectionError):
    """The daemon closed the connection."""


class Connection:
    """One connection. It sends HELLO only if a role is given."""

    def __init__(self, role=None):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(30)
        self.sock.connect(NAME)
        self.seq = 1
        self.slot = None
        if role is not None:
            _, self.daemon_pid, self.daemon_id, self.slot, _ = HELLO_REPLY.unpack(self.exchange(hello(role)))

    def send(self, data, fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([data], ancillary)

    def receive(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            # Reads once more: messages that the daemon sent before it closed the connection are still in the socket.
            data = self.sock.recv(65536)
        if not data:
            raise Hangup
        return data

    def exchange(self, data, fds=()):
        """Sends a message; returns the body of the reply."""
        # The daemon may have sent messages before it closed the connection.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send(data, fds)
        answer = self.receive()
        _, _, _, status, length = HEADER.unpack_from(answer)
        if length != len(answer):
            raise ValueError("the answer's length is not what its header says")
        if status:
            raise Refused(status, answer[HEADER.size:])
        return answer[HEADER.size:]

    def request(self, kind, content=b"", fds=()):
        self.seq += 1
        return self.exchange(message(kind, content, self.seq), fds)

    def request_fd(self, kind, content=b"", fds=()):
        """A request whose reply carries a descriptor: returns the reply's body and the descriptor."""
        self.seq += 1
        self.send(message(kind, content, self.seq), fds)
        answer, passed, _, _ = socket.recv_fds(self.sock, 65536, 4)
        _, _, _, status, _ = HEADER.unpack_from(answer or self.receive())
        if status:
            raise Refused(status, b"")
        if len(passed) != 1:
            raise ValueError(f"{len(passed)} descriptors came with the answer")
        return answer[HEADER.size:], passed[0]

    def request_socket(self, kind, content=b"", fds=()):
        """A request whose reply carries a socket: returns the reply's body and the socket."""
        content, passed = self.request_fd(kind, content, fds)
        return content, socket.socket(fileno=passed)

    def is_answered(self):
        """Whether the daemon still serves this connection."""
        try:
            self.request(ipc("DEVICE_GET"), body("device_get", 0, 0))
            return True
        except Refused as refused:
            return refused.errno == errno.ENOENT
        except Hangup:
            return False

    def hung_up(self):
        try:
            self.receive()
            return False
        except Hangup:
            return True

    def devices(self):
        """Returns [(name, dev_id, guid, flags, {index: gid})] in the daemon's order."""
        found, cursor = [], 0
        while True:
            try:
                reply = self.request(ipc("DEVICE_GET"), body("device_get", cursor, 0))
            except Refused as refused:
                if refused.errno != errno.ENOENT:
                    raise
                return found
            device = dict(zip(DEVICE_FIELDS, DEVICE_HEAD.unpack_from(reply), strict=False))
            cursor = device["next_cursor"]
            gids = {}
            for index in range(device["gid_count"]):
                raw, is_valid, _ = GID.unpack_from(reply, DEVICE_HEAD.size + index * GID.size)
                if is_valid:
                    gids[index] = raw
            name = device["name"].rstrip(b"\0").decode()
            found.append((name, device["dev_id"], device["node_guid"], device["flags"], gids))

    def report_piece(self):
        """Returns the next piece of the daemon's report, and whether another follows."""
        reply = self.request(ipc("STATUS"))
        head = MESSAGES.packer("ipc_status_reply", 1, MESSAGES.field("ipc_status_reply", "text"))
        length, more = head.unpack_from(reply)
        return reply[head.size:head.size + length], more

    def report(self):
        """Returns the daemon's report."""
        text, more = b"", 1
        while more:
            piece, more = self.report_piece()
            text += piece
        return json.loads(text)

    def close(self):
        self.sock.close()


def segment_memory(size=1 << 16, seals=SEGMENT_SEALS):
    fd = os.memfd_create("segment", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


class Ring:
    """The consumer's side of a forwarding ring (src/link/udp_ring.h)."""

    CELLS, CELL_BYTES, FIRST_CELL, FIRST_ENTRY, ENTRY_BYTES = 32, 65536, 4096, 64, 64
    ENTRY = struct.Struct("=16s16sIIIIIHBB")

    def __init__(self, fds):
        self.fds = fds
        self.memory = mmap.mmap(fds[0], self.FIRST_CELL + self.CELLS * self.CELL_BYTES, prot=mmap.PROT_READ)
        self.words = mmap.mmap(fds[1], 8)
        self.bell = socket.socket(fileno=os.dup(fds[2]))
        self.next = 0

    def head(self):
        return struct.unpack_from("=I", self.memory)[0]

    def write_words(self, tail, sleeps):
        struct.pack_into("=II", self.words, 0, tail & 0xFFFFFFFF, sleeps & 0xFFFFFFFF)

    def tell_of_room(self):
        os.write(self.fds[3], struct.pack("=Q", 1))

    def receive(self):
        """Returns the payloads that arrived since the last call. The kernel may have merged datagrams of one sender and
        size (GRO)."""
        found = []
        while self.next != self.head():
            entry = self.FIRST_ENTRY + self.next % self.CELLS * self.ENTRY_BYTES
            _, _, _, _, segment, length, cell, _, _, _ = self.ENTRY.unpack_from(self.memory, entry)
            start = self.FIRST_CELL + cell * self.CELL_BYTES
            found += [self.memory[start + at:start + min(at + (segment or length), length)]
                      for at in range(0, length, segment or length)]
            self.next = (self.next + 1) & 0xFFFFFFFF
        self.write_words(self.next, 0)
        self.tell_of_room()
        return found

    def close(self):
        self.memory.close()
        self.words.close()
        self.bell.close()
        for fd in self.fds:
            os.close(fd)


class Engine(Connection):
    """A VERBS connection that has published its segment."""

    def __init__(self, segment_bytes=1 << 16, has_port=True):
        """has_port: whether the daemon can delegate port 4791 to it. If not, the daemon sends no notice of a
        delegation."""
        super().__init__(ipc("ROLE_VERBS"))
        self.segment = segment_memory(segment_bytes)
        _, self.notices = self.request_socket(ipc("SEGMENT"), body("segment", segment_bytes), [self.segment])
        self.notices.settimeout(30)
        self.roce = self.ring = None
        if has_port:
            self.take_port()

    def take_port(self):
        kind, push, fds = self.notice()
        if (kind, len(fds), push) == (ipc("DELEGATE"), 1, body("delegate", self.slot, 0)):
            self.roce = socket.socket(fileno=fds[0])
        elif (kind, len(fds), push[:4]) == (ipc("RING"), ipc("RING_FDS"), body("ring", self.slot, 0)[:4]):
            self.ring = Ring(fds)
        else:
            raise ValueError("neither a socket nor a ring was delegated")

    def introduce(self, slot):
        self.request(ipc("CONNECT_PEER"), body("connect_peer", slot, 0))

    def ask_to_introduce(self, slot):
        """Sends the connect-peer request without waiting for a reply: a failure is pushed."""
        self.send(message(ipc("CONNECT_PEER"), body("connect_peer", slot, 0), reserved=ipc("UNANSWERED")))

    def refuse(self, slot, pair_id):
        """Ends a pair that this engine could not map."""
        self.send(message(ipc("PEER_NOT_TAKEN"), body("peer_gone", slot, 0, pair_id), reserved=ipc("UNANSWERED")))

    def notice(self):
        """Returns the next push: its type, its body, its descriptors."""
        data, fds, _, _ = socket.recv_fds(self.notices, 65536, 8)
        if not data:
            raise Hangup
        kind, _, seq, status, length = HEADER.unpack_from(data)
        if (seq, status, length) != (0, 0, len(data)):
            raise ValueError("a push with a strange header")
        return kind, data[HEADER.size:], fds

    def has_notice(self):
        self.notices.setblocking(False)
        try:
            self.notices.recv(1, socket.MSG_PEEK)
            return True
        except BlockingIOError:
            return False
        finally:
            self.notices.settimeout(30)

    def close(self):
        super().close()
        self.notices.close()
        if self.roce or self.ring:
            (self.roce or self.ring).close()
        os.close(self.segment)
