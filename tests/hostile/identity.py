# SPDX-License-Identifier: BSD-2-Clause
"""Attacks with a false identity: messages with the address, queue pair or connection of another user."""

import json
import socket
import struct
import subprocess

from tests.hostile import kit
from tests.hostile.kit import ATTACKER, VICTIM, check, wait_until
from tests.programs import wire
from tests.programs.bad_mads import DREQ, GSI_QPN, REQ, mad, packet
from tests.programs.lab import OWN
from tests.programs.packets import PORT, Way

HOST = "127.0.0.1"
OTHER_HOST = "2001:db8::5"
NEW_ADDRESS = "fd77::7"
IPV6_FREEBIND = 78  # include/uapi/linux/in6.h


def report():
    """The daemon's status report for the user of this process."""
    with kit.closing(wire.Connection(wire.CONTROL)) as (asker,):
        return asker.report()


def counted(group, name):
    """The value of a counter of the daemon."""
    return report()["daemon"]["counters"].get(group, {}).get(name, 0)


def connection(lab):
    """Starts two programs of VICTIM that exchange data over a connection on this host."""
    port = lab.port()
    server = kit.start_as(lab, VICTIM, lab.tool("stream"), "serve", HOST, port)
    lab.listens_cm(server, port)
    client = kit.start_as(lab, VICTIM, lab.tool("stream"), "drive", HOST, port, "send", 4096)
    client.says("progress", lab.seconds(20))
    return server, client


def goes_on(lab, client):
    before = client.output().count("progress")
    wait_until(lambda: client.output().count("progress") > before + 1, lab.seconds(20), "data after the attack")


def send_as(uid, datagrams, source=HOST, destination=HOST, qpn=GSI_QPN):
    """Sends these payloads as UDP datagrams from a socket of this user, with any IPv6 source address."""
    def attack():
        family = socket.AF_INET6 if ":" in source else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            if family == socket.AF_INET6:
                sender.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
            sender.bind((source, 0))
            way = Way(source, destination, sender.getsockname()[1])
            for payload in datagrams:
                sender.sendto(packet(way, payload, qpn=qpn), (destination, PORT))
        return None, "sent"
    with kit.Child(uid, attack) as child:
        check(child.result == "sent", child.result)


def forged_messages_from_the_own_host_are_dropped(lab):
    """A user sends a REQ with the victim's QPN and a DREQ for the victim's connection by UDP from 127.0.0.1."""
    with kit.daemon(lab, uid=0):
        server, client = connection(lab)
        status = report()
        guid = next(int(one["node_guid"], 16) for one in status["devices"] if one["name"].endswith("lo"))
        dropped = ("gsi", "dropped_sent_by_a_process_of_this_host")
        victims = [one for one in status["connections"] if one["state"] == "established"]
        check(len(victims) == 2, f"{status['connections']}")
        forged = [mad(REQ, struct.pack("!IIQQIII", 0x1234 + number, 0, 1 << 16 | 7471, guid, 0, 0, one["qp"] << 8))
                  for number, one in enumerate(victims)]
        forged += [mad(DREQ, struct.pack("!III", one["id"], one["id"], one["qp"] << 8)) for one in victims]
        before = counted(*dropped)
        send_as(ATTACKER, forged)
        wait_until(lambda: counted(*dropped) == before + len(forged), lab.seconds(10), "all to be dropped")
        goes_on(lab, client)
        check(len([one for one in report()["connections"] if one["state"] == "established"]) == 2,
              "the connection has ended")
        for program in (client, server):
            program.end()


def forged_addresses_of_other_hosts_are_dropped(lab):
    """A user sends datagrams to this host from an IPv6 address that it does not have, to QP1 and to other QPNs."""
    def is_own(address):
        gid = socket.inet_pton(socket.AF_INET6, address)
        return any(socket.inet_pton(socket.AF_INET6, one["gid"]) == gid for device in report()["devices"]
                   for one in device["gids"])

    with kit.daemon(lab, uid=0):
        received, local = ("gsi", "mads_received"), ("gsi", "dropped_sent_by_a_process_of_this_host")
        request = mad(REQ, struct.pack("!IIQ", 0x1234, 0, 1 << 16 | 7471))
        with kit.closing(wire.Connection(wire.VERBS)) as (victim,):
            send_as(ATTACKER, [request] * 3, OTHER_HOST, OWN["ip6"])
            send_as(ATTACKER, [request] * 2, OTHER_HOST, "::1")
            send_as(ATTACKER, [request] * 2, OTHER_HOST, OWN["ip6"], qpn=victim.slot << 15 | 17)
            # The same datagrams from addresses of this host reach the daemon, also from a new address.
            send_as(ATTACKER, [request], OWN["ip6"], OWN["ip6"])
            subprocess.run(["ip", "addr", "add", NEW_ADDRESS, "dev", OWN["device"], "nodad"], check=True)
            wait_until(lambda: is_own(NEW_ADDRESS), lab.seconds(10), "the new address")
            send_as(ATTACKER, [request], NEW_ADDRESS, OWN["ip6"])
            wait_until(lambda: counted(*local) == 2, lab.seconds(10), "the datagrams from addresses of this host")
            check(counted(*received) == 0, "a forged MAD was accepted")
            check(report()["daemon"]["roce_forged"] == 7, "a forged datagram was not dropped")


def status_shows_nobody_elses_queue_pairs_and_connections(lab):
    """The report for another user does not contain QPNs, QPN ranges, or addresses and ports of connections."""
    def look():
        seen = report()
        return None, json.dumps({
            "process": sorted({key for process in seen["processes"] for key in process}),
            "listener": sorted({key for listener in seen["listeners"] for key in listener}),
            "connections": len(seen["connections"])})

    with kit.daemon(lab, uid=0):
        server, client = connection(lab)
        with kit.Child(ATTACKER, look) as child:
            seen = json.loads(child.result)
        check(seen["process"] == ["pid", "uid"] and seen["connections"] == 0, f"{seen}")
        check("local" in seen["listener"] and not {"pid", "id"} & set(seen["listener"]), f"{seen}")
        with kit.Child(VICTIM, look) as child:
            seen = json.loads(child.result)
        check(seen["connections"] == 2 and "qps" in seen["process"] and "pid" in seen["listener"], f"{seen}")
        for program in (client, server):
            program.end()


def a_privileged_port_is_refused(lab):
    """A user other than root cannot bind to a port below 1024."""
    with kit.daemon(lab, uid=0):
        program = kit.start_as(lab, ATTACKER, lab.tool("stream"), "serve", HOST, 1023)
        wait_until(lambda: not program.running(), lab.seconds(20), "the program to be refused")
        check("Permission denied" in program.output(), program.output())


def body(lab, cases):
    for case in (forged_messages_from_the_own_host_are_dropped,
                 forged_addresses_of_other_hosts_are_dropped, status_shows_nobody_elses_queue_pairs_and_connections,
                 a_privileged_port_is_refused):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
