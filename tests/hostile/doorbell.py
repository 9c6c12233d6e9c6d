# SPDX-License-Identifier: BSD-2-Clause
"""Attacks of another user through the doorbell of its pair with a victim: descriptors whose close() blocks."""

import errno
import socket

from tests.hostile import kit
from tests.hostile.daemon import lingering
from tests.hostile.faults import rping_pair
from tests.programs import wire
from tests.programs.daemon_kit import descriptors, none_kept

# The attacker's socket functions need this codec, and may not be able to read Python's library.
"localhost".encode("idna")

SOCKETS = 4
PAIRS_OVER_MAX = 64  # daemon/peers.c


def slot_of(pid):
    with kit.closing(wire.Connection(wire.CONTROL)) as (control,):
        return next(process["slot"] for process in control.report()["processes"] if process["pid"] == pid)


def sends_descriptors(slot, is_malformed_first):
    """Sends TCP sockets with SO_LINGER to the owner of the slot. With is_malformed_first it ends the victim's watch
    before, and its own session afterwards, so that the victim closes a doorbell with these sockets in its queue."""
    def attack():
        engine = wire.Engine()
        engine.introduce(slot)
        kept, sent = [], 0
        with socket.socket(fileno=engine.notice()[2][1]) as doorbell:
            if is_malformed_first:
                doorbell.send(b"xx")
            for _ in range(SOCKETS):
                with lingering(kept) as sender:
                    try:
                        socket.send_fds(doorbell, [b"x"], [sender.fileno()])
                        sent += 1
                    except PermissionError:
                        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
        if is_malformed_first:
            engine.close()
        return (engine, kept), f"{sent}"
    return attack


def sockets_that_linger(lab, limited):
    """The victim's engine neither receives nor closes the sockets. The daemon closes its copies."""
    with kit.daemon(lab, uid=0, limited=limited) as daemon:
        server, client = rping_pair(lab, kit.VICTIM, kit.VICTIM)
        client.says("ping data", lab.seconds(20))
        before = descriptors(daemon)
        for is_malformed_first in (False, True):
            with kit.Child(kit.ATTACKER, sends_descriptors(slot_of(server.pid), is_malformed_first)) as attacker:
                kit.check(attacker.result in ("0", f"{SOCKETS}"), attacker.result)
                kit.check(not limited or attacker.result != "0", "the kernel took no descriptors")
                seen = client.output().count("ping data")
                kit.wait_until(lambda seen=seen: client.output().count("ping data") > seen + 10, lab.seconds(20),
                               "messages after the attack")
            none_kept(lab, daemon, before)


def with_passrights(lab):
    """On a kernel with SO_PASSRIGHTS nothing can be sent, on others the same applies as below."""
    sockets_that_linger(lab, ())


def without_passrights(lab):
    sockets_that_linger(lab, (lab.tool("without"), "passrights"))


def comes_and_goes(slot):
    """Connects to the owner of the slot, which does not leave the pairs, until the daemon refuses it."""
    def attack():
        for count in range(2 * PAIRS_OVER_MAX):
            with kit.closing(wire.Engine()) as (engine,):
                try:
                    engine.introduce(slot)
                except wire.Refused as answer:
                    return None, f"{count} {answer.errno}"
        return None, "never refused"
    return attack


def pairs_that_are_over(lab):
    """The number of ended pairs whose doorbells the daemon keeps for an engine that does not leave them is limited."""
    with kit.daemon(lab, uid=0, limited=(lab.tool("without"), "passrights")), \
            kit.closing(wire.Engine(), wire.Engine()) as (stopped, peer):
        with kit.Child(kit.ATTACKER, comes_and_goes(stopped.slot)) as attacker:
            kit.check(attacker.result == f"{PAIRS_OVER_MAX} {errno.ENOBUFS}", attacker.result)
        peer.introduce(stopped.slot)


def body(lab, cases):
    for case in (with_passrights, without_passrights, pairs_that_are_over):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
