# SPDX-License-Identifier: BSD-2-Clause
"""usrdma fault changes the rules of running programs. The scenarios are driven against Debian's rping and perftest, and
the program's own message, the counts of the rules and `usrdma why` agree."""

import json
import os
import signal

from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.lab import LOOPBACK, check, wait_until
from tests.programs.perftest import perftest


def fault(lab, *arguments, wanted=0):
    """Returns standard output; standard error if the command is to fail."""
    return command(lab, "fault", *arguments, wanted=wanted)


def command(lab, *arguments, wanted=0):
    status, out, err = usrdma(lab, *arguments)
    check(status == wanted and bool(err) == bool(wanted), f"{arguments}: exit {status}\n{out}{err}")
    return err if wanted else out


def counts(lab):
    """Returns {rule: (passes, firings)}."""
    rules = json.loads(fault(lab, "list", "--json"))["rules"]
    return {rule["rule"]: (rule["passes"], rule["firings"]) for rule in rules}


def fired(lab):
    return sum(firings for _, firings in counts(lab).values())


def rules_are_kept(lab):
    check(fault(lab) == "no fault rules\n", fault(lab))
    fault(lab, "add", "packet.send:drop:p=0.01 # one", "wr.post:fail=ENOMEM:prog=none;message:drop:nth=5")
    fault(lab, "add", "receive:empty:type=RC,UC", "--seed", 7)
    report = json.loads(fault(lab, "list", "--json"))
    check(report["seed"] == 7 and [rule["rule"] for rule in report["rules"]] == [
        "packet.send:drop:p=0.01", "wr.post:fail=ENOMEM:prog=none", "message:drop:nth=5", "receive:empty:type=RC,UC"],
        f"{report}")
    path = os.path.join(lab.scratch, "rules")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# a comment\nseed=3\n\nmessage:delay=1ms~500us,normal:op=SEND\n")
    os.chmod(path, 0o644)
    fault(lab, "set", path)
    check("seed 3" in fault(lab) and list(counts(lab)) == ["message:delay=1ms~500us,normal:op=SEND"], fault(lab))
    fault(lab, "clear")
    check(fault(lab) == "no fault rules\n", fault(lab))


def mistakes_are_reported(lab):
    fault(lab, "add", "message:drop:nth=5")
    for arguments, message in ((("add", "message:lose"), "'message:lose': unknown action"),
                               (("add", "fifo.send:fail:qp=1"), "does not support this condition"),
                               (("add", ";".join(["message:drop"] * 64)), "more than 64 rules"),
                               (("set", "/nonexistent"), "cannot read the rules '/nonexistent': No such file"),
                               (("scenario", "nonsense"), "unknown scenario 'nonsense'"),
                               (("scenario", "rnr-storm", "p=2"), "p is a number from 0 to 1"),
                               (("nonsense",), "usage:"), (("add",), "usage:"), (("--seed", "x"), "usage:")):
        out = fault(lab, *arguments, wanted=2 if message == "usage:" else 1)
        check(message in out, f"{arguments}: {out}")
    check(list(counts(lab)) == ["message:drop:nth=5"], fault(lab))
    fault(lab, "clear")


def scenarios(lab):
    return [line.split()[0] for line in fault(lab, "scenario").splitlines()]


def scenarios_are_valid(lab):
    check(len(scenarios(lab)) >= 11, fault(lab, "scenario"))
    for name in scenarios(lab):
        condition = "dev=none" if name == "port-down" else "prog=none"
        fault(lab, "scenario", name, "times=3", condition)
        rules = counts(lab)
        check(rules and all(rule.endswith(f":times=3:{condition}") for rule in rules), f"{rules}")
    fault(lab, "clear")


def conditions_that_do_not_apply(lab):
    """A scenario with a rule that does not support the condition is refused as a whole, with the rule."""
    fault(lab, "add", "message:drop:nth=5")
    for name, condition, why in (("port-down", "prog=rping", "a device rule applies to all programs"),
                                 ("half-open-connection", "qp=7", "does not support this condition"),
                                 ("peer-dies", "dev=lo", "does not support this condition")):
        out = fault(lab, "scenario", name, condition, wanted=1)
        check(why in out and condition.split("=", maxsplit=1)[0] in out, out)
    check(list(counts(lab)) == ["message:drop:nth=5"], fault(lab))
    fault(lab, "clear")


def rping_pair(lab, **env):
    """A server and a client that runs until an error."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port, **env)
    lab.listens_cm(server, port)
    return server, lab.client("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-v", **env)


def running_rping_fails(lab, transport, scenario, message, cause):
    server, client = rping_pair(lab, USRDMA_TRANSPORT=transport)
    client.says("ping data")
    fault(lab, "scenario", scenario, "prog=rping")
    wait_until(lambda: not (client.running() and server.running()), lab.seconds(30), "the end of a program")
    wait_until(lambda: message in client.output() + server.output(), lab.seconds(30), message)
    check(fired(lab) > 0, fault(lab))
    if cause:
        pids = [program.pid for program in (client, server)]
        reports = "".join(command(lab, "why", pid) for pid in pids)
        check(cause in reports, f"{cause}\n{reports}")
    fault(lab, "clear")
    lab.end_programs()


def running_rping_survives(lab, transport, scenario):
    """The rules fire and the program continues after they are removed, too."""
    _, client = rping_pair(lab, USRDMA_TRANSPORT=transport)
    client.says("ping data")
    fault(lab, "scenario", scenario, "--seed", 7)
    wait_until(lambda: fired(lab) > 5, lab.seconds(20), "firings")
    check(client.running(), client.story())
    fault(lab, "clear")
    count = client.output().count("ping data")
    wait_until(lambda: client.output().count("ping data") > count + 5, lab.seconds(20), "further data")
    lab.end_programs()


def perftest_completes(lab, transport, scenario, program):
    lab.env["USRDMA_TRANSPORT"] = transport
    try:
        fault(lab, "scenario", scenario, "--seed", 7)
        perftest(lab, program, LOOPBACK)
        check(fired(lab) > 0, fault(lab))
        fault(lab, "clear")
    finally:
        del lab.env["USRDMA_TRANSPORT"]


def same_seed_same_firings(lab):
    """200 messages: the same rule and seed fire on the same number of passes."""
    def firings(seed):
        fault(lab, "clear")
        fault(lab, "add", "wr.execute:fail=GENERAL_ERR:p=0:prog=none", "completion:delay=1us:p=0.2:op=SEND", "--seed",
              seed)
        perftest(lab, "ib_send_lat", LOOPBACK)
        return counts(lab)["completion:delay=1us:p=0.2:op=SEND"]

    first = firings(5)
    check(firings(5) == first and first[1] > 0, f"{first}")
    check(firings(6) != first, f"{first}")
    fault(lab, "clear")


def process_is_stopped_and_killed(lab):
    server, client = rping_pair(lab)
    client.says("ping data")
    fault(lab, "add", f"process:stop:pid={server.pid}")
    wait_until(lambda: state_of(server.pid) == "T", lab.seconds(10), "the stop of the server")
    fault(lab, "clear")
    wait_until(lambda: state_of(server.pid) != "T", lab.seconds(10), "the continuation of the server")
    check("add prog=NAME or pid=PID" in fault(lab, "scenario", "peer-dies", wanted=1), "killed all processes")
    fault(lab, "scenario", "peer-dies", f"pid={server.pid}")
    server.finish(lab.seconds(20), -signal.SIGKILL)
    client.says("DISCONNECT", lab.seconds(20))
    fault(lab, "clear")
    lab.end_programs()


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rsplit(") ", 1)[1].split()[0]


def port_is_down(lab):
    def ports():
        return lab.start("ibv_devinfo", "-d", "lo").finish(lab.seconds(10))

    fault(lab, "add", "device:down:dev=lo")
    wait_until(lambda: "PORT_DOWN" in ports(), lab.seconds(10), "PORT_DOWN")
    fault(lab, "clear")
    wait_until(lambda: "PORT_ACTIVE" in ports(), lab.seconds(10), "PORT_ACTIVE")


def call_fails(lab):
    fault(lab, "add", "call:fail=ENOMEM:name=ibv_reg_mr:prog=rping:times=1", "call:delay=1ms:name=rdma_connect")
    _, client = rping_pair(lab)
    wait_until(lambda: not client.running(), lab.seconds(20), "the client's end")
    check("rping_buffer reg_mr failed" in client.output() or "failed" in client.output(), client.story())
    fault(lab, "clear")
    lab.end_programs()


def lost_reply(lab):
    fault(lab, "scenario", "lost-rep")
    _, client = rping_pair(lab, USRDMA_CM_TIMEOUT="1")
    client.says("RDMA_CM_EVENT_UNREACHABLE", lab.seconds(20))
    check(fired(lab) > 0, fault(lab))
    fault(lab, "clear")
    lab.end_programs()


def body(lab, cases):
    cases.run("rules are kept and replaced", rules_are_kept, lab)
    cases.run("mistakes are reported", mistakes_are_reported, lab)
    cases.run("scenarios are valid", scenarios_are_valid, lab)
    cases.run("conditions that do not apply are refused", conditions_that_do_not_apply, lab)
    for transport in ("local", "roce"):
        cases.run(f"{transport}: responder-access-error", running_rping_fails, lab, transport, "responder-access-error",
                  "cq completion failed status 10", "rkey")
        cases.run(f"{transport}: key-invalidated", running_rping_fails, lab, transport, "key-invalidated",
                  "cq completion failed status 10", "rkey")
        cases.run(f"{transport}: rnr-storm", running_rping_survives, lab, transport, "rnr-storm")
        cases.run(f"{transport}: slow-receiver", running_rping_survives, lab, transport, "slow-receiver")
        cases.run(f"{transport}: loss-1-percent", perftest_completes, lab, transport, "loss-1-percent", "ib_send_bw")
    cases.run("local: retry-exhaustion", running_rping_fails, lab, "local", "retry-exhaustion",
              "cq completion failed status 12", "7 retries")
    cases.run("lost-rep", lost_reply, lab)
    cases.run("process stop and kill", process_is_stopped_and_killed, lab)
    cases.run("port down", port_is_down, lab)
    cases.run("call fails", call_fails, lab)
    cases.run("the same seed gives the same firings", same_seed_same_firings, lab)


if __name__ == "__main__":
    laboratory.main(body)
