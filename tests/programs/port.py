# SPDX-License-Identifier: BSD-2-Clause
"""UDP port 4791 is bound by another socket, as by the kernel's rxe. Connections within the host work. A program that
connects to another host gets the reason of the failure. Once the port is free, the next program works. The same applies
to a socket of a program whose daemon was killed."""

import contextlib
import os
import signal
import socket

from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, check, wait_until

FAR_IP4 = "10.88.0.2"
COMPLAINT = "UDP port 4791"


@contextlib.contextmanager
def held(family, address):
    """Binds the port without sharing, as long as the context lasts."""
    with socket.socket(family, socket.SOCK_DGRAM) as holder:
        if family == socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        holder.bind((address, 4791))
        yield


def complaints(program):
    return [line for line in program.output().splitlines() if COMPLAINT in line]


def complains_once(program):
    lines = complaints(program)
    check(len(lines) == 1 and "rxe" in lines[0], program.story())


def within_the_host(lab):
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port, "-C", 3)
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-C", 3, "-v")
    check(client.finish(lab.seconds(20)).count("ping data") == 3, client.story())
    server.finish(lab.seconds(20))
    for program in (client, server):
        check(not complaints(program), program.story())


def far_server(lab, *argv):
    with lab.far:
        return lab.start(*argv)


def rdma_cm_is_told(lab):
    client = lab.start("rping", "-c", "-a", FAR_IP4, "-p", lab.port(), "-C", 1)
    client.finish(lab.seconds(20), None)
    check(client.process.returncode != 0, client.story())
    complains_once(client)


def verbs_are_told(lab, program):
    """Both sides exchange their addresses over TCP before the near side fails to reach the peer."""
    port = lab.port()
    server = far_server(lab, program, "-d", "wire0", "-g", 1, "-p", port)
    with lab.far:
        lab.listens_tcp(server, port)
    client = lab.start(program, "-d", "wire0", "-g", 1, "-p", port, FAR_IP4)
    client.finish(lab.seconds(20), None)
    check(client.process.returncode != 0, client.story())
    complains_once(client)


def status_shows_it(lab, is_open):
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port)
    lab.listens_cm(server, port)
    check((lab.status()["daemon"]["roce_port"] == "open") == is_open, lab.status()["daemon"])
    shown = lab.start(f"{lab.tree}/usrdma", "status", native=True).finish(lab.seconds(10))
    check((COMPLAINT in shown) != is_open, shown)


def next_program_gets_there(lab):
    """The daemon, which a preceding program keeps running, binds the port that is free now."""
    port = lab.port()
    before = lab.daemons()
    server = far_server(lab, "rping", "-s", "-a", FAR_IP4, "-p", port, "-C", 3)
    with lab.far:
        lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", FAR_IP4, "-p", port, "-C", 3, "-V", "-v")
    check(client.finish(lab.seconds(20)).count("ping data") == 3 and not complaints(client), client.story())
    server.finish(lab.seconds(20))
    check(lab.daemons() == before, f"daemons {before} and {lab.daemons()}")


def taken(lab, cases, name, family, address):
    with held(family, address):
        cases.run(f"within the host, {name}", within_the_host, lab)
        cases.run(f"rdma_cm: error is reported, {name}", rdma_cm_is_told, lab)
        for program in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
            cases.run(f"{program}: error is reported, {name}", verbs_are_told, lab, program)
        cases.run(f"usrdma status shows it, {name}", status_shows_it, lab, False)
    keeper = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", lab.port())
    lab.started.remove(keeper)
    cases.run(f"set free, {name}", next_program_gets_there, lab)
    cases.run(f"usrdma status shows that, {name}", status_shows_it, lab, True)
    keeper.end()
    lab.end_daemons()
    # A new daemon assigns the same first QPN as the old one, and the far daemon would keep that connection for a while.
    with lab.far:
        lab.end_daemons()


def roce_rping(lab):
    """Runs rping within the host over RoCE v2; returns the client."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port, "-C", 3, USRDMA_TRANSPORT="roce")
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-C", 3, "-v", USRDMA_TRANSPORT="roce")
    client.finish(lab.seconds(30), None)
    return client


def has_port(pid):
    """Whether a process has a socket of UDP port 4791 of this namespace."""
    inodes = set()
    for table in ("udp", "udp6"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/net/{table}", encoding="ascii") as rows:
            fields = [row.split() for row in rows][1:]
            inodes |= {f"socket:[{row[9]}]" for row in fields if int(row[1].rsplit(":", 1)[1], 16) == 4791}
    with contextlib.suppress(FileNotFoundError):
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in inodes for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def is_stopped(pid):
    """Whether all threads of a process are stopped."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8") as file:
            if file.read().rsplit(") ", 1)[1].split()[0] != "T":
                return False
    return True


def preceding_daemon(lab, ending):
    """A stopped program still has its socket when its daemon is dead and the next one has started. The new daemon does
    not use the port together with it, and uses it when the program has continued or was killed."""
    holder = lab.start("ibv_asyncwatch", "-d", "lo")
    wait_until(lambda: has_port(holder.pid), lab.seconds(10), "a socket of the program")
    holder.signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(holder.pid), lab.seconds(10), "the stop of the program")
    for pid in lab.daemons():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lab.daemons(), lab.seconds(10), "the end of the daemon")
    client = roce_rping(lab)
    check(client.process.returncode != 0 and len(complaints(client)) == 1, client.story())
    holder.signal(ending)
    # The next program that connects to the daemon makes it try again.
    wait_until(lambda: "PORT_ACTIVE" in lab.start("ibv_devinfo", "-d", "lo").finish(lab.seconds(20)) and
               lab.status()["daemon"]["roce_port"] == "open", lab.seconds(20), "the port")
    client = roce_rping(lab)
    check(client.process.returncode == 0 and client.output().count("ping data") == 3, client.story())
    lab.end_programs()
    lab.end_daemons()


def body(lab, cases):
    if not lab.isolated:
        cases.skip("the port is taken", "no right to make a network namespace")
        return
    for ending in (signal.SIGCONT, signal.SIGKILL):
        cases.run(f"a program of a killed daemon has the port until {ending.name}", preceding_daemon, lab, ending)
    lab.add_host()
    taken(lab, cases, "IPv4", socket.AF_INET, "0.0.0.0")
    taken(lab, cases, "IPv6", socket.AF_INET6, "::")


if __name__ == "__main__":
    laboratory.main(body)
