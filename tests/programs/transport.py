# SPDX-License-Identifier: BSD-2-Clause
"""Tests USRDMA_TRANSPORT: Debian's programs on one host that use RoCEv2 with each other, a program without network
access, and an unknown transport name."""

import signal

from tests.programs import cm, perftest, verbs
from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, OWN, WIRE, check

# Less than any of the programs needs, but not 0, because others may use UDP in the machine's own namespace. The kernel
# counts the packets of a GSO burst as one datagram.
ROCE_DATAGRAMS_MIN = 5


def udp_datagrams():
    """How many datagrams the sockets of this namespace have received."""
    total = 0
    with open("/proc/self/net/snmp", encoding="ascii") as file:
        names, values = (line.split() for line in file if line.startswith("Udp:"))
        total += int(values[names.index("InDatagrams")])
    with open("/proc/self/net/snmp6", encoding="ascii") as file:
        total += sum(int(line.split()[1]) for line in file if line.startswith("Udp6InDatagrams"))
    return total


def travels(lab, is_wire, function, *args):
    """Runs a case, and checks that its data was sent over UDP, or that it was not."""
    before = udp_datagrams()
    function(lab, *args)
    datagrams = udp_datagrams() - before
    check((datagrams >= ROCE_DATAGRAMS_MIN) == is_wire, f"{datagrams} datagrams")


def is_shown(lab):
    """The status shows the transport of each queue pair and the counters of its process, also after the process has
    ended."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port)
    lab.listens_cm(server, port)
    before = lab.status()["counters"]
    client = lab.client("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-v")
    client.says("ping data")
    status = lab.status()
    process, = (one for one in status["processes"] if one["pid"] == client.pid)
    check([qp["transport"] for qp in process["qps"] if qp["state"] == "RTS"] == ["roce"], process)
    own = process["counters"]["roce"]
    check(own["packets_sent"] > 1 and own["packets_received"] > 1 and own["malformed_wrong_icrc"] == 0, own)
    check(process["counters"]["local"]["messages_sent"] == 0, process["counters"])
    client.signal(signal.SIGTERM)
    client.finish(lab.seconds(10), None)
    lab.end_programs()
    total = lab.status()["counters"]["roce"]
    check(total["packets_sent"] >= before["roce"]["packets_sent"] + own["packets_sent"], total)


def no_such_transport(lab):
    program = lab.start("ibv_devinfo", USRDMA_TRANSPORT="rose")
    printed = program.finish(lab.seconds(10), None)
    check(program.process.returncode != 0, program.story())
    complaints = [line for line in printed.splitlines() if "USRDMA_TRANSPORT" in line]
    check(len(complaints) == 1 and "USRDMA_TRANSPORT 'rose'" in complaints[0] and "local or roce" in complaints[0],
          program.story())


def wire_is_off(lab):
    """Without network access the connection is rejected when its queue pair is bound to a transport."""
    port = lab.port()
    server = lab.start("rping", "-s", "-a", WIRE["ip4"], "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("rping", "-c", "-a", WIRE["ip4"], "-p", port, "-C", 1)
    client.finish(lab.seconds(20), None)
    check(client.process.returncode != 0, client.story())


def on_the_wire(lab, cases):
    for side in (LOOPBACK, OWN) if lab.isolated else (LOOPBACK,):
        where = side["name"]
        cases.run(f"rping, IPv4, {where}", travels, lab, True, cm.rping, side["ip4"])
        cases.run(f"rping, IPv6, {where}", travels, lab, True, cm.rping, side["ip6"])
        cases.run(f"ucmatose, {where}", travels, lab, True, cm.ucmatose, side["ip4"])
        cases.run(f"ibv_uc_pingpong, {where}", travels, lab, True, verbs.pingpong, "ibv_uc_pingpong", side, "-c")
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_atomic_bw"):
            cases.run(f"{program}, {where}", travels, lab, True, perftest.perftest, program, side)


def body(lab, cases):
    lab.env["USRDMA_TRANSPORT"] = "roce"
    on_the_wire(lab, cases)
    cases.run("usrdma status shows it", is_shown, lab)
    lab.env["USRDMA_TRANSPORT"] = "local"
    cases.run("rping by shared memory", travels, lab, False, cm.rping, LOOPBACK["ip4"])
    cases.run("an unknown transport", no_such_transport, lab)
    if not lab.isolated:
        cases.skip("the wire is off", "no right to make a network namespace")
        return
    lab.add_host()
    cases.run("the wire is off", wire_is_off, lab)


if __name__ == "__main__":
    laboratory.main(body)
