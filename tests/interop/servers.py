# SPDX-License-Identifier: BSD-2-Clause
"""Programs whose servers run until they get a signal, against rxe: rcopy, which uses rsockets, and cmtime.

Datagram rsockets, and thus udpong, do not work on rxe: rdma-core creates an address handle without a GRH, which RoCE
devices do not support. Between two programs on rxe, udpong fails with "rconnect: No such file or directory"."""

import filecmp
import os
import shutil
import signal

from tests.programs.lab import check

SLOW = 60
COPY_BYTES = 300000


class Here:
    """The side of usrdma, in this network namespace."""

    def __init__(self, lab, address):
        self.lab = lab
        self.address = address
        self.folder = lab.scratch

    def start(self, *argv):
        return self.lab.start(*argv)

    def listens(self, server, port):
        self.lab.listens_cm(server, port)

    def stop(self, server):
        server.signal(signal.SIGTERM)
        server.finish(SLOW, -signal.SIGTERM)

    def fetch(self, path, to):
        shutil.copy(path, to)


class There:
    """The side of the guest. Files in its /out, a folder of this host, cannot be mapped; programs use /tmp."""

    def __init__(self, guest, address):
        self.guest = guest
        self.address = address
        self.folder = "/tmp"

    def start(self, *argv):
        return self.guest.start(*argv)

    def listens(self, server, port):
        self.guest.listens(server, port, True)

    def stop(self, server):
        self.guest.kill(server, "TERM")
        server.finish(SLOW, None)

    def fetch(self, path, to):
        self.guest.start("cp", path, "/out/fetched").finish(SLOW)
        shutil.move(os.path.join(self.guest.out, "fetched"), to)


def rcopy(lab, server_side, client_side):
    """Copies a file to the server and compares it with the original."""
    source = os.path.join(client_side.folder, "source")
    copy = os.path.join(server_side.folder, "copy")
    came, went = (os.path.join(lab.scratch, name) for name in ("came", "went"))
    port = lab.port()
    client_side.start("dd", "if=/dev/urandom", f"of={source}", f"bs={COPY_BYTES}", "count=1",
                      "iflag=fullblock").finish(SLOW)
    server = server_side.start("rcopy", "-p", port)
    server_side.listens(server, port)
    client = client_side.start("rcopy", source, f"{server_side.address}:{copy}", "-p", port)
    check(f"{COPY_BYTES} bytes" in client.finish(SLOW), client.story())
    check(server.running(), server.story())
    server_side.stop(server)
    client_side.fetch(source, went)
    server_side.fetch(copy, came)
    check(filecmp.cmp(went, came, shallow=False), "another file came")


def cmtime(lab, server_side, client_side):
    port = lab.port()
    server = server_side.start("cmtime", "-b", server_side.address, "-p", port)
    server_side.listens(server, port)
    client = client_side.start("cmtime", "-s", server_side.address, "-p", port, "-c", 20)
    check("disconnect" in client.finish(SLOW), client.story())
    check(server.running(), server.story())
    server_side.stop(server)


def run(lab, cases, guest, sides, more=""):
    ours, theirs = sides
    here, there = Here(lab, ours["4"]), There(guest, theirs["4"])
    for name, case in {"rcopy": rcopy, "cmtime": cmtime}.items():
        cases.run(f"{more}{name}, rxe is the server", case, lab, there, here)
        cases.run(f"{more}{name}, rxe is the client", case, lab, here, there)
