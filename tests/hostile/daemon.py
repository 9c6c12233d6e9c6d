# SPDX-License-Identifier: BSD-2-Clause
"""Attacks of users on root's daemon: descriptors whose close() blocks, and exhaustion of its resources."""

import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct
import subprocess

from tests.hostile import fuse, kit
from tests.programs import wire

DEVICE_GET = wire.message(wire.DEVICE_GET, wire.body("device_get", 0, 0))
QUESTIONS = 50


def is_served(connection):
    """Whether the daemon replies to QUESTIONS requests of this connection before the socket's timeout."""
    return all(connection.is_answered() for _ in range(QUESTIONS))


@contextlib.contextmanager
def stopped(process):
    """Stops the daemon, so that it holds the only reference to descriptors that are passed now when it continues."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def lingering(kept):
    """One end of a TCP connection with unsent data. Its close() blocks for 60 s or until the other end is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        kept.append(listener.accept()[0])
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(bytes(1 << 16))
    return sender


def status_writes_nothing_of_a_clients(lab):
    """A STATUS request with a memfd is malformed: the client could block writes of the daemon by punching holes."""
    with kit.daemon(lab, uid=0), kit.closing(wire.Connection(wire.CONTROL)) as (bystander,):
        with kit.closing(wire.Connection(wire.CONTROL)) as (attacker,):
            attacker.send(wire.message(wire.STATUS), [os.memfd_create("report", os.MFD_ALLOW_SEALING)])
            kit.check(attacker.hung_up(), "the daemon took a memfd to write into")
        kit.check("devices" in bystander.report(), "no report")


def passes_a_hanging_file(folder, count):
    """An attacker that passes a file of its FUSE file system to the daemon and does not reply to FUSE_FLUSH."""
    def attack():
        try:
            file = fuse.HangingFile(folder)
        except (PermissionError, FileNotFoundError) as why:
            return None, f"not possible: {why}"
        attackers = []
        for _ in range(count):
            attackers.append(wire.Connection())
            attackers[-1].send(DEVICE_GET, [file.fd] * 10)
        os.close(file.fd)
        seen = file.has_flush.wait(30)
        return (file, attackers), f"{seen}"
    return attack


def file_system_that_does_not_answer(lab):
    """The daemon's close() of the attacker's file blocks during the whole test. The daemon serves other users. It stops
    reading the attacker's sessions while too many of its descriptors wait. All are closed when the file system ends."""
    folder = os.path.join(lab.scratch, "attacker")
    os.mkdir(folder, 0o700)
    os.chown(folder, kit.ATTACKER, kit.ATTACKER)
    with kit.daemon(lab, uid=0) as process, kit.closing(wire.Engine(), wire.Engine()) as (bystander, peer):
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        with kit.Child(kit.ATTACKER, passes_a_hanging_file(folder, 20)) as attacker:
            if attacker.result.startswith("not possible"):
                print(f"# not tried: a user cannot mount a file system here: {attacker.result}")
                return
            kit.check(attacker.result == "True", f"the file system saw no close() of the daemon: {attacker.result}")
            kit.check(is_served(bystander), "another user is not served")
            bystander.introduce(peer.slot)
            with kit.closing(wire.Connection(wire.CONTROL)) as (newcomer,):
                kit.check("devices" in newcomer.report(), "a new session is not served")
            with kit.Child(kit.VICTIM, asks_the_daemon) as victim:
                kit.check(victim.result == "served", "a third user is not served")
            held = len(os.listdir(f"/proc/{process.pid}/fd")) - before
            kit.check(held < 200, f"{held} descriptors of the attacker's")
        kit.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= before, lab.seconds(20),
                       "the descriptors' end")
        with kit.Child(kit.ATTACKER, asks_the_daemon) as again:
            kit.check(again.result == "served", "the attacker's user is not served after the attack")


def asks_the_daemon():
    with kit.closing(wire.Connection(wire.VERBS)) as (connection,):
        return None, "served" if connection.is_answered() else "refused"


def lingering_sockets(lab):
    """TCP sockets whose close() blocks: passed in a message, in a message that is unread when the session ends, in the
    queue of a passed socket, and in the queue of a socket in an unread message."""
    with kit.daemon(lab, uid=0) as process, kit.closing(wire.Engine()) as (bystander,):
        for how in ("passed", "unread", "nested", "nested unread", "unread by a session that was never let in"):
            kept = []
            attacker = wire.Connection() if "never" in how else wire.Connection(wire.VERBS)
            with stopped(process):
                with lingering(kept) as sender:
                    fds = [sender.fileno()]
                    if "nested" in how:
                        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                        socket.send_fds(near, [b"x"], fds)
                        kept.append(near)
                        fds = [far.fileno()]
                    if "unread" in how:
                        attacker.send(b"malformed")
                        attacker.send(b"" if how == "unread" else DEVICE_GET, fds)
                    else:
                        attacker.send(DEVICE_GET, fds)
                if "nested" in how:
                    far.close()
            kit.check(attacker.hung_up(), f"{how}: not hung up on")
            kit.check(is_served(bystander), f"{how}: another client is not served")
            attacker.close()
            for end in kept:
                end.close()


def sockets_that_the_daemon_makes_take_nothing(lab):
    """A client cannot send descriptors to the daemon's end of a socket on which the daemon pushes messages."""
    with kit.daemon(lab, uid=0), kit.closing(wire.Engine(), wire.Connection(wire.CM)) as (engine, manager):
        _, channel = manager.request_socket(wire.CM_CHANNEL_CREATE)
        with channel:
            for end in (engine.notices, channel):
                try:
                    socket.send_fds(end, [b"x"], [engine.segment])
                    kit.check(False, "the daemon's end took a message")
                except BrokenPipeError:
                    pass


def passes_inotify_descriptors():
    libc = ctypes.CDLL(None, use_errno=True)
    sent = 0
    for _ in range(20):
        fds = []
        while len(fds) < 100:
            fd = libc.inotify_init1(os.O_CLOEXEC)
            if fd < 0:
                break
            fds.append(fd)
        with kit.closing(wire.Connection()) as (attacker,):
            attacker.send(DEVICE_GET, fds)
            sent += len(fds)
        for fd in fds:
            os.close(fd)
    return None, f"{sent}"


def inotify_descriptors(lab):
    """The kernel needs time to close each inotify descriptor. The event loop does not wait, and all are closed."""
    with kit.daemon(lab, uid=0) as process, kit.closing(wire.Engine()) as (bystander,):
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        with kit.Child(kit.ATTACKER, passes_inotify_descriptors) as attacker:
            kit.check(int(attacker.result) > 100, f"{attacker.result} inotify descriptors")
            kit.check(is_served(bystander), "another user is not served")
        kit.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= before, lab.seconds(20),
                       "the descriptors' end")


def is_introduced_to(slot):
    def attack():
        engines = []
        for _ in range(60):
            engines.append(wire.Engine())
            engines[-1].introduce(slot)
        return engines, "introduced"
    return attack


def descriptors_of_a_victim_run_out(lab):
    """Processes of another user connect to a process until its descriptors are exhausted. The connections of that
    process continue."""
    with kit.daemon(lab, uid=0):
        port = lab.port()
        server = lab.start("prlimit", "--nofile=40", "rping", "-s", "-v", "-a", "127.0.0.1", "-p", port,
                           user=kit.VICTIM, USRDMA_LOG="warn")
        lab.listens_cm(server, port)
        client = lab.start("rping", "-c", "-v", "-a", "127.0.0.1", "-p", port, user=kit.VICTIM)
        client.says("ping data", lab.seconds(10))
        slots = {process["pid"]: process["slot"] for process in bystander_report()["processes"]}
        with kit.Child(kit.ATTACKER, is_introduced_to(slots[server.pid])) as attacker:
            kit.check(attacker.result == "introduced", "the attacker was refused")
            server.says("no descriptor left", lab.seconds(20))
            before = client.output().count("ping data")
            kit.wait_until(lambda: not client.running() or client.output().count("ping data") > before + 1000,
                           lab.seconds(20), "more of the victim's messages")
            kit.check(client.running() and server.running(), f"the victim's connection ended: {server.story()}")


def takes_all_slots():
    held = []
    try:
        while True:
            held.append(wire.Connection(wire.VERBS))
    except wire.Refused as answer:
        return held, f"{len(held)} {answer.errno}"


def slots_of_several_users(lab):
    """After users have taken as many slots as they can get, slots are left for further users and for root."""
    with kit.daemon(lab, uid=0), contextlib.ExitStack() as stack:
        counts = []
        for uid in (kit.ATTACKER, kit.ATTACKER - 1, kit.ATTACKER - 2):
            child = stack.enter_context(kit.Child(uid, takes_all_slots))
            count, number = (int(word) for word in child.result.split())
            kit.check(number == errno.EDQUOT, f"errno {number}")
            counts.append(count)
        kit.check(counts[0] > counts[1] > counts[2] > 30, f"{counts}")
        with kit.Child(kit.VICTIM, asks_the_daemon) as victim:
            kit.check(victim.result == "served", "nothing left for a fourth user")
        with contextlib.ExitStack() as roots:
            for _ in range(16):
                roots.enter_context(kit.closing(wire.Connection(wire.VERBS)))


def binds_ports(numbers):
    """Binds an id to each of the port numbers, of which 0 selects any port, until that fails."""
    def attack():
        client, made = wire.Connection(wire.CM), 0
        body, channel = client.request_socket(wire.CM_CHANNEL_CREATE)
        number, = struct.unpack_from("=I", body)
        try:
            for port in numbers:
                content = wire.body("cm_create", number, wire.PS_TCP, wire.QPT_RC, 0, 1 + made)
                body = client.request(wire.CM_CREATE, content)
                address = struct.pack("=HH4s", socket.AF_INET, socket.htons(port), socket.inet_aton("127.0.0.1"))
                client.request(wire.CM_BIND, body[:4] + bytes(4) + address.ljust(128, b"\0"))
                made += 1
        except wire.Refused as answer:
            return (client, channel), f"{made} {answer.errno}"
        return (client, channel), f"{made} 0"
    return attack


@contextlib.contextmanager
def ephemeral_range(first, last):
    """Changes the range of this network namespace, which a daemon reads when it starts."""
    path = "/proc/sys/net/ipv4/ip_local_port_range"
    with open(path, encoding="ascii") as file:
        before = file.read()
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{first} {last}")
    try:
        yield
    finally:
        with open(path, "w", encoding="ascii") as file:
            file.write(before)


def ports_of_several_users(lab):
    """After users have bound as many ephemeral ports as they can get, by number and as any port, further users and
    root connect."""
    first, last = 40000, 40511
    with ephemeral_range(first, last), kit.daemon(lab, uid=0), contextlib.ExitStack() as stack:
        port = lab.port()
        server = lab.start("rping", "-s", "-P", "-v", "-a", "127.0.0.1", "-p", port, user=kit.VICTIM)
        lab.listens_cm(server, port)
        counts = []
        for uid, numbers in ((kit.ATTACKER, range(first, last + 1)), (kit.ATTACKER - 1, [0] * (last - first + 1))):
            child = stack.enter_context(kit.Child(uid, binds_ports(numbers)))
            count, number = (int(word) for word in child.result.split())
            kit.check(number == errno.EDQUOT, f"{count} ports, errno {number}")
            counts.append(count)
        kit.check(counts[0] > counts[1] > 30, f"{counts}")
        for uid in (kit.VICTIM, kit.ROOT):
            client = lab.start("rping", "-c", "-v", "-a", "127.0.0.1", "-p", port, user=uid)
            client.says("ping data", lab.seconds(20))


def reads_no_events():
    """Generates events without reading them, 1000 for each channel, until the daemon ends the connection."""
    client, kept, made = wire.Connection(wire.CM), [], 0
    try:
        while made < 200000:
            body, channel = client.request_socket(wire.CM_CHANNEL_CREATE)
            kept.append(channel)
            number, = struct.unpack_from("=I", body)
            body = client.request(wire.CM_CREATE, wire.body("cm_create", number, wire.PS_TCP, wire.QPT_RC, 0, 1 + made))
            number, = struct.unpack_from("=I", body)
            for _ in range(1000):
                client.request(wire.CM_WRITE_EVENT, wire.body("cm_write_event", number, wire.CM_EVENT_USER, 0, 0, 7))
                made += 1
    except ConnectionError:
        return (client, kept), f"ended {made}"
    return (client, kept), f"endless {made}"


def events_that_nobody_reads(lab):
    """The unread events of a user are limited in bytes. Above the limit the daemon disconnects one process of that user
    and no process of another user."""
    with kit.daemon(lab, uid=0) as process, kit.closing(wire.Connection(wire.CM)) as (bystander,):
        with kit.Child(kit.VICTIM, asks_for_a_channel) as victim, kit.Child(kit.ATTACKER, reads_no_events) as attacker:
            kit.check(attacker.result.startswith("ended"), attacker.result)
            kit.check(victim.result == "served" and is_served(bystander), "another user is not served")
            kit.check(bystander_report()["cm"]["clients_evicted"] == 1, "not counted")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            peak, = (int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        kit.check(lab.sanitized or peak < 128 << 10, f"the daemon took {peak} KiB")
        with kit.Child(kit.ATTACKER, asks_for_a_channel) as again:
            kit.check(again.result == "served", "the attacker's user is not served afterwards")


def bystander_report():
    with kit.closing(wire.Connection(wire.CONTROL)) as (control,):
        return control.report()


def asks_for_a_channel():
    client = wire.Connection(wire.CM)
    return (client, client.request_socket(wire.CM_CHANNEL_CREATE)), "served"


def failure(**values):
    """The fields of struct ipc_failure after the header; those that are not given are 0."""
    layout = wire.MESSAGES.structs["ipc_failure"]
    content = bytearray(layout.size)
    for name, offset, form in layout.fields:
        if name in values:
            struct.pack_into("=" + form, content, offset, values[name])
    return bytes(content[wire.HEADER.size:])


def reports(**values):
    connection = wire.Connection(wire.CM)
    connection.send(wire.message(wire.ipc("FAILURE"), failure(**values), reserved=wire.ipc("UNANSWERED")))
    return connection


def reads_failures():
    """The (uid, WR id) of each failure that this user may read."""
    layout = wire.MESSAGES.packer("ipc_failure_get_reply", 1, 2)
    fields = {name: (offset, form) for name, offset, form in wire.MESSAGES.structs["ipc_failure"].fields}
    found, cursor = [], 0
    with kit.closing(wire.Connection(wire.CONTROL)) as (connection,):
        with contextlib.suppress(wire.Refused):
            while True:
                reply = connection.request(wire.ipc("FAILURE_GET"), wire.body("failure_get", cursor))
                cursor = layout.unpack_from(reply)[0] + 1
                found.append(tuple(struct.unpack_from("=" + fields[name][1], reply, layout.size + fields[name][0])[0]
                                   for name in ("uid", "wr_id")))
    return found


def reports_one():
    with kit.closing(reports(kind=1, wr_id=4711)) as (connection,):
        connection.is_answered()
    return None, "reported"


def floods_failures():
    """More failures than the daemon stores, in the name of another user, and malformed ones."""
    connection = wire.Connection(wire.CM)
    for number in range(3000):
        connection.send(wire.message(wire.ipc("FAILURE"), failure(kind=1, wr_id=1, uid=kit.VICTIM, pid=1, id=number),
                                     reserved=wire.ipc("UNANSWERED")))
    for values in ({"kind": 0}, {"kind": 0xffffffff}, {"kind": 1, "reason": 0xffffffff}):
        connection.send(wire.message(wire.ipc("FAILURE"), failure(**values), reserved=wire.ipc("UNANSWERED")))
    is_served_still = connection.is_answered()
    connection.send(wire.message(wire.ipc("FAILURE"), failure(kind=1)[:-8], reserved=wire.ipc("UNANSWERED")))
    found = reads_failures()
    own = sum(entry == (kit.ATTACKER, 1) for entry in found)
    return None, f"{is_served_still} {connection.hung_up()} {own} {len(found)}"


def failures_of_another_user(lab):
    """A user who floods the daemon with failures displaces only own failures, and does not read those of others."""
    with kit.daemon(lab, uid=0):
        with kit.Child(kit.VICTIM, reports_one) as victim:
            kit.check(victim.result == "reported", victim.result)
        with kit.Child(kit.ATTACKER, floods_failures) as attacker:
            kit.check(attacker.result == "True True 999 999", attacker.result)
        with kit.Child(kit.VICTIM, lambda: (None, f"{reads_failures()}")) as victim:
            kit.check(victim.result == f"[({kit.VICTIM}, 4711)]", victim.result)
        kit.check(len(reads_failures()) == 1000, "root does not read all failures")


def unmapped_users_daemon(lab):
    """In a user namespace without mappings all users have the same overflow id. A program there does not trust a daemon
    of another user with that id, and a daemon there does not serve another user with that id."""
    usrdma, usrdmad = (os.path.join(lab.tree, name) for name in ("usrdma", "usrdmad"))
    other_daemon = subprocess.Popen(["unshare", "-U", usrdmad, "--foreground", "--idle-seconds", "0"], env=lab.env,
                                 cwd=lab.scratch, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 **kit.as_uid(kit.ATTACKER))
    try:
        kit.wait_until(lambda: other_daemon.poll() is not None or is_there(), lab.seconds(10), "the other daemon")
        if other_daemon.returncode is not None:
            print("# not tried: users may make no user namespaces here")
            return
        asked = subprocess.run(["unshare", "-U", usrdma, "status"], env=lab.env, cwd=lab.scratch, text=True,
                               check=False, capture_output=True, timeout=lab.seconds(30), **kit.as_uid(kit.VICTIM))
        kit.check(asked.returncode != 0 and "does not map" in asked.stderr, f"{asked.returncode}: {asked.stderr}")
        with kit.Child(kit.VICTIM, is_refused) as third:
            kit.check(third.result == f"{errno.EACCES}", f"the daemon answered {third.result}")
    finally:
        other_daemon.kill()
        other_daemon.wait()


def is_there():
    try:
        wire.Connection().close()
        return True
    except ConnectionRefusedError:
        return False


def is_refused():
    try:
        wire.Connection(wire.VERBS).close()
        return None, "served"
    except wire.Refused as answer:
        return None, f"{answer.errno}"


def body(lab, cases):
    for case in (status_writes_nothing_of_a_clients, file_system_that_does_not_answer, lingering_sockets,
                 sockets_that_the_daemon_makes_take_nothing, inotify_descriptors, slots_of_several_users,
                 ports_of_several_users, descriptors_of_a_victim_run_out, events_that_nobody_reads,
                 failures_of_another_user, unmapped_users_daemon):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
