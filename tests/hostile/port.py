# SPDX-License-Identifier: BSD-2-Clause
"""Attacks of users on UDP port 4791 of root's daemon: reading or diverting packets of other users, and forwarding rings
whose consumer writes arbitrary values."""

import contextlib
import os
import resource
import socket
import stat
import struct

from tests.hostile import kit
from tests.programs import wire
from tests.programs.daemon_kit import Child

SO_REUSEPORT, SO_DETACH_REUSEPORT_BPF = 15, 68
QP1_SLOT = 0
# The limit of sessions of one user; fewer with sanitizers, which are slow.
SESSIONS, SESSIONS_SANITIZED = 448, 60
FILES = 10000


def roce_datagram(qpn, mark):
    """A BTH with DestQP qpn, the part of a packet that selects the receiving socket, and a mark."""
    return bytes([4, 0, 0xFF, 0xFF]) + struct.pack("!I", qpn) + bytes(4) + mark


def send(slot, mark, count=1):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(count):
            sender.sendto(roce_datagram(slot << 15 | 16 + number, mark), ("127.0.0.1", 4791))


def sockets_of(fds):
    """Duplicates of the IPv4 and IPv6 sockets among the descriptors."""
    for fd in fds:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            with socket.socket(fileno=os.dup(fd)) as sock:
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    yield sock


def is_member(sock):
    """Whether a socket is bound to port 4791 or may be a member of its SO_REUSEPORT group."""
    return sock.getsockname()[1] == 4791 or sock.getsockopt(socket.SOL_SOCKET, SO_REUSEPORT) != 0


def attack_socket(sock):
    """Calls that would divert the packets of all processes if the socket were a member of the group."""
    for attack in (lambda: sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0),
                   lambda: sock.connect(("127.0.0.1", 9)), lambda: sock.connect(("::1", 9))):
        with contextlib.suppress(OSError):
            attack()


def descriptors_of(engine):
    """The RoCE descriptors that the daemon passed to an engine."""
    return [engine.roce.fileno()] if engine.roce else engine.ring.fds


def receives_all(engine, mark, count, lab):
    """Checks that the engine receives `count` datagrams with this mark, and no others."""
    printed = []
    if engine.roce:
        engine.roce.settimeout(lab.seconds(10))

    def all_here():
        if engine.roce:
            data = engine.roce.recv(65536)
            printed.extend(data[at:at + 12 + len(mark)] for at in range(0, len(data), 12 + len(mark)))
        else:
            printed.extend(engine.ring.receive())
        return len(printed) >= count
    kit.wait_until(all_here, lab.seconds(10), f"{count} datagrams {mark!r}")
    kit.check(all(data[12:] == mark for data in printed), f"another's datagram: {printed}")


def no_member_of_the_group_is_handed_out(lab):
    """A user opens as many sessions as permitted and attacks each received descriptor. No descriptor is a member of the
    SO_REUSEPORT group, and other processes and QP1 still receive their packets."""
    sessions = SESSIONS_SANITIZED if lab.sanitized else SESSIONS
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

    def collect():
        engines = []
        while len(engines) < sessions:
            try:
                engines.append(wire.Engine())
            except wire.Refused:
                break
        fds = [fd for engine in engines for fd in descriptors_of(engine)]
        members = 0
        for sock in sockets_of(fds):
            members += is_member(sock)
            attack_socket(sock)
        return engines, f"{members} of {len(engines)}"

    with (kit.daemon(lab, uid=0), kit.closing(wire.Engine()) as (root,),
          Child(kit.VICTIM, an_engine_that_hears) as victim, Child(kit.ATTACKER, collect) as attacker):
        members, _, count = attacker.result.partition(" of ")
        kit.check(members == "0" and int(count) > 30, f"sockets of the group that a user was handed: {attacker.result}")
        before = malformed_mads(lab)
        send(QP1_SLOT, b"to QP1", 10)
        send(root.slot, b"to root", 10)
        send(int(victim.result), b"to victim", 10)
        receives_all(root, b"to root", 10, lab)
        kit.wait_until(lambda: malformed_mads(lab) == before + 10, lab.seconds(10), "what is for QP1")
        kit.check(forwarded(lab) >= 1, "nothing was forwarded to the victim")


def an_engine_that_hears():
    engine = wire.Engine()
    return engine, str(engine.slot)


def daemon_report(lab):
    return kit.report(lab)["daemon"]


def malformed_mads(lab):
    return daemon_report(lab)["counters"]["gsi"]["dropped_malformed"]


def forwarded(lab):
    return daemon_report(lab)["roce_forwarded_datagrams"]


def a_kept_copy_hears_nothing(lab):
    """A process of root keeps a duplicate of its socket after its session has ended. The duplicate receives no further
    packets of the slot, and the packets of other slots still reach their processes."""
    with kit.daemon(lab, uid=0), kit.closing(wire.Engine(), wire.Engine()) as (before, after):
        engine = wire.Engine()
        copy = engine.roce.dup()
        copy.setblocking(False)
        engine.close()
        kit.wait_until(lambda: has_left_the_group(copy), lab.seconds(10), "the copy's end in the group")
        send(engine.slot, b"later", 10)
        with contextlib.suppress(BlockingIOError):
            kit.check(False, f"the copy received {copy.recv(4096, socket.MSG_PEEK)}")
        with kit.closing(wire.Engine()) as (latest,):
            for other in (before, after, latest):
                send(other.slot, b"own", 10)
                receives_all(other, b"own", 10, lab)
        copy.close()


def has_left_the_group(copy):
    try:
        copy.getpeername()
        return True
    except OSError:
        return False


def nonsense_in_a_ring_hurts_its_owner_alone(lab):
    """A user writes arbitrary positions into its ring and notifies the daemon. Rings of other users are still
    served."""
    def attack():
        engine = wire.Engine()
        for number in range(2000):
            engine.ring.write_words(number * 0x01F3A7B1, number | 1)
            engine.ring.tell_of_room()
        os.ftruncate(engine.ring.fds[1], 8)
        return engine, str(engine.slot)

    with kit.daemon(lab, uid=0) as process, Child(kit.ATTACKER, attack) as attacker:
        for _ in range(20):
            send(int(attacker.result), b"to the attacker", 20)
        serves_others(lab)
        kit.check(process.poll() is None, "the daemon has ended")


def serves_others(lab):
    def receive():
        engine = wire.Engine()
        send(engine.slot, b"mine", 20)
        receives_all(engine, b"mine", 20, lab)
        return engine, "printed"

    with Child(kit.VICTIM, receive) as victim:
        kit.check(victim.result == "printed", "another user's ring is not served")


def a_ring_that_nobody_reads_fills_and_no_more(lab):
    """The daemon stops reading the socket of a process that does not read its ring. Further datagrams are dropped and
    counted."""
    with kit.daemon(lab, uid=0) as process, Child(kit.ATTACKER, an_engine_that_hears) as attacker:
        filler = bytes(30000)
        before = resident_pages(process)

        def dropped():
            send(int(attacker.result), filler, 50)
            return daemon_report(lab)["roce_forward_dropped"] > 0
        kit.wait_until(dropped, lab.seconds(20), "a dropped datagram")
        kit.check(daemon_report(lab)["roce_forward_ring_full"] > 0, "the ring was never full")
        # The limit covers the ring and memory cached by the allocator; the kernel owns the socket's buffer.
        grown = resident_pages(process) - before
        kit.check(lab.sanitized or grown * 4096 < 8 << 20, f"the daemon has grown by {grown} pages")
        spent = cpu_ticks(process)
        serves_others(lab)
        kit.check(cpu_ticks(process) - spent < os.sysconf("SC_CLK_TCK") * lab.seconds(5), "the daemon spins")


def resident_pages(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as words:
        return int(words.read().split()[1])


def cpu_ticks(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as words:
        fields = words.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])


def groups_have_a_limit(lab):
    """The number of multicast groups that the daemon joins is limited for all processes of a user. Unicast addresses
    are refused."""
    def join():
        engines = [wire.Engine(), wire.Engine()]
        lo = socket.if_nametoindex("lo")
        results = []
        for number in range(600):
            gid = bytes(10) + b"\xff\xff" + bytes([239, 7, number >> 8, number & 255])
            try:
                engines[number % 2].request(wire.GROUP_JOIN, wire.body("group", lo, 0, gid))
                results.append(0)
            except wire.Refused as refused:
                results.append(refused.errno)
        try:
            engines[0].request(wire.GROUP_JOIN, wire.body("group", lo, 0, bytes(10) + b"\xff\xff\x7f\0\0\1"))
        except wire.Refused as refused:
            results.append(refused.errno)
        return engines, f"{results.count(0)} {results[-2]} {results[-1]}"

    with kit.daemon(lab, uid=0) as process, Child(kit.ATTACKER, join) as attacker:
        kit.check(attacker.result == "512 122 122", f"joined, refused, refused: {attacker.result}")
        kit.check(kit_descriptors(process) < 700, "each group takes a descriptor")


def kit_descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def body(lab, cases):
    for case in (no_member_of_the_group_is_handed_out, a_kept_copy_hears_nothing,
                 nonsense_in_a_ring_hurts_its_owner_alone, a_ring_that_nobody_reads_fills_and_no_more,
                 groups_have_a_limit):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
