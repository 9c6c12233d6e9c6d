# SPDX-License-Identifier: BSD-2-Clause
"""Sends invalid management datagrams to a daemon whose communication manager has a live connection. Each MAD is counted
by its reason or answered as the specification requires; the connection stays established and still moves data."""

import re
import socket
import struct

from tests.programs import cm
from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check, wait_until
from tests.programs.packets import RC, SEND_ONLY, SEND_ONLY_IMM, UD, Forger, Way, bth, deth, imm
from tests.programs.targets import TROUBLE, changed

FAR_IP4, THIRD_HOST = "10.88.0.2", "10.88.0.77"
GSI_QPN, QKEY = 1, 0x80010000
MAD_BYTES, HEADER_BYTES = 256, 24
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1B)
NAMES = {REQ: "REQ", MRA: "MRA", REJ: "REJ", REP: "REP", RTU: "RTU", DREQ: "DREQ", DREP: "DREP", SIDR_REP: "SIDR_REP",
         LAP: "LAP", APR: "APR"}
# The reply to a message with an unknown communication ID, by the kind of the message. The reply makes the sender stop.
ANSWERED = {REP: "REJ", DREQ: "DREP"}
ETH_P_ALL = 3
MAD_OFFSET = 14 + 20 + 8 + 12 + 8  # offset in a frame: Ethernet, IPv4, UDP, BTH, DETH


def mad(attribute, payload=b"", *, base_version=1, management_class=7, class_version=2, method=3):
    header = struct.pack("!BBBBHHQHHI", base_version, management_class, class_version, method, 0, 0, 0x1122, attribute,
                         0, 0)
    return header + payload.ljust(MAD_BYTES - HEADER_BYTES, b"\0")


def packet(way, data, qkey=QKEY, **fields):
    opcode = fields.pop("opcode", UD | SEND_ONLY)
    return way.seal(bth(opcode, fields.pop("qpn", GSI_QPN), 7, **fields) + deth(qkey, GSI_QPN) + data)


class Connection:
    """The live connection between two programs of tests/programs/stream.c, and the communication IDs of both sides."""

    def __init__(self, lab):
        self.lab = lab
        port = lab.port()
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
            tap.bind(("wire0", ETH_P_ALL))
            self.server = lab.start(lab.tool("stream"), "serve", WIRE["ip4"], port)
            lab.listens_cm(self.server, port)
            self.client = lab.client(lab.tool("stream"), "drive", WIRE["ip4"], port, "send", 4096)
            self.client.says("progress")
            rep = self.find(tap, REP)
        self.near_id, self.far_id, _, self.near_qpn = struct.unpack_from("!IIII", rep)
        self.near_qpn >>= 8

    @staticmethod
    def find(tap, attribute):
        """Returns the payload of a recorded message of this kind."""
        tap.settimeout(5)
        while True:
            frame = tap.recv(65536)
            header = frame[MAD_OFFSET:MAD_OFFSET + HEADER_BYTES]
            if len(frame) == MAD_OFFSET + MAD_BYTES + 4 and header[:4] == bytes([1, 7, 2, 3]) and \
                    struct.unpack_from("!H", header, 16)[0] == attribute:
                return frame[MAD_OFFSET + HEADER_BYTES:]

    def goes_on(self):
        """Checks that both sides are running and more data is transferred."""
        def progress():
            return max(int(n) for n in re.findall(r"progress (\d+)", self.client.output()))
        at = progress()
        wait_until(lambda: progress() > at, self.lab.seconds(10), "more data")
        states = [one["state"] for one in self.lab.status()["connections"]]
        check(states == ["established"] and self.server.running(), f"connections {states}: {self.server.story()}")


class Bench:
    def __init__(self, lab):
        self.lab, self.way = lab, Way(FAR_IP4, WIRE["ip4"])
        with lab.far:
            self.forger = Forger()
        self.connection = Connection(lab)

    def counted(self):
        """Returns the non-zero error counters, and the counters of messages sent in reply."""
        status = self.lab.status()
        numbers = {f"sent.{name}": n for name, n in status["cm"]["mads_sent"].items()}
        for group in ("gsi", "cm"):
            numbers.update((f"{group}.{name}", n) for name, n in status["daemon"]["counters"][group].items()
                           if name.startswith(TROUBLE))
        return numbers

    def inject(self, datagrams, counted, way=None):
        before = self.counted()
        for datagram in datagrams:
            self.forger.send(way or self.way, datagram)

        def arrived():
            seen = changed(before, self.counted())
            return sum(seen.values()) >= sum(counted.values()) and seen
        seen = wait_until(arrived, self.lab.seconds(10), f"{counted}")
        check(seen == counted, f"counted {seen}, not {counted}")
        self.connection.goes_on()


def malformed(reason, n=1):
    return {"gsi.dropped_malformed": n, f"gsi.malformed_{reason}": n}


def wrong_packets(bench, cases):
    """Packets that QP1 drops, whatever MAD they carry."""
    way, data = bench.way, mad(RTU, struct.pack("!II", bench.connection.far_id, bench.connection.near_id))

    def case(what, datagrams, counted):
        cases.run(what, bench.inject, list(datagrams), counted)
    case("Q_Key", (packet(way, data, qkey=qkey) for qkey in (0, 1, QKEY ^ 1, 0xFFFFFFFF)),
         {"gsi.dropped_wrong_q_key": 4})
    case("P_Key", (packet(way, data, pkey=pkey) for pkey in (0, 0x7FFE, 0x8001)), {"gsi.dropped_wrong_p_key": 3})
    case("opcode", [way.seal(bth(RC | SEND_ONLY, GSI_QPN, 7) + data),
                    way.seal(bth(UD | SEND_ONLY_IMM, GSI_QPN, 7) + deth(QKEY, 1) + imm(1) + data)],
         {"gsi.dropped_wrong_opcode": 2})
    case("length", [packet(way, data[:-4]), packet(way, data + bytes(4)), packet(way, data, pad=1), packet(way, b"")],
         {"gsi.dropped_wrong_length": 4})
    case("truncated: DETH", (way.seal(bth(UD | SEND_ONLY, GSI_QPN, 7) + bytes(n)) for n in (0, 4)),
         malformed("truncated_headers", 2))
    case("transport header version", [packet(way, data, version=1)], malformed("unknown_header_version"))
    good = packet(way, data)
    case("ICRC", (good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:] for at in range(8, len(good))),
         malformed("wrong_icrc", len(good) - 8))


def wrong_mads(bench, cases):
    """MADs that are not valid messages of the communication manager."""
    way = bench.way

    def case(what, counter, mads):
        mads = list(mads)
        cases.run(what, bench.inject, [packet(way, one) for one in mads], {f"cm.malformed_{counter}": len(mads)})
    case("base version", "wrong_base_version", (mad(RTU, base_version=version) for version in (0, 2, 0xFF)))
    case("class", "wrong_class", (mad(RTU, management_class=other) for other in (0x00, 0x01, 0x03, 0x04, 0x81, 0xFF)))
    case("class version", "wrong_class_version", (mad(RTU, class_version=version) for version in (0, 1, 3, 0xFF)))
    case("method", "wrong_method", (mad(RTU, method=method) for method in (0x00, 0x01, 0x02, 0x81, 0x83, 0xFF)))
    case("attribute", "unknown_attribute", (mad(attribute) for attribute in (0, 1, 0x0F, 0x1B, 0x20, 0xFFFF)))


def strange(bench, cases, name, ids, way=None):
    """Every message except a request, with these two communication IDs, which match no connection, from any sender."""
    for attribute, what in NAMES.items():
        if attribute == REQ:
            continue
        counted = {f"sent.{ANSWERED[attribute]}": 1} if attribute in ANSWERED else {"cm.dropped_stray": 1}
        payload = struct.pack("!II", *ids)
        if attribute == SIDR_REP:
            payload = struct.pack("!I", ids[1])
        cases.run(f"{what}: {name}", bench.inject, [packet(way or bench.way, mad(attribute, payload))], counted, way)


def wrong_ids(bench, cases):
    near, far = bench.connection.near_id, bench.connection.far_id
    strange(bench, cases, "IDs of nobody", (0x5A5A5A5A, 0xA5A5A5A5))
    strange(bench, cases, "IDs of nothing", (0, 0))
    strange(bench, cases, "its own ID wrong", (far ^ 1, near))
    strange(bench, cases, "a third host that knows both IDs", (far, near), Way(THIRD_HOST, WIRE["ip4"]))
    wrong_qpn = struct.pack("!III", far, near, (bench.connection.near_qpn ^ 1) << 8)
    cases.run("DREQ: another QPN", bench.inject, [packet(bench.way, mad(DREQ, wrong_qpn))], {"cm.dropped_stray": 1})
    cases.run("REQ: without an ID", bench.inject, [packet(bench.way, mad(REQ))], {"cm.dropped_stray": 1})
    cases.run("REQ: for a service that nobody has", bench.inject,
              [packet(bench.way, mad(REQ, struct.pack("!IIQQ", 0x77777777, 0, 0x1234, 0x4321)))], {"sent.REJ": 1})


def body(lab, cases):
    if not lab.isolated:
        cases.skip("bad management datagrams", "no right to make a network namespace")
        return
    lab.add_host()
    # Without this entry the kernel reports that the replies to the unknown peer were undeliverable, and these reports
    # are counted, too.
    laboratory.ip_command(*f"ip neigh add {THIRD_HOST} lladdr 02:00:00:00:00:77 dev wire0 nud permanent".split())
    bench = Bench(lab)
    # These programs run until the end of the test program, not only until the end of a case.
    lab.started.clear()
    try:
        wrong_packets(bench, cases)
        wrong_mads(bench, cases)
        wrong_ids(bench, cases)
        cases.run("connections are made as ever", cm.rping, lab, WIRE["ip4"])
    finally:
        bench.connection.client.end()
        bench.connection.server.end()
        bench.forger.close()


if __name__ == "__main__":
    laboratory.main(body)
