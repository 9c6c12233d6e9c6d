# SPDX-License-Identifier: BSD-2-Clause
"""With the daemon of root, the fault rules of a user apply to this user's own processes, connections and contexts, and
to nothing of other users."""

import contextlib
import json
import os
import re
import signal
import subprocess

from tests.hostile import kit
from tests.hostile.probes import refused_with, rules_file, set_rules
from tests.programs import wire
from tests.programs.lab import SOURCE

LOOPBACK = "127.0.0.1"
FIRST_UID, MANY = 100000, 650
# RULES_KEPT_USERS_MAX of src/daemon/rule_expiry.h.
KEPT_USERS = 64


def usrdma(lab, uid, *arguments, status=0):
    """Runs the command as this user. Returns its output."""
    done = subprocess.run([os.path.join(lab.tree, "usrdma"), *map(str, arguments)], env=lab.env, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=lab.seconds(20),
                          **kit.as_uid(uid))
    kit.check(done.returncode == status, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if status == 0 else done.stdout + done.stderr


def with_capabilities(*names):
    """The command that starts root's daemon with these capabilities only."""
    return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in names)])]


def service_capabilities():
    """Those of usrdmad.service."""
    with open(os.path.join(SOURCE, "tools", "usrdmad.service.in"), encoding="utf-8") as unit:
        names = re.search(r"^CapabilityBoundingSet=(.*)$", unit.read(), re.M)[1].split()
    return with_capabilities(*(name.removeprefix("CAP_").lower() for name in names))


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
    """Rules that name a program stop and kill the own process of this name only. The daemon has the capabilities of the
    service."""
    with kit.daemon(lab, uid=0, limited=service_capabilities()):
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


def rules_without_permission(lab):
    """A daemon without CAP_KILL refuses the rules for processes that it cannot apply. A rule of root, whose own
    processes the daemon may signal, counts the firings for other users' processes as failures, and logs no line for
    each."""
    with kit.daemon(lab, uid=0, limited=with_capabilities("net_bind_service", "net_raw")):
        pair = rping_pair(lab, kit.ATTACKER, kit.ATTACKER)
        pair[1].says("ping data")
        for rule in ("process:kill:prog=rping", "process:stop:prog=rping"):
            printed = usrdma(lab, kit.ATTACKER, "fault", "add", rule, status=1)
            kit.check("CAP_KILL" in printed, printed)
        kit.check(usrdma(lab, kit.ATTACKER, "fault") == "no fault rules\n", "a rule is in force")
        usrdma(lab, kit.ROOT, "fault", "add", "process:kill:prog=rping")
        failures = kit.wait_until(lambda: root_failures(lab), lab.seconds(20), "failures")
        kit.check(failures["firings"] == 0 and failures["error"] == os.strerror(1), f"{failures}")
        printed = usrdma(lab, kit.ROOT, "fault", status=1)
        kit.check("rule 1: " in printed and "nothing was injected: Operation not permitted" in printed, printed)
        goes_on(lab, pair[1])
        with open(os.path.join(lab.scratch, "daemon.err"), encoding="utf-8", errors="replace") as log:
            printed = [line for line in log if "rping" in line or "signal" in line]
        kit.check(len(printed) <= 1, f"{len(printed)} lines: {printed[:3]}")


def root_failures(lab):
    """The first rule of root if it has failures."""
    done = subprocess.run([os.path.join(lab.tree, "usrdma"), "fault", "list", "--json"], env=lab.env, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=lab.seconds(20))
    rule = json.loads(done.stdout)["rules"][0]
    return rule if rule["failures"] else None


def becomes_root_after_connecting():
    """As a set-user-ID program: the session's user is the attacker, the process belongs to root."""
    os.seteuid(kit.ATTACKER)
    engine = wire.Engine()
    os.seteuid(0)
    os.setresuid(0, 0, 0)
    return engine, f"{os.getpid()}"


def process_that_changed_its_user(lab):
    """A rule of a user sends no signal to a process that has the session of this user and other user IDs."""
    with kit.daemon(lab, uid=0, limited=service_capabilities()), \
            kit.Child(kit.ROOT, becomes_root_after_connecting) as child:
        usrdma(lab, kit.ATTACKER, "fault", "add", f"process:kill:pid={child.pid}", f"process:stop:pid={child.pid}")
        kit.wait_until(lambda: "nothing was injected: Operation not permitted" in any_status(lab, kit.ATTACKER),
                       lab.seconds(20), "a failure")
        kit.check(state_of(child.pid) in "SR", f"the process is {state_of(child.pid)}")


def any_status(lab, uid):
    done = subprocess.run([os.path.join(lab.tree, "usrdma"), "fault"], env=lab.env, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=lab.seconds(20), **kit.as_uid(uid))
    return done.stdout + done.stderr


def holds_sessions(count):
    return lambda: ([wire.Engine() for _ in range(count)], "connected")


def passes(lab, uid):
    return [rule["passes"] for rule in json.loads(usrdma(lab, uid, "fault", "list", "--json"))["rules"]]


def sessions_of_one_process(lab):
    """A process passes a rule once each time, however many sessions it has."""
    with kit.daemon(lab, uid=0), kit.Child(kit.ATTACKER, holds_sessions(100)) as many, \
            kit.Child(kit.ATTACKER, holds_sessions(1)) as one:
        usrdma(lab, kit.ATTACKER, "fault", "add", *(f"process:kill:pid={child.pid}:nth=1000000000"
                                                    for child in (one, many)))
        kit.wait_until(lambda: passes(lab, kit.ATTACKER)[0] >= 20, lab.seconds(20), "20 passes")
        of_one, of_many = passes(lab, kit.ATTACKER)
        kit.check(of_many <= of_one + 1, f"{of_many} passes with 100 sessions, {of_one} with one")


def stopped_program_of_a_killed_daemon(lab):
    """A program that a rule has stopped continues when the daemon is killed, and when the next daemon starts."""
    with kit.daemon(lab, uid=0, limited=service_capabilities()) as process:
        with kit.Child(kit.ATTACKER, holds_sessions(1)) as child:
            usrdma(lab, kit.ATTACKER, "fault", "add", f"process:stop:pid={child.pid}")
            kit.wait_until(lambda: state_of(child.pid) == "T", lab.seconds(20), "the stop")
            process.send_signal(signal.SIGKILL)
            process.wait()
            kit.wait_until(lambda: state_of(child.pid) != "T", lab.seconds(20), "the continuation")
            with kit.daemon(lab, uid=0):
                kit.check(state_of(child.pid) != "T", "the next daemon has stopped the program")


def as_user(uid, function):
    """Calls the function with this effective user ID, which SO_PEERCRED of a new connection has."""
    os.seteuid(uid)
    try:
        return function()
    finally:
        os.seteuid(0)


def leaves_rules(uid):
    with kit.closing(wire.Connection(wire.CONTROL)) as (connection,):
        set_rules(connection, uid, rules_file(b"device:down:dev=nosuch"))


def pages(process):
    """The numbers of descriptors and mappings of probe pages, one for each user that the daemon keeps, and of all its
    descriptors."""
    fds = []
    for fd in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            fds.append(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        mapped = sum("usrdma-probes" in line for line in maps)
    return sum("usrdma-probes" in name for name in fds), mapped, len(fds)


def rules_of_users_that_have_gone(lab):
    """Many users set rules and end. The daemon keeps the rules of a limited number of them, which are not those of a
    user with sessions."""
    with kit.daemon(lab, uid=0) as process, kit.Child(kit.VICTIM, holds_sessions(1)) as victim:
        usrdma(lab, kit.VICTIM, "fault", "add", f"process:stop:pid={victim.pid}:nth=1000000000")
        _, _, before = pages(process)
        for uid in range(FIRST_UID, FIRST_UID + MANY):
            as_user(uid, lambda uid=uid: leaves_rules(uid))
        kit.wait_until(lambda: pages(process)[0] <= KEPT_USERS + 2, lab.seconds(20),
                       f"the end of most of {MANY} pages, {pages(process)} of pages, mappings, descriptors")
        fds, mapped, after = pages(process)
        kit.check(mapped <= KEPT_USERS + 2 and after <= before + KEPT_USERS + 2,
                  f"{fds} pages, {mapped} mappings, {before} and then {after} descriptors")
        count = sum(passes(lab, kit.VICTIM))
        kit.wait_until(lambda: sum(passes(lab, kit.VICTIM)) > count, lab.seconds(20), "passes of a rule in use")
        printed = usrdma(lab, FIRST_UID + MANY - 1, "fault")
        kit.check("device:down:dev=nosuch" in printed, f"the rules of the last user: {printed}")
        printed = usrdma(lab, FIRST_UID, "fault")
        kit.check(printed == "no fault rules\n", f"the rules of the first user: {printed}")


def rules_do_not_keep_an_idle_daemon(lab):
    """Rules that no client can meet end with the time after which an idle daemon ends."""
    with kit.daemon(lab, "--idle-seconds", "1", uid=0) as process:
        for uid in (kit.ATTACKER, kit.ROOT):
            usrdma(lab, uid, "fault", "add", "call:fail=ENOMEM:name=ibv_reg_mr")
        process.wait(lab.seconds(30))
        kit.check(process.returncode == 0, f"exit {process.returncode}")


def body(lab, cases):
    for case in (processes_of_another_user, rules_without_permission, process_that_changed_its_user,
                 sessions_of_one_process, stopped_program_of_a_killed_daemon, rules_of_users_that_have_gone,
                 rules_do_not_keep_an_idle_daemon, connections_of_another_user, queue_pair_of_another_user,
                 devices_of_another_user, messages_of_another_user):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
