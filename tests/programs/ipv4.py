# SPDX-License-Identifier: BSD-2-Clause
"""Kernels without IPv6, and with IPv6 disabled: all traffic uses IPv4, on one host and between two."""

import contextlib
import os
import subprocess

from tests.programs import cm, mckey, perftest, verbs
from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, WIRE, check

# Without IPv6 addresses the GID table has other indices: the first IPv4 GID still has index 1.
NEAR, LO = dict(WIRE, gid=1), dict(LOOPBACK, gid=1)
SWITCHES = ("all", "default", "wire0", "own0", "lo")


def turn_off(host):
    """Disables IPv6 in a namespace; returns whether that succeeded."""
    with host:
        try:
            for name in SWITCHES:
                path = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
                if os.path.exists(path):
                    with open(path, "w", encoding="ascii") as switch:
                        switch.write("1")
        except OSError:
            return False
    return True


def within(lab, function, *args):
    """Runs two programs on the near host."""
    far, lab.far = lab.far, None
    lab.env["USRDMA_TRANSPORT"] = "roce"
    try:
        function(lab, *args)
    finally:
        lab.far = far
        del lab.env["USRDMA_TRANSPORT"]


def port_is_open(lab):
    within(lab, cm.rping, LOOPBACK["ip4"])
    check(lab.status()["daemon"]["roce_port"] == "open", lab.status()["daemon"])


def between_hosts(lab, cases, name):
    cases.run(f"the port is open, {name}", port_is_open, lab)
    cases.run(f"rping, {name}", cm.rping, lab, WIRE["ip4"])
    cases.run(f"ucmatose, {name}", cm.ucmatose, lab, WIRE["ip4"])
    cases.run(f"without a listener, {name}", cm.refused, lab, WIRE["ip4"])
    cases.run(f"mckey, {name}", mckey.mckey, lab, mckey.GROUP4, WIRE["ip4"], WIRE["ip4"][:-1] + "2")
    for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
        cases.run(f"{program}, {name}", verbs.pingpong, lab, program, NEAR, "-c")
        cases.run(f"{program}, one host, {name}", within, lab, verbs.pingpong, program, LO, "-c")
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        cases.run(f"{program}, {name}", perftest.perftest, lab, program, NEAR)


def without(lab, cases):
    """The near host has no IPv6; the far host has it."""
    plain, home = lab.command, os.readlink("/proc/self/ns/net")

    def command():
        is_near = os.readlink("/proc/self/ns/net") == home
        return ([lab.tool("without"), "ipv6"] if is_near else []) + plain()
    lab.command = command
    between_hosts(lab, cases, "no IPv6")
    lab.end_daemons()
    lab.command = plain


def body(lab, cases):
    if not lab.isolated:
        cases.skip("no IPv6", "no right to make a network namespace")
        return
    lab.add_host()
    if subprocess.run([lab.tool("without"), "ipv6", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        without(lab, cases)
    else:
        cases.skip("no IPv6", "no filter for this machine")
    if turn_off(contextlib.nullcontext()) and turn_off(lab.far):
        between_hosts(lab, cases, "IPv6 turned off")
    else:
        cases.skip("IPv6 turned off", "no right to turn it off")


if __name__ == "__main__":
    laboratory.main(body)
