# SPDX-License-Identifier: BSD-2-Clause
"""Where the measurements run: processes of this host, with and without our libraries, and two network namespaces."""

import atexit
import functools
import os
import subprocess

from bench import pairs
from bench.pairs import BUILD, RUN, Place

HERE = pairs.Place()
OURS = pairs.Place(RUN, RUN)
# RoCEv2 packets over loopback UDP, also between processes of this host.
WIRE = pairs.Place(RUN, RUN, env={"USRDMA_TRANSPORT": "roce"})


# The same for a user other than root, to whom root's daemon forwards packets (ADR 0023).
FORWARDED = pairs.Place(*[["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] + RUN] * 2,
                        env={"USRDMA_TRANSPORT": "roce"})


@functools.lru_cache
def root_daemon():
    """Starts a daemon of root that runs until this program exits, unless a daemon is running already."""
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for a daemon of root's")
    daemon = subprocess.Popen([os.path.join(BUILD, "usrdmad"), "--foreground", "--idle-seconds", "0"],
                              stderr=subprocess.DEVNULL)
    atexit.register(daemon.kill)
    pairs.wait_for(lambda: subprocess.run([RUN[0], "status", "--json"], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL, check=False).returncode == 0, 10, "the daemon")


def ip_command(*words):
    subprocess.run(["ip", *words], check=True)


def link_is_up(namespace, device):
    """The kernel reports the carrier of a new veth pair with a delay of up to a second."""
    shown = subprocess.run(["ip", "-n", namespace, "-o", "link", "show", device], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    return "state UP" in shown


@functools.lru_cache
def namespaces():
    """Two network namespaces with one veth pair, until this program exits."""
    if os.geteuid() != 0:
        raise RuntimeError("needs root, for network namespaces")
    names = [f"bench{os.getpid()}{end}" for end in "ab"]
    for name in names:
        ip_command("netns", "add", name)
        atexit.register(subprocess.run, ["ip", "netns", "del", name], check=False)
    ip_command("link", "add", "bench0", "netns", names[0], "type", "veth", "peer", "name", "bench0", "netns", names[1])
    for number, name in enumerate(names, 1):
        ip_command("-n", name, "address", "add", f"10.98.0.{number}/24", "dev", "bench0")
        ip_command("-n", name, "link", "set", "lo", "up")
        ip_command("-n", name, "link", "set", "bench0", "up")
    for name in names:
        pairs.wait_for(lambda name=name: link_is_up(name, "bench0"), 10, "the carrier of bench0")
    return Place(["ip", "netns", "exec", names[0]], ["ip", "netns", "exec", names[1]], ("bench0", "bench0"),
                 "10.98.0.1", ["1"])
