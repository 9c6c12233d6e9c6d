# SPDX-License-Identifier: BSD-2-Clause
"""Containers with one network namespace and PID namespaces of their own, as in a pod: the daemon is in the container
whose program started it, and ends with that container."""

import os
import re
import shlex
import signal
import sys

from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.daemon_kit import daemon, is_listening
from tests.programs.lab import check, wait_until

CONTAINER = ("unshare", "-pf", "--kill-child", "--mount-proc", "sh", "-c")
WARNING = "warning  the daemon is in another PID namespace: a program of another container started it"


def container(lab, script):
    """Starts a container that runs the script as root; $U is the command usrdma."""
    return lab.start(*CONTAINER, script, native=True, user=0, U=os.path.join(lab.tree, "usrdma"))


def pair(lab):
    """A container with a server and a client that transfer data until their connection ends."""
    port = lab.port()
    both = container(lab, f"$U rping -s -a 127.0.0.1 -p {port} & "
                          f"until $U status | grep -q {port}; do :; done; $U rping -c -v -a 127.0.0.1 -p {port}; wait; "
                          "echo both ended; exec sleep 1000")
    both.says("ping data", lab.seconds(20))
    return both


# Registers memory that does not exist, and continues to run with its device.
FAILS = """
import ctypes, signal
verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"):
    getattr(verbs, name).restype = ctypes.c_void_p
devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
pd = verbs.ibv_alloc_pd(ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0]))))
region = verbs.ibv_reg_mr(ctypes.c_void_p(pd), ctypes.c_void_p(4096), ctypes.c_size_t(4096), 1)
print("registered" if region else f"errno {ctypes.get_errno()}", flush=True)
signal.pause()
"""


def earlier_failures_of_surviving_process_are_explained(lab):
    """A process that loses the daemon reports its earlier failures to the successor."""
    first = container(lab, "$U run ibv_devices; exec sleep 1000")
    wait_until(is_listening, lab.seconds(20), "the daemon")
    fails = container(lab, f"$U run {shlex.quote(sys.executable)} -c {shlex.quote(FAILS)}")
    fails.says("errno", lab.seconds(20))
    before = usrdma(lab, "why", uid=0)[1]
    check("ibv_reg_mr" in before, before)
    first.signal(signal.SIGKILL)
    fails.says("the RDMA daemon ended", lab.seconds(20))
    wait_until(lambda: "the RDMA daemon ended" in usrdma(lab, "why", uid=0)[1], lab.seconds(20), "the report")
    text = usrdma(lab, "why", uid=0)[1]
    check(before.splitlines()[0] in text, f"before:\n{before}\nafter:\n{text}")
    fails.end()


def daemon_end_of_its_container_is_explained(lab):
    """The connections of the other container end. Its programs print the cause, and start a daemon that stores it."""
    first = container(lab, "$U run ibv_devices; exec sleep 1000")
    wait_until(is_listening, lab.seconds(20), "the daemon")
    both = pair(lab)
    check(WARNING in usrdma(lab, "doctor", uid=0)[1], "doctor outside the containers prints no warning")
    beside = container(lab, "$U doctor")
    check(WARNING in beside.finish(lab.seconds(20), None), beside.story())
    first.signal(signal.SIGKILL)
    both.says("both ended", lab.seconds(20))
    text = both.output()
    check(text.count("the RDMA daemon ended, which ran in another PID namespace, that of the container") == 2, text)
    text = usrdma(lab, "why", uid=0)[1]
    check(re.match(r"the RDMA daemon ended, and with it all queue pairs and connections of this process: the daemon "
                   "ran in another PID namespace, that of the container", text), text)
    check("rping" in text and "  do:    run usrdmad --foreground --idle-seconds 0 in a container" in text, text)
    both.end()


def daemon_in_own_container_survives_other_containers(lab):
    """The documented pattern: the connections of a container continue when another container ends."""
    with daemon(lab, uid=0):
        first = container(lab, "$U run ibv_devices; exec sleep 1000")
        both = pair(lab)
        beside = container(lab, "$U doctor")
        text = beside.finish(lab.seconds(20), None)
        check("daemon: pid " in text and WARNING not in text, text)
        first.signal(signal.SIGKILL)
        first.process.wait()
        printed = len(both.output())
        wait_until(lambda: len(both.output()) > printed, lab.seconds(10), "more data")
        check(both.running(), both.story())
        both.end()


def daemon_killed_without_container_is_not_replaced(lab):
    """If the user kills the daemon of the same PID namespace, a running program starts no other daemon."""
    with daemon(lab, uid=0) as process:
        port = lab.port()
        server = lab.start(os.path.join(lab.tree, "usrdma"), "rping", "-s", "-a", "127.0.0.1", "-p", port, native=True)
        lab.listens_cm(server, port)
        process.kill()
        process.wait()
        server.finish(lab.seconds(20), None)
        check(not is_listening(), "a daemon was started")


def body(lab, cases):
    why_not = None if lab.drops and lab.isolated else "needs root"
    for case in (daemon_in_own_container_survives_other_containers, daemon_killed_without_container_is_not_replaced,
                 daemon_end_of_its_container_is_explained, earlier_failures_of_surviving_process_are_explained):
        lab.end_daemons()
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
