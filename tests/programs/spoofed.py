# SPDX-License-Identifier: BSD-2-Clause
"""Sends REQs in the name of a third host, which has no RDMA, to a listener that accepts them: the third host receives
no more bytes than were sent in its name. The packets are counted on the interface of the listener's host."""

import re
import socket
import struct

from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check
from tests.programs.packets import PORT

THIRD_HOST = "10.88.0.77"
REQUESTS = 50
CONNECTIONS_MAX = 200
CM_TIMEOUT_S = "2"
ETH_P_ALL = 3
ETHERNET_BYTES = 14


class Counter:
    """Counts the RoCEv2 packets from and to an address at an interface of this namespace."""

    def __init__(self, interface, address):
        self.address = socket.inet_aton(address)
        self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.tap.bind((interface, ETH_P_ALL))
        self.tap.setblocking(False)

    def read(self):
        """The number of packets and of bytes from the address, and the same to the address, since the last call."""
        numbers = [0, 0, 0, 0]
        while True:
            try:
                frame = self.tap.recv(65536)
            except BlockingIOError:
                return numbers
            ip = frame[ETHERNET_BYTES:]
            if len(ip) < 28 or ip[9] != socket.IPPROTO_UDP or struct.unpack_from("!H", ip, 22)[0] != PORT:
                continue
            for at, place in ((12, 0), (16, 2)):
                if ip[at:at + 4] == self.address:
                    numbers[place] += 1
                    numbers[place + 1] += len(ip)


def requests_are_not_multiplied(lab):
    port = lab.port()
    server = lab.start(lab.tool("crowd"), "serve", WIRE["ip4"], port, CONNECTIONS_MAX, USRDMA_CM_TIMEOUT=CM_TIMEOUT_S)
    lab.listens_cm(server, port)
    counter = Counter("wire0", THIRD_HOST)
    flood = lab.client(lab.tool("flood"), THIRD_HOST, WIRE["ip4"], port, "tcp", 1, REQUESTS)
    flood.finish(lab.seconds(20))
    # The server ends with the first connection that is not established.
    output = server.finish(lab.seconds(20), None)
    check(re.search(r"RDMA_CM_EVENT_UNREACHABLE", output), server.story())
    packets_from, bytes_from, packets_to, bytes_to = counter.read()
    story = f"{packets_to} packets with {bytes_to} bytes for {packets_from} with {bytes_from}"
    check(packets_from >= REQUESTS / 2 and packets_to > 0, story)
    check(bytes_to <= bytes_from, story)


def body(lab, cases):
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    with lab.far:
        laboratory.ip_command(*f"ip addr add {THIRD_HOST}/24 dev wire0".split())
    cases.run("requests are not multiplied", requests_are_not_multiplied, lab)


if __name__ == "__main__":
    laboratory.main(body)
