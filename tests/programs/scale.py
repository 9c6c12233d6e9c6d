# SPDX-License-Identifier: BSD-2-Clause
"""Many rounds, processes and objects: memory and descriptors do not grow, no limit is reached, and no object
remains."""

import os
import re
import signal

from tests.programs import lab as laboratory
from tests.programs.lab import check, wait_until

ROUNDS = 1000
PROCESSES = 100
LISTENERS = 64
QPS = 10000
CONNECTIONS = 2000

# Allowed growth. Allocators keep some memory; a leak of one structure in each round would exceed it.
GROWTH_KIB = 1024

# Allowed memory of the daemon for both ends of a connection, tables included.
DAEMON_BYTES = 6144


def reports(program):
    """Returns (round, fds, KiB, threads) of each report that the program printed."""
    found = re.findall(r"after (\d+): (\d+) fds, (\d+) KiB, (\d+) threads", program.output())
    return [tuple(int(number) for number in row) for row in found]


def open_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_kib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def rounds(lab, count):
    """Two processes repeat: connect, send, receive, disconnect, destroy."""
    daemon_before = None
    for batch in ("warm-up", "measured"):
        port = lab.port()
        server = lab.start(lab.tool("rounds"), "serve", "127.0.0.1", port, count)
        lab.listens_cm(server, port)
        if batch == "measured":
            daemon_before = [(pid, open_fds(pid), resident_kib(pid)) for pid in lab.daemons()]
        client = lab.start(lab.tool("rounds"), "drive", "127.0.0.1", port, count)
        client.finish(lab.seconds(60))
        server.finish(lab.seconds(60))
        for program in (server, client):
            first, last = reports(program)[0], reports(program)[-1]
            check(last[0] == count, program.story())
            check(last[1] <= first[1] and last[3] <= first[3], f"descriptors or threads grow: {program.story()}")
            if not lab.sanitized:
                check(last[2] - first[2] <= GROWTH_KIB, f"memory grows: {program.story()}")
    for pid, fds, kib in daemon_before:
        wait_until(lambda pid=pid, fds=fds: open_fds(pid) <= fds, 10, "the daemon's descriptors of before")
        if not lab.sanitized:
            check(resident_kib(pid) - kib <= GROWTH_KIB, f"the daemon grew from {kib} to {resident_kib(pid)} KiB")
    wait_until(lambda: not lab.status()["connections"], lab.seconds(30), "the end of the last timewait")


def processes(lab, count):
    """One server and many concurrent clients, each of which connects several times."""
    port, each = lab.port(), 5
    clients = count - 1
    server = lab.start(lab.tool("rounds"), "serve", "127.0.0.1", port, clients * each)
    lab.listens_cm(server, port)
    daemons = {pid: open_fds(pid) for pid in lab.daemons()}
    started = [lab.start(lab.tool("rounds"), "drive", "127.0.0.1", port, each) for _ in range(clients)]
    for client in started:
        client.finish(lab.seconds(120))
    server.finish(lab.seconds(30))
    for pid, fds in daemons.items():
        wait_until(lambda pid=pid, fds=fds: open_fds(pid) <= fds, 10, "the daemon's descriptors of before")


def crowd(lab, count):
    """Many concurrent connections between two pairs of processes: measures the memory of each connection and checks
    that none remains."""
    before = None
    for batch in ("warm-up", "measured"):
        pairs = []
        for _ in range(2):
            port = lab.port()
            server = lab.start(lab.tool("crowd"), "serve", "127.0.0.1", port, count // 2)
            lab.listens_cm(server, port)
            pairs.append((server, port))
        pid, = lab.daemons()
        at_rest = resident_kib(pid)
        if batch == "measured":
            before = (open_fds(pid), at_rest)
        drivers = [lab.start(lab.tool("crowd"), "drive", "127.0.0.1", port, count // 2) for _, port in pairs]
        programs = [server for server, _ in pairs] + drivers
        for program in programs:
            program.says("bytes_per_connection", lab.seconds(120))
        if batch == "warm-up" and not lab.sanitized:
            per_connection = (resident_kib(pid) - at_rest) * 1024 // count
            check(per_connection <= DAEMON_BYTES, f"{per_connection} bytes a connection in the daemon")
        for driver in drivers:
            driver.signal(signal.SIGTERM)
        for program in programs:
            program.finish(lab.seconds(120))
        wait_until(lambda: lab.status()["cm"]["cm_connections"] == 0, lab.seconds(30), "the end of the last timewait")
        check(lab.status()["cm"]["ids"] == 0, "ids are left")
    fds, kib = before
    wait_until(lambda: open_fds(pid) <= fds, 10, "the daemon's descriptors of before")
    if not lab.sanitized:
        check(resident_kib(pid) - kib <= GROWTH_KIB, f"the daemon grew from {kib} to {resident_kib(pid)} KiB")


def starters(lab, count):
    """Many processes start without a daemon. All race to start one, and one is running at the end."""
    lab.end_programs()
    for pid in lab.daemons():
        os.kill(pid, 9)
    wait_until(lambda: not lab.daemons(), 10, "the daemon's end")
    racers = [lab.start("ibv_devinfo") for _ in range(count)]
    for racer in racers:
        check("PORT_ACTIVE" in racer.finish(lab.seconds(60)), racer.story())
    check(len(lab.daemons()) == 1, f"daemons: {lab.daemons()}")


def many(lab, *arguments):
    program = lab.start(lab.tool("many"), *arguments)
    return program.finish(lab.seconds(120))


def many_listeners(lab):
    check(f"{LISTENERS} connections" in many(lab, "listeners", "127.0.0.1", LISTENERS), "no connections")


def many_qps(lab):
    check(f"{QPS} queue pairs connected" in many(lab, "qps", QPS), "no queue pairs")


def body(lab, cases):
    sanitized = lab.sanitized
    cases.run("racing to start the daemon", starters, lab, 20)
    cases.run(f"{LISTENERS} listeners in one process", many_listeners, lab)
    cases.run(f"{QPS} queue pairs in one process", many_qps, lab)
    cases.run("many connections at a time", crowd, lab, 600 if sanitized else CONNECTIONS)
    cases.run("connect and disconnect again and again", rounds, lab, 200 if sanitized else ROUNDS)
    cases.run("many processes at a time", processes, lab, 30 if sanitized else PROCESSES)


if __name__ == "__main__":
    laboratory.main(body)
