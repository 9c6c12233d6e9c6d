# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts with a router between them: runs the pingpong programs of libibverbs, which set the hop limit 1. As on
Linux, the library replaces it by the hop limit of the kernel's route, so the packets pass the router."""

import os

from tests.programs import lab as laboratory
from tests.programs import verbs
from tests.programs.lab import CLONE_NEWNET, LIBC, assign_addresses, check, enter, ip_command, wait_until

NEAR, FAR = ("10.91.1", "fd91:1::"), ("10.91.2", "fd91:2::")
DEVICE = "road0"
# verbs.pingpong() starts its server on the near host. The programs exchange their QPNs over TCP and IPv4.
SIDES = ({"name": "IPv4", "device": DEVICE, "gid": 1, "ip4": NEAR[0] + ".1"},
         {"name": "IPv6", "device": DEVICE, "gid": 2, "ip4": NEAR[0] + ".1"})
PROGRAMS = ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")


class Router:
    """A third namespace, kept by a descriptor, with one interface to each host. Each host has a default route through
    it."""

    def __init__(self, far):
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        check(LIBC.unshare(CLONE_NEWNET) == 0, "no third namespace")
        try:
            self.namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            for name, (net4, net6), host in (("near0", NEAR, home), ("far0", FAR, far.namespace)):
                add = f"ip link add {name} type veth peer name {DEVICE} netns /proc/{os.getpid()}/fd/{host}"
                run(add)
                assign_addresses(name, net4 + ".254", net6 + "fe")
            run("sysctl -qw net.ipv4.ip_forward=1", "sysctl -qw net.ipv6.conf.all.forwarding=1")
        finally:
            enter(home)
        self.connect(NEAR)
        with far:
            self.connect(FAR)

    @staticmethod
    def connect(nets):
        """The addresses and routes of a host."""
        net4, net6 = nets
        assign_addresses(DEVICE, net4 + ".1", net6 + "1")
        run(f"ip route add default via {net4}.254", f"ip -6 route add default via {net6}fe dev {DEVICE}")
        wait_until(lambda: laboratory.carrier_and_link_local(DEVICE), 10, DEVICE)


def run(*lines):
    for line in lines:
        ip_command(*line.split())


def body(lab, cases):
    if not lab.isolated or os.geteuid() != 0:
        cases.skip("a router", "no right to make a network namespace")
        return
    lab.add_host()
    router = Router(lab.far)
    for side in SIDES:
        for program in PROGRAMS:
            cases.run(f"{program}, {side['name']}", verbs.pingpong, lab, program, side, "-c", "-n", 200)
    os.close(router.namespace)


if __name__ == "__main__":
    laboratory.main(body)
