#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fio's rdma engine as Debian ships it, a client job that writes to a server job, reads from it and sends to it; what is sent is
checked there."""

import json
import re

import lab as laboratory
from lab import check

# So many blocks, or as many bytes if they are fewer; fio's engine has no room for more than 512 receives.
BLOCKS = 256
BYTES = 4 << 20

# What the client job does. To fio it writes and the server reads, whoever moves the data; a server that receives sees every
# block, and checks it.
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
        # The client neither waits for receives nor has the device try again: all are there when it begins.
        receives = ["rw=read", f"iodepth={size // block}", "verb=recv", "verify=crc32c", "verify_fatal=1"]
        asks += ["verify=crc32c", "do_verify=0"]
    serving = job(lab, "server", common + receives)
    asking = job(lab, "client", common + asks)
    server = lab.start("fio", "--output-format=json", serving)
    lab.listens_cm(server, port)
    client = lab.client("fio", "--output-format=json", asking)
    heard = client.finish(lab.seconds(60))
    server.finish(lab.seconds(30))
    done = json.loads(re.search(r"^\{.*^\}", heard, re.M | re.S)[0])["jobs"][0]
    check(done["error"] == 0 and done["write"]["io_bytes"] == size, client.story())


def everything(lab, cases, side):
    where = side["name"]
    for verb in VERBS:
        for block, depth in ((4096, 1), (65536, 16), (1 << 20, 4)):
            cases.run(f"fio, verb {verb}, {block} bytes, depth {depth}, {where}", transfer, lab, side, verb, block, depth)


def body(lab, cases):
    for side in lab.sides:
        everything(lab, cases, side)
    if lab.isolated:
        lab.add_host()
        everything(lab, cases, laboratory.WIRE)


if __name__ == "__main__":
    laboratory.main(body)
