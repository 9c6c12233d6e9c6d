# SPDX-License-Identifier: BSD-2-Clause
"""The networks of rootless containers: pasta and slirp4netns. A program of another host and a program in such a network
exchange data, or the program in the network reports why not (docs/sandboxes.md). Run by tests/soak.

    near host   wire0  10.88.0.1
    far host    wire0  10.88.0.2, which pasta gives to the container, too"""

import os
import shlex
import shutil

from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check, wait_until

FAR = WIRE["ip4"][:-1] + "2"
# RoCEv2 has one port at both ends, so that the network must forward it to the container.
PASTA = ("pasta", "--config-net", "-u", "4791", "--mtu", "1500", "--")
PASTA_CLOSED = ("pasta", "--config-net", "-u", "none", "--mtu", "1500", "--")


def contained(lab, network, script):
    """A program of the far host in a rootless network."""
    with lab.far:
        return lab.start(*network, "sh", "-c", script, native=True, HOME=lab.scratch)


def command(lab, *argv):
    return shlex.join([os.path.join(lab.tree, "usrdma"), *map(str, argv)])


def pasta_client_reaches_other_host(lab):
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-a", WIRE["ip4"], "-C", 3, "-p", port)
    lab.listens_cm(server, port)
    client = contained(lab, PASTA, command(lab, "rping", "-c", "-v", "-a", WIRE["ip4"], "-C", 3, "-p", port))
    check(client.finish(lab.seconds(30)).count("ping data: ") == 3, client.story())
    server.finish(lab.seconds(10))


def pasta_server_is_reached_by_other_host(lab):
    port = lab.port()
    server = contained(lab, PASTA, f"{command(lab, 'rping', '-s', '-a', FAR, '-C', 3, '-p', port)} & until "
                       f"{command(lab, 'status')} | grep -q {port}; do :; done; echo listens; wait")
    server.says("listens", lab.seconds(20))
    client = lab.start(lab.own("rping"), "-c", "-v", "-a", FAR, "-C", 3, "-p", port)
    check(client.finish(lab.seconds(30)).count("ping data: ") == 3, client.story())
    server.finish(lab.seconds(10))


def without_response(lab, start):
    """The client in the network gets no response: replies are sent to port 4791, and not to the port of the client."""
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-a", WIRE["ip4"], "-C", 3, "-p", port)
    lab.listens_cm(server, port)
    client = start(f"{command(lab, 'rping', '-c', '-a', WIRE['ip4'], '-p', port)}; {command(lab, 'why')}")
    text = client.finish(lab.seconds(40), None)
    check("no response to the REQ" in text, client.story())


def pasta_without_forwarded_port_reports_missing_response(lab):
    without_response(lab, lambda script: contained(lab, PASTA_CLOSED, script))


def slirp4netns_client_reports_missing_response(lab):
    def start(script):
        client = contained(lab, ("unshare", "-Urn"), "until ip addr show tap0 2>/dev/null | grep -q 10.0.2.100; do :; "
                           f"done; {script}")
        with lab.far:
            far = os.readlink("/proc/self/ns/net")
            wait_until(lambda: os.readlink(f"/proc/{client.pid}/ns/net") != far, lab.seconds(10), "the namespace")
            lab.start("slirp4netns", "--configure", client.pid, "tap0", native=True)
        return client
    without_response(lab, start)


def programs_in_one_network_exchange_data(lab):
    port = lab.port()
    both = contained(lab, PASTA_CLOSED, f"{command(lab, 'rping', '-s', '-a', FAR, '-C', 3, '-p', port)} & until "
                     f"{command(lab, 'status')} | grep -q {port}; do :; done; "
                     f"{command(lab, 'rping', '-c', '-v', '-a', FAR, '-C', 3, '-p', port)} && wait")
    check(both.finish(lab.seconds(30)).count("ping data: ") == 3, both.story())


def body(lab, cases):
    why_not = None if lab.drops and lab.isolated else "needs root"
    if not why_not:
        lab.add_host()
        with lab.far:
            # pasta takes over the interface that has the default route.
            laboratory.ip_command(*f"ip route add default via {WIRE['ip4'][:-1]}254 dev wire0".split())
    pasta = why_not or (None if shutil.which("pasta") else "needs the package passt")
    slirp = why_not or (None if shutil.which("slirp4netns") else "needs the package slirp4netns")
    for case in (pasta_client_reaches_other_host, pasta_server_is_reached_by_other_host,
                 programs_in_one_network_exchange_data, pasta_without_forwarded_port_reports_missing_response):
        cases.run_unless(pasta, case.__name__.replace("_", " "), case, lab)
    case = slirp4netns_client_reports_missing_response
    cases.run_unless(slirp, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
