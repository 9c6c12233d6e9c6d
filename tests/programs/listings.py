# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the clients and the servers listed in rdma_cm(7) with warnings as errors, and connects them. usrdma why
names the parameters of the rdma_cm that a READ needs."""

import os
import re
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import SOURCE, check


def listings_exchange_a_message(lab, address):
    port = lab.port()
    server = lab.start(lab.tool("rdma_cm_server"), port)
    lab.listens_cm(server, port)
    client = lab.client(lab.tool("rdma_cm_client"), address, port)
    said = client.finish(lab.seconds(20))
    server.finish(lab.seconds(20))
    check("reply: hello" in said, client.story())


def client_reports_the_event_of_a_missing_server(lab, address):
    client = lab.client(lab.tool("rdma_cm_client"), address, lab.port())
    said = client.finish(lab.seconds(20), 1)
    check("RDMA_CM_EVENT_REJECTED: status 8" in said, client.story())


def listings_write_and_read(lab, address):
    port = lab.port()
    server = lab.start(lab.tool("rdma_one_sided_server"), port)
    lab.listens_cm(server, port)
    client = lab.client(lab.tool("rdma_one_sided_client"), address, port)
    said = client.finish(lab.seconds(20))
    check("read: hello" in said, client.story())
    check("memory: hello" in server.finish(lab.seconds(20)), server.story())


def without_depth(lab, name, member):
    """Compiles the listing with this member of struct rdma_conn_param set to 0."""
    with open(os.path.join(SOURCE, "docs", "man", name + ".c"), encoding="ascii") as file:
        text, count = re.subn(rf"\.{member} = 1, ", "", file.read())
    check(count == 1, f"{name} has {count} times {member}")
    source = os.path.join(lab.scratch, name + ".c")
    with open(source, "w", encoding="ascii") as file:
        file.write(text)
    libraries = os.path.join(lab.tree, "lib")
    subprocess.run(["cc", "-I", os.path.join(SOURCE, "include"), source, "-o", source[:-2], "-L", libraries, "-lrdmacm",
                    "-libverbs"], check=True)
    return source[:-2]


def why_names_depth(lab, client_member, server_member):
    """The application does not call ibv_modify_qp(): the advice names those of rdma_connect() and rdma_accept()."""
    port = lab.port()
    server_path = without_depth(lab, "rdma_one_sided_server", server_member) if server_member else \
        lab.tool("rdma_one_sided_server")
    client_path = without_depth(lab, "rdma_one_sided_client", client_member) if client_member else \
        lab.tool("rdma_one_sided_client")
    server = lab.start(server_path, port)
    lab.listens_cm(server, port)
    client = lab.client(client_path, "127.0.0.1", port)
    said = client.finish(lab.seconds(20), 1)
    check("read: " in said, client.story())
    server.finish(lab.seconds(20), None)
    asked = lab.start(os.path.join(lab.tree, "usrdma"), "why", str(client.pid), native=True)
    text = asked.finish(lab.seconds(20))
    check("set responder_resources of rdma_accept() " in text and "initiator_depth of rdma_connect() " in text and
          "ibv_modify_qp" not in text, text)


def body(lab, cases):
    for side in lab.sides:
        for address in (side["ip4"], side["ip6"]):
            cases.run(f"the listings exchange a message, {address}", listings_exchange_a_message, lab, address)
            cases.run(f"the listings write and read, {address}", listings_write_and_read, lab, address)
        cases.run(f"the client reports a missing server, {side['name']}", client_reports_the_event_of_a_missing_server,
                  lab, side["ip4"])
    cases.run("why names responder_resources", why_names_depth, lab, None, "responder_resources")
    cases.run("why names initiator_depth", why_names_depth, lab, "initiator_depth", None)


if __name__ == "__main__":
    laboratory.main(body)
