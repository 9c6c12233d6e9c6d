# SPDX-License-Identifier: BSD-2-Clause
"""Runs our tools so that each option of their manual pages is used, and checks the effect of the option where the
output shows it. tools.py compares the tools with Debian's."""

import os
import re
import signal

from tests.programs import cm, mckey, rsocket, tools
from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, SOURCE, check

PAGE_OPTION = re.compile(r"^\.It Fl (\w)", re.M)


class Recorder(tools.Mixed):
    """Starts our tools and records the options of their command lines."""

    def __init__(self, lab):
        super().__init__(lab, "ours", "ours")
        self.used = {}

    def record(self, name, argv):
        self.used.setdefault(name, set()).update(word[1] for word in map(str, argv) if re.match(r"-[a-zA-Z]$", word))

    def start(self, name, *argv, **keywords):
        self.record(name, argv)
        return super().start(name, *argv, **keywords)

    def client(self, name, *argv, **keywords):
        self.record(name, argv)
        return super().client(name, *argv, **keywords)


def options_of(name):
    with open(os.path.join(SOURCE, "docs", "man", f"{name}.1"), encoding="utf-8") as page:
        return set(PAGE_OPTION.findall(page.read()))


def every_option(lab, name, run):
    """Calls run(), and compares the options that it used with those of the manual page."""
    recorder = Recorder(lab)
    run(recorder, LOOPBACK["ip4"])
    documented = options_of(name)
    check(documented, f"{name}(1) lists no options")
    check(documented == recorder.used[name], f"documented: {sorted(documented)}, used: {sorted(recorder.used[name])}")


def rping(lab, address):
    cm.rping(lab, address)
    port = lab.port()
    server = lab.start("rping", "-s", "-P", "-a", address, "-p", port, "-S", 100)
    lab.listens_cm(server, port)
    for _ in range(2):
        # -I binds the client to an address of its own. -d prints each step.
        client = lab.client("rping", "-c", "-a", address, "-I", "127.0.0.2", "-p", port, "-C", 2, "-S", 100,
                            "-v", "-V", "-d", "-q")
        printed = client.finish(lab.seconds(20))
        check(printed.count("ping data: rdma-ping-") == 2, client.story())
        check("RDMA addr" in printed, client.story())
        lengths = {len(line) for line in re.findall(r"ping data: (.*)", printed)}
        check(max(lengths) >= 90, client.story())
    check(server.running(), server.story())
    server.signal(signal.SIGTERM)
    server.finish(5, -signal.SIGTERM)


def ucmatose(lab, address):
    cm.ucmatose(lab, address, "-f", "ip", "-P", "tcp", "-c", 3, "-C", 5, "-S", 500, "-t", 32, "-a", 14, "-m")
    cm.ucmatose(lab, address, "-P", "ib", "-C", 0)


def udaddy(lab, address):
    cm.udaddy(lab, address, "-f", "ip", "-P", "udp", "-c", 3, "-C", 5, "-S", 500, "-t", 32)
    cm.udaddy(lab, address, "-P", "ipoib")
    cm.udaddy(lab, address, "-p", "0x2")


def multicast(lab, address):
    group = mckey.GROUP4
    mckey.mckey(lab, group, address, address, "-C", 5, "-S", 200, "-p", "0x111")
    receiver = mckey.member(lab, group, "-b", address, "-c", 2, count=2)
    mckey.is_done(lab.client("mckey", "-m", group, "-b", address, "-s", "-l"), lab.seconds(20))
    mckey.is_done(receiver, lab.seconds(20))
    mckey.sender_only(lab, group, address, address)
    mckey.by_gid(lab, "::ffff:" + group, address, address)


def cmtime(lab, address):
    port, connections = lab.port(), 20
    server = lab.start("cmtime", "-b", address, "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("cmtime", "-s", address, "-b", address, "-p", port, "-c", connections, "-r", 3, "-t", 1000)
    printed = client.finish(lab.seconds(30))
    # With -b the client binds its ids in a step of its own.
    check(re.search(r"^bind addr\s*:\s+[\d.]+", printed, re.M), client.story())
    check(server.running(), server.story())
    server.signal(signal.SIGTERM)
    server.finish(5, -signal.SIGTERM)


def streams(program, *options):
    def run(lab, address):
        rsocket.streaming(lab, program, address, "-f", "ip", "-B", 65536, "-i", 16, "-I", 2, "-C", 20, "-S", 100,
                          "-T", "v", *options)
    return run


def udpong(lab, address):
    rsocket.udpong(lab, address, "-B", 65536, "-C", 50, "-S", 200, "-T", "e")


def rcopy(lab, address):
    rsocket.rcopy(lab, address, 10000)


def one_message(lab, address):
    tools.one_message(lab, address, "-c", "x")


RUNS = {"cmtime": cmtime, "mckey": multicast, "rcopy": rcopy, "rdma_client": cm.rdma_client_server,
        "rdma_server": cm.rdma_client_server, "rdma_xclient": one_message, "rdma_xserver": one_message,
        "riostream": streams("riostream"), "rping": rping, "rstream": streams("rstream", "-k", 1),
        "ucmatose": ucmatose, "udaddy": udaddy, "udpong": udpong}


def format_gid(lab, name):
    """The format is an option, but a RoCE device has no such addresses."""
    program = lab.start(lab.own(name), "-s", LOOPBACK["ip6"], "-f", "gid")
    printed = program.finish(lab.seconds(20), None)
    check(program.process.returncode and "getaddrinfo" in printed and "ai_family not supported" in printed,
          program.story())


def every_tool():
    check(set(RUNS) == set(tools.TOOLS), f"{set(RUNS) ^ set(tools.TOOLS)}")


def body(lab, cases):
    cases.run("every tool has a run", every_tool)
    for name, run in RUNS.items():
        cases.run(f"every option of {name}", every_option, lab, name, run)
    for name in ("riostream", "rstream", "ucmatose", "udaddy"):
        cases.run(f"{name} -f gid reports an error", format_gid, lab, name)


if __name__ == "__main__":
    laboratory.main(body)
