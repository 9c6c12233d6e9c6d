# SPDX-License-Identifier: BSD-2-Clause
"""Runs the programs of librdmacm as packaged by Debian: rping, ucmatose, udaddy, rdma_client and rdma_server,
cmtime."""

import re
import signal

from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.lab import check


def rping(lab, address, *options):
    port = lab.port()
    server = lab.start("rping", "-s", "-a", address, "-p", port, "-C", 10, "-V", "-v", *options)
    lab.listens_cm(server, port)
    client = lab.client("rping", "-c", "-a", address, "-p", port, "-C", 10, "-V", "-v", *options)
    printed = client.finish(lab.seconds(20))
    server.finish(lab.seconds(20))
    check(printed.count("ping data: rdma-ping-") == 10, client.story())


def rping_persistent(lab, address):
    """Runs one server with three clients at a time, twice. The server runs until it receives a signal. Each client
    starts after the preceding one has connected: rping's server stores only one request."""
    port, pings = lab.port(), 2000
    server = lab.start("rping", "-s", "-P", "-a", address, "-p", port, "-V")
    lab.listens_cm(server, port)
    for _ in range(2):
        clients = []
        for _ in range(3):
            clients.append(lab.client("rping", "-c", "-a", address, "-p", port, "-C", pings, "-V", "-v"))
            clients[-1].says("ping data")
        for client in clients:
            check(client.finish(lab.seconds(30)).count("ping data: rdma-ping-") == pings, client.story())
        check(server.running(), server.story())
    server.signal(signal.SIGTERM)
    server.finish(5, -signal.SIGTERM)


def ucmatose(lab, address, *options):
    port = lab.port()
    server = lab.start("ucmatose", "-b", address, "-p", port, *options)
    lab.listens_cm(server, port)
    client = lab.client("ucmatose", "-s", address, "-p", port, *options)
    printed = client.finish(lab.seconds(20))
    server.finish(lab.seconds(20))
    check("test complete" in printed and "return status 0" in printed, client.story())
    check("return status 0" in server.output(), server.story())


def udaddy(lab, address, *options):
    """The port of udaddy is fixed."""
    server = lab.start("udaddy", "-b", address, *options)
    lab.listens_cm(server, "7174")
    client = lab.client("udaddy", "-s", address, *options)
    for program in (client, server):
        printed = program.finish(lab.seconds(20))
        check("data transfers complete" in printed and "return status 0" in printed, program.story())


def rdma_client_server(lab, address):
    port = lab.port()
    server = lab.start("rdma_server", "-s", address, "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("rdma_client", "-s", address, "-p", port)
    check("rdma_client: end 0" in client.finish(lab.seconds(20)), client.story())
    check("rdma_server: end 0" in server.finish(lab.seconds(20)), server.story())


def cmtime_counted(lab, address, port, connections):
    words = ["cmtime", "-p", port, "-c", connections]
    server = lab.start(*words, "-b", address)
    lab.listens_tcp(server, port)
    client = lab.client(*words, "-s", address)
    check(re.search(rf"^cm_conn +{connections}$", client.finish(lab.seconds(60)), re.M), client.story())
    server.finish(lab.seconds(60))


def cmtime(lab, address, connections):
    """The server of cmtime of rdma-core 44 runs until it receives a signal."""
    port = lab.port()
    if versions.cmtime_counts():
        cmtime_counted(lab, address, port, connections)
        return
    server = lab.start("cmtime", "-b", address, "-p", port)
    lab.listens_cm(server, port)
    client = lab.client("cmtime", "-s", address, "-p", port, "-c", connections)
    printed = client.finish(lab.seconds(60))
    check(server.running(), server.story())
    server.signal(signal.SIGTERM)
    server.finish(5, -signal.SIGTERM)
    steps = re.findall(r"^([a-z ]+?)\s*:\s+[\d.]+", printed, re.M)
    check(any("connect" in step for step in steps), client.story())


def refused(lab, address):
    """Connects to a port without a listener: REJECTED with status 8 is reported immediately, and rping fails."""
    client = lab.client("rping", "-c", "-a", address, "-p", lab.port(), "-C", 1)
    printed = client.finish(lab.seconds(5), None)
    check(client.process.returncode != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in printed, client.story())


def body(lab, cases):
    for side in lab.sides:
        where = side["name"]
        for time in lab.times:
            cases.run(f"rping, IPv4, {where}, {time}", rping, lab, side["ip4"])
            cases.run(f"rping, IPv6, {where}, {time}", rping, lab, side["ip6"])
            cases.run(f"rping -S 60000, {where}, {time}", rping, lab, side["ip4"], "-S", 60000)
            cases.run(f"rping -q, {where}, {time}", rping, lab, side["ip4"], "-q")
            cases.run(f"rping -P and three clients, {where}, {time}", rping_persistent, lab, side["ip4"])
            cases.run(f"ucmatose, IPv4, {where}, {time}", ucmatose, lab, side["ip4"])
            cases.run(f"ucmatose, IPv6, {where}, {time}", ucmatose, lab, side["ip6"], "-f", "ipv6")
            cases.run(f"ucmatose -c 20 -C 50 -S 4000, {where}, {time}", ucmatose, lab, side["ip4"],
                      "-c", 20, "-C", 50, "-S", 4000)
            cases.run(f"ucmatose -m, {where}, {time}", ucmatose, lab, side["ip4"], "-m")
            cases.run(f"udaddy, IPv4, {where}, {time}", udaddy, lab, side["ip4"])
            cases.run(f"udaddy, IPv6, {where}, {time}", udaddy, lab, side["ip6"], "-f", "ipv6")
            cases.run(f"udaddy -c 10 -C 50 -S 1000, {where}, {time}", udaddy, lab, side["ip4"], "-c", 10, "-C", 50,
                      "-S", 1000)
            cases.run(f"rdma_client and rdma_server, {where}, {time}", rdma_client_server, lab, side["ip4"])
            cases.run(f"cmtime, {where}, {time}", cmtime, lab, side["ip4"], 100)
            cases.run(f"without a listener, {where}, {time}", refused, lab, side["ip4"])


if __name__ == "__main__":
    laboratory.main(body)
