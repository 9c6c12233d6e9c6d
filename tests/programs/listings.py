# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the client and the server listed in rdma_cm(7) with warnings as errors, and connects them."""

from tests.programs import lab as laboratory
from tests.programs.lab import check


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


def body(lab, cases):
    for side in lab.sides:
        for address in (side["ip4"], side["ip6"]):
            cases.run(f"the listings exchange a message, {address}", listings_exchange_a_message, lab, address)
        cases.run(f"the client reports a missing server, {side['name']}", client_reports_the_event_of_a_missing_server,
                  lab, side["ip4"])


if __name__ == "__main__":
    laboratory.main(body)
