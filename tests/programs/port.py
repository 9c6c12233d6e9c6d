# SPDX-License-Identifier: BSD-2-Clause
"""UDP port 4791 is bound by another socket, as by the kernel's rxe. Connections within the host work. A program that
connects to another host gets the reason of the failure. Once the port is free, the next program works."""

import contextlib
import socket

from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, check

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


def body(lab, cases):
    if not lab.isolated:
        cases.skip("the port is taken", "no right to make a network namespace")
        return
    lab.add_host()
    taken(lab, cases, "IPv4", socket.AF_INET, "0.0.0.0")
    taken(lab, cases, "IPv6", socket.AF_INET6, "::")


if __name__ == "__main__":
    laboratory.main(body)
