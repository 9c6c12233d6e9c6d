# SPDX-License-Identifier: BSD-2-Clause
"""Tests our tools with each other and, in both directions, with Debian's programs of the same names. Options, output
and exit status must equal those of Debian's programs."""

import errno
import os
import re
import subprocess

from tests.programs import cm, mckey, rsocket
from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.lab import EVERY, LOOPBACK, WIRE, check

TOOLS = ("cmtime", "mckey", "rcopy", "rdma_client", "rdma_server", "rdma_xclient", "rdma_xserver", "riostream",
         "rping", "rstream", "ucmatose", "udaddy", "udpong")

# Server and client: ours or Debian's.
PAIRS = (("ours", "ours"), ("ours", "Debian's"), ("Debian's", "ours"))
# The pairs between hosts, where the libraries do what they do on lo, over another transport.
WIRE_PAIRS = PAIRS if EVERY else PAIRS[:1]


class Mixed:
    """A lab whose servers, clients or both are our tools; everything else is that of the lab."""

    def __init__(self, lab, server, client):
        self.lab = lab
        self.kinds = {"start": server, "client": client}

    def __getattr__(self, name):
        return getattr(self.lab, name)

    def program(self, role, name):
        return self.lab.own(name) if self.kinds[role] == "ours" and name in TOOLS else name

    def start(self, name, *argv, **keywords):
        return self.lab.start(self.program("start", name), *argv, **keywords)

    def client(self, name, *argv, **keywords):
        return self.lab.client(self.program("client", name), *argv, **keywords)


def said(lab, program, *argv):
    """Returns exit status and standard output of a program that needs no peer."""
    started = lab.start(program, *argv)
    started.finish(lab.seconds(20), None)
    return started.process.returncode, output(started)


def output(program):
    with open(program.paths[0], encoding="utf-8") as file:
        return file.read()


def letters(usage):
    """Returns the letters of the options in a usage."""
    return set(re.findall(r"(?<![\w-])\[?-([a-zA-Z])\b", usage))


def options(lab, name):
    """An unknown option prints the usage with every option of Debian's program; the exit status is the same."""
    theirs_status, theirs = said(lab, name, "-?")
    ours_status, ours = said(lab, lab.own(name), "-?")
    check(letters(theirs) and letters(theirs) <= letters(ours), f"{letters(theirs)} and {letters(ours)}:\n{ours}")
    check(ours_status == theirs_status, f"exit status {ours_status}, Debian's {theirs_status}")


def lines(text):
    """Returns the output of a program, line by line, without numbers, which depend on the machine."""
    return [re.sub(r"\s*[\d.]+", " N", line).strip() for line in text.splitlines()]


def same_words(lab, server, client, ends=True):
    """Checks that both programs of a pair print to standard output what Debian's pair prints."""
    printed = {}
    for kind in ("ours", "Debian's"):
        pair = Mixed(lab, kind, kind)
        # udaddy has a fixed port.
        port = "7174" if server[0] == "udaddy" else lab.port()
        at_port = [] if server[0] == "udaddy" else ["-p", port]
        serving = pair.start(*server, *at_port)
        lab.listens_cm(serving, port)
        asking = pair.client(*client, *at_port)
        asking.finish(lab.seconds(20))
        if ends:
            serving.finish(lab.seconds(20))
        printed[kind] = (lines(output(serving)), lines(output(asking)))
    check(printed["ours"] == printed["Debian's"], f"{printed}")


def size_too_small(lab):
    """A server with a smaller buffer than the client's text reports it, and both programs fail."""
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-a", LOOPBACK["ip4"], "-p", port)
    lab.listens_cm(server, port)
    client = lab.client(lab.own("rping"), "-c", "-a", LOOPBACK["ip4"], "-p", port, "-C", 1, "-S", 100)
    client.finish(lab.seconds(20), None)
    server.finish(lab.seconds(20), None)
    check(client.process.returncode and server.process.returncode, client.story() + server.story())
    check("100 bytes, there is room for 64" in server.output(), server.story())


NOWHERE = "no-such-host.invalid"

# What precedes it differs among the releases of rdma-core.
GETADDRINFO = re.compile(r"^(?:\w+: |rdma_)getaddrinfo error", re.M)

# Command lines that fail before a connection, for which Debian's program prints the reason.
HOPELESS = (("rping", "-c", "-a", "127.0.0.1", "-C", "-1"), ("rping", "-c", "-a", NOWHERE),
            ("mckey", "-s", "-m", NOWHERE), ("ucmatose", "-s", NOWHERE), ("udaddy", "-s", NOWHERE),
            ("rdma_client", "-s", NOWHERE), ("rdma_xclient", "-s", NOWHERE), ("rstream", "-s", NOWHERE),
            ("riostream", "-s", NOWHERE))


def hopeless(lab, name, *argv):
    """Standard output and exit status equal those of Debian's program."""
    status, words = said(lab, name, *argv)
    own_status, own_words = said(lab, lab.own(name), *argv)
    check(own_status == status, f"exit status {own_status}, Debian's {status}")
    own_words, words = (GETADDRINFO.sub(r"getaddrinfo error", text) for text in (own_words, words))
    check(own_words.replace(lab.own(name), name) == words.replace(f"/usr/bin/{name}", name),
          f"{own_words}Debian's: {words}")


def killed(lab, role):
    """When one program is killed between two pings, the other one exits."""
    port = lab.port()
    own = lab.own("rping")
    server = lab.start(own, "-s", "-a", LOOPBACK["ip4"], "-p", port)
    lab.listens_cm(server, port)
    client = lab.client(own, "-c", "-a", LOOPBACK["ip4"], "-p", port, "-v")
    client.says("ping data")
    victim, other = (server, client) if role == "server" else (client, server)
    victim.signal(9)
    other.finish(lab.seconds(20), None)
    check(other.process.returncode >= 0, other.story())


def shown_by_name(lab):
    """`usrdma rping` is our rping even if PATH has another program of this name. `usrdma run rping` is our rping if
    PATH has none."""
    command = os.path.join(lab.tree, "usrdma")
    for argv, env in (([command, "rping"], {}), ([command, "run", "rping"], {"PATH": "/nonexistent"})):
        done = subprocess.run(argv, env=dict(lab.env, **env), capture_output=True, text=True, check=False)
        check(done.returncode == 22 and "client: sends pings" in done.stdout, f"{argv}: {done}")


def pairs(lab, cases, side, chosen):
    address, ip6 = side["ip4"], side["ip6"]
    for server, client in chosen:
        mixed = Mixed(lab, server, client)
        who = f"server {server}, client {client}, {side['name']}"
        cases.run(f"rping, IPv4: {who}", cm.rping, mixed, address)
        cases.run(f"rping, IPv6: {who}", cm.rping, mixed, ip6)
        cases.run(f"rping -S 60000: {who}", cm.rping, mixed, address, "-S", 60000)
        cases.run(f"rping -q: {who}", cm.rping, mixed, address, "-q")
        cases.run(f"rping -P and three clients: {who}", cm.rping_persistent, mixed, address)
        cases.run(f"ucmatose, IPv4: {who}", cm.ucmatose, mixed, address)
        cases.run(f"ucmatose, IPv6: {who}", cm.ucmatose, mixed, ip6, "-f", "ipv6")
        cases.run(f"ucmatose -c 20 -C 50 -S 4000: {who}", cm.ucmatose, mixed, address, "-c", 20, "-C", 50, "-S", 4000)
        cases.run(f"ucmatose -m -t 32 -a 14: {who}", cm.ucmatose, mixed, address, "-m", "-t", 32, "-a", 14)
        cases.run(f"ucmatose -P ib -C 0: {who}", cm.ucmatose, mixed, address, "-P", "ib", "-C", 0)
        cases.run(f"udaddy, IPv4: {who}", cm.udaddy, mixed, address)
        cases.run(f"udaddy, IPv6: {who}", cm.udaddy, mixed, ip6, "-f", "ipv6")
        cases.run(f"udaddy -c 10 -C 50 -S 1000 -t 32: {who}", cm.udaddy, mixed, address, "-c", 10, "-C", 50, "-S", 1000,
                  "-t", 32)
        cases.run(f"mckey: {who}", multicast, mixed, side, mckey.mckey)
        cases.run(f"mckey -S 1000 -C 50: {who}", multicast, mixed, side, mckey.mckey, "-S", 1000, "-C", 50)
        cases.run(f"mckey -o: {who}", multicast, mixed, side, mckey.sender_only)
        cases.run(f"rdma_client and rdma_server: {who}", cm.rdma_client_server, mixed, address)
        cases.run(f"rdma_xclient and rdma_xserver: {who}", one_message, mixed, address)
        cases.run(f"rdma_xclient and rdma_xserver, XRC: {who}", one_message, mixed, address, "-c", "x")
        if not versions.cmtime_counts():
            cases.run(f"cmtime -c 200: {who}", cm.cmtime, mixed, address, 200)


def one_message(mixed, address, *options):
    """One message from rdma_xclient to rdma_xserver."""
    port = mixed.port()
    server = mixed.start("rdma_xserver", "-p", port, *options)
    mixed.listens_cm(server, port)
    client = mixed.client("rdma_xclient", "-s", address, "-p", port, *options)
    check("rdma_xclient: end 0" in client.finish(mixed.seconds(20)), client.story())
    check("rdma_xserver: end 0" in server.finish(mixed.seconds(20)), server.story())


def multicast(mixed, side, function, *options):
    """On a side between hosts the clients run on the far host."""
    near = side["ip4"]
    function(mixed, mckey.GROUP4, near, near[:-1] + "2" if side is WIRE else near, *options)


def rsocket_pairs(lab, cases, side, chosen):
    """Runs the tools that use rsockets; both sides verify the data."""
    address, ip6 = side["ip4"], side["ip6"]
    for server, client in chosen:
        mixed = Mixed(lab, server, client)
        who = f"server {server}, client {client}, {side['name']}"
        for name, options in rsocket.MODES.items():
            cases.run(f"rstream, {name}: {who}", rsocket.streaming, mixed, "rstream", address, *options, "-T", "v",
                      *rsocket.SIZES["odd"])
        cases.run(f"rstream, long: {who}", rsocket.streaming, mixed, "rstream", address, "-T", "v",
                  *rsocket.SIZES["long"])
        cases.run(f"rstream, IPv6, keepalive: {who}", rsocket.streaming, mixed, "rstream", ip6, "-k", 1,
                  *rsocket.SIZES["short"])
        for name in ("blocking", "non-blocking", "polling"):
            cases.run(f"riostream, {name}: {who}", rsocket.streaming, mixed, "riostream", address, *rsocket.MODES[name],
                      "-T", "v", *rsocket.SIZES["odd"])
        cases.run(f"riostream, long: {who}", rsocket.streaming, mixed, "riostream", address, "-T", "v",
                  *rsocket.SIZES["long"])
        if lab.sanitized and "Debian's" in (server, client):
            cases.skip(f"riostream, of one byte: {who}",
                       "Debian's sends sixteen bytes of its buffer of one to begin with")
        else:
            cases.run(f"riostream, of one byte: {who}", rsocket.streaming, mixed, "riostream", address, "-T", "v",
                      "-S", 1, "-C", 1, "-I", 600)
        cases.run(f"rcopy: {who}", rsocket.rcopy, mixed, address, 3000000)
        for name, options in {"data": (), "echo": ("-T", "e"), "blocking": ("-T", "b"), "polling": ("-T", "a")}.items():
            cases.run(f"udpong, {name}: {who}", rsocket.udpong, mixed, address, "-S", 1000, "-C", 200, *options)


def over_tcp(lab, server, client):
    """Runs rstream over TCP sockets, for comparison, in a child process of the server."""
    mixed, port = Mixed(lab, server, client), lab.port()
    options = ("-p", port, *rsocket.SIZES["odd"], "-T", "v")
    serving = mixed.start("rstream", "-b", LOOPBACK["ip4"], "-T", "f", *options)
    lab.listens_tcp(serving, port)
    asking = mixed.client("rstream", "-s", LOOPBACK["ip4"], "-T", "s", *options)
    for program in (asking, serving):
        check("custom" in program.finish(lab.seconds(20)), program.story())


def empty_file(lab):
    """rdma-core's rcopy does not send an empty file."""
    rsocket.rcopy(Mixed(lab, "ours", "ours"), LOOPBACK["ip4"], 0)


def no_such_directory(lab):
    """rcopy's client reports the error of the server, and the server continues."""
    port = lab.port()
    server = lab.start(lab.own("rcopy"), "-p", port)
    lab.listens_cm(server, port)
    client = lab.client(lab.own("rcopy"), "/etc/hostname", f"{LOOPBACK['ip4']}:/nonexistent/file", "-p", port)
    check("No such file or directory" in client.finish(lab.seconds(20), errno.ENOENT), client.story())
    check(server.running(), server.story())


def body(lab, cases):
    for name in TOOLS:
        # Ours has the options of rdma-core 44.
        if name != "cmtime" or not versions.cmtime_counts():
            cases.run(f"the options of {name}", options, lab, name)
    at = LOOPBACK["ip4"]
    cases.run("the words of rping", same_words, lab, ["rping", "-s", "-a", at, "-v"],
              ["rping", "-c", "-a", at, "-v", "-C", "3"])
    cases.run("the words of ucmatose", same_words, lab, ["ucmatose", "-m"], ["ucmatose", "-m", "-s", at])
    cases.run("the words of udaddy", same_words, lab, ["udaddy"], ["udaddy", "-s", at])
    cases.run("the words of rdma_client", same_words, lab, ["rdma_server"], ["rdma_client", "-s", at])
    if not versions.cmtime_counts():
        cases.run("the words of cmtime", same_words, lab, ["cmtime"], ["cmtime", "-s", at, "-b", at, "-c", 10], False)
    cases.run("no listener", cm.refused, Mixed(lab, "ours", "ours"), at)
    for argv in HOPELESS:
        cases.run(" ".join(argv), hopeless, lab, *argv)
    cases.run("a text too long for the server", size_too_small, lab)
    for role in ("server", "client"):
        cases.run(f"rping's {role} is killed", killed, lab, role)
    for server, client in PAIRS:
        cases.run(f"rstream over TCP: server {server}, client {client}", over_tcp, lab, server, client)
    if EVERY:  # tests/programs/rsocket.py always runs Debian's
        cases.run("rstream, everything", rsocket.rstream_whole, Mixed(lab, "ours", "ours"), at)
    cases.run("riostream, everything", rsocket.rstream_whole, Mixed(lab, "ours", "ours"), at, "riostream")
    cases.run("rcopy of an empty file", empty_file, lab)
    cases.run("rcopy to no directory", no_such_directory, lab)
    cases.run("a tool by its name", shown_by_name, lab)
    for side in lab.sides if EVERY else lab.sides[:1]:
        pairs(lab, cases, side, PAIRS)
        rsocket_pairs(lab, cases, side, PAIRS)
    if lab.isolated:
        lab.add_host()
        pairs(lab, cases, WIRE, WIRE_PAIRS)
        rsocket_pairs(lab, cases, WIRE, WIRE_PAIRS)
        gid = "ff0e::77:2"
        for server, client in PAIRS:
            cases.run(f"mckey -M: server {server}, client {client}", mckey.by_gid, Mixed(lab, server, client), gid,
                      WIRE["ip6"], WIRE["ip6"][:-1] + "2")
    else:
        cases.skip("two hosts", "no right to make a network namespace")


if __name__ == "__main__":
    laboratory.main(body)
