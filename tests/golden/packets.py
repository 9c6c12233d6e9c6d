#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes packets.fields: what tshark reads in the RoCEv2 headers of the captures beside it.

    tests/golden/packets.py         needs tshark; run again only when a capture is added

One line a packet: capture, frame number, name=value in hex for every field of every header that tshark finds there; a
header that has no fields in its line is not in the packet. tshark 4.0 does not know the extended headers of XRC, of
FLUSH and of atomic WRITE, and shows no ICRC behind some payloads.
"""

import glob
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))

# tshark's name: ours in the line.
FIELDS = {
    "bth.opcode": "op", "bth.se": "se", "bth.m": "m", "bth.padcnt": "pad", "bth.p_key": "pkey", "bth.destqp": "qpn",
    "bth.a": "a", "bth.psn": "psn", "deth.q_key": "qkey", "deth.srcqp": "src", "reth.va": "va", "reth.r_key": "rkey",
    "reth.dmalen": "len", "atomiceth.swapdt": "swap", "atomiceth.cmpdt": "cmp", "aeth.syndrome": "syn",
    "aeth.msn": "msn", "atomicacketh.origremdt": "orig", "immdt": "imm", "ieth": "inv", "invariant.crc": "icrc",
}
# Shown as bytes: hex without 0x.
BYTES = {"imm", "inv"}


def value_of(name, text):
    # tshark repeats what it shows twice.
    text = text.split(",")[0]
    return f"{int(text, 16 if name in BYTES else 0):x}"


def rows(capture):
    command = ["tshark", "-r", capture, "-Y", "infiniband", "-T", "fields", "-E", "separator=|", "-e", "frame.number"]
    for name in FIELDS:
        command += ["-e", "infiniband." + name]
    command += ["-e", "data.len"]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    names = [*FIELDS.values(), "payload"]
    for line in out.splitlines():
        frame, *values = line.split("|")
        pairs = zip(names, values, strict=False)
        yield frame, " ".join(f"{name}={value_of(name, value)}" for name, value in pairs if value)


def main():
    with open(os.path.join(HERE, "packets.fields"), "w", encoding="ascii") as out:
        for capture in sorted(glob.glob(os.path.join(HERE, "*.pcap"))):
            for frame, fields in rows(capture):
                print(os.path.basename(capture), frame, fields, file=out)


main()
