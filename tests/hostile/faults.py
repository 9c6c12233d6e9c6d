# SPDX-License-Identifier: BSD-2-Clause
"""With the daemon of root, the fault rules of a user apply to this user's own processes, connections and contexts, and
to nothing of other users."""

import json
import os
import subprocess

from tests.hostile import kit
from tests.hostile.probes import refused_with
from tests.programs import wire

LOOPBACK = "127.0.0.1"


def usrdma(lab, uid, *arguments):
    """Runs the command as this user. Returns its output."""
    done = subprocess.run([os.path.join(lab.tree, "usrdma"), *map(str, arguments)], env=lab.env, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=lab.seconds(20),
                          **kit.as_uid(uid))
    kit.check(done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def firings(lab, uid):
    """The firings of each rule of this user."""
    return [rule["firings"] for rule in json.loads(usrdma(lab, uid, "fault", "list", "--json"))["rules"]]


def fires(lab, uid, count=1):
    kit.wait_until(lambda: sum(firings(lab, uid)) >= count, lab.seconds(20), f"{count} firings of the rules of {uid}")


def rping_pair(lab, server_uid, client_uid, **env):
    """A server and a client that runs until an error."""
    port = lab.port()
    server = kit.start_as(lab, server_uid, "rping", "-s", "-a", LOOPBACK, "-p", port, **env)
    lab.listens_cm(server, port)
    client = kit.start_as(lab, client_uid, "rping", "-c", "-a", LOOPBACK, "-p", port, "-v", **env)
    return server, client


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rsplit(") ", 1)[1].split()[0]


def goes_on(lab, client):
    count = client.output().count("ping data")
    kit.wait_until(lambda: client.output().count("ping data") > count + 5, lab.seconds(20), "further data")


def port_state(lab, uid):
    printed = kit.start_as(lab, uid, "ibv_devinfo", "-d", "lo").finish(lab.seconds(10))
    return "PORT_DOWN" if "PORT_DOWN" in printed else "PORT_ACTIVE"


def watch(lab, uid):
    """A program of this user that prints the events of the device."""
    program = kit.start_as(lab, uid, "ibv_asyncwatch", "-d", "lo")
    program.says("async event FD")
    return program


def processes_of_another_user(lab):
    """Rules that name a program stop and kill the own process of this name only."""
    with kit.daemon(lab, uid=0):
        victims = rping_pair(lab, kit.VICTIM, kit.VICTIM)
        own = rping_pair(lab, kit.ATTACKER, kit.ATTACKER)
        for client in (victims[1], own[1]):
            client.says("ping data")
        usrdma(lab, kit.ATTACKER, "fault", "add", "process:stop:prog=rping")
        kit.wait_until(lambda: all(state_of(program.pid) == "T" for program in own), lab.seconds(20), "the own stop")
        goes_on(lab, victims[1])
        kit.check(all(state_of(program.pid) != "T" for program in victims), "another user's process is stopped")
        usrdma(lab, kit.ATTACKER, "fault", "clear")
        kit.wait_until(lambda: all(state_of(program.pid) != "T" for program in own), lab.seconds(20),
                       "the own continuation")
        usrdma(lab, kit.ATTACKER, "fault", "add", "process:kill:prog=rping")
        kit.wait_until(lambda: not any(program.running() for program in own), lab.seconds(20), "the own end")
        goes_on(lab, victims[1])
        usrdma(lab, kit.ATTACKER, "fault", "add", *(f"process:kill:pid={program.pid}" for program in victims))
        goes_on(lab, victims[1])
        kit.check(sum(firings(lab, kit.ATTACKER)[1:]) == 0, usrdma(lab, kit.ATTACKER, "fault"))


def connections_of_another_user(lab):
    """A rule without conditions ends the own connections, and the victim's connection continues."""
    with kit.daemon(lab, uid=0):
        victims = rping_pair(lab, kit.VICTIM, kit.VICTIM)
        own = rping_pair(lab, kit.ATTACKER, kit.ATTACKER)
        for client in (victims[1], own[1]):
            client.says("ping data")
        usrdma(lab, kit.ATTACKER, "fault", "add", "connection:disconnect")
        kit.wait_until(lambda: not any(program.running() for program in own), lab.seconds(20), "the own end")
        goes_on(lab, victims[1])


def queue_pair_of_another_user(lab):
    """An engine cannot end the connection of a queue pair that is not its own."""
    with kit.daemon(lab, uid=0):
        victims = rping_pair(lab, kit.VICTIM, kit.VICTIM)
        victims[1].says("ping data")
        qpns = [int(qp["qpn"], 16) if isinstance(qp["qpn"], str) else qp["qpn"]
                for process in lab_status(lab)["processes"] for qp in process.get("qps", [])]
        kit.check(len(qpns) == 2, f"{qpns}")
        answers = kit.Child(kit.ATTACKER, lambda: disconnects(qpns))
        with answers:
            kit.check(answers.result == "EPERM EPERM ENOTCONN", answers.result)
        goes_on(lab, victims[1])


def lab_status(lab):
    return json.loads(usrdma(lab, kit.ROOT, "status", "--json"))


def disconnects(qpns):
    """The answers for these queue pairs, and for one of the engine's own range without a connection."""
    with kit.closing(wire.Engine()) as (engine,):
        qpns = [*qpns, engine.slot << wire.SLOT_SHIFT | 7]
        return None, " ".join(refused_with(engine.request, wire.FAULT_DISCONNECT, wire.body("fault_disconnect", qpn, 0))
                              for qpn in qpns)


def devices_of_another_user(lab):
    """A port is down for the processes of the user who set the rule only. Root's rules apply to all users."""
    with kit.daemon(lab, uid=0):
        usrdma(lab, kit.ATTACKER, "fault", "add", "device:down:dev=lo")
        kit.wait_until(lambda: port_state(lab, kit.ATTACKER) == "PORT_DOWN", lab.seconds(20), "the own port")
        kit.check(port_state(lab, kit.VICTIM) == "PORT_ACTIVE", "the port of another user is down")
        watches = [watch(lab, uid) for uid in (kit.ATTACKER, kit.VICTIM)]
        usrdma(lab, kit.ROOT, "fault", "add", "device:down:dev=lo")
        kit.wait_until(lambda: port_state(lab, kit.VICTIM) == "PORT_DOWN", lab.seconds(20), "the rule of root")
        usrdma(lab, kit.ROOT, "fault", "clear")
        kit.wait_until(lambda: port_state(lab, kit.VICTIM) == "PORT_ACTIVE", lab.seconds(20), "the end of the rule")
        watches[1].says("IBV_EVENT_PORT_ACTIVE")
        kit.check(port_state(lab, kit.ATTACKER) == "PORT_DOWN", "the rule of the user has ended")
        usrdma(lab, kit.ATTACKER, "fault", "clear")
        watches[0].says("IBV_EVENT_PORT_ACTIVE")
        kit.check(port_state(lab, kit.ATTACKER) == "PORT_ACTIVE", "the rule of the user is in force")
        active = watches[0].output().count("IBV_EVENT_PORT_ACTIVE")
        kit.check(active == 1, f"{active} events PORT_ACTIVE; the first one while the port was down")


def messages_of_another_user(lab):
    """A user can lose its own CM messages, on both sides of its connections, and no message of other users."""
    with kit.daemon(lab, uid=0):
        usrdma(lab, kit.ATTACKER, "fault", "add", "mad:drop")
        server, client = rping_pair(lab, kit.VICTIM, kit.VICTIM)
        client.says("ping data")
        kit.check(sum(firings(lab, kit.ATTACKER)) == 0, "a message of another user passes the rule")
        usrdma(lab, kit.ATTACKER, "fault", "clear")
        usrdma(lab, kit.ATTACKER, "fault", "add", "mad.send:reject=28")
        own = kit.start_as(lab, kit.ATTACKER, "rping", "-c", "-a", LOOPBACK, "-p", lab.port(), "-C", 1)
        own.finish(lab.seconds(20), None)
        kit.check("RDMA_CM_EVENT_REJECTED, error 28" in own.output(), own.story())
        goes_on(lab, client)
        kit.check(server.running(), server.story())


def body(lab, cases):
    for case in (processes_of_another_user, connections_of_another_user, queue_pair_of_another_user,
                 devices_of_another_user, messages_of_another_user):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
