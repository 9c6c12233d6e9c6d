#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A network with faults, for kernels without netem. Forwards Ethernet frames between two tap devices. In each direction
it loses, repeats and reorders some frames and delays the others.

    road.py TAP_FD TAP_FD SEED LOST REPEATED AHEAD

The last three are fractions from 0 to 1. The program ends at the end of its standard input, and so with the test; the
tap devices are then removed. At its end it prints the numbers of lost, repeated and reordered frames.
"""

import collections
import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES = 1 << 16
DELAY_S = 0.001


def tap(name):
    """Returns a descriptor of a new tap device of this namespace; raises OSError if that is not possible."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


class Faults:
    """How many frames are lost, repeated and reordered."""

    def __init__(self, lost, repeated, ahead):
        self.lost, self.repeated, self.ahead = float(lost), float(repeated), float(ahead)


def departures(chance, faults, now, done):
    """Returns when the copies of a frame that arrived now leave: none, one or two. Some overtake preceding frames."""
    if chance.random() < faults.lost:
        done["lost"] += 1
        return ()
    leaves = now + DELAY_S
    if chance.random() < faults.ahead:
        done["ahead"] += 1
        leaves = now
    if chance.random() < faults.repeated:
        done["repeated"] += 1
        return (leaves, leaves)
    return (leaves,)


def take(device, out, chance, faults, done, under_way, order):
    """Reads the frames that wait at one end. Stores each with its time of departure and a number that orders frames of
    equal time."""
    while True:
        try:
            frame = os.read(device, FRAME_BYTES)
        except BlockingIOError:
            return order
        for leaves in departures(chance, faults, time.monotonic(), done):
            order += 1
            heapq.heappush(under_way, (leaves, order, out, frame))


def give(under_way):
    """Writes the frames that are due; returns the milliseconds until the next one, or None."""
    while under_way:
        wait_s = under_way[0][0] - time.monotonic()
        if wait_s > 0:
            return wait_s * 1000
        _, _, out, frame = heapq.heappop(under_way)
        # If an end is down or full, the frame is lost.
        with contextlib.suppress(OSError):
            os.write(out, frame)
    return None


def carry(one, other, seed, faults):
    """Returns the numbers of lost, repeated and reordered frames, when standard input has ended."""
    chance, done, under_way, order = random.Random(seed), collections.Counter(), [], 0
    across = {one: other, other: one}
    poller = select.poll()
    for device in (one, other, 0):
        poller.register(device, select.POLLIN)
    while True:
        for device, _ in poller.poll(give(under_way)):
            if device == 0:
                return done
            order = take(device, across[device], chance, faults, done, under_way, order)


if __name__ == "__main__":
    what = carry(*(int(word) for word in sys.argv[1:4]), Faults(*sys.argv[4:]))
    print(*(what[kind] for kind in ("lost", "repeated", "ahead")))
