# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts, each with a daemon of root, and Debian's programs as an unprivileged user: the daemons receive the
programs' packets and pass them on in forwarding rings."""

import contextlib

from tests.programs import cm, losses, perftest, verbs
from tests.programs import lab as laboratory
from tests.programs.daemon_kit import daemon
from tests.programs.lab import WIRE, check


def forwarded(lab):
    return lab.status()["daemon"]["roce_forwarded_datagrams"]


def is_forwarded(lab):
    """Checks that the daemon forwards the packets that a program receives."""
    before = forwarded(lab)
    cm.rping(lab, WIRE["ip4"])
    check(forwarded(lab) > before, "the daemon forwarded nothing")


def one_host(lab, cases):
    """Both sides of a connection are on one host and use UDP."""
    lab.far = None
    lab.env["USRDMA_TRANSPORT"] = "roce"
    for side in lab.sides:
        cases.run(f"rping, {side['name']}", cm.rping, lab, side["ip4"])
        cases.run(f"rping, {side['name']}, IPv6", cm.rping, lab, side["ip6"])
    del lab.env["USRDMA_TRANSPORT"]


def two_hosts(lab, cases):
    cases.run("packets are forwarded", is_forwarded, lab)
    cases.run("rping -S 60000, IPv6", cm.rping, lab, WIRE["ip6"], "-S", 60000)
    cases.run("ucmatose -c 20 -C 50 -S 4000", cm.ucmatose, lab, WIRE["ip4"], "-c", 20, "-C", 50, "-S", 4000)
    cases.run("udaddy, IPv6", cm.udaddy, lab, WIRE["ip6"], "-f", "ipv6")
    for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
        cases.run(f"{program} -e", verbs.pingpong, lab, program, WIRE, "-c", "-e")
    for program in ("ib_write_bw", "ib_read_lat", "ib_send_bw"):
        cases.run(program, perftest.perftest, lab, program, WIRE)
    cases.run("ib_send_bw -b -q 4", perftest.perftest, lab, "ib_send_bw", WIRE, "-b", "-q", 4)
    for family in perftest.GROUPS:
        cases.run(f"ib_send_bw -c UD -g, {family}", perftest.multicast, lab, "ib_send_bw", WIRE, family)
    cases.run("ibv_xsrq_pingpong", verbs.xsrq_pingpong, lab, WIRE)


def bad_network(lab, cases):
    side = losses.BAD
    with losses.bad_road(lab, side):
        tcp = {**side, "ip4": WIRE["ip4"]}
        cases.run("rping, frames lost", cm.rping, lab, side["ip4"])
        cases.run("ib_write_bw, frames lost", perftest.perftest, lab, "ib_write_bw", tcp, "-n", 20, "-s", 9000)


def body(lab, cases):
    if not lab.isolated or not lab.drops:
        cases.skip("daemons of root's", "only root can start programs of several users")
        return
    lab.add_host()
    with contextlib.ExitStack() as daemons:
        daemons.enter_context(daemon(lab, uid=0))
        with lab.far:
            daemons.enter_context(daemon(lab, uid=0))
        two_hosts(lab, cases)
        if losses.has_tap_devices():
            bad_network(lab, cases)
        one_host(lab, cases)


if __name__ == "__main__":
    laboratory.main(body)
