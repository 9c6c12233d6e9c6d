# SPDX-License-Identifier: BSD-2-Clause
"""Runs fio's rdma engine as packaged by Debian: a client job writes to a server job, reads from it and sends to it. The
server verifies the data of sends."""

import json
import re

from tests.programs import lab as laboratory
from tests.programs.lab import check

# Number of blocks; fewer if the data is smaller. fio's engine posts at most 512 receives.
BLOCKS = 256
BYTES = 4 << 20

# The operations of the client job. fio calls the client's job a write and the server's job a read in all cases. A
# server that receives gets every block and verifies it.
VERBS = ("write", "read", "send")


def job(lab, name, lines):
    path = f"{lab.scratch}/{name}.fio"
    with open(path, "w", encoding="ascii") as file:
        file.write("[global]\nioengine=rdma\nthread\n" + "\n".join(lines) + f"\n[{name}]\n")
    return path


def transfer(lab, side, verb, block, depth):
    port = lab.port()
    size = min(BLOCKS * block, BYTES)
    common = [f"port={port}", f"bs={block}", f"size={size}"]
    receives = ["rw=read", f"iodepth={depth}"]
    asks = [f"hostname={side['ip4']}", f"verb={verb}", "rw=write", f"iodepth={depth}"]
    if verb == "send":
        # The client neither waits for receives nor retries after RNR NAK: all receives are posted when it begins.
        receives = ["rw=read", f"iodepth={size // block}", "verb=recv", "verify=crc32c", "verify_fatal=1"]
        asks += ["verify=crc32c", "do_verify=0"]
    serving = job(lab, "server", common + receives)
    asking = job(lab, "client", common + asks)
    server = lab.start("fio", "--output-format=json", serving)
    lab.listens_cm(server, port)
    client = lab.client("fio", "--output-format=json", asking)
    printed = client.finish(lab.seconds(60))
    server.finish(lab.seconds(30))
    done = json.loads(re.search(r"^\{.*^\}", printed, re.M | re.S)[0])["jobs"][0]
    check(done["error"] == 0 and done["write"]["io_bytes"] == size, client.story())


def everything(lab, cases, side):
    where = side["name"]
    for verb in VERBS:
        for block, depth in ((4096, 1), (65536, 16), (1 << 20, 4)):
            cases.run(f"fio, verb {verb}, {block} bytes, depth {depth}, {where}", transfer, lab, side, verb, block,
                      depth)


def body(lab, cases):
    for side in lab.sides:
        everything(lab, cases, side)
    if lab.isolated:
        lab.add_host()
        everything(lab, cases, laboratory.WIRE)


if __name__ == "__main__":
    laboratory.main(body)
