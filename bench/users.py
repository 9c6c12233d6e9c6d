# SPDX-License-Identifier: BSD-2-Clause
"""Measures how long the daemon of root lets a user wait for HELLO while another user keeps it busy.

    python3 -m bench.users [--daemon PATH] [--samples N] [NAME...]

The daemon has the capabilities of usrdmad.service. The waiting user connects a control client, repeatedly, and measures
the time from connect() to the reply to HELLO. `quiet` is the same without an attack; the other names are attacks. Each
line is the median, the 95th percentile and the maximum in ms, and the ratio of the median to that of `quiet`. Requires
root; runs in a network namespace of its own.
"""

import argparse
import contextlib
import os
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from tests.hostile.probes import rules_file
from tests.programs import wire
from tests.programs.lab import BUILD, CLONE_NEWNET, LIBC, SOURCE, wait_until

WAITING, ATTACKING, FIRST = 1000, 65533, 100000
MANY_USERS = 600
PAUSE_S = 0.003
READY_S = 120


def become(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def set_rules(connection, uid, text):
    fd = rules_file(text)
    try:
        connection.request(wire.FAULT_SET, wire.body("fault_set", uid, 0), [fd])
    finally:
        os.close(fd)


def engines(count):
    """Engines whose pushes a further process reads, as the engine threads of programs do."""
    made = [wire.Engine() for _ in range(count)]
    if os.fork() == 0:
        reads_pushes(made)
    return made


def reads_pushes(made):
    poll = select.epoll()
    by_fd = {engine.notices.fileno(): engine.notices for engine in made}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            message, passed, _, _ = socket.recv_fds(by_fd[fd], 65536, 8)
            for other in passed:
                os.close(other)
            if not message:
                os._exit(0)


def sets_rules(ready):
    """Four processes replace the rules of 200 engines all the time."""
    held = engines(200)
    ready()
    for _ in range(3):
        if os.fork() == 0:
            break
    connection = wire.Connection(wire.CONTROL)
    while held:
        set_rules(connection, ATTACKING, b"call:fail=ENOMEM:name=nosuch")


def sets_invalid_rules(ready):
    connection = wire.Connection(wire.CONTROL)
    ready()
    while True:
        with contextlib.suppress(wire.Refused):
            set_rules(connection, ATTACKING, b"gibberish")


def traces(ready):
    held = engines(240)
    ready()
    while held:
        connection = wire.Connection(wire.CONTROL)
        connection.request(wire.TRACE_START, wire.body("trace_start", 0, 0))
        connection.close()


def leaves_rules(rule):
    """Each of many users sets a rule and ends."""
    def attack(ready):
        for uid in range(FIRST, FIRST + MANY_USERS):
            pid = os.fork()
            if pid == 0:
                become(uid)
                connection = wire.Connection(wire.CONTROL)
                with contextlib.suppress(wire.Refused):
                    set_rules(connection, uid, rule)
                os._exit(0)
            os.waitpid(pid, 0)
        ready()
        signal.pause()
    return attack


def has_rule_for(rule):
    """One process has as many sessions as it can, and its rule concerns all of them."""
    def attack(ready):
        held = [wire.Connection(wire.VERBS) for _ in range(240)]
        control = wire.Connection(wire.CONTROL)
        with contextlib.suppress(wire.Refused):
            set_rules(control, ATTACKING, rule)
        ready()
        while held:
            signal.pause()
    return attack


def connects(role, held=0):
    def attack(ready):
        kept = [wire.Connection(wire.CONTROL) for _ in range(held)]
        ready()
        while kept or not held:
            with contextlib.suppress(OSError):
                wire.Connection(role).close()
    return attack


def sends_malformed(ready):
    ready()
    while True:
        with contextlib.suppress(OSError):
            connection = wire.Connection()
            connection.send(b"malformed")
            connection.close()


def leaves_ids(ready):
    """A client of the communication manager creates many ids and ends, which destroys all of them at once."""
    ready()
    while True:
        client = wire.Connection(wire.CM)
        body, channel = client.request_socket(wire.CM_CHANNEL_CREATE)
        for cookie in range(20000):
            client.request(wire.CM_CREATE, wire.body("cm_create", *wire.struct.unpack_from("=I", body), wire.PS_TCP,
                                                     wire.QPT_RC, 0, 1 + cookie))
        client.close()
        channel.close()


# Of each attack: the user (None: root, which becomes many users), the number of processes, the function.
ATTACKS = {
    "quiet": (ATTACKING, 0, None),
    "fault_set": (ATTACKING, 1, sets_rules),
    "fault_invalid": (ATTACKING, 2, sets_invalid_rules),
    "trace_start": (ATTACKING, 1, traces),
    "left_device_rules": (None, 1, leaves_rules(b"device:down:dev=nosuch")),
    "left_process_rules": (None, 1, leaves_rules(b"process:kill:prog=nosuch")),
    "kill_rule": (ATTACKING, 1, has_rule_for(b"process:kill:prog=python3")),
    "tick_rule": (ATTACKING, 1, has_rule_for(b"process:kill:prog=nosuch")),
    "connects": (ATTACKING, 2, connects(wire.CONTROL)),
    "connects_held": (ATTACKING, 2, connects(wire.CONTROL, 1500)),
    "connects_bare": (ATTACKING, 2, connects(None)),
    "malformed": (ATTACKING, 2, sends_malformed),
    "left_ids": (ATTACKING, 1, leaves_ids),
}


class Attacker:
    """Processes of one user in a process group of their own."""

    def __init__(self, uid, function):
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.close(ours)
            if uid is not None:
                become(uid)
            try:
                function(lambda: os.write(theirs, b"r"))
            finally:
                os._exit(1)
        os.close(theirs)
        if not select.select([ours], [], [], READY_S)[0] or not os.read(ours, 1):
            raise RuntimeError("the attack did not begin")
        os.close(ours)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def hello_ms():
    """The time of one HELLO. connect() blocks, as in the library, while the daemon's backlog is full."""
    time.sleep(PAUSE_S)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        start = time.perf_counter()
        client.connect(wire.NAME)
        client.send(wire.hello(wire.CONTROL))
        reply, fds, _, _ = socket.recv_fds(client, 65536, 1)
        elapsed = time.perf_counter() - start
    for fd in fds:
        os.close(fd)
    if wire.HEADER.unpack_from(reply)[3]:
        raise RuntimeError("the daemon refuses the waiting user")
    return elapsed * 1000


def waits(samples):
    """The times of a user's HELLO in ms, measured in a process of that user."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(WAITING)
            with open(theirs, "w", encoding="ascii") as out:
                out.write(" ".join(f"{hello_ms():.4f}" for _ in range(samples)))
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, encoding="ascii") as results:
        text = results.read()
    os.waitpid(pid, 0)
    return [float(word) for word in text.split()]


def unit_capabilities():
    with open(os.path.join(SOURCE, "tools", "usrdmad.service.in"), encoding="utf-8") as unit:
        names = re.search(r"CapabilityBoundingSet=(.*)", unit.read())[1].split()
    return "-all," + ",".join("+" + name.removeprefix("CAP_").lower() for name in names)


def is_listening():
    try:
        wire.Connection().close()
        return True
    except ConnectionRefusedError:
        return False


@contextlib.contextmanager
def daemon(path):
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(["setpriv", "--bounding-set", unit_capabilities(), path, "--foreground",
                                    "--idle-seconds", "0"], stdin=subprocess.DEVNULL, stderr=log)
        try:
            wait_until(is_listening, 20, "the daemon")
            yield process, log
        finally:
            process.kill()
            process.wait()


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(path, name, samples):
    uid, count, function = ATTACKS[name]
    with daemon(path) as (process, log):
        attackers = [Attacker(uid, function) for _ in range(count)]
        try:
            before, logged, start = cpu_seconds(process), os.fstat(log.fileno()).st_size, time.perf_counter()
            times = waits(samples)
            elapsed = time.perf_counter() - start
            return (times, (cpu_seconds(process) - before) / elapsed,
                    (os.fstat(log.fileno()).st_size - logged) / elapsed / 1000)
        finally:
            for attacker in attackers:
                attacker.end()


def main():
    options = argparse.ArgumentParser(prog="python3 -m bench.users")
    options.add_argument("--daemon", default=os.path.join(BUILD, "usrdmad"))
    options.add_argument("--samples", type=int, default=300)
    options.add_argument("names", nargs="*", choices=[[], *ATTACKS])
    options = options.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.users: only root can start programs of several users")
    if LIBC.unshare(CLONE_NEWNET):
        sys.exit("bench.users: cannot create a network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    quiet = None
    print(f"{'attack':<20} {'median':>8} {'p95':>8} {'max':>8} ms {'ratio':>8} {'daemon CPU':>11} {'log':>9}")
    for name in options.names or ATTACKS:
        times, cpu, log = measure(options.daemon, name, options.samples)
        median = statistics.median(times)
        quiet = quiet or median
        print(f"{name:<20} {median:>8.2f} {statistics.quantiles(times, n=20)[-1]:>8.2f} {max(times):>8.2f} "
              f"{median / quiet:>11.1f} {cpu:>10.0%} {log:>6.0f} kB/s", flush=True)


if __name__ == "__main__":
    main()
