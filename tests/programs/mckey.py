# SPDX-License-Identifier: BSD-2-Clause
"""Multicast by the rdma_cm: runs Debian's mckey on one host and between two, over IPv4 and IPv6."""

import contextlib
import re
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, OWN, WIRE, check, wait_until

GROUP4, GROUP6 = "239.77.1.1", "ff0e::77:1"
SOON = 10


def joins(lab, group):
    """Returns how many ids of this host have joined the group, by their role."""
    status = lab.status() or {}
    return sum(join["group"] == group.removeprefix("::ffff:") for join in status.get("multicast_joins", ()))


def member(lab, group, *options, count=1):
    """A receiver that has joined. It prints its output when it ends."""
    before = joins(lab, group)
    program = lab.start("mckey", "-m", group, *options)
    wait_until(lambda: joins(lab, group) == before + count or not program.running(), lab.seconds(SOON), "the join")
    check(program.running(), program.story())
    return program


def is_done(program, seconds):
    printed = program.finish(seconds)
    check("return status 0" in printed and "data transfers complete" in printed, program.story())
    return printed


def mckey(lab, group, near, far, *options):
    """The member receives all datagrams of the sender; afterwards no id is in the group."""
    heard_by(1, lab, group, near, far, *options)


def three(lab, group, near, far):
    """Each of three programs receives all datagrams."""
    heard_by(3, lab, group, near, far)


def heard_by(receivers, lab, group, near, far, *options):
    members = [member(lab, group, "-b", near, *options) for _ in range(receivers)]
    sender = lab.client("mckey", "-m", group, "-b", far, "-s", *options)
    gid = group if ":" in group else "::ffff:" + group
    for program in (sender, *members):
        check(f"joined dgid: {gid} mlid 0x0" in is_done(program, lab.seconds(20)), program.story())
    wait_until(lambda: joins(lab, group) == 0, lab.seconds(SOON), "the end of the joins")


def by_gid(lab, gid, near, far):
    """Joins a group by its GID, without address resolution."""
    before = joins(lab, gid)
    receiver = lab.start("mckey", "-M", gid, "-b", near)
    wait_until(lambda: joins(lab, gid) > before or not receiver.running(), lab.seconds(SOON), "the join")
    is_done(lab.client("mckey", "-M", gid, "-b", far, "-s"), lab.seconds(20))
    is_done(receiver, lab.seconds(20))


def sender_only(lab, group, near, far):
    """A send-only member receives no datagrams, its own included."""
    receiver = member(lab, group, "-b", near)
    is_done(lab.client("mckey", "-m", group, "-b", far, "-s", "-o"), lab.seconds(20))
    is_done(receiver, lab.seconds(20))


def by_route(lab, group):
    """Without a source address the join uses the interface of the host's route to the group."""
    def command(verb):
        for host in (lab.far, contextlib.nullcontext()):
            with host:
                subprocess.run(f"ip route {verb} 224.0.0.0/4 dev wire0".split(), check=True)
    command("add")
    try:
        receiver = member(lab, group)
        is_done(lab.client("mckey", "-m", group, "-s"), lab.seconds(20))
        is_done(receiver, lab.seconds(20))
    finally:
        command("del")


def no_way(lab, group, *options):
    """Without a route to the group the address resolution fails, and mckey reports it."""
    program = lab.start("mckey", "-m", group, *options)
    printed = program.finish(lab.seconds(SOON), None)
    check(program.process.returncode != 0, program.story())
    check(re.search(r"RDMA_CM_EVENT_ADDR_ERROR, error: -101\b", printed), program.story())


def over_loopback6(lab):
    """IPv6 groups are delivered over lo if a route leads there."""
    no_way(lab, GROUP6, "-b", "::1")
    subprocess.run("ip -6 route add local ff00::/8 dev lo table local".split(), check=True)
    try:
        mckey(lab, GROUP6, "::1", "::1")
    finally:
        subprocess.run("ip -6 route del local ff00::/8 dev lo table local".split(), check=True)


def one_host(lab, cases):
    cases.run("IPv4, lo", mckey, lab, GROUP4, LOOPBACK["ip4"], LOOPBACK["ip4"])
    if not lab.isolated:
        return
    cases.run("IPv6, lo", over_loopback6, lab)
    cases.run("no route and no address", no_way, lab, GROUP4)
    cases.run("IPv4, own address", mckey, lab, GROUP4, OWN["ip4"], OWN["ip4"])
    cases.run("IPv6, own address", mckey, lab, GROUP6, OWN["ip6"], OWN["ip6"])
    cases.run("three receivers", three, lab, GROUP4, OWN["ip4"], OWN["ip4"])


def two_hosts(lab, cases):
    near4, near6 = WIRE["ip4"], WIRE["ip6"]
    far4, far6 = near4[:-1] + "2", near6[:-1] + "2"
    cases.run("IPv4, two hosts", mckey, lab, GROUP4, near4, far4)
    cases.run("IPv6, two hosts", mckey, lab, GROUP6, near6, far6)
    cases.run("IPv6, two hosts, a group of the link", mckey, lab, "ff02::77:1", near6, far6)
    cases.run("-S 1000 -C 100, two hosts", mckey, lab, GROUP4, near4, far4, "-S", 1000, "-C", 100)
    cases.run("three receivers, two hosts", three, lab, GROUP4, near4, far4)
    cases.run("-l, two hosts", mckey, lab, GROUP4, near4, far4, "-l")
    cases.run("-o, two hosts", sender_only, lab, GROUP4, near4, far4)
    cases.run("-M, two hosts", by_gid, lab, GROUP6, near6, far6)
    cases.run("-M, two hosts, a group of IPv4", by_gid, lab, "::ffff:" + GROUP4, near4, far4)
    cases.run("-M, two hosts, mapped addresses", by_gid, lab, "::ffff:" + GROUP4, "::ffff:" + near4, "::ffff:" + far4)
    cases.run("IPv4, two hosts, mapped addresses", mckey, lab, "::ffff:" + GROUP4, "::ffff:" + near4, "::ffff:" + far4)
    cases.run("no address, two hosts", by_route, lab, GROUP4)


def body(lab, cases):
    one_host(lab, cases)
    if lab.isolated:
        lab.add_host()
        two_hosts(lab, cases)


if __name__ == "__main__":
    laboratory.main(body)
