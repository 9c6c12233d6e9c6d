# SPDX-License-Identifier: BSD-2-Clause
"""Kills, stops and forks programs while data is transferred. Checks what the peers are notified of, and that the next
run works."""

import os
import re
import signal
import time

from tests.programs import lab as laboratory
from tests.programs.lab import check, wait_until

OPERATIONS = ("send", "write", "read", "atomic")


def streaming(lab, operation, size, address="127.0.0.1"):
    """A server and a client that transfer data."""
    port = lab.port()
    server = lab.start(lab.tool("stream"), "serve", address, port)
    lab.listens_cm(server, port)
    client = lab.client(lab.tool("stream"), "drive", address, port, operation, size)
    moves_on(client)
    server.says("connected")
    return server, client


def progress(program):
    found = re.findall(r"^\d+ progress (\d+)$", program.output(), re.M)
    return int(found[-1]) if found else 0


def moves_on(program, seconds=10):
    """Waits until the number of completions increases."""
    before = progress(program)

    def moved():
        check(program.running(), program.story())
        return progress(program) > before
    wait_until(moved, seconds, "more completions")


def said_at(program, text):
    """The time in seconds at which the program printed this text, by its monotonic clock, which is the same as ours."""
    match = re.search(rf"^(\d+) .*{re.escape(text)}", program.output(), re.M)
    check(match, f"never said \"{text}\": {program.story()}")
    return int(match[1]) / 1000


def ends_within(lab, program, killed, seconds=1.0):
    """Checks that the program saw the end of the connection: failed or flushed completions and DISCONNECTED in time,
    and then no outstanding work requests."""
    program.finish(lab.seconds(15))
    limit = lab.seconds(seconds)
    for text in ("RDMA_CM_EVENT_DISCONNECTED", "completion failed"):
        late = said_at(program, text) - killed
        check(late <= limit, f"\"{text}\" came {late:.2f} s after the kill: {program.story()}")


def kill_target(lab, operation, size):
    server, client = streaming(lab, operation, size)
    killed = time.monotonic()
    server.signal(signal.SIGKILL)
    ends_within(lab, client, killed)


def kill_initiator(lab, operation, size):
    server, client = streaming(lab, operation, size)
    killed = time.monotonic()
    client.signal(signal.SIGKILL)
    ends_within(lab, server, killed)


def kill_under_rping(lab, victim_is_server):
    """Debian's rping detects the kill and exits."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", "127.0.0.1", "-p", port)
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", "127.0.0.1", "-p", port, "-v")
    client.says("ping data")
    victim, other = (server, client) if victim_is_server else (client, server)
    victim.signal(signal.SIGKILL)
    other.finish(lab.seconds(5), None)
    check(other.process.returncode >= 0, other.story())


def kill_daemon(lab):
    """Both sides get fatal events and end. The next program starts a new daemon."""
    server, client = streaming(lab, "write", 4096)
    for pid in lab.daemons():
        os.kill(pid, signal.SIGKILL)
    for program in (server, client):
        program.finish(lab.seconds(15))
        check("RDMA_CM_EVENT_DEVICE_REMOVAL" in program.output(), program.story())
        check("async local catastrophic error" in program.output(), program.story())
    streaming(lab, "write", 4096)


def kill_daemon_under_rping(lab):
    port = lab.port()
    server = lab.start("rping", "-s", "-a", "127.0.0.1", "-p", port)
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", "127.0.0.1", "-p", port, "-v")
    client.says("ping data")
    for pid in lab.daemons():
        os.kill(pid, signal.SIGKILL)
    client.finish(lab.seconds(10), None)
    server.finish(lab.seconds(10), None)


def kill_daemon_under_pingpong(lab):
    """The pingpong uses neither the rdma_cm nor asynchronous events: the flushed completions must end it."""
    port = lab.port()
    common = ["ibv_rc_pingpong", "-d", "lo", "-g", 0, "-p", port, "-n", 100000000]
    server = lab.start(*common)
    lab.listens_tcp(server, port)
    client = lab.start(*common, "127.0.0.1")
    wait_until(lambda: connected_qps(lab) == 2, lab.seconds(10), "the pingpong's start")
    for pid in lab.daemons():
        os.kill(pid, signal.SIGKILL)
    client.finish(lab.seconds(10), None)
    server.finish(lab.seconds(10), None)


def connected_qps(lab):
    return sum(qp["state"] == "RTS" for process in lab.status()["processes"] for qp in process.get("qps", []))


def stopped_target_of_atomics(lab):
    """The responder executes atomics. While it is stopped the requester waits; no operation is lost, and all complete
    when it continues."""
    server, client = streaming(lab, "atomic", 8)
    server.signal(signal.SIGSTOP)
    wait_until(lambda: state_of(server) == "T", 5, "the stop")
    server.signal(signal.SIGCONT)
    moves_on(client)
    check(server.running(), server.story())


def stopped_target(lab, operation, size):
    """One-sided operations on the memory of a stopped process continue, and the process works when it continues."""
    server, client = streaming(lab, operation, size)
    server.signal(signal.SIGSTOP)
    wait_until(lambda: state_of(server) == "T", 5, "the stop")
    for _ in range(3):
        moves_on(client)
    check(state_of(server) == "T", "the target does not stand still")
    server.signal(signal.SIGCONT)
    moves_on(client)
    check(server.running(), server.story())


def state_of(program):
    with open(f"/proc/{program.pid}/stat", encoding="ascii") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def killed_listener(lab):
    """The port of a killed server is free immediately, and a connection to it is refused."""
    port = lab.port()
    for _ in range(3):
        server = lab.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", 3)
        lab.listens_cm(server, port)
        server.signal(signal.SIGKILL)
        server.process.wait()
        client = lab.start("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 3)
        printed = client.finish(lab.seconds(5), None)
        check("RDMA_CM_EVENT_REJECTED, error 8" in printed, client.story())


def fork(lab, way):
    ports = [lab.port(), lab.port()]
    for port in ports:
        lab.listens_cm(lab.start(lab.tool("stream"), "serve", "127.0.0.1", port), port)
    more = {"plain": [], "fresh": [ports[1]], "exec": ["ibv_devinfo"]}[way]
    client = lab.start(lab.tool("forker"), "127.0.0.1", ports[0], way, *more)
    printed = client.finish(lab.seconds(30))
    check("parent wrote before, during and after" in printed, client.story())
    check(way != "fresh" or "child connected and wrote" in printed, client.story())
    check(way != "exec" or "hca_id:" in printed, client.story())


def body(lab, cases):
    for operation in OPERATIONS:
        cases.run(f"target of {operation} killed", kill_target, lab, operation, 65536)
        cases.run(f"initiator of {operation} killed", kill_initiator, lab, operation, 65536)
    cases.run("target of 8-byte writes killed", kill_target, lab, "write", 8)
    cases.run("rping's server killed", kill_under_rping, lab, True)
    cases.run("rping's client killed", kill_under_rping, lab, False)
    cases.run("killed listener", killed_listener, lab)
    # With a sanitizer the memory is not mapped. Single bytes are accessed directly on every processor (docs/adr/0071).
    sizes = (("write", 1), ("read", 1)) if lab.sanitized else (("write", 65536), ("read", 65536), ("write", 8))
    for operation, size in sizes:
        cases.run(f"{operation} of {size} bytes into a stopped process", stopped_target, lab, operation, size)
    cases.run("atomics into a stopped process", stopped_target_of_atomics, lab)
    for way in ("plain", "fresh", "exec"):
        cases.run(f"fork, {way}", fork, lab, way)
    cases.run("daemon killed", kill_daemon, lab)
    cases.run("daemon killed under rping", kill_daemon_under_rping, lab)
    cases.run("daemon killed under ibv_rc_pingpong", kill_daemon_under_pingpong, lab)


if __name__ == "__main__":
    laboratory.main(body)
