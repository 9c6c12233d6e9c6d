# SPDX-License-Identifier: BSD-2-Clause
"""Sends invalid packets into live RC, UC and UD queue pairs of two hosts, with the source of their peer or of an
unknown host. Each packet is counted by its reason and has no effect, or has the effect that the specification requires.
Each case states which."""


import contextlib

from tests.programs import lab as laboratory
from tests.programs import packets
from tests.programs.lab import WIRE, Failure, check, ip_command, wait_until
from tests.programs.packets import (
    ACK_SYNDROME,
    FETCH_ADD,
    NAK_SYNDROME,
    RC,
    READ_REQUEST,
    READ_RESPONSE_ONLY,
    RNR_SYNDROME,
    SEND_FIRST,
    SEND_ONLY,
    UC,
    UD,
    WRITE_FIRST,
    WRITE_ONLY,
    XRC,
    Forger,
    Way,
    aeth,
    atomic_eth,
    bth,
    deth,
    ieth,
    imm,
    reth,
)
from tests.programs.targets import GRH_BYTES, PART_BYTES, QKEY, Pair, Process, changed

SERVICES = {"rc": RC, "uc": UC, "ud": UD}
MTU_BYTES = 1024
PAYLOAD = bytes(range(1, 17))
THIRD_HOST = {"ip4": "10.88.0.77", "ip6": "fd88::77"}
OTHER_ADDRESS = "10.77.0.1"  # address of the near host's other interface
GID_INDEX = {"ip4": 1, "ip6": 2}
FAR = {"ip4": "10.88.0.2", "ip6": "fd88::2"}


def malformed(reason, n=1):
    return {"dropped_malformed": n, f"malformed_{reason}": n}


class Bench:
    """The two processes, the sender of the invalid packets, and the live pair of each type."""

    def __init__(self, lab, family):
        self.lab, self.family = lab, family
        self.near = Process(lab, "wire0", GID_INDEX[family])
        self.far = Process(lab, "wire0", GID_INDEX[family], lab.far)
        check(self.near.gid.endswith(WIRE[family]) and self.far.gid.endswith(FAR[family]), "GIDs")
        with lab.far:
            self.forger = Forger()
        self.way = Way(FAR[family], WIRE[family])
        self.pairs = {}

    def pair(self, kind):
        if kind not in self.pairs:
            self.pairs[kind] = Pair(self.near, self.far, kind)
            self.pairs[kind].moves_data()
        return self.pairs[kind]

    def drop(self, kind):
        self.pairs.pop(kind).close()

    def guarded(self):
        """Returns the part of the near buffer that no invalid packet may change: the target of the packets' WRITEs."""
        return self.near.ask("sum", 3 * PART_BYTES, PART_BYTES)

    def inject(self, datagrams, counted, way=None):
        """Sends the packets. Each must increase its own counter, and no other counter may change."""
        before = self.near.counted()
        for datagram in datagrams:
            self.forger.send(way or self.way, datagram)
        seen = {}

        def settled():
            seen.update(changed(before, self.near.counted()))
            return all(seen.get(name, 0) >= n for name, n in counted.items())
        with contextlib.suppress(Failure):
            wait_until(settled, self.lab.seconds(5), "the counters")
        seen = changed(before, self.near.counted())
        check(seen == counted, f"counted {seen}, not {counted}")

    def close(self):
        for kind in list(self.pairs):
            self.drop(kind)
        self.forger.close()
        self.near.close()
        self.far.close()


def harmless(bench, kind, build, counted, way=None):
    """Checks that the packets are only counted: the pair, its memory and its data are unchanged."""
    pair = bench.pair(kind)
    before = bench.guarded()
    try:
        bench.inject(build(pair), counted, way)
        check(bench.guarded() == before, "memory was changed")
        for i in (0, 1):
            check(pair.command(i, "pending") == "0", f"side {i} had a completion")
        pair.moves_data()
    except Failure:
        bench.pairs.pop(kind)
        raise


def errs(bench, kind, build, counted, event, recv_bytes=0):
    """Checks that the queue pair goes to ERR, as the specification requires for an invalid request from the peer.
    RoCEv2 has no authentication: a packet with the right addresses, QPN and PSN is the peer's packet. A new pair must
    work."""
    pair = bench.pair(kind)
    if recv_bytes:
        pair.command(0, "recv", recv_bytes)
    before = bench.guarded()
    try:
        bench.inject(build(pair), dict(counted, queue_pair_errors=1))
        check(pair.state() == "ERR" and bench.guarded() == before, f"state {pair.state()}")
        printed = bench.near.ask("event")
        check(printed == event, f"event {printed}")
    finally:
        bench.drop(kind)
    bench.pair(kind).moves_data()


def taken(bench, kind, build, received=PAYLOAD):
    """Checks that unusual but valid packets are received: the specification requires a receiver to ignore these
    fields."""
    pair = bench.pair(kind)
    for datagram in build(pair):
        pair.command(0, "recv", GRH_BYTES + 64)
        bench.inject([datagram], {})
        status, data = pair.command(0, "received").split()
        check(status == "success" and data[2 * pair.header_bytes():] == received.hex(), data)
        if kind != "ud":
            bench.drop(kind)
            pair = bench.pair(kind)


class Maker:
    """Makes packets for the near queue pair of a pair. They are valid except for the fields that a case changes."""

    def __init__(self, bench, kind):
        self.seal, self.kind, self.service = bench.way.seal, kind, SERVICES[kind]
        self.address, self.rkey = bench.near.address + 3 * PART_BYTES, bench.near.rkey

    def head(self, pair, operation=SEND_ONLY, ahead=0, qkey=QKEY, **fields):
        fields.setdefault("qpn", pair.qpn[0])
        head = bth(fields.pop("opcode", self.service | operation), fields.pop("qpn"), pair.psn[1] + ahead, **fields)
        return head + deth(qkey, pair.qpn[1]) if self.kind == "ud" else head

    def send(self, pair, payload=PAYLOAD, operation=SEND_ONLY, **fields):
        return self.seal(self.head(pair, operation, **fields) + payload)

    def write(self, pair, payload=PAYLOAD, operation=WRITE_ONLY, address=0, rkey=0, length=None):
        eth = reth((self.address + address) % (1 << 64), self.rkey ^ rkey, len(payload) if length is None else length)
        return self.seal(self.head(pair, operation) + eth + payload)

    def read(self, pair, address=0, rkey=0, length=16):
        return self.seal(self.head(pair, READ_REQUEST) +
                         reth((self.address + address) % (1 << 64), self.rkey ^ rkey, length))

    def atomic(self, pair, operation, address=0, rkey=0):
        eth = atomic_eth((self.address + address) % (1 << 64), self.rkey ^ rkey)
        return self.seal(self.head(pair, operation) + eth)

    def truncated(self, pair, operation, sizes=(0,)):
        """Packets with only this many bytes of the extended headers, for each operation of the service."""
        return [self.seal(self.head(pair, operation) + bytes(n)) for n in sizes]

    def answer(self, pair, operation, syndrome=ACK_SYNDROME, ahead=0, payload=b"", original=b""):
        head = bth(RC | operation, pair.qpn[0], pair.psn[0] + ahead, ack_request=0)
        has_aeth = operation != packets.READ_RESPONSE_MIDDLE
        return self.seal(head + (aeth(syndrome) if has_aeth else b"") + original + payload)


def flipped(datagram, places):
    """Copies of the packet, each with one bit flipped at one of these places."""
    for at in places:
        copy = bytearray(datagram)
        copy[at] ^= 1 << at % 8
        yield bytes(copy)


def wrong_icrcs(make, pair):
    """Flips each bit of the ICRC, and one bit of each byte that the ICRC covers. Opcode and QPN are left out, because
    other checks precede the ICRC check. The reserved byte is left out, because the ICRC does not cover it."""
    good = make.send(pair)
    yield from flipped(good, [at for at in range(2, len(good) - 4) if at not in (4, 5, 6, 7)])
    for bit in range(32):
        copy = bytearray(good)
        copy[len(good) - 4 + bit // 8] ^= 1 << bit % 8
        yield bytes(copy)


def unknown_opcodes(make, pair):
    for opcode in range(256):
        if opcode not in packets.KNOWN:
            yield make.seal(bth(opcode, pair.qpn[0], pair.psn[1]) + bytes(64))


def other_services(kind, make, pair):
    """A message of each of the other services, addressed to the queue pair."""
    others = {RC: b"", UC: b"", UD: deth(QKEY, pair.qpn[1]), XRC: imm(0)}
    for service, eth in others.items():
        if service != SERVICES[kind]:
            yield make.seal(bth(service | SEND_ONLY, pair.qpn[0], pair.psn[1]) + eth + PAYLOAD)


def unused_qpns(bench):
    """Two QPNs in the range of the near process without a queue pair. The process does not assign them again soon."""
    made = [bench.near.ask("new", "ud").split() for _ in range(2)]
    for index, _ in made:
        bench.near.ask("destroy", index)
    return [int(qpn) for _, qpn in made]


def parsing(bench, cases, kind, name):
    """Checks of a packet that do not depend on the state of the queue pair."""
    make = Maker(bench, kind)

    def case(what, build, counted, way=None):
        cases.run(f"{what}, {name}", harmless, bench, kind, lambda pair: list(build(pair)), counted, way)
    case("opcode: in no table", lambda pair: unknown_opcodes(make, pair),
         malformed("unknown_opcode", 256 - len(packets.KNOWN)))
    case("opcode: of another service", lambda pair: other_services(kind, make, pair),
         {"dropped_opcode_of_another_service": 3})
    case("transport header version", lambda pair: (make.send(pair, version=version) for version in range(1, 16)),
         malformed("unknown_header_version", 15))
    case("pad: more than payload", lambda pair: (make.send(pair, b"", pad=pad) for pad in (1, 2, 3)),
         malformed("wrong_pad_count", 3))
    case("length: no multiple of 4", lambda pair: (make.send(pair, PAYLOAD + bytes(n)) for n in (1, 2, 3)),
         malformed("wrong_pad_count", 3))
    case("P_Key", lambda pair: (make.send(pair, pkey=pkey) for pkey in (0, 0x7FFE, 0xFFFE, 0x8000, 0x1234)),
         {"dropped_wrong_p_key": 5})
    case("QPN: not assigned", lambda pair: (make.send(pair, qpn=qpn) for qpn in unused_qpns(bench)),
         {"dropped_unknown_qpn": 2})
    case("QPN: not assigned, in the daemon's range", lambda pair: [make.send(pair, qpn=qpn) for qpn in (0, 2, 0x7FFF)],
         {"gsi.dropped_unknown_qpn": 3} if kind == "ud" else {"gsi.dropped_wrong_opcode": 3})
    icrcs = len(list(wrong_icrcs(make, bench.pair(kind))))
    case("ICRC", lambda pair: wrong_icrcs(make, pair), malformed("wrong_icrc", icrcs))
    case("short: 8 to 15 bytes", lambda pair: (make.send(pair)[:n] for n in range(8, 16)), malformed("too_short", 8))
    case("short: 0 to 7 bytes, which name no QPN", lambda pair: (make.send(pair)[:n] for n in range(8)),
         {f"gsi.{counter}": n for counter, n in malformed("too_short", 8).items()})
    case("long: more payload than any MTU", lambda pair: [make.send(pair, bytes(4100))], malformed("too_much_payload"))


def addresses(bench, cases, kind, name):
    make = Maker(bench, kind)
    lied = Way(THIRD_HOST[bench.family], WIRE[bench.family])

    def third(pair):
        make.seal = lied.seal
        try:
            return [make.send(pair)]
        finally:
            make.seal = bench.way.seal
    cases.run(f"source address: a third host's, {name}", harmless, bench, kind, third, {"dropped_wrong_address": 1},
              lied)
    if bench.family == "ip4":
        other = Way(FAR["ip4"], OTHER_ADDRESS)
        cases.run(f"destination address: another of the host's, {name}", harmless, bench, kind,
                  lambda pair: [other.seal(make.head(pair) + PAYLOAD)], {"dropped_wrong_address": 1}, other)


def ignored_fields(bench, cases, kind, name):
    """Header fields for which a receiver must not drop a packet."""
    make = Maker(bench, kind)
    for what, fields in (("solicited event", {"solicited": packets.SOLICITED}), ("migration request", {"migrated": 0}),
                         ("no acknowledge request", {"ack_request": 0}), ("FECN", {"marks": packets.FECN}),
                         ("BECN", {"marks": packets.BECN}), ("reserved bits", {"marks": 0x3F, "reserved": 0x7F}),
                         ("limited membership", {"pkey": 0x7FFF})):
        cases.run(f"{what}: received, {name}", taken, bench, kind,
                  lambda pair, fields=fields: [make.send(pair, **fields)])
    cases.run(f"pad: so many bytes less, {name}", taken, bench, kind, lambda pair: [make.send(pair, pad=3)],
              PAYLOAD[:-3])


def rc_requests(bench, cases):
    make = Maker(bench, "rc")

    def case(what, build, counted):
        cases.run(f"{what}, RC", harmless, bench, "rc", lambda pair: list(build(pair)), counted)
    for what, operation, sizes in (("RETH", WRITE_ONLY, range(0, 16, 4)), ("AtomicETH", FETCH_ADD, range(0, 28, 4)),
                                   ("ImmDt", packets.SEND_ONLY_IMM, (0,)), ("IETH", packets.SEND_ONLY_INV, (0,)),
                                   ("AETH", packets.ACK, (0,))):
        case(f"truncated: {what}",
             lambda pair, operation=operation, sizes=sizes: make.truncated(pair, operation, sizes),
             malformed("truncated_headers", len(sizes)))
    case("payload without space for it",
         lambda pair: [make.read(pair)[:-4] + bytes(8), make.answer(pair, packets.ACK, payload=PAYLOAD)],
         malformed("unexpected_payload", 2))
    case("PSN: ahead, told once", lambda pair: (make.send(pair, ahead=ahead) for ahead in (1, 1000, 0x7FFFFF)),
         {"sequence_naks_sent": 1, "dropped_out_of_sequence": 2})
    # Duplicate requests are acknowledged again but not executed again (IBA 1.x §9.7.4.1.1). One of them requests an
    # ACK.
    case("PSN: behind", lambda pair: (make.send(pair, ahead=ahead) for ahead in (-1, -2, -1000, -0x7FFFFF)),
         {"duplicate_requests": 4})
    case("PSN: behind, an atomic that never was", lambda pair: [make.seal(
        make.head(pair, FETCH_ADD, ahead=-500) + atomic_eth(make.address, make.rkey))],
         {"duplicate_requests": 1, "dropped_stale_duplicate": 1})
    case("PSN: behind, a READ beyond what was asked for", lambda pair: [make.seal(
        make.head(pair, READ_REQUEST, ahead=-1) + reth(make.address, make.rkey, 8 * MTU_BYTES))],
         {"duplicate_requests": 1, "dropped_stale_duplicate": 1})


def rc_refusals(bench, cases):
    """An invalid request is answered with a NAK and moves the responder's queue pair to ERR (IBA 1.x §9.7.5.2,
    §9.9.3)."""
    make = Maker(bench, "rc")
    invalid, access = {"invalid_request_naks_sent": 1}, {"remote_access_naks_sent": 1}

    def case(what, build, counted, event, recv_bytes=0):
        cases.run(f"{what}: refused, RC", errs, bench, "rc", lambda pair: [build(pair)], counted, event, recv_bytes)
    for operation, what in ((packets.SEND_MIDDLE, "SEND middle"), (packets.SEND_LAST, "SEND last"),
                            (packets.WRITE_MIDDLE, "WRITE middle"), (packets.WRITE_LAST, "WRITE last")):
        case(f"opcode: {what} of nothing",
             lambda pair, operation=operation: make.send(pair, bytes(MTU_BYTES), operation), invalid, "QP_REQ_ERR")
    case("long: more than the path's MTU", lambda pair: make.send(pair, bytes(MTU_BYTES + 4)), invalid, "QP_REQ_ERR")
    case("short: a first that is not full", lambda pair: make.send(pair, operation=SEND_FIRST), invalid,
         "QP_REQ_ERR")
    case("long: more than the receive", make.send, invalid, "none", recv_bytes=8)
    for what, fields, counted, event in (
            ("R_Key", {"rkey": 0x100}, access, "QP_ACCESS_ERR"),
            ("address: before the region", {"address": -1 << 40}, access, "QP_ACCESS_ERR"),
            ("address: at the end of all", {"address": (1 << 64) - (1 << 16)}, access, "QP_ACCESS_ERR"),
            ("DMA length: less than comes", {"length": 8}, invalid, "QP_REQ_ERR"),
            ("DMA length: more than comes", {"length": 24}, invalid, "QP_REQ_ERR"),
            ("DMA length: of no message", {"length": 0xFFFFFFFF}, invalid, "QP_REQ_ERR")):
        case(f"WRITE, {what}", lambda pair, fields=fields: make.write(pair, **fields), counted, event)
        if "comes" not in what:
            case(f"READ, {what}", lambda pair, fields=fields: make.read(pair, **fields), counted, event)
    case("WRITE, DMA length: beyond the region",
         lambda pair: make.write(pair, bytes(MTU_BYTES), WRITE_FIRST, length=1 << 30), access, "QP_ACCESS_ERR")
    case("READ, DMA length: beyond the region", lambda pair: make.read(pair, length=1 << 30), access, "QP_ACCESS_ERR")
    for operation, what in ((FETCH_ADD, "fetch and add"), (packets.COMPARE_SWAP, "compare and swap")):
        for field, fields, counted, event in (("R_Key", {"rkey": 0x100}, access, "QP_ACCESS_ERR"),
                                              ("address", {"address": -1 << 40}, access, "QP_ACCESS_ERR"),
                                              ("odd address", {"address": 1}, invalid, "QP_REQ_ERR")):
            case(f"{what}, {field}",
                 lambda pair, operation=operation, fields=fields: make.atomic(pair, operation, **fields), counted,
                 event)
    case("IETH", lambda pair: make.seal(make.head(pair, packets.SEND_ONLY_INV) + ieth(make.rkey) + PAYLOAD), access,
         "QP_ACCESS_ERR", recv_bytes=64)


def waiting_requester(bench, opcode, answers, counted, status):
    """A requester on the near side with an outstanding request, whose peer's queue pair was destroyed. The test makes
    the responses."""
    pair = Pair(bench.near, bench.far, "rc")
    pair.sides[1].ask("destroy", pair.index[1])
    first = pair.psn[0]
    pair.post(0, opcode, 8 if opcode == "add" else 64, remote_offset=PART_BYTES)
    pair.psn[0] = first
    try:
        bench.inject(answers(pair), counted)
        if status is None:
            check(pair.command(0, "pending") == "0" and pair.state() == "RTS", f"state {pair.state()}")
        else:
            check(pair.command(0, "sent") == status and pair.state() == "ERR", f"state {pair.state()}")
    finally:
        pair.command(0, "destroy")
    bench.pair("rc").moves_data()


def rc_answers(bench, cases):
    make = Maker(bench, "rc")
    everything = (packets.ACK, packets.ATOMIC_ACK, packets.READ_RESPONSE_FIRST, packets.READ_RESPONSE_MIDDLE,
                  packets.READ_RESPONSE_LAST, READ_RESPONSE_ONLY)

    def unasked(pair):
        for operation in everything:
            original = bytes(8) if operation == packets.ATOMIC_ACK else b""
            is_read = packets.READ_RESPONSE_FIRST <= operation <= READ_RESPONSE_ONLY
            payload = bytes(MTU_BYTES) if is_read else b""
            for ahead in (-1, 0, 1, 0x7FFFFF):
                yield make.answer(pair, operation, ahead=ahead, payload=payload, original=original)
        for syndrome in (RNR_SYNDROME, *range(NAK_SYNDROME, NAK_SYNDROME + 8)):
            yield make.answer(pair, packets.ACK, syndrome)
    cases.run("answers to nothing, RC", harmless, bench, "rc", lambda pair: list(unasked(pair)),
              {"dropped_response_to_nothing": 6 * 4 + 9})

    def case(what, opcode, answers, counted, status=None):
        cases.run(f"answer, {what}, RC", waiting_requester, bench, opcode, answers, counted, status)
    nothing = "dropped_response_to_nothing"
    case("PSN: of nothing that is out", "send",
         lambda pair: [make.answer(pair, packets.ACK, ahead=ahead) for ahead in (-1, 1, 0x7FFFFF)], {nothing: 3})
    case("AETH: reserved syndromes", "send",
         lambda pair: [make.answer(pair, packets.ACK, syndrome) for syndrome in (0x40, 0x5F, 0x80, 0xFF)], {nothing: 4})
    case("AETH: reserved NAK code", "send", lambda pair: [make.answer(pair, packets.ACK, NAK_SYNDROME | 0x1F)],
         {"bad_responses": 1, "queue_pair_errors": 1}, "bad response error")
    for code, status in ((1, "remote invalid request error"), (2, "remote access error"),
                         (3, "remote operation error")):
        case(f"AETH: NAK {code}, as from the peer", "send",
             lambda pair, code=code: [make.answer(pair, packets.ACK, NAK_SYNDROME | code)],
             {"fatal_naks_received": 1, "queue_pair_errors": 1}, status)
    case("a READ's data to a SEND", "send",
         lambda pair: [make.answer(pair, READ_RESPONSE_ONLY, payload=bytes(64))], {nothing: 1})
    case("an atomic's data to a READ", "read",
         lambda pair: [make.answer(pair, packets.ATOMIC_ACK, original=bytes(8))], {nothing: 1})
    case("a READ's data to an atomic", "add",
         lambda pair: [make.answer(pair, READ_RESPONSE_ONLY, payload=bytes(8))], {nothing: 1})
    for size in (0, 60, 68):
        case(f"{size} of a READ's 64 bytes", "read",
             lambda pair, size=size: [make.answer(pair, READ_RESPONSE_ONLY, payload=bytes(size))],
             {"bad_responses": 1, "queue_pair_errors": 1}, "bad response error")


def uc_requests(bench, cases):
    """A UC responder drops an invalid message and receives the next one (IBA 1.x §9.8.2)."""
    make = Maker(bench, "uc")

    def case(what, build, counted):
        cases.run(f"{what}, UC", harmless, bench, "uc", lambda pair: list(build(pair)), counted)
    late, inside = (-1, -2, -1000), (packets.SEND_MIDDLE, packets.SEND_LAST, packets.WRITE_MIDDLE, packets.WRITE_LAST)
    case("PSN: behind", lambda pair: (make.send(pair, ahead=ahead) for ahead in late), {"dropped_out_of_sequence": 3})
    case("opcode: middle or last of nothing",
         lambda pair: (make.send(pair, bytes(MTU_BYTES), operation) for operation in inside),
         {"dropped_out_of_sequence": 4})
    case("truncated: RETH", lambda pair: make.truncated(pair, WRITE_ONLY, range(0, 16, 4)),
         malformed("truncated_headers", 4))
    case("no receive", lambda pair: [make.send(pair)], {"dropped_no_receive": 1})
    case("long: more than the path's MTU", lambda pair: [make.send(pair, bytes(MTU_BYTES + 4))],
         {"dropped_wrong_length": 1})
    case("short: a first that is not full", lambda pair: [make.send(pair, operation=SEND_FIRST)],
         {"dropped_wrong_length": 1})
    for what, fields, counter in (("R_Key", {"rkey": 0x100}, "access_not_permitted"),
                                  ("address", {"address": -1 << 40}, "access_not_permitted"),
                                  ("DMA length: less than comes", {"length": 8}, "wrong_length"),
                                  ("DMA length: more than comes", {"length": 24}, "wrong_length"),
                                  ("DMA length: of no message", {"length": 0xFFFFFFFF}, "wrong_length")):
        case(f"WRITE, {what}", lambda pair, fields=fields: [make.write(pair, **fields)], {f"dropped_{counter}": 1})
    # A receive that is too short is an error of the local side and moves the queue pair to ERR (IBA 1.x §9.9.3, class
    # A).
    cases.run("long: more than the receive, UC", errs, bench, "uc", lambda pair: [make.send(pair)],
              {"dropped_wrong_length": 1}, "none", 8)


def with_receive(bench, build, counted, recv_bytes):
    """A receive is posted. It stays posted until a datagram arrives that fits."""
    pair = bench.pair("ud")
    pair.command(0, "recv", recv_bytes)
    bench.inject(build(pair), counted)
    check(pair.command(0, "pending") == "0", "something was received")
    bench.inject([Maker(bench, "ud").send(pair, PAYLOAD[:4])], {})
    check(pair.command(0, "received").startswith("success"), "the receive is lost")
    pair.moves_data()


def not_ready(bench):
    index, qpn = bench.near.ask("new", "ud").split()
    pair = bench.pair("ud")
    bench.inject([Maker(bench, "ud").send(pair, qpn=int(qpn))], {"dropped_queue_pair_not_ready": 1})
    bench.near.ask("destroy", index)


def ud_requests(bench, cases):
    make = Maker(bench, "ud")
    enough = GRH_BYTES + 64
    qkeys, psns = (0, QKEY ^ 1, QKEY | 1 << 31, 0xFFFFFFFF), (-1, 1, 0x7FFFFF)

    def short_deth(pair):
        return [make.seal(bth(UD | SEND_ONLY, pair.qpn[0], 0) + bytes(n)) for n in (0, 4)]
    cases.run("Q_Key, UD", with_receive, bench, lambda pair: [make.send(pair, qkey=qkey) for qkey in qkeys],
              {"dropped_wrong_q_key": 4}, enough)
    cases.run("truncated: DETH, UD", with_receive, bench, short_deth, malformed("truncated_headers", 2), enough)
    cases.run("truncated: ImmDt, UD", with_receive, bench, lambda pair: make.truncated(pair, packets.SEND_ONLY_IMM),
              malformed("truncated_headers"), enough)
    cases.run("long: more than the receive, UD", with_receive, bench, lambda pair: [make.send(pair, bytes(64))],
              {"dropped_receive_too_short": 1}, GRH_BYTES + 32)
    cases.run("no receive, UD", harmless, bench, "ud", lambda pair: [make.send(pair)], {"dropped_no_receive": 1})
    cases.run("a queue pair in INIT, UD", not_ready, bench)
    cases.run("PSN: any, UD", taken, bench, "ud", lambda pair: [make.send(pair, ahead=ahead) for ahead in psns])


def family(lab, cases, name, family_name):
    bench = Bench(lab, family_name)
    try:
        for kind in SERVICES:
            parsing(bench, cases, kind, f"{kind.upper()}, {name}")
        for kind in ("rc", "uc"):
            addresses(bench, cases, kind, f"{kind.upper()}, {name}")
        if family_name == "ip4":
            for kind in SERVICES:
                ignored_fields(bench, cases, kind, kind.upper())
            rc_requests(bench, cases)
            rc_refusals(bench, cases)
            rc_answers(bench, cases)
            uc_requests(bench, cases)
            ud_requests(bench, cases)
    finally:
        bench.close()


def body(lab, cases):
    if not lab.isolated:
        cases.skip("bad packets", "no right to make a network namespace")
        return
    lab.add_host()
    ip_command("ip", "link", "set", "wire0", "mtu", "9000")
    with lab.far:
        ip_command("ip", "link", "set", "wire0", "mtu", "9000")
        ip_command("ip", "route", "add", f"{OTHER_ADDRESS}/32", "via", WIRE["ip4"])
    family(lab, cases, "IPv4", "ip4")
    family(lab, cases, "IPv6", "ip6")


if __name__ == "__main__":
    laboratory.main(body)
