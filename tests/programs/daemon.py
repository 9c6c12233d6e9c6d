#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The daemon itself: who starts it, whom it serves, what it takes, and that it leaves nothing behind."""

import contextlib
import errno
import json
import mmap
import os
import signal
import socket
import struct
import subprocess

import lab as laboratory
import wire
from lab import NOBODY, check, wait_until

SLOTS = 511
UID_SLOTS = 448
OTHER_UID = 65533


def refused(number, function, *args):
    """That the daemon answers this error, and no other."""
    try:
        function(*args)
    except wire.Refused as answer:
        check(answer.errno == number, f"answered {errno.errorcode.get(answer.errno)}, not {errno.errorcode[number]}")
        return
    check(False, f"answered success, not {errno.errorcode[number]}")


def as_uid(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


@contextlib.contextmanager
def daemon(lab, *options, uid=None, limited=()):
    """A daemon started by hand, listening; ends with it, whatever happens."""
    check(not lab.daemons(), "another daemon runs")
    identity = as_uid(NOBODY if uid is None else uid) if lab.drops else {}
    with open(os.path.join(lab.scratch, "daemon.err"), "wb") as err:
        process = subprocess.Popen([*limited, os.path.join(lab.tree, "usrdmad"), "--foreground", "--idle-seconds", "0",
                                    *options], stdin=subprocess.DEVNULL, stderr=err, env=lab.env, cwd=lab.scratch,
                                   **identity)
    try:
        wait_until(is_listening, lab.seconds(10), "the daemon")
        yield process
    finally:
        process.kill()
        process.wait()


def is_listening():
    try:
        wire.Connection().close()
        return True
    except ConnectionRefusedError:
        return False


@contextlib.contextmanager
def closing(*connections):
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def report(lab):
    status = lab.status()
    check(status, "no status")
    return status


def counter(lab, name):
    return report(lab)["daemon"][name]


def start_race(lab):
    """Twenty programs that all find no daemon: one starts, all are served by it, and it was started for all of them."""
    for _ in range(3):
        end_daemons(lab)
        command = [os.path.join(lab.tree, "usrdma"), "status", "--json"]
        starters = [lab.start(*command, native=True) for _ in range(20)]
        pids = {json.loads(starter.finish(lab.seconds(20)))["daemon"]["pid"] for starter in starters}
        check(len(pids) == 1, f"served by daemons {pids}")
        check(lab.daemons() == list(pids), f"daemons {lab.daemons()}, served by {pids}")


def end_daemons(lab):
    for pid in lab.daemons():
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not lab.daemons(), lab.seconds(10), "the daemon's end")


def started_unseen(lab):
    """What the daemon keeps of the program that started it: nothing."""
    end_daemons(lab)
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        program = lab.start(os.path.join(lab.tree, "usrdma"), "status", native=True, LD_BIND_NOW="1")
    finally:
        os.sched_setaffinity(0, processors)
    program.finish(lab.seconds(20))
    pid = lab.daemons()[0]
    check(os.sched_getaffinity(pid) >= processors, "it is bound to the program's processor")
    check(os.readlink(f"/proc/{pid}/cwd") == "/", "it stands in the program's directory")
    check(os.getsid(pid) == pid, "it is in the program's session")
    with open(f"/proc/{pid}/environ", "rb") as environ:
        check(b"LD_BIND_NOW" not in environ.read(), "it has the program's environment")
    files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    strange = [name for name in files if not name.startswith(("/dev/null", "socket:", "pipe:", "anon_inode:"))]
    check(not strange, f"it holds {strange}")
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    check(int(fields["SigBlk"], 16) == 0, "it has signals blocked")
    ignored = int(fields["SigIgn"], 16) & ~(3 << 31) # 32 and 33 are the C library's own, as inherited.
    wanted = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    check(ignored == wanted, f"it ignores signals {fields['SigIgn']}")


def idle_exit(lab):
    """It leaves by itself, with status 0, once nobody is there, and not before."""
    with daemon(lab, "--idle-seconds", "1") as process:
        with closing(wire.Connection(wire.CONTROL)) as (client,):
            try:
                process.wait(2.5)
                check(False, "it left a client alone")
            except subprocess.TimeoutExpired:
                check(client.is_answered(), "no answer")
        check(process.wait(lab.seconds(20)) == 0, "exit status")


def sigterm(lab):
    with daemon(lab) as process:
        with closing(wire.Engine(), wire.Connection(wire.CM)) as (engine, manager):
            process.terminate()
            check(process.wait(lab.seconds(10)) == 0, "exit status")
            check(engine.hung_up() and manager.hung_up(), "clients not hung up on")
    check(not is_listening(), "the name is still taken")


def second_daemon(lab):
    """A second one says so and fails in the foreground; started in the background it leaves everything to the first."""
    with daemon(lab):
        run = {"stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "env": lab.env, "check": False, "text": True,
               "timeout": lab.seconds(20)}
        path = os.path.join(lab.tree, "usrdmad")
        identity = as_uid(NOBODY) if lab.drops else {}
        done = subprocess.run([path, "--foreground"], **run, **identity)
        check(done.returncode == 1 and "another usrdmad" in done.stderr, f"{done.returncode}: {done.stderr}")
        check(subprocess.run([path], **run, **identity).returncode == 0, "background")
        wait_until(lambda: len(lab.daemons()) == 1, lab.seconds(10), "the second one's end")


def malformed_messages():
    """(what is wrong, role or None for before HELLO, message, number of descriptors)"""
    device_get = struct.pack("=II", 0, 0)
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
    yield "a reserved body field", wire.VERBS, wire.message(wire.DEVICE_GET, struct.pack("=II", 0, 1)), 0
    yield "a status", wire.VERBS, wire.message(wire.DEVICE_GET, device_get, status=-1), 0
    yield "type 0", wire.VERBS, wire.message(0, device_get), 0
    yield "an unknown type", wire.VERBS, wire.message(999, device_get), 0
    yield "a push", wire.VERBS, wire.message(wire.PEER_GONE, wire.GONE_BODY.pack(1, 0, 1)), 0
    yield "another role's request", wire.CM, wire.message(wire.INTRODUCE, device_get), 0
    yield "a cm request of an engine", wire.VERBS, wire.message(wire.CM_CHANNEL_CREATE), 1
    yield "a descriptor too many", wire.VERBS, wire.message(wire.DEVICE_GET, device_get), 1
    yield "descriptors missing", wire.VERBS, wire.message(wire.SEGMENT, struct.pack("=Q", 4096)), 1
    yield "many descriptors", wire.VERBS, wire.message(wire.SEGMENT, struct.pack("=Q", 4096)), 200
    yield "more than any message may be", wire.VERBS, wire.message(wire.DEVICE_GET, bytes(20000)), 0


def malformed(lab):
    """Whoever breaks the protocol is hung up on, and counted; nobody else notices, and nothing is kept."""
    with daemon(lab) as process, closing(wire.Engine()) as (bystander,):
        before = counter(lab, "sessions_malformed")
        fds = len(os.listdir(f"/proc/{process.pid}/fd"))
        count = 0
        for what, role, data, nfds in malformed_messages():
            with closing(wire.Connection(role)) as (client,):
                client.send(data, [bystander.segment] * nfds)
                check(client.hung_up(), what)
            check(bystander.is_answered(), f"{what}: the others are not served")
            count += 1
        check(counter(lab, "sessions_malformed") == before + count, "not all were counted")
        check(len(os.listdir(f"/proc/{process.pid}/fd")) == fds, "descriptors were kept")


def unknown_role(lab):
    with daemon(lab):
        for role in (0, 4, 1 << 31):
            client = wire.Connection()
            with closing(client):
                refused(errno.EINVAL, client.exchange, wire.hello(role))
                check(client.hung_up(), "kept")


def bad_segments(lab):
    """What an engine deposits is what its peers will map and ring: nothing else is taken."""
    with daemon(lab) as process, closing(wire.Connection(wire.VERBS)) as (client,):
        size = 1 << 16
        good = wire.segment_memory(size)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stream = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pipe = os.pipe()
        body = struct.pack("=Q", size)
        fds = len(os.listdir(f"/proc/{process.pid}/fd"))
        for segment, notices, claimed in (
                (wire.segment_memory(size, 0), theirs.fileno(), size),
                (wire.segment_memory(size, wire.SEAL_GROW | wire.SEAL_SHRINK), theirs.fileno(), size),
                (wire.segment_memory(size, wire.SEAL_GROW | wire.SEAL_FUTURE_WRITE), theirs.fileno(), size),
                (pipe[0], theirs.fileno(), size),
                (theirs.fileno(), theirs.fileno(), size),
                (good, stream[1].fileno(), size),
                (good, pipe[1], size),
                (good, good, size),
                (good, theirs.fileno(), size + 1),
                (good, theirs.fileno(), 0),
                (wire.segment_memory(1 << 31), theirs.fileno(), 1 << 31)):
            refused(errno.EINVAL, client.request, wire.SEGMENT, struct.pack("=Q", claimed), [segment, notices])
        refused(errno.EINVAL, client.request, wire.INTRODUCE, struct.pack("=II", 1, 0))
        check(len(os.listdir(f"/proc/{process.pid}/fd")) == fds, "descriptors were kept")
        client.request(wire.SEGMENT, body, [good, theirs.fileno()])
        refused(errno.EEXIST, client.request, wire.SEGMENT, body, [good, theirs.fileno()])
        ours.close()


def introduction(lab):
    with daemon(lab), closing(wire.Engine(1 << 16), wire.Engine(1 << 17), wire.Connection(wire.VERBS)) as (a, b, mute):
        refused(errno.EINVAL, a.introduce, a.slot)
        for slot in (0, mute.slot, mute.slot + 1, SLOTS, SLOTS + 1, 0xFFFFFFFF):
            refused(errno.ENOENT, a.introduce, slot)
        check(not a.has_notice() and not b.has_notice(), "pushed in vain")

        a.introduce(b.slot)
        views = [told(a, b, 0, 1 << 17), told(b, a, 1, 1 << 16)]
        check(views[0][0] == views[1][0], "different pairs")
        views[0][1][:5] = b"hello"
        check(views[1][1][:5] == b"hello", "not the same memory")
        views[0][2].send(b"!")
        check(views[1][2].recv(8) == b"!", "not the same doorbell")

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


def told(engine, peer, side, segment_bytes, same_uid=True):
    """Takes the PEER that `engine` must have by now; returns the pair's number, memory and doorbell."""
    check(engine.has_notice(), "INTRODUCE was answered before the pushes")
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


class Child:
    """A process of another user, as a copy of this one: says what its function returned, then waits to be killed."""

    def __init__(self, uid, function):
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                if uid != os.geteuid():
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                kept, said = function()
                os.write(theirs, said.encode())
                os.close(theirs)
                while kept is not None:
                    signal.pause()
            finally:
                os._exit(1)
        os.close(theirs)
        self.said = os.read(ours, 1000).decode()
        os.close(ours)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def an_engine():
    engine = wire.Engine()
    return engine, str(engine.slot)


def killed_client(lab):
    """A process that is killed is gone from everywhere at once, and its peers are told without asking."""
    with daemon(lab), closing(wire.Engine()) as (peer,):
        child = Child(os.geteuid(), an_engine)
        slot = int(child.said)
        peer.introduce(slot)
        kind, _, fds = peer.notice()
        check(kind == wire.PEER, f"type {kind}")
        for fd in fds:
            os.close(fd)
        check(any(item["pid"] == child.pid for item in report(lab)["processes"]), "not in the report")
        child.kill()
        kind, body, _ = peer.notice()
        check(kind == wire.PEER_GONE and wire.GONE_BODY.unpack(body)[0] == slot, "not told")
        check(not any(item["slot"] == slot for item in report(lab)["processes"]), "still in the report")


def two_uids(lab):
    """Two users of root's daemon are introduced, with rings and doorbells only."""
    with daemon(lab, uid=0), closing(wire.Engine()) as (root,), Child(OTHER_UID, an_engine) as child:
        root.introduce(int(child.said))
        kind, body, fds = root.notice()
        _, flags, _, pid, uid, _, _, _, segment_bytes = wire.PEER_BODY.unpack(body)
        check(kind == wire.PEER and (pid, uid) == (child.pid, OTHER_UID), f"pid {pid} uid {uid}")
        check(flags == 0 and segment_bytes == 0 and len(fds) == 2, "told more than rings")
        for fd in fds:
            os.close(fd)


def slots_come_round(lab):
    """A slot that was given back is lent again after all the others."""
    with daemon(lab):
        seen = []
        for _ in range(SLOTS):
            with closing(wire.Connection(wire.VERBS)) as (client,):
                seen.append(client.slot)
        check(sorted(seen) == list(range(1, SLOTS + 1)), "a slot came back early")


def slots_run_out(lab):
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


def slot_quota(lab):
    """No user takes all slots of root's daemon."""
    with daemon(lab, uid=0), Child(OTHER_UID, as_many_as_possible) as greedy:
        check(greedy.said == f"{UID_SLOTS} EDQUOT", greedy.said)
        with closing(wire.Connection(wire.VERBS)) as (client,):
            check(client.slot > 0, "nothing left for others")


def not_served():
    refused(errno.EACCES, wire.Connection, wire.VERBS)
    return None, "refused"


def descriptors_run_out(lab):
    """A daemon with few descriptors turns new clients away and keeps serving those it has."""
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


def unread_pushes(lab):
    """An engine that reads no pushes, as one that is stopped, costs the daemon a bounded queue. Whoever comes then is told
    so, and cannot have it ended; what it was told before is there when it reads again."""
    with daemon(lab) as process, closing(wire.Engine(), wire.Engine()) as (deaf, other):
        fds = len(os.listdir(f"/proc/{process.pid}/fd"))
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
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= fds, lab.seconds(10), "its descriptors' end")


def other_users_daemon(lab):
    """A client of another user refuses, with a line that says what to do; the daemon would not have served it."""
    with daemon(lab):
        done = subprocess.run([os.path.join(lab.tree, "usrdma"), "status"], env=lab.env, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=lab.seconds(20), **as_uid(OTHER_UID))
        check(done.returncode != 0, "served")
        line = done.stderr.splitlines()[0]
        check(f"uid {NOBODY}" in line and "systemctl enable --now usrdmad" in line and "stop that daemon" in line, line)
        with Child(OTHER_UID, not_served) as child:
            check(child.said == "refused", "the daemon would have served it")
        # root may look.
        check(subprocess.run([os.path.join(lab.tree, "usrdma"), "status"], env=lab.env, stdout=subprocess.DEVNULL,
                             check=False).returncode == 0, "root may not look")


def version_skew(lab):
    """Another version is told so, in both directions, whatever else its messages look like."""
    with daemon(lab):
        for version in (0, wire.VERSION + 1, 0xFFFFFFFF):
            client = wire.Connection()
            with closing(client):
                refused(errno.EPROTO, client.exchange, wire.hello(wire.VERBS, version))
        client = wire.Connection()
        with closing(client):
            body = wire.HELLO_BODY.pack(wire.MAGIC, wire.VERSION + 1, wire.VERBS, 7) + b"more than we know"
            refused(errno.EPROTO, client.exchange, wire.message(wire.HELLO, body))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as future:
        future.bind(wire.NAME)
        future.listen()
        with open(os.path.join(lab.scratch, "skew.err"), "w+", encoding="utf-8") as err:
            client = subprocess.Popen([os.path.join(lab.tree, "usrdma"), "status"], env=lab.env, stderr=err)
            connection = future.accept()[0]
            connection.recv(4096)
            connection.send(wire.message(wire.HELLO, status=-errno.EPROTO))
            check(client.wait(lab.seconds(20)) != 0, "served")
            connection.close()
            err.seek(0)
            check("another protocol version" in err.read(), "no word about it")


def address_changes(lab):
    """Addresses and links that change reach the GID table, and every engine is told."""
    def notices(engine, dev_id, wanted):
        seen = set()
        while wanted not in seen:
            kind, body, _ = engine.notice()
            check(kind == wire.DEVICE_NOTICE, f"type {kind}")
            changed, what = wire.NOTICE_BODY.unpack(body)
            if changed == dev_id:
                seen.add(what)

    def own(engine):
        return next(device for device in engine.devices() if device[0] == "own0")

    def gid(address):
        family = socket.AF_INET if "." in address else socket.AF_INET6
        raw = socket.inet_pton(family, address)
        return raw if len(raw) == 16 else bytes(10) + b"\xff\xff" + raw

    with daemon(lab), closing(wire.Engine()) as (engine,):
        check([device[0] for device in engine.devices()][-1] == "lo", "lo is not last")
        check(len({device[2] for device in engine.devices()}) == len(engine.devices()), "equal GUIDs")
        _, dev_id, guid, flags, gids = own(engine)
        check(flags & 1 and guid != 0 and 0 in gids, "own0 is not up")
        check(gids[1] == gid("10.77.0.1"), "index 1 is not the IPv4 address")
        try:
            laboratory.ip_command("ip", "addr", "add", "10.77.0.9/24", "dev", "own0")
            notices(engine, dev_id, wire.GID_CHANGE)
            after = own(engine)[4]
            check({**gids, **after} == after and gid("10.77.0.9") in after.values(), f"{after}")
        finally:
            laboratory.ip_command("ip", "addr", "del", "10.77.0.9/24", "dev", "own0")
        notices(engine, dev_id, wire.GID_CHANGE)
        wait_until(lambda: own(engine)[4] == gids, 5, "the old table")
        try:
            laboratory.ip_command("ip", "link", "set", "far0", "down")
            notices(engine, dev_id, wire.PORT_DOWN)
            check(not own(engine)[3] & 1, "still up")
        finally:
            laboratory.ip_command("ip", "link", "set", "far0", "up")
        notices(engine, dev_id, wire.PORT_ACTIVE)
        laboratory.ip_command("ip", "link", "set", "own0", "mtu", "1400")
        notices(engine, dev_id, wire.MTU_CHANGE)
        laboratory.ip_command("ip", "link", "set", "own0", "mtu", "1500")
        notices(engine, dev_id, wire.MTU_CHANGE)
        try:
            laboratory.ip_command("ip", "link", "add", "new0", "type", "veth", "peer", "name", "new1")
            laboratory.ip_command("ip", "addr", "add", "10.78.0.1/24", "dev", "new0")
            laboratory.ip_command("ip", "link", "set", "new0", "up")
            new_id = socket.if_nametoindex("new0")
            notices(engine, new_id, wire.ADDED)
        finally:
            laboratory.ip_command("ip", "link", "del", "new0")
        notices(engine, new_id, wire.REMOVED)
        check(not any(device[1] == new_id for device in engine.devices()), "still listed")


def unread_notices(lab):
    """A process that has no work and reads nothing is not given up on, however often the network changes."""
    with daemon(lab), closing(wire.Engine()) as (idle,):
        for _ in range(200):
            for mtu in ("1400", "1500"):
                laboratory.ip_command("ip", "link", "set", "own0", "mtu", mtu)
            check(idle.is_answered(), "given up on")
        with closing(wire.Engine()) as (peer,):
            peer.introduce(idle.slot)
            kind = wire.DEVICE_NOTICE
            while kind == wire.DEVICE_NOTICE:
                kind, _, fds = idle.notice()
            check(kind == wire.PEER, f"type {kind}")
            for fd in fds:
                os.close(fd)


def no_files(lab):
    """Nothing is left in any directory a daemon could have written to. What tests and other programs have there at the time
    is theirs."""
    theirs = ("usrdma-test-", "usrdma-spawn-", "usrdma-sys.", "usrdma-new.")
    def listing():
        return {folder: set(os.listdir(folder)) for folder in ("/tmp", "/dev/shm", "/run", "/var/tmp")
                if os.path.isdir(folder)}
    with daemon(lab):
        with closing(wire.Engine(), wire.Engine()) as (a, b):
            a.introduce(b.slot)
    names = {name for folder in listing().values() for name in folder}
    left = [name for name in names if "usrdma" in name and not name.startswith(theirs)]
    check(not left, f"files are left: {left}")


def body(lab, cases):
    end_daemons(lab)
    for case in (start_race, started_unseen):
        cases.run(case.__name__, case, lab)
    end_daemons(lab)
    everyone = [idle_exit, sigterm, second_daemon, malformed, unknown_role, bad_segments, introduction, killed_client,
                slots_come_round, slots_run_out, descriptors_run_out, unread_pushes, version_skew, no_files]
    # These need more than one user, or an interface to play with.
    with_root = [two_uids, slot_quota, other_users_daemon, address_changes, unread_notices] if lab.drops and lab.isolated else []
    for case in everyone + with_root:
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
