# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's protocol (src/ipc/msg.h) spoken by hand, so that a test can say what no library of ours would."""

import array
import errno
import fcntl
import os
import re
import socket
import struct

MSG_H = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "ipc", "msg.h")

NAME = b"\0usrdmad"
MAGIC = 0x75726D61
with open(MSG_H, encoding="utf-8") as header:
    VERSION = int(re.search(r"#define IPC_VERSION\s+(\d+)", header.read())[1])
PAIR_BYTES = (4 << 20) + (64 << 10)

VERBS, CM, CONTROL = 1, 2, 3
HELLO, SEGMENT, DEVICE_GET, INTRODUCE, PEER, PEER_GONE, DEVICE_NOTICE, LEND, CM_CHANNEL_CREATE = range(1, 10)
STATUS = 30
ADDED, REMOVED, GID_CHANGE, PORT_ACTIVE, PORT_DOWN, MTU_CHANGE = range(1, 7)
SAME_UID = 1

HEADER = struct.Struct("=HHIiI")
HELLO_BODY = struct.Struct("=IIII")
HELLO_REPLY = struct.Struct("=IIQII")
PEER_BODY = struct.Struct("=IIQiIIIQQ")
GONE_BODY = struct.Struct("=IIQ")
NOTICE_BODY = struct.Struct("=II")
DEVICE_HEAD = struct.Struct("=IIQIIII64s")
GID = struct.Struct("=16sII")

F_ADD_SEALS = 1033
SEAL_SHRINK, SEAL_GROW, SEAL_WRITE, SEAL_FUTURE_WRITE = 2, 4, 8, 16
SEGMENT_SEALS = SEAL_SHRINK | SEAL_GROW | SEAL_FUTURE_WRITE


def message(kind, body=b"", seq=1, status=0, reserved=0, length=None):
    return HEADER.pack(kind, reserved, seq, status, HEADER.size + len(body) if length is None else length) + body


def hello(role, version=VERSION, magic=MAGIC, reserved=0):
    return message(HELLO, HELLO_BODY.pack(magic, version, role, reserved))


class Refused(OSError):
    """The daemon answered with an error."""

    def __init__(self, status):
        super().__init__(-status, errno.errorcode.get(-status, status))


class Hangup(ConnectionError):
    """The daemon ended the connection."""


class Connection:
    """One connection, not yet introduced by HELLO unless a role is given."""

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
            # Told once; what the daemon said before it hung up is still there.
            data = self.sock.recv(65536)
        if not data:
            raise Hangup
        return data

    def exchange(self, data, fds=()):
        """Sends a message; the body of the answer."""
        try:
            self.send(data, fds)
        except (BrokenPipeError, ConnectionResetError):
            # The daemon may have left word before it hung up.
            pass
        answer = self.receive()
        _, _, _, status, length = HEADER.unpack_from(answer)
        if length != len(answer):
            raise ValueError("the answer's length is not what its header says")
        if status:
            raise Refused(status)
        return answer[HEADER.size:]

    def request(self, kind, body=b"", fds=()):
        self.seq += 1
        return self.exchange(message(kind, body, self.seq), fds)

    def is_answered(self):
        """Whether the daemon still serves this connection."""
        try:
            self.request(DEVICE_GET, struct.pack("=II", 0, 0))
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
        """[(name, dev_id, guid, flags, {index: gid})] in the order the daemon lists them."""
        found, cursor = [], 0
        while True:
            try:
                body = self.request(DEVICE_GET, struct.pack("=II", cursor, 0))
            except Refused as refused:
                if refused.errno != errno.ENOENT:
                    raise
                return found
            cursor, dev_id, guid, _, _, flags, count, name = DEVICE_HEAD.unpack_from(body)
            gids = {}
            for index in range(count):
                raw, is_valid, _ = GID.unpack_from(body, DEVICE_HEAD.size + index * GID.size)
                if is_valid:
                    gids[index] = raw
            found.append((name.rstrip(b"\0").decode(), dev_id, guid, flags, gids))

    def close(self):
        self.sock.close()


def segment_memory(size=1 << 16, seals=SEGMENT_SEALS):
    fd = os.memfd_create("segment", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


class Engine(Connection):
    """A VERBS connection that has deposited its segment."""

    def __init__(self, segment_bytes=1 << 16):
        super().__init__(VERBS)
        self.segment = segment_memory(segment_bytes)
        self.notices, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.notices.settimeout(30)
        with theirs:
            self.request(SEGMENT, struct.pack("=Q", segment_bytes), [self.segment, theirs.fileno()])
        kind, body, fds = self.notice()
        if kind != LEND or len(fds) != 1 or struct.unpack("=II", body) != (self.slot, 0):
            raise ValueError("no socket was lent")
        self.roce = socket.socket(fileno=fds[0])

    def introduce(self, slot):
        self.request(INTRODUCE, struct.pack("=II", slot, 0))

    def notice(self):
        """The next push: its type, its body, its descriptors."""
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
        self.roce.close()
        os.close(self.segment)
