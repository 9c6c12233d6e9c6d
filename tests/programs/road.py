#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A bad network where the kernel has no netem: carries Ethernet frames between two tap devices and on the way loses,
repeats and reorders some and delays the rest, both directions alike.

    road.py TAP_FD TAP_FD SEED LOST REPEATED AHEAD

The last three are shares of one. It ends when its standard input does, so that it never outlives the test; the tap devices go with it. Last it prints how
many frames it lost, repeated and let overtake others.
"""

import collections
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
    """A descriptor of a new tap device of this namespace; OSError where there can be none."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


class Faults:
    """What becomes of how many frames."""

    def __init__(self, lost, repeated, ahead):
        self.lost, self.repeated, self.ahead = float(lost), float(repeated), float(ahead)


def departures(chance, faults, now, done):
    """When the copies of a frame that came now leave: none, one or two; some overtake those under way."""
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
    """Puts the frames that wait at one end on the road, each with its time and a number that keeps equals in order."""
    while True:
        try:
            frame = os.read(device, FRAME_BYTES)
        except BlockingIOError:
            return order
        for leaves in departures(chance, faults, time.monotonic(), done):
            order += 1
            heapq.heappush(under_way, (leaves, order, out, frame))


def give(under_way):
    """Delivers what is due; milliseconds until the next is, or None."""
    while under_way:
        wait_s = under_way[0][0] - time.monotonic()
        if wait_s > 0:
            return wait_s * 1000
        _, _, out, frame = heapq.heappop(under_way)
        try:
            os.write(out, frame)
        except OSError:
            # An end that is down, or full, loses a frame: that is what this road is for.
            pass
    return None


def carry(one, other, seed, faults):
    """What was done to the frames, once standard input has ended."""
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
