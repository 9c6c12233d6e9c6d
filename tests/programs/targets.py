# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs on two hosts, controlled by a test (target.c), the counters of their processes, and checks that the pairs
still transfer data."""

import contextlib
import subprocess

from tests.programs.lab import UID_NOBODY, check, wait_until

QKEY = 0x11112222
GRH_BYTES = 40
PART_BYTES, MESSAGE_BYTES = 4096, 64
# Prefixes of the counters that indicate errors; the other counters count normal traffic.
TROUBLE = ("dropped_", "malformed_", "queue_pair_errors", "duplicate_requests", "bad_responses", "fatal_naks_received")


class Process:
    """The target program of one host: commands on its input, replies on its output."""

    def __init__(self, lab, device, gid_index, far=None):
        self.lab, self.far = lab, far
        as_uid_nobody = {"user": UID_NOBODY, "group": UID_NOBODY, "extra_groups": []} if lab.drops else {}
        with far or contextlib.nullcontext():
            self.process = subprocess.Popen(lab.command() + [lab.tool("target"), device, str(gid_index)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=lab.env, cwd=lab.scratch,
                                            start_new_session=True, text=True, **as_uid_nobody)
        gid, address, rkey, size = self.ask("info").split()
        self.gid, self.address, self.rkey, self.buffer_bytes = gid, int(address), int(rkey), int(size)

    @property
    def pid(self):
        return self.process.pid

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        check(answer, f"the target ended: {words}")
        return answer.rstrip("\n")

    def counted(self):
        """Returns the error counters of the process by name, and those of the daemon's QP1 as 'gsi.…', 'cm.…'."""
        with self.far or contextlib.nullcontext():
            status = self.lab.status()
        own, = (process for process in status["processes"] if process["pid"] == self.pid)
        numbers = dict(own["counters"]["roce"])
        for group in ("gsi", "cm"):
            numbers.update((f"{group}.{name}", n) for name, n in status["daemon"]["counters"][group].items())
        return {name: n for name, n in numbers.items()
                if name.rsplit(".", 1)[-1].startswith(TROUBLE) or name.endswith("naks_sent")}

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def changed(before, after):
    return {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}


class Pair:
    """A queue pair on each host, connected. Tracks the next PSN of each side: every message is one packet."""

    def __init__(self, near, far, kind):
        self.sides, self.kind = (near, far), kind
        made = [side.ask("new", kind).split() for side in self.sides]
        self.index, self.qpn = [int(words[0]) for words in made], [int(words[1]) for words in made]
        self.psn = [0xFFFFF0, 0x7FFFF8]
        for i in (0, 1):
            self.sides[i].ask("connect", self.index[i], self.qpn[1 - i], self.sides[1 - i].gid, self.psn[1 - i],
                              self.psn[i])

    @property
    def near(self):
        return self.sides[0]

    def command(self, i, word, *words):
        return self.sides[i].ask(word, self.index[i], *words)

    def state(self, i=0):
        return self.command(i, "state")

    def post(self, i, opcode, bytes_=MESSAGE_BYTES, offset=0, remote_offset=0):
        peer = self.sides[1 - i]
        self.command(i, "post", opcode, offset, bytes_, peer.address + remote_offset, peer.rkey)
        self.psn[i] = (self.psn[i] + 1) & 0xFFFFFF

    def header_bytes(self):
        return GRH_BYTES if self.kind == "ud" else 0

    def sends(self, i):
        """Checks that a message of side i arrives complete."""
        sender = self.sides[i]
        self.command(1 - i, "recv", self.header_bytes() + MESSAGE_BYTES)
        seed = self.psn[i] & 0xFF
        sender.ask("fill", 0, MESSAGE_BYTES, seed)
        self.post(i, "send")
        sent, received = self.command(i, "sent"), self.command(1 - i, "received").split()
        wanted = bytes((seed + 3 * at) & 0xFF for at in range(MESSAGE_BYTES)).hex()
        check(sent == "success" and received[0] == "success" and received[1][2 * self.header_bytes():] == wanted,
              f"a message of side {i}: sent {sent}, received {received}")

    def writes(self, i):
        """Checks that a WRITE of side i and, for RC, a READ of the written data transfer the right data."""
        side, peer = self.sides[i], self.sides[1 - i]
        side.ask("fill", 0, MESSAGE_BYTES, self.psn[i] & 0xFF)
        self.post(i, "write", remote_offset=PART_BYTES)
        check(self.command(i, "sent") == "success", "a WRITE failed")
        wanted = side.ask("sum", 0, MESSAGE_BYTES)
        if self.kind == "uc":
            wait_until(lambda: peer.ask("sum", PART_BYTES, MESSAGE_BYTES) == wanted, 10, "the WRITE's bytes")
            return
        check(peer.ask("sum", PART_BYTES, MESSAGE_BYTES) == wanted, "a WRITE brought something else")
        self.post(i, "read", offset=2 * PART_BYTES, remote_offset=PART_BYTES)
        check(self.command(i, "sent") == "success", "a READ failed")
        check(side.ask("sum", 2 * PART_BYTES, MESSAGE_BYTES) == wanted, "a READ brought something else")

    def moves_data(self):
        for i in (0, 1):
            check(self.state(i) == "RTS", f"side {i} is in {self.state(i)}")
            self.sends(i)
            if self.kind != "ud":
                self.writes(i)

    def close(self):
        for i in (0, 1):
            self.command(i, "destroy")
