# SPDX-License-Identifier: BSD-2-Clause
"""Tests the daemon: its start, its end, its reports of network changes, and that no files of it remain."""

import contextlib
import errno
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys

from tests.programs import lab as laboratory
from tests.programs import wire
from tests.programs.command_kit import usrdma
from tests.programs.daemon_kit import OTHER_UID, Child, as_uid, closing, daemon, is_listening, refused, report
from tests.programs.lab import UID_NOBODY, check, wait_until

PYVERBS = "/usr/lib/python3/dist-packages/pyverbs"


def daemon_start_by_many_programs_is_single(lab):
    """Twenty programs start without a daemon. Exactly one daemon is started; it serves all of them."""
    for _ in range(3):
        lab.end_daemons()
        command = [os.path.join(lab.tree, "usrdma"), "status", "--json"]
        starters = [lab.start(*command, native=True) for _ in range(20)]
        pids = {json.loads(starter.finish(lab.seconds(20)))["daemon"]["pid"] for starter in starters}
        check(len(pids) == 1, f"served by daemons {pids}")
        check(lab.daemons() == list(pids), f"daemons {lab.daemons()}, served by {pids}")


def daemon_start_inherits_nothing_from_program(lab):
    """The daemon inherits no attributes of the program that started it."""
    lab.end_daemons()
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
    ignored = int(fields["SigIgn"], 16) & ~(3 << 31) # Signals 32 and 33 belong to the C library and are inherited.
    wanted = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    check(ignored == wanted, f"it ignores signals {fields['SigIgn']}")


def daemon_without_clients_exits(lab):
    """The daemon exits with status 0 after its last client has disconnected, and not before."""
    with daemon(lab, "--idle-seconds", "1") as process:
        with closing(wire.Connection(wire.CONTROL)) as (client,):
            try:
                process.wait(2.5)
                check(False, "it left a client alone")
            except subprocess.TimeoutExpired:
                check(client.is_answered(), "no answer")
        check(process.wait(lab.seconds(20)) == 0, "exit status")


def daemon_sigterm_exits_with_status_0(lab):
    with daemon(lab) as process, closing(wire.Engine(), wire.Connection(wire.CM)) as (engine, manager):
        process.terminate()
        check(process.wait(lab.seconds(10)) == 0, "exit status")
        check(engine.hung_up() and manager.hung_up(), "clients not hung up on")
    check(not is_listening(), "the name is still taken")


def daemon_second_instance_fails(lab):
    """A second daemon reports the first one and fails in the foreground. In the background it exits silently."""
    with daemon(lab):
        run = {"stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "env": lab.env, "check": False, "text": True,
               "timeout": lab.seconds(20)}
        path = os.path.join(lab.tree, "usrdmad")
        identity = as_uid(UID_NOBODY) if lab.drops else {}
        done = subprocess.run([path, "--foreground"], **run, **identity)
        check(done.returncode == 1 and "another usrdmad" in done.stderr, f"{done.returncode}: {done.stderr}")
        check(subprocess.run([path], **run, **identity).returncode == 0, "background")
        wait_until(lambda: len(lab.daemons()) == 1, lab.seconds(10), "the second one's end")


def not_served():
    refused(errno.EACCES, wire.Connection, wire.VERBS)
    return None, "refused"


# What systemd does for a socket unit: the descriptor is number 3, and LISTEN_PID is the process ID of the daemon.
ACTIVATE = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); " \
           "os.execv(sys.argv[2], sys.argv[2:])"


def activated(lab, name, kind=socket.SOCK_SEQPACKET, number="1"):
    """Listens as a socket unit does. Returns the socket and a function that starts the daemon with it."""
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(name)
    listener.listen(32)

    def start():
        return subprocess.Popen([sys.executable, "-c", ACTIVATE, str(listener.fileno()),
                                 os.path.join(lab.tree, "usrdmad"), "--foreground"], pass_fds=[listener.fileno()],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env={**lab.env, "LISTEN_FDS": number, "LISTEN_FDNAMES": "usrdmad.socket"})
    return listener, start


def daemon_is_started_by_socket_activation(lab):
    """A client that connects before the daemon runs is served, also one of another user, and starts no daemon of its
    own. After the end of the daemon, another one is started with the same socket."""
    listener, start = activated(lab, wire.NAME)
    with listener:
        for _ in range(2):
            client = lab.start("ibv_devices", **({"user": OTHER_UID} if lab.drops else {}))
            wait_until(lambda: select.select([listener], [], [], 0)[0], lab.seconds(20), "the client's connection")
            process = start()
            try:
                check("lo" in client.finish(lab.seconds(20)), client.story())
                check(json.loads(usrdma(lab, "status", "--json")[1])["daemon"]["pid"] == process.pid, "another daemon")
                check(len(lab.daemons()) == 1, "a second daemon")
            finally:
                process.terminate()
                err = process.communicate(timeout=lab.seconds(20))[1]
            check(process.returncode == 0, err)
    check(not is_listening(), "the name is still taken")


def daemon_other_activated_socket_fails(lab):
    """The daemon does not serve on a socket with another name or type, and none of several sockets."""
    other = b"\0another"
    for name, kind, number in ((other, socket.SOCK_SEQPACKET, "1"), (wire.NAME, socket.SOCK_STREAM, "1"),
                               (other, socket.SOCK_SEQPACKET, "2"), (other, socket.SOCK_SEQPACKET, "")):
        listener, start = activated(lab, name, kind, number)
        with listener, start() as process:
            err = process.communicate(timeout=lab.seconds(20))[1]
            check(process.returncode == 1 and "ListenSequentialPacket=@usrdmad" in err, f"{name} {number}: {err}")


def daemon_ignores_socket_of_the_program_that_started_it(lab):
    """A program that is activated itself has these variables, with its own process ID."""
    path = os.path.join(lab.tree, "usrdmad")
    with subprocess.Popen([path, "--foreground"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env={**lab.env, "LISTEN_PID": "1", "LISTEN_FDS": "1"}) as process:
        wait_until(lambda: is_listening() or process.poll() is not None, lab.seconds(20), "the daemon's start")
        # The daemon handles signals when it replies.
        with contextlib.suppress(OSError):
            wire.Connection(wire.CONTROL).close()
        process.terminate()
        err = process.communicate(timeout=lab.seconds(20))[1]
        check(process.returncode == 0, err)


def daemon_of_another_user_is_refused(lab):
    """The library refuses a daemon of another user with a message that names the remedy. The daemon would refuse the
    client, too."""
    with daemon(lab):
        status, _, err = usrdma(lab, "status", uid=OTHER_UID)
        check(status != 0, "served")
        line = err.splitlines()[0]
        for text in (f"uid {UID_NOBODY}", "systemctl enable --now usrdmad.socket", "stop that daemon"):
            check(text in line, line)
        # Several calls of ucmatose try to connect to the daemon.
        program = lab.start("ucmatose", user=OTHER_UID)
        printed = program.finish(lab.seconds(20), None)
        check(printed.count("stop that daemon") == 1, program.story())
        with Child(OTHER_UID, not_served) as child:
            check(child.result == "refused", "the daemon would have served it")
        # root may read the status.
        check(usrdma(lab, "status", uid=0)[0] == 0, "root cannot read the status")


def release(lab):
    return usrdma(lab, "version")[1].split()[1]


def daemon_other_version_gets_version_and_release(lab):
    """The daemon replies to a library of another version with its own, whatever the format of the library's message."""
    later = wire.HELLO_BODY.pack(wire.MAGIC, wire.VERSION + 1, wire.VERBS, 7) + b"more than we know"
    with daemon(lab):
        for request in (*(wire.hello(wire.VERBS, version) for version in (0, wire.VERSION + 1, 0xFFFFFFFF)),
                        wire.message(wire.HELLO, later)):
            client = wire.Connection()
            with closing(client):
                content = refused(errno.EPROTO, client.exchange, request)
            version, name = wire.VERSION_REPLY.unpack(content)
            check((version, name.rstrip(b"\0").decode()) == (wire.VERSION, release(lab)), f"{content}")


def of_other_version(lab, content, *command):
    """Runs the program with a daemon of another version that has clients. Returns its lines."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as future:
        future.bind(wire.NAME)
        future.listen()
        client = lab.start(*command, native=command[0].startswith("/"), user=0)
        with open(os.pidfd_open(client.process.pid), "rb") as ended:
            while future in select.select([future, ended], [], [], lab.seconds(20))[0]:
                with future.accept()[0] as connection:
                    connection.settimeout(lab.seconds(20))
                    connection.recv(4096)
                    connection.send(wire.message(wire.HELLO, content, status=-errno.EPROTO))
        client.finish(lab.seconds(20), None)
    check(client.process.returncode > 0, client.story())
    return [line for line in client.output().splitlines() if "usrdma" in line]


def daemon_other_version_is_reported_in_one_line(lab):
    """The command and the libraries report a daemon of another release in one line: both releases, and what to do."""
    lab.end_daemons()
    replies = {
        b"": "another release",
        wire.VERSION_REPLY.pack(77, b"9.8.7"): "release 9.8.7 (protocol 77)",
        # Control characters of the daemon are not printed.
        wire.VERSION_REPLY.pack(77, b"9.8\x1b]0;x" + b"y" * 9): "release 9.8 (protocol 77)",
        wire.VERSION_REPLY.pack(77, b"9" * 20): f"release {'9' * 20} (protocol 77)",
    }
    command = os.path.join(lab.tree, "usrdma")
    for content, described in replies.items():
        others = ((command, "why"), ("ibv_devinfo",), ("ucmatose",)) if not content else ()
        for program in ((command, "status"), *others):
            lines = of_other_version(lab, content, *program)
            check(len(lines) == 1, f"{program}: {lines}")
            for text in (f"pid {os.getpid()}", f"is of {described},", f"release {release(lab)} ",
                         f"(protocol {wire.VERSION})", "systemctl restart usrdmad"):
                check(text in lines[0], f"{program}: {text} is not in {lines}")


def with_report(lab, text, *arguments):
    """Runs usrdma with a daemon that sends this report. Returns its exit status."""
    parts = [text[at:at + 8000] for at in range(0, len(text), 8000)]
    page = os.memfd_create("page")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as liar, open(page, "rb"):
        liar.bind(wire.NAME)
        liar.listen()
        client = lab.start(os.path.join(lab.tree, "usrdma"), *arguments, native=True, user=0)
        with open(os.pidfd_open(client.process.pid), "rb") as ended:
            while liar in select.select([liar, ended], [], [], lab.seconds(20))[0]:
                with liar.accept()[0] as connection:
                    connection.settimeout(lab.seconds(20))
                    replies = [(wire.HELLO, bytes(wire.HELLO_REPLY.size))]
                    for at, part in enumerate(parts):
                        head = struct.pack("=II", len(part), at + 1 < len(parts))
                        replies.append((wire.ipc("STATUS"), head + part.ljust(8192, b"\0")))
                    for kind, content in replies:
                        request = connection.recv(4096)
                        if not request:
                            break
                        reply = wire.message(kind, content, seq=wire.HEADER.unpack_from(request)[2])
                        # The reply to HELLO has the page of the trace points.
                        socket.send_fds(connection, [reply], [page] if kind == wire.HELLO else [])
        client.finish(lab.seconds(20), None)
    return client.process.returncode, client.story()


def with_other_types(value, depth, others):
    """Returns a copy of the JSON value in which the lists and objects at this depth have values of other types."""
    if not isinstance(value, (list, dict)):
        return value
    if depth == 0:
        return next(others)
    if isinstance(value, list):
        return [with_other_types(inner, depth - 1, others) for inner in value]
    return {key: with_other_types(inner, depth - 1, others) for key, inner in value.items()}


def daemon_false_report_ends_no_command(lab):
    """A daemon of another user sends reports whose members have other types."""
    with daemon(lab):
        server = lab.start("rping", "-s", "-a", "127.0.0.1")
        wait_until(lambda: report(lab)["processes"], lab.seconds(20), "the server")
        true = report(lab)
        server.process.kill()
        server.finish(lab.seconds(10), None)
    lab.end_daemons()
    page = os.path.join(lab.scratch, "page.html")
    commands = (("status",), ("status", "--prometheus"), ("top", "--json", "--count", "1"), ("doctor",),
                ("report", "-o", page))
    for number, command in itertools.product(range(12), commands):
        others = itertools.cycle(["text", [[1], "text", {"gids": 3}], 7, {"0": 1}, None][number % 5:])
        text = json.dumps(with_other_types(true, number // 2, others)).encode()
        status, story = with_report(lab, text, *command)
        check(status >= 0 and "daemon to ask" not in story, f"{command}: {story}\n{text}")


def daemon_other_version_without_clients_is_replaced(lab):
    """A daemon of another version without clients ends after it has refused a program. The program starts its own."""
    lab.end_daemons()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as future:
        future.bind(wire.NAME)
        pid = os.fork()
        if pid == 0:
            # listen() sets the process that SO_PEERCRED reports.
            try:
                future.listen()
                connection = future.accept()[0]
                connection.recv(4096)
                connection.send(wire.message(wire.HELLO, status=-errno.EPROTO))
            finally:
                os._exit(0)
    try:
        wait_until(is_listening_in(pid), lab.seconds(10), "the daemon of another version")
        program = lab.start(os.path.join(lab.tree, "usrdma"), "status", native=True, user=0)
        wait_until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), lab.seconds(20),
                   "the end of the daemon of another version")
        check("usrdmad (pid" not in program.finish(lab.seconds(20)), program.story())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        lab.end_daemons()


def is_listening_in(pid):
    """Whether the process has called listen(): without a connection, which it would accept."""
    def listens():
        with open(f"/proc/{pid}/net/unix", encoding="ascii") as table:
            return any(line.endswith(" @usrdmad\n") and line.split()[3] == "00010000" for line in table)
    return listens


def daemon_network_change_notifies_engines(lab):
    """Changes of addresses and links update the GID table and are reported to every engine."""
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


def daemon_unread_notices_keep_connection(lab):
    """A process that is idle and reads no events stays connected, however often the network changes."""
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


def daemon_end_leaves_no_files(lab):
    """No file is left in any directory in which a daemon can write. Files that were there before, and those that tests
    and other programs create there in the same time, are excluded."""
    theirs = ("usrdma-test-", "usrdma-spawn-", "usrdma-sys.", "usrdma-new.")
    def listing():
        return {os.path.join(folder, name) for folder in ("/tmp", "/dev/shm", "/run", "/var/tmp")
                if os.path.isdir(folder) for name in os.listdir(folder)}
    before = listing()
    with daemon(lab), closing(wire.Engine(), wire.Engine()) as (a, b):
        a.introduce(b.slot)
    names = {path: os.path.basename(path) for path in listing() - before}
    left = [path for path, name in names.items() if "usrdma" in name and not name.startswith(theirs)]
    check(not left, f"files are left: {left}")


def devices_without_daemon_are_explained_once(lab):
    """A program that finds no device because no daemon serves it gets one explanation, also if several of its calls try
    to start the daemon. Programs report the error and end with the status that they have on a kernel without RDMA."""
    check(not lab.daemons(), "a daemon runs")
    for path, words in (("/nonexistent", "cannot be started"), ("/bin/false", "--foreground")):
        for name, status, error in (("ibv_devices", 1, "Function not implemented"),
                                    ("ibv_devinfo", 255, "Function not implemented"),
                                    ("ibv_rc_pingpong", 1, "Function not implemented"),
                                    ("ucmatose", 1, "No RDMA devices were detected")):
            program = lab.start(name, USRDMA_DAEMON=path)
            printed = program.finish(lab.seconds(10), status)
            told = [line for line in printed.splitlines()
                    if line.startswith("usrdma: no RDMA devices: ") and words in line]
            check(len(told) == 1 and error in printed, program.story())


def devices_without_daemon_raise_error_of_pyverbs(lab):
    """The exception that docs/pyverbs.md names."""
    script = ("import pyverbs.device\ntry:\n    pyverbs.device.get_device_list()\n"
              "except Exception as error:\n    print(type(error).__name__, error, error.error_code)")
    program = lab.start("/usr/bin/python3", "-c", script, USRDMA_DAEMON="/nonexistent")
    check("PyverbsRDMAError Failed to get devices list -1" in program.finish(lab.seconds(20)), program.story())


def body(lab, cases):
    lab.end_daemons()
    for case in (daemon_start_by_many_programs_is_single, daemon_start_inherits_nothing_from_program):
        cases.run(case.__name__.replace("_", " "), case, lab)
    lab.end_daemons()
    # These cases need more than one user, or an interface that the test may change.
    with_root = (daemon_of_another_user_is_refused, daemon_network_change_notifies_engines,
                 daemon_unread_notices_keep_connection)
    why_not = {**dict.fromkeys(with_root, None if lab.drops and lab.isolated else "needs root"),
               devices_without_daemon_raise_error_of_pyverbs: None if os.path.exists(PYVERBS) else "no pyverbs"}
    for case in (daemon_without_clients_exits, daemon_sigterm_exits_with_status_0, daemon_second_instance_fails,
                 daemon_is_started_by_socket_activation, daemon_other_activated_socket_fails,
                 daemon_ignores_socket_of_the_program_that_started_it,
                 daemon_other_version_gets_version_and_release, daemon_other_version_is_reported_in_one_line,
                 daemon_false_report_ends_no_command,
                 daemon_other_version_without_clients_is_replaced,
                 daemon_end_leaves_no_files, devices_without_daemon_are_explained_once,
                 devices_without_daemon_raise_error_of_pyverbs, *with_root):
        cases.run_unless(why_not.get(case), case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
