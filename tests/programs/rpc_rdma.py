# SPDX-License-Identifier: BSD-2-Clause
"""RPC over RDMA without a kernel: tests/interop/ulp/nfs_server.c, and nfs_probe.c, which sends valid and invalid
messages. The replies and the bytes of the server's RDMA READs and WRITEs are compared. tests/interop/services.py
runs the server with the kernel's NFS client."""

import os
import random
import re

from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check

CONTENT_BYTES = 70000
WRITTEN_BYTES = 2001
SEED = 1


def pattern(size, seed):
    """As ulp_fill() in tests/interop/ulp/ulp.c."""
    return bytes((at + seed * 2654435761) * 2246822519 % 2**32 >> 24 for at in range(size))


def probe(lab, transport):
    content_path, written_path = (os.path.join(lab.scratch, f"{name}-{transport}") for name in ("content", "written"))
    with open(content_path, "wb") as file:
        file.write(random.Random(SEED).randbytes(CONTENT_BYTES))
    lab.env["USRDMA_TRANSPORT"] = transport
    port = lab.port()
    server = lab.start(lab.tool("nfs_server"), WIRE["ip4"], port, content_path, written_path, 1)
    lab.listens_cm(server, port)
    client = lab.client(lab.tool("nfs_probe"), WIRE["ip4"], port, content_path)
    printed = client.finish(lab.seconds(30), None)
    check(client.process.returncode == 0 and "all replies are right" in printed, f"{client.story()}\n{server.story()}")
    report = server.finish(lab.seconds(10))
    with open(written_path, "rb") as file:
        check(file.read() == pattern(WRITTEN_BYTES, SEED), "the bytes that the server received are wrong")
    check(re.search(r" 2 read chunks, 1 write chunks, 1 reply chunks, .* 20 errors$", report, re.M), report)


def body(lab, cases):
    lab.add_host()
    cases.run("RPC over RDMA: valid and invalid calls, between hosts", probe, lab, "roce")


if __name__ == "__main__":
    laboratory.main(body)
