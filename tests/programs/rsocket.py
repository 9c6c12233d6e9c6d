# SPDX-License-Identifier: BSD-2-Clause
"""Sockets over RDMA: runs Debian's rstream, riostream, rcopy and udpong, on one host and between two, and kills one
side."""

import filecmp
import os
import re
import signal

from tests.programs import lab as laboratory
from tests.programs.lab import OWN, WIRE, Failure, check

MODES = {"blocking": ("-T", "b"), "non-blocking": ("-T", "n"), "polling": ("-T", "a"),
         "polling, non-blocking": ("-T", "a", "-T", "n"), "resolved by rdma_getaddrinfo": ("-T", "r")}
# Bytes of a transfer, transfers and rounds: short transfers, and transfers that wrap the buffers many times.
SIZES = {"short": ("-S", 64, "-C", 100, "-I", 10), "odd": ("-S", 3001, "-C", 50, "-I", 4),
         "long": ("-S", 1000000, "-C", 8, "-I", 2)}


def pair(lab, program, address, *options):
    port = lab.port()
    server = lab.start(program, "-b", address, "-p", port, *options)
    lab.listens_cm(server, port)
    client = lab.client(program, "-s", address, "-p", port, *options)
    return server, client


def streaming(lab, program, address, *options):
    server, client = pair(lab, program, address, *options)
    for side in (client, server):
        output = side.finish(lab.seconds(60))
        check("verification failed" not in output, side.story())
        # The result follows the heading. Without a result the program ended early.
        check(re.search(r"^custom .*\d$", output, re.M), side.story())


def rstream_whole(lab, address, program="rstream"):
    """Runs rstream with its default tests."""
    server, client = pair(lab, program, address)
    for side in (client, server):
        output = side.finish(lab.seconds(120))
        for name in ("64_lat", "4k_lat", "64k_lat", "1m_lat", "64_bw", "4k_bw", "64k_bw", "1m_bw"):
            check(name in output, f"no {name}: {side.story()}")


def rcopy(lab, address, size):
    source = os.path.join(lab.scratch, "source")
    copy = os.path.join(lab.scratch, "copy")
    with open(source, "wb") as file:
        file.write(os.urandom(size))
    os.chmod(source, 0o644)
    if os.path.exists(copy):
        os.remove(copy)
    port = lab.port()
    server = lab.start("rcopy", "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("rcopy", source, f"{address}:{copy}", "-p", port)
    check(f"{size} bytes" in client.finish(lab.seconds(60)), client.story())
    check(filecmp.cmp(source, copy, shallow=False), "the copy is another file")
    check(server.running(), server.story())


def output_of_udpong(lab, *command):
    """The output of a client. rdma-core's client with "-T e" repeats the last datagram that it received. If a datagram
    was lost before, this is an old one, and the client never ends. It is therefore started up to three times."""
    attempts = 3
    while True:
        client = lab.client("udpong", *command)
        may_never_end = client.argv[0] == "udpong" and "e" in command
        attempts -= 1
        try:
            return client.finish(lab.seconds(20 if may_never_end else 60))
        except Failure:
            if not may_never_end or not attempts:
                raise


def udpong(lab, address, *options):
    port = lab.port()
    server = lab.start("udpong", "-b", address, "-p", port)
    lab.listens_udp(server, port)
    output = output_of_udpong(lab, "-s", address, "-p", port, *options)
    check("Gb/sec" in output, output)
    check(server.running(), server.story())


def killed(lab, address, victim_is_server, *options):
    """The peer of a killed program exits and reports why."""
    server, client = pair(lab, "rstream", address, "-S", 4000, "-C", 1, "-I", 100000000, *options)
    victim, other = (server, client) if victim_is_server else (client, server)
    lab.connects(2)
    victim.signal(signal.SIGKILL)
    output = other.finish(lab.seconds(30), None)
    check(other.process.returncode not in (0, None), other.story())
    # A side that only polls gets POLLERR and prints no reason.
    check("Connection reset by peer" in output or "a" in options, other.story())


def refused(lab, address):
    client = lab.client("rstream", "-s", address, "-p", lab.port(), "-T", "b")
    check("Connection refused" in client.finish(lab.seconds(20), None), client.story())


def full_send_buffer(lab):
    """A datagram rsocket whose UDP send buffer is full of datagrams to a neighbour without a hardware address."""
    device, neighbour = OWN["device"], "10.77.0.9"
    # The kernel keeps the datagrams until its solicitations have failed; one is sent each second.
    laboratory.ip_command("sysctl", "-qw", f"net.ipv4.neigh.{device}.mcast_solicit=10000")
    program = lab.start(lab.tool("dgram_full"), neighbour, lab.port())
    program.says("a thread waits", lab.seconds(20))
    laboratory.ip_command("ip", "neigh", "replace", neighbour, "lladdr", "02:00:00:00:00:09", "dev", device, "nud",
                          "permanent")
    check("sent" in program.finish(lab.seconds(30)), program.story())


def on_one_host(lab, cases):
    for side in lab.sides:
        where = side["name"]
        for name, options in MODES.items():
            for size, sizes in SIZES.items():
                cases.run(f"rstream, {name}, {size}, {where}", streaming, lab, "rstream", side["ip4"], *options,
                          "-T", "v", *sizes)
        cases.run(f"rstream, IPv6, {where}", streaming, lab, "rstream", side["ip6"], *SIZES["odd"])
        cases.run(f"rstream, small buffers, {where}", streaming, lab, "rstream", side["ip4"], "-B", 4096, "-T", "v",
                  *SIZES["odd"])
        cases.run(f"rstream, keepalive, {where}", streaming, lab, "rstream", side["ip4"], "-k", 1, *SIZES["short"])
        for name in ("blocking", "non-blocking", "polling"):
            cases.run(f"riostream, {name}, {where}", streaming, lab, "riostream", side["ip4"], *MODES[name], "-T", "v",
                      *SIZES["odd"])
        cases.run(f"riostream, long, {where}", streaming, lab, "riostream", side["ip4"], *SIZES["long"])
        for size in (1, 5000, 20000000):
            cases.run(f"rcopy of {size} bytes, {where}", rcopy, lab, side["ip4"], size)
        for name, options in {"data": (), "echo": ("-T", "e"), "blocking": ("-T", "b"), "polling": ("-T", "a")}.items():
            cases.run(f"udpong, {name}, {where}", udpong, lab, side["ip4"], "-S", 1000, "-C", 500, *options)
    cases.run("rstream, everything", rstream_whole, lab, "127.0.0.1")
    for options in (("-T", "b"), ("-T", "n"), ("-T", "a")):
        cases.run(f"rstream {options[1]}, server killed", killed, lab, "127.0.0.1", True, *options)
        cases.run(f"rstream {options[1]}, client killed", killed, lab, "127.0.0.1", False, *options)
    cases.run("no listener", refused, lab, "127.0.0.1")
    if lab.isolated:
        cases.run("a full send buffer of UDP", full_send_buffer, lab)
    else:
        cases.skip("a full send buffer of UDP", "needs a network namespace")


def between_hosts(lab, cases):
    for name, options in MODES.items():
        cases.run(f"rstream, {name}, between hosts", streaming, lab, "rstream", WIRE["ip4"], *options, "-T", "v",
                  *SIZES["odd"])
    cases.run("rstream, long, between hosts", streaming, lab, "rstream", WIRE["ip4"], "-T", "v", *SIZES["long"])
    cases.run("rstream, IPv6, between hosts", streaming, lab, "rstream", WIRE["ip6"], *SIZES["short"])
    cases.run("riostream, between hosts", streaming, lab, "riostream", WIRE["ip4"], "-T", "v", *SIZES["odd"])
    cases.run("rcopy, between hosts", rcopy, lab, WIRE["ip4"], 3000000)
    for name, options in {"data": (), "echo": ("-T", "e")}.items():
        for size in (100, 1000, 1500):
            cases.run(f"udpong, {name}, {size} bytes, between hosts", udpong, lab, WIRE["ip4"], "-S", size, "-C", 200,
                      *options)
    cases.run("no listener, between hosts", refused, lab, WIRE["ip4"])


def body(lab, cases):
    on_one_host(lab, cases)
    if not lab.isolated:
        cases.skip("between hosts", "needs two network namespaces")
        return
    lab.add_host()
    between_hosts(lab, cases)


if __name__ == "__main__":
    laboratory.main(body)
