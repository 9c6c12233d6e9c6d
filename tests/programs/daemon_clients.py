# SPDX-License-Identifier: BSD-2-Clause
"""Tests the daemon with clients that violate the protocol, are killed, exceed its limits or do not read."""

import contextlib
import errno
import mmap
import os
import signal
import socket
import struct

from tests.programs import lab as laboratory
from tests.programs import wire
from tests.programs.daemon_kit import (
    OTHER_UID,
    Child,
    closing,
    counter,
    daemon,
    descriptors,
    none_kept,
    refused,
    report,
)
from tests.programs.lab import check

SLOTS = wire.ipc("SLOTS") - 1
# The daemon assigns the slots 1 to SLOTS, from a random one on.
NO_SLOT = 0
# Half of all QPN ranges, except 16 that are reserved for root.
UID_SLOTS = 248


def malformed_messages():
    """(error, role or None for before HELLO, message, number of descriptors)"""
    device_get = wire.body("device_get", 0, 0)
    yield "nothing but descriptors", None, b"", 2
    yield "too short for a header", None, b"123", 0
    yield "no HELLO first", None, wire.message(wire.DEVICE_GET, device_get), 0
    yield "HELLO with a wrong magic", None, wire.hello(wire.VERBS, magic=1), 0
    yield "HELLO with a reserved field", None, wire.hello(wire.VERBS, reserved=1), 0
    yield "HELLO with a descriptor", None, wire.hello(wire.VERBS), 1
    yield "HELLO cut short", None, wire.hello(wire.VERBS)[:20], 0
    yield "a second HELLO", wire.VERBS, wire.hello(wire.VERBS), 0
    yield "a header cut short", wire.VERBS, wire.message(wire.DEVICE_GET, device_get)[:10], 0
    yield "a length too small", wire.VERBS, wire.message(wire.DEVICE_GET, device_get, length=16), 0
    yield "a length too large", wire.VERBS, wire.message(wire.DEVICE_GET, device_get, length=1 << 31), 0
    yield "a body too short", wire.VERBS, wire.message(wire.DEVICE_GET, device_get[:4]), 0
    yield "a body too long", wire.VERBS, wire.message(wire.DEVICE_GET, device_get + b"1234"), 0
    yield "a reserved header field", wire.VERBS, wire.message(wire.DEVICE_GET, device_get, reserved=1), 0
    yield "a reserved body field", wire.VERBS, wire.message(wire.DEVICE_GET, wire.body("device_get", 0, 1)), 0
    yield "a status", wire.VERBS, wire.message(wire.DEVICE_GET, device_get, status=-1), 0
    yield "type 0", wire.VERBS, wire.message(0, device_get), 0
    yield "an unknown type", wire.VERBS, wire.message(999, device_get), 0
    yield "a push", wire.VERBS, wire.message(wire.PEER_GONE, wire.GONE_BODY.pack(1, 0, 1)), 0
    yield "another role's request", wire.CM, wire.message(wire.CONNECT_PEER, device_get), 0
    yield "a cm request of an engine", wire.VERBS, wire.message(wire.CM_CHANNEL_CREATE), 0
    yield "a descriptor too many", wire.VERBS, wire.message(wire.DEVICE_GET, device_get), 1
    yield "descriptors missing", wire.VERBS, wire.message(wire.SEGMENT, wire.body("segment", 4096)), 0
    yield "many descriptors", wire.VERBS, wire.message(wire.SEGMENT, wire.body("segment", 4096)), 200
    yield "more than any message may be", wire.VERBS, wire.message(wire.DEVICE_GET, bytes(20000)), 0


def daemon_malformed_message_ends_connection(lab):
    """The daemon closes and counts the connection of a client that violates the protocol. It serves other clients, and
    no resources of the client remain."""
    with daemon(lab) as process, closing(wire.Engine()) as (bystander,):
        before = counter(lab, "sessions_malformed")
        fds = descriptors(process)
        count = 0
        for what, role, data, nfds in malformed_messages():
            with closing(wire.Connection(role)) as (client,):
                client.send(data, [bystander.segment] * nfds)
                check(client.hung_up(), what)
            check(bystander.is_answered(), f"{what}: the others are not served")
            count += 1
        check(counter(lab, "sessions_malformed") == before + count, "not all were counted")
        none_kept(lab, process, fds)


def lingering(kept):
    """One end of a TCP connection whose close() blocks for a minute, or until the other end is closed. The other end is
    added to `kept`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        kept.append(listener.accept()[0])
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(1 << 16))
    except BlockingIOError:
        return sender


def daemon_lingering_descriptor_does_not_block(lab):
    """The daemon does not block on closing a received descriptor whose close() blocks."""
    kept = []
    with daemon(lab) as process, closing(wire.Engine(), wire.Connection(wire.VERBS)) as (bystander, client):
        # A descriptor that is passed while the daemon is stopped has no other owner when the daemon continues.
        process.send_signal(signal.SIGSTOP)
        try:
            with lingering(kept) as sender:
                client.send(wire.message(wire.DEVICE_GET, wire.body("device_get", 0, 0)), [sender.fileno()])
        finally:
            process.send_signal(signal.SIGCONT)
        check(client.hung_up(), "a descriptor too many")
        check(bystander.is_answered(), "the others are not served")
        for end in kept:
            end.close()


def daemon_unknown_role_is_refused(lab):
    with daemon(lab):
        for role in (0, 4, 1 << 31):
            client = wire.Connection()
            with closing(client):
                refused(errno.EINVAL, client.exchange, wire.hello(role))
                check(client.hung_up(), "kept")


def daemon_invalid_segment_is_refused(lab):
    """The daemon accepts only a valid segment and doorbell, because peers map the segment and write to the doorbell."""
    with daemon(lab, uid=os.geteuid()) as process, closing(wire.Connection(wire.VERBS)) as (client,):
        size = 1 << 16
        good = wire.segment_memory(size)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipe = os.pipe()
        body = wire.body("segment", size)
        fds = descriptors(process)
        for segment, claimed in (
                (wire.segment_memory(size, 0), size),
                (wire.segment_memory(size, wire.SEAL_GROW | wire.SEAL_SHRINK), size),
                (wire.segment_memory(size, wire.SEAL_GROW | wire.SEAL_FUTURE_WRITE), size),
                (pipe[0], size),
                (theirs.fileno(), size),
                (good, size + 1),
                (good, 0),
                (wire.segment_memory(1 << 31), 1 << 31)):
            refused(errno.EINVAL, client.request, wire.SEGMENT, wire.body("segment", claimed), [segment])
        refused(errno.EINVAL, client.request, wire.CONNECT_PEER, wire.body("connect_peer", 1, 0))
        none_kept(lab, process, fds)
        # A second segment replaces the first until the first pair was created.
        sockets = [client.request_socket(wire.SEGMENT, body, [good])[1] for _ in range(2)]
        none_kept(lab, process, fds + 2)
        with closing(wire.Engine()) as (peer,):
            peer.introduce(client.slot)
            refused(errno.EEXIST, client.request, wire.SEGMENT, body, [good])
        for end in (ours, theirs, *sockets):
            end.close()


def device_total_of_engine_is_refused(lab):
    """Only a client that may read reports gets the numbers of a device, if the device exists. An engine whose segment
    is not valid adds nothing."""
    with daemon(lab, uid=os.geteuid()), closing(wire.Engine(), wire.Connection(wire.CONTROL)) as (engine, client):
        refused(errno.ENODEV, client.request, wire.DEVICE_TOTAL, wire.body("device_total", 0, 0))
        about_lo = wire.body("device_total", socket.if_nametoindex("lo"), 0)
        check(not any(client.request(wire.DEVICE_TOTAL, about_lo)), "no zeros without queue pairs")
        engine.send(wire.message(wire.DEVICE_TOTAL, about_lo))
        check(engine.hung_up(), "an engine was answered")
        check(not any(client.request(wire.DEVICE_TOTAL, about_lo)), "no zeros after the engine ended")


def connect_peer_connects_both_engines(lab):
    with daemon(lab), closing(wire.Engine(1 << 16), wire.Engine(1 << 17), wire.Connection(wire.VERBS)) as (a, b, mute):
        refused(errno.EINVAL, a.introduce, a.slot)
        for slot in {NO_SLOT, mute.slot, mute.slot + 1, SLOTS, SLOTS + 1, 0xFFFFFFFF} - {a.slot, b.slot}:
            refused(errno.ENOENT, a.introduce, slot)
        check(not a.has_notice() and not b.has_notice(), "an unexpected push")

        a.introduce(b.slot)
        views = [told(a, b, 0, 1 << 17), told(b, a, 1, 1 << 16)]
        check(views[0][0] == views[1][0], "different pairs")
        views[0][1][:5] = b"hello"
        check(views[1][1][:5] == b"hello", "not the same memory")
        views[0][2].send(b"!")
        check(views[1][2].recv(8) == b"!", "not the same doorbell")
        # Processes of one user pass the descriptors of completion channels (docs/adr/0064).
        socket.send_fds(views[0][2], [b"?"], [a.segment])
        data, fds, _, _ = socket.recv_fds(views[1][2], 8, 2)
        check((data, len(fds)) == (b"?", 1), f"{data} and {len(fds)} descriptors")
        os.close(fds[0])

        for asker, slot in ((a, b.slot), (b, a.slot)):
            asker.introduce(slot)
        check(not a.has_notice() and not b.has_notice(), "a living pair was told again")

        old_slot = b.slot
        b.sock.close()
        kind, body, _ = a.notice()
        check(kind == wire.PEER_GONE, f"type {kind}")
        check(wire.GONE_BODY.unpack(body) == (old_slot, 0, views[0][0]), "another pair is gone")
        refused(errno.ENOENT, a.introduce, old_slot)

        with closing(wire.Engine()) as (c,):
            c.introduce(a.slot)
            check(told(c, a, 0, 1 << 16)[0] != views[0][0], "the pair's number was used again")
            told(a, c, 1, 1 << 16)


def connect_peer_without_reply_pushes_result(lab):
    """A process that sends a connect-peer request without waiting for the reply gets PEER, or the failure as a push.
    The daemon ends the connection of a client that floods it with such requests."""
    with daemon(lab), closing(wire.Engine(), wire.Engine()) as (a, b):
        a.ask_to_introduce(NO_SLOT)
        kind, body, _ = a.notice()
        check((kind, body) == (wire.CONNECT_PEER_FAILED, wire.body("connect_peer", NO_SLOT, -errno.ENOENT)),
              f"type {kind}")
        a.ask_to_introduce(b.slot)
        # The reply to this request follows everything that was pushed before.
        check(a.is_answered(), "no answer")
        told(a, b, 0, 1 << 16)
        told(b, a, 1, 1 << 16)
        a.ask_to_introduce(b.slot)
        check(a.is_answered() and not a.has_notice() and not b.has_notice(), "a living pair was told again")
        with closing(wire.Engine()) as (deaf,):
            try:
                while deaf.is_answered():
                    deaf.ask_to_introduce(NO_SLOT)
            except (wire.Hangup, BrokenPipeError, ConnectionResetError):
                pass
        check(a.is_answered(), "not served any more")


def connect_peer_refused_pair_notifies_peer(lab):
    """A process that cannot map the pair of a PEER message ends the pair. The other side is notified, and both can be
    connected again."""
    with daemon(lab), closing(wire.Engine(), wire.Engine()) as (a, b):
        for refuser, other in ((a, b), (b, a)):
            a.introduce(b.slot)
            number = told(a, b, 0, 1 << 16)[0]
            told(b, a, 1, 1 << 16)
            refuser.refuse(other.slot, number)
            kind, body, _ = other.notice()
            check((kind, *wire.GONE_BODY.unpack(body)) == (wire.PEER_GONE, refuser.slot, 0, number), f"type {kind}")
            # A second time: the pair is unknown.
            refuser.refuse(other.slot, number)
            check(refuser.is_answered() and not refuser.has_notice() and not other.has_notice(),
                  "more than one PEER_GONE")
        with closing(wire.Engine()) as (third,):
            a.introduce(b.slot)
            number = told(a, b, 0, 1 << 16)[0]
            told(b, a, 1, 1 << 16)
            third.refuse(a.slot, number)
            check(third.is_answered() and not a.has_notice() and not b.has_notice(), "a third process ended the pair")


def told(engine, peer, side, segment_bytes, same_uid=True):
    """Takes the PEER message that `engine` must have received; returns the pair's number, memory and doorbell."""
    check(engine.has_notice(), "CONNECT_PEER was answered before the pushes")
    kind, body, fds = engine.notice()
    check(kind == wire.PEER, f"type {kind}")
    slot, flags, pair_id, pid, _, at, _, pair_bytes, bytes_ = wire.PEER_BODY.unpack(body)
    check((slot, at, pid, pair_bytes) == (peer.slot, side, os.getpid(), wire.PAIR_BYTES), f"{slot} {at} {pid}")
    check(len(fds) == (3 if same_uid else 2) and flags == (wire.SAME_UID if same_uid else 0), f"{fds} {flags}")
    check(bytes_ == (segment_bytes if same_uid else 0), f"{bytes_} bytes of segment")
    doorbell = socket.socket(fileno=os.dup(fds[1]))
    if same_uid:
        check(os.fstat(fds[2]).st_ino == os.fstat(peer.segment).st_ino, "not the peer's segment")
    for change in (pair_bytes - 1, pair_bytes + 1):
        try:
            os.ftruncate(fds[0], change)
            check(False, "the pair's size can be changed")
        except PermissionError:
            pass
    memory = mmap.mmap(fds[0], pair_bytes)
    for fd in fds:
        os.close(fd)
    return pair_id, memory, doorbell


def an_engine():
    engine = wire.Engine()
    return engine, str(engine.slot)


def daemon_killed_client_is_freed(lab):
    """The daemon frees all resources of a killed process immediately and notifies its peers without a request."""
    with daemon(lab), closing(wire.Engine()) as (peer,):
        child = Child(os.geteuid(), an_engine)
        slot = int(child.result)
        peer.introduce(slot)
        kind, _, fds = peer.notice()
        check(kind == wire.PEER, f"type {kind}")
        for fd in fds:
            os.close(fd)
        check(any(item["pid"] == child.pid for item in report(lab)["processes"]), "not in the report")
        child.kill()
        kind, body, _ = peer.notice()
        check(kind == wire.PEER_GONE and wire.GONE_BODY.unpack(body)[0] == slot, "not told")
        check(not any(item["pid"] == child.pid for item in report(lab)["processes"]), "still in the report")


def connect_peer_of_other_user_passes_no_segment(lab):
    """Processes of two users of root's daemon are connected by FIFOs and doorbells only; one-sided access is not
    permitted."""
    with daemon(lab, uid=0), closing(wire.Engine()) as (root,), Child(OTHER_UID, an_engine) as child:
        root.introduce(int(child.result))
        kind, body, fds = root.notice()
        _, flags, _, pid, uid, _, _, _, segment_bytes = wire.PEER_BODY.unpack(body)
        check(kind == wire.PEER and (pid, uid) == (child.pid, OTHER_UID), f"pid {pid} uid {uid}")
        check(flags == 0 and segment_bytes == 0 and len(fds) == 2, "told more than rings")
        for fd in fds:
            os.close(fd)


def slots_freed_range_is_assigned_last(lab):
    """A QPN range that was freed is assigned again after all other ranges."""
    with daemon(lab):
        seen = []
        for _ in range(SLOTS):
            with closing(wire.Connection(wire.VERBS)) as (client,):
                seen.append(client.slot)
        check(sorted(seen) == list(range(1, SLOTS + 1)), "a slot came back early")


def slots_exhausted_refuse_client(lab):
    with daemon(lab, uid=os.geteuid()), contextlib.ExitStack() as stack:
        held = [stack.enter_context(closing(wire.Connection(wire.VERBS)))[0] for _ in range(SLOTS)]
        check(len({client.slot for client in held}) == SLOTS, "a slot was lent twice")
        refused(errno.ENOSPC, wire.Connection, wire.VERBS)
        freed = held[7].slot
        held[7].close()
        with closing(wire.Connection(wire.VERBS)) as (client,):
            check(client.slot == freed, "not the free one")


def as_many_as_possible():
    held = []
    try:
        while True:
            held.append(wire.Connection(wire.VERBS))
    except wire.Refused as answer:
        return held, f"{len(held)} {errno.errorcode[answer.errno]}"


def slots_of_one_user_are_limited(lab):
    """The daemon of root does not assign all QPN ranges to one user."""
    with daemon(lab, uid=0), Child(OTHER_UID, as_many_as_possible) as greedy:
        check(greedy.result == f"{UID_SLOTS} EDQUOT", greedy.result)
        with closing(wire.Connection(wire.VERBS)) as (client,):
            check(client.slot > 0, "nothing left for others")


def daemon_without_descriptors_refuses_new_clients(lab):
    """A daemon with few descriptors rejects new clients and serves the present ones."""
    with daemon(lab, limited=["prlimit", "--nofile=64:64"]), contextlib.ExitStack() as stack:
        first = stack.enter_context(closing(wire.Connection(wire.CONTROL)))[0]
        turned_away = 0
        for _ in range(100):
            client = stack.enter_context(closing(wire.Connection()))[0]
            try:
                client.exchange(wire.hello(wire.CONTROL))
            except (wire.Hangup, wire.Refused):
                turned_away += 1
        check(turned_away > 40, f"{turned_away} turned away")
        check(first.is_answered(), "the first is not served any more")


def daemon_unread_pushes_are_bounded(lab):
    """An engine that reads no pushes, as a stopped one, uses a bounded queue in the daemon. A connect-peer request to
    it then fails and does not end its connection. It still receives the messages that were queued before."""
    with daemon(lab) as process, closing(wire.Engine(), wire.Engine()) as (deaf, other):
        fds = descriptors(process)
        introduced = turned_away = 0
        while turned_away < 100:
            with closing(wire.Engine()) as (passer_by,):
                try:
                    passer_by.introduce(deaf.slot)
                    introduced += 1
                except wire.Refused as answer:
                    check(answer.errno == errno.ENOBUFS, f"errno {answer.errno}")
                    turned_away += 1
            check(introduced < 5000, "no bound")
        check(deaf.is_answered() and other.is_answered(), "not served any more")
        alive = set()
        for _ in range(2 * introduced):
            kind, body, passed = deaf.notice()
            for fd in passed:
                os.close(fd)
            pair = wire.PEER_BODY.unpack(body)[2] if kind == wire.PEER else wire.GONE_BODY.unpack(body)[2]
            alive ^= {pair}
        check(not alive and not deaf.has_notice(), f"pairs {alive}")
        other.introduce(deaf.slot)
        told(deaf, other, 1, 1 << 16)
        none_kept(lab, process, fds)


def body(lab, cases):
    for case in (daemon_malformed_message_ends_connection, daemon_lingering_descriptor_does_not_block,
                 daemon_unknown_role_is_refused, daemon_invalid_segment_is_refused, device_total_of_engine_is_refused,
                 connect_peer_connects_both_engines, connect_peer_without_reply_pushes_result,
                 connect_peer_refused_pair_notifies_peer, daemon_killed_client_is_freed,
                 slots_freed_range_is_assigned_last, slots_exhausted_refuse_client,
                 daemon_without_descriptors_refuses_new_clients, daemon_unread_pushes_are_bounded):
        cases.run(case.__name__.replace("_", " "), case, lab)
    # These cases need more than one user.
    why_not = None if lab.drops and lab.isolated else "needs root"
    for case in (connect_peer_of_other_user_passes_no_segment, slots_of_one_user_are_limited):
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
