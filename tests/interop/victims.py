# SPDX-License-Identifier: BSD-2-Clause
"""A program is killed while its connection to rxe is busy, on either side: what the other side hears of it, and that it ends.
Whoever has a connection of the rdma_cm hears DISCONNECTED, from the killed one's kernel or from our daemon; whoever has
only a queue pair has its retries run out."""

import glob
import os
import re

import lab as laboratory
from lab import check, wait_until

SLOW = 60
# From the kill until the other program has ended; most of it goes into an emulated machine's end of a program.
SOON = 30
STREAM = os.path.join(laboratory.BUILD, "tests", "programs", "stream")
RETRY_EXCEEDED = 12


def stream_there(guest, *words):
    """The same program, on the libraries that the guest's drivers have."""
    folder = os.path.dirname(glob.glob("/usr/lib/*/librdmacm.so.1")[0])
    return guest.start("env", f"LD_LIBRARY_PATH={folder}", STREAM, *words)


def has_moved(program):
    """Work has completed: it is under way."""
    found = re.findall(r"^\d+ progress (\d+)$", program.output(), re.M)
    return bool(found) and int(found[-1]) > 0


def streams(lab, guest, sides, operation, server_is_here):
    """Server and client of a connection that is busy with this."""
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
    """It had its DISCONNECTED, nothing that it had posted stayed outstanding, and it ended well."""
    heard = other.finish(SOON)
    check("RDMA_CM_EVENT_DISCONNECTED" in heard, other.story())
    check("ended:" in heard, other.story())


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
    """More of them than anybody waits for, without the rdma_cm."""
    return ["ib_write_bw", "-F", "-d", side["device"], "-x", gid, "-p", port, "-s", 65536, "-n", 500000, *server]


def received(lab):
    """How many packets queue pairs of ours have had; 0 before the first of them."""
    counters = (lab.status() or {}).get("counters", {})
    return counters.get("roce", {}).get("packets_received", 0)


def retries_run_out(lab, guest, sides, gid):
    """Ours only: to rxe seven retries, which is what every program asks for, are endless."""
    ours, theirs = sides
    port = lab.port()
    server = guest.start(*writes(theirs, gid, port))
    guest.listens(server, port, False)
    before = received(lab)
    client = lab.start(*writes(ours, gid, port, theirs["4"]))
    wait_until(lambda: received(lab) > before or not client.running(), SLOW, "packets")
    guest.kill(server)
    heard = client.finish(SOON, None)
    check(f"Failed status {RETRY_EXCEEDED}:" in heard, client.story())


def run(lab, cases, guest, sides, gid):
    for operation, server_is_here in (("write", True), ("read", True), ("send", False), ("atomic", False)):
        ours, theirs = ("server", "client") if server_is_here else ("client", "server")
        cases.run(f"our {ours} is killed, {operation}", ours_is_killed, lab, guest, sides, operation, server_is_here)
        cases.run(f"rxe's {theirs} is killed, {operation}", theirs_is_killed, lab, guest, sides, operation, server_is_here)
    cases.run("rxe's ib_write_bw is killed, which has no rdma_cm", retries_run_out, lab, guest, sides, gid)
