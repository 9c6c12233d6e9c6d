# SPDX-License-Identifier: BSD-2-Clause
"""The rules of usrdma fault for points in the daemon: messages of the communication manager, devices, processes. They
are driven against unmodified programs."""

import time

from tests.programs import lab as laboratory
from tests.programs.fault import command, fault, fired, rping_pair
from tests.programs.lab import LOOPBACK, check, wait_until


def rping(lab, count=1, status=0, **env):
    """Runs a client with a server; returns both after the client has ended."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port, "-C", count, **env)
    lab.listens_cm(server, port)
    client = lab.client("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-C", count, "-v", **env)
    client.finish(lab.seconds(30), status)
    return client, server


def late_answers(lab):
    """Each message of the connection is late on both points; the connection is established all the same."""
    fault(lab, "add", "mad.send:delay=100ms", "mad.receive:delay=50ms:op=REQ,REP")
    started = time.monotonic()
    client, server = rping(lab)
    server.finish(lab.seconds(30))
    check(time.monotonic() - started >= 0.4 and fired(lab) >= 6, fault(lab))
    check("ping data" in client.output(), client.story())
    fault(lab, "clear")


def no_answer(lab, rule):
    """The answer is lost, or later than the CM timeout: the active side reports UNREACHABLE."""
    fault(lab, "add", rule)
    client, _ = rping(lab, status=None, USRDMA_CM_TIMEOUT="1")
    check("RDMA_CM_EVENT_UNREACHABLE, error -110" in client.output() and fired(lab) > 0, client.story())
    check(command(lab, "why", client.pid).startswith("connection to 127.0.0.1:"), command(lab, "why", client.pid))
    fault(lab, "clear")
    lab.end_programs()


def lost_rtu(lab):
    """The passive side repeats its REP, and the active side its RTU."""
    fault(lab, "add", "mad.send:drop:op=RTU:times=1")
    client, server = rping(lab)
    server.finish(lab.seconds(30))
    check("ping data" in client.output() and fired(lab) == 1, client.story())
    fault(lab, "clear")


def rejected(lab, rule, reason):
    """rping prints the event with the reason of the rule, and why names the rejection."""
    fault(lab, "add", rule)
    client, server = rping(lab, status=None)
    check(f"RDMA_CM_EVENT_REJECTED, error {reason}" in client.output() and fired(lab) == 1, client.story())
    text = command(lab, "why", client.pid)
    check("rejected: " in text and f"(REJ reason {reason})" in text, text)
    check(server.running(), server.story())
    fault(lab, "clear")
    lab.end_programs()


def disconnected(lab, rule, transport="local"):
    """A rule ends the connection of a running program, after a time or a number of completions. Both sides get
    DISCONNECTED."""
    server, client = rping_pair(lab, USRDMA_TRANSPORT=transport)
    client.says("ping data")
    fault(lab, "add", f"{rule}:pid={client.pid}")
    for program in (client, server):
        program.finish(lab.seconds(30), None)
    check("client DISCONNECT EVENT" in client.output(), client.story())
    check("server DISCONNECT EVENT" in server.output(), server.story())
    check(fired(lab) == 1, fault(lab))
    fault(lab, "clear")
    lab.end_programs()


def device_events(lab):
    """Debian's ibv_asyncwatch prints each event of a rule."""
    watch = lab.start("ibv_asyncwatch", "-d", "lo")
    wait_until(lambda: any(process["pid"] == watch.pid for process in (lab.status() or {}).get("processes", [])),
               lab.seconds(10), "the program")
    for action, printed in (("gid_change", "IBV_EVENT_GID_CHANGE"), ("lid_change", "IBV_EVENT_LID_CHANGE"),
                            ("sm_change", "IBV_EVENT_SM_CHANGE"),
                            ("client_reregister", "IBV_EVENT_CLIENT_REREGISTER"), ("down", "IBV_EVENT_PORT_ERR"),
                            ("remove", "IBV_EVENT_DEVICE_FATAL")):
        event = f"{printed} "
        fault(lab, "add", f"device:{action}:dev=lo:times=1")
        wait_until(lambda event=event: event in watch.output(), lab.seconds(20), f"{event}: {watch.output()}")
        fault(lab, "clear")
    wait_until(lambda: "IBV_EVENT_PORT_ACTIVE " in watch.output(), lab.seconds(20), "the end of the fault")
    lab.end_programs()


def device_is_removed(lab):
    """Both sides of a connection get DEVICE_REMOVAL. The device is not listed until the rule ends."""
    def devices():
        return lab.start("ibv_devices").finish(lab.seconds(10)).split()

    check("lo" in devices(), f"{devices()}")
    server, client = rping_pair(lab)
    client.says("ping data")
    fault(lab, "add", "device:remove:dev=lo")
    for program in (client, server):
        program.says("cma detected device removal", lab.seconds(20))
    wait_until(lambda: "lo" not in devices(), lab.seconds(20), "the removal of the device")
    late = lab.client("rping", "-c", "-a", LOOPBACK["ip4"], "-p", lab.port(), "-C", 1)
    late.finish(lab.seconds(20), None)
    check("RDMA_CM_EVENT_ADDR_ERROR, error -19" in late.output(), late.story())
    fault(lab, "clear")
    wait_until(lambda: "lo" in devices(), lab.seconds(20), "the device")
    lab.end_programs()
    rping(lab)


def body(lab, cases):
    cases.run("late answers", late_answers, lab)
    cases.run("no answer", no_answer, lab, "mad.receive:drop:op=REQ")
    cases.run("an answer after the timeout", no_answer, lab, "mad.send:delay=3s:op=REP")
    cases.run("lost RTU", lost_rtu, lab)
    cases.run("rejected by the passive side", rejected, lab, "mad.receive:reject=28", 28)
    cases.run("disconnected after a time", disconnected, lab, "connection:disconnect:from=100ms")
    for transport in ("local", "roce"):
        cases.run(f"{transport}: disconnected by a completion", disconnected, lab, "qp.event:disconnect:nth=100",
                  transport)
    cases.run("events of a device", device_events, lab)
    cases.run("a device is removed", device_is_removed, lab)
    cases.run("rejected on behalf of the peer", rejected, lab, "mad.send:reject=INVALID_SERVICE_ID:times=1", 8)


if __name__ == "__main__":
    laboratory.main(body)
