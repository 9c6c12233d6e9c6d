# SPDX-License-Identifier: BSD-2-Clause
"""A program on either side is killed while its connection to rxe carries traffic. The other program must get an error
and exit. With the rdma_cm it gets DISCONNECTED, from the kernel of the guest or from usrdmad. With a queue pair alone,
its retries run out."""

import glob
import os
import re

from tests.programs import lab as laboratory
from tests.programs.lab import check, wait_until

SLOW = 60
# Seconds from the kill until the other program has exited; the exit of a program takes long in an emulated machine.
SOON = 30
STREAM = os.path.join(laboratory.BUILD, "tests", "programs", "stream")
RETRY_EXCEEDED = 12


def stream_there(guest, *words):
    """Runs the same program in the guest, with Debian's libraries."""
    folder = os.path.dirname(glob.glob("/usr/lib/*/librdmacm.so.1")[0])
    return guest.start("env", f"LD_LIBRARY_PATH={folder}", STREAM, *words)


def has_moved(program):
    """Whether the first WRs have completed."""
    found = re.findall(r"^\d+ progress (\d+)$", program.output(), re.M)
    return bool(found) and int(found[-1]) > 0


def streams(lab, guest, sides, operation, server_is_here):
    """Starts a server and a client, and waits until the client's operations complete."""
    ours, theirs = sides
    port = lab.port()
    if server_is_here:
        server = lab.start(lab.tool("stream"), "serve", ours["4"], port)
        lab.listens_cm(server, port)
        client = stream_there(guest, "drive", ours["4"], port, operation, 20000)
    else:
        server = stream_there(guest, "serve", theirs["4"], port)
        guest.listens(server, port, True)
        client = lab.start(lab.tool("stream"), "drive", theirs["4"], port, operation, 20000)
    wait_until(lambda: has_moved(client) or not client.running(), SLOW, "the first completions")
    check(client.running(), f"{client.story()}\n{server.story()}")
    return server, client


def ends(other):
    """Checks that the program got DISCONNECTED, that no WR stayed outstanding, and that it exited successfully."""
    printed = other.finish(SOON)
    check("RDMA_CM_EVENT_DISCONNECTED" in printed, other.story())
    check("ended:" in printed, other.story())


def ours_is_killed(lab, guest, sides, operation, server_is_here):
    server, client = streams(lab, guest, sides, operation, server_is_here)
    victim, other = (server, client) if server_is_here else (client, server)
    victim.signal(9)
    ends(other)


def theirs_is_killed(lab, guest, sides, operation, server_is_here):
    server, client = streams(lab, guest, sides, operation, server_is_here)
    victim, other = (client, server) if server_is_here else (server, client)
    guest.kill(victim)
    ends(other)


def writes(side, gid, port, *server):
    """The command line of a long transfer without the rdma_cm."""
    return ["ib_write_bw", "-F", "-d", side["device"], "-x", gid, "-p", port, "-s", 65536, "-n", 500000, *server]


def received(lab):
    """The number of packets that queue pairs of usrdma have received."""
    counters = (lab.status() or {}).get("counters", {})
    return counters.get("roce", {}).get("packets_received", 0)


def retries_run_out(lab, guest, sides, gid):
    """Tests usrdma only: rxe treats a retry count of 7, which most programs request, as unlimited."""
    ours, theirs = sides
    port = lab.port()
    server = guest.start(*writes(theirs, gid, port))
    guest.listens(server, port, False)
    before = received(lab)
    client = lab.start(*writes(ours, gid, port, theirs["4"]))
    wait_until(lambda: received(lab) > before or not client.running(), SLOW, "packets")
    guest.kill(server)
    printed = client.finish(SOON, None)
    check(f"Failed status {RETRY_EXCEEDED}:" in printed, client.story())


def run(lab, cases, guest, sides, gid):
    for operation, server_is_here in (("write", True), ("read", True), ("send", False), ("atomic", False)):
        ours, theirs = ("server", "client") if server_is_here else ("client", "server")
        cases.run(f"our {ours} is killed, {operation}", ours_is_killed, lab, guest, sides, operation, server_is_here)
        cases.run(f"rxe's {theirs} is killed, {operation}", theirs_is_killed, lab, guest, sides, operation,
                  server_is_here)
    cases.run("rxe's ib_write_bw is killed, which has no rdma_cm", retries_run_out, lab, guest, sides, gid)
