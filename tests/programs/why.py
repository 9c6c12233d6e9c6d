# SPDX-License-Identifier: BSD-2-Clause
"""usrdma why explains the failure after both processes have ended: the first cause, both processes, the numbers."""

import contextlib
import json
import os
import re
import shutil
import signal
import struct
import threading
import time

from tests.programs import cm, daemon_kit, perftest, wire
from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.lab import LOOPBACK, UID_NOBODY, check, wait_until

# Case of mistake.c: the first cause, and further texts of the explanation. {0}: PID of the responder.
REGION = r"\[0x[0-9a-f]+, 0x[0-9a-f]+\) that pid {0} registered"
MISTAKES = {
    "past_end": (r"RDMA WRITE of 65,536 bytes at 0x[0-9a-f]+ with rkey 0x[0-9a-f]+ failed: 4,096 bytes past the end of "
                 "the region " + REGION, ["IBV_WC_REM_ACCESS_ERR, vendor_err 9"]),
    "wrong_rkey": (r"RDMA WRITE of 4,096 bytes .* no memory region of the peer has this rkey", []),
    "ucx_fence": (r"RDMA READ of 8 bytes at 0x0 with rkey 0xff failed: no memory region of the peer has this rkey",
                  ["UCX_FENCE_MODE=weak"]),
    "no_remote_write": ("the region " + REGION + r" permits only IBV_ACCESS_LOCAL_WRITE \| IBV_ACCESS_REMOTE_READ", []),
    "qp_access": (r"the peer's queue pair does not permit it: qp_access_flags are IBV_ACCESS_LOCAL_WRITE \| "
                  "IBV_ACCESS_REMOTE_READ", []),
    "other_pd": (REGION + " belongs to another protection domain", []),
    "wrong_lkey": (r"its SGE of 4096 bytes at 0x[0-9a-f]+ with lkey 0x[0-9a-f]+ names no memory region", []),
    "no_receive": (r"the peer had no receive posted: 2 RNR NAKs \(rnr_retry 1\).* min_rnr_timer 12 .* 640 us",
                   ["flushed with IBV_WC_WR_FLUSH_ERR: 3 sends"]),
    "slow_rnr_timer": ("min_rnr_timer 0 means a wait of 655.4 ms", []),
    "short_receive": (r"the receive that mistake \(pid {0}\) posted has only 100 bytes", ["IBV_WC_LOC_LEN_ERR"]),
    "invalid_receive": (r"receive failed: its SGE of 4096 bytes .* names no memory region", ["IBV_WC_REM_OP_ERR"]),
    "peer_ends": (r"the process of the peer's queue pair \(pid {0}\) has ended", []),
    "wrong_qpn": (r"QP 0x\w+ of the peer does not exist: no response after 2 retries", []),
    "peer_not_ready": (r"of the peer is in INIT and does not receive: no response after 2 retries",
                       ["ACK timeout of 4.194 ms"]),
    "posted_in_err": ("past the end of the region", ["was used in ERR; flushed"]),
    "post_in_init": (r"ibv_post_send\(\) for QP 0x\w+ failed with EINVAL: the queue pair is in INIT; the call is valid "
                     "from RTS on", []),
    "skip_rtr": (r"ibv_modify_qp\(\) .* EINVAL: no transition leads from INIT to RTS", []),
    "forget_attribute": ("the transition to RTR also needs IBV_QP_RQ_PSN | IBV_QP_DEST_QPN", []),
    "mix_families_of_datagrams": (r"ibv_create_ah\(\) .* EINVAL: the source GID of sgid_index 1 is IPv4, the "
                                  "destination GID is IPv6", []),
    "mix_families": ("the source GID of sgid_index 1 is IPv4, the destination GID is IPv6", []),
    "take_no_route": (r"ibv_modify_qp\(\) for QP 0x\w+ failed with ENETUNREACH: this host has no route from "
                      r"127\.0\.0\.1 to 192\.0\.2\.1$", ["ip route get"]),
    "take_no_route_of_datagrams": (r"ibv_create_ah\(\) failed with ENETUNREACH: this host has no route from "
                                   r"127\.0\.0\.1 to 192\.0\.2\.1$", []),
    "exceed_timeout": ("the transition to RTR does not permit IBV_QP_TIMEOUT", []),
    "register_invalid": (r"ibv_reg_mr\(\) failed with EINVAL: .* need IBV_ACCESS_LOCAL_WRITE, and the flags are "
                         "IBV_ACCESS_REMOTE_WRITE", []),
    "fill_queue": (r"ibv_post_recv\(\) .* ENOMEM: the queue is full: 16 WRs have no polled completion", []),
    "past_window": (r"RDMA WRITE of 4,096 bytes at .* failed: 3,072 bytes past the end of the memory window "
                    r"\[0x[0-9a-f]+, 0x[0-9a-f]+\) that pid {0} bound$", []),
    "read_only_window": (r"the memory window \[0x[0-9a-f]+, 0x[0-9a-f]+\) that pid {0} bound permits only "
                         "IBV_ACCESS_REMOTE_READ$", []),
    "window_bound_again": ("the memory window is not bound with this rkey; it was invalidated or bound again$", []),
    "cq_overrun": ("its completion queue of 2 entries was full", ["IBV_EVENT_QP_FATAL", "IBV_EVENT_CQ_ERR"]),
}
NOT_OF_A_QP = ("register_invalid", "mix_families_of_datagrams", "take_no_route_of_datagrams")

# Case of misuse.c: the first cause.
WAITING_MISUSES = {
    "ud_qkey": r"datagram of 100 bytes from QP (0x\w+) to QP \1 dropped: its Q_Key is 0x1235, that of the queue pair "
               r"0x1234\n",
    "ud_no_receive": r"datagram of 100 bytes from QP (0x\w+) to QP \1 dropped: no receive was posted\n",
    "ud_short_receive": r"datagram of 100 bytes .* dropped: the posted receive is too short for it and the 40 bytes of "
                        r"the GRH\n",
    "unacked_event": r"rdma_destroy_id\(\) waits: the application has not acknowledged an event "
                     r"RDMA_CM_EVENT_ADDR_RESOLVED\n",
    "unacked_async_event": r"ibv_destroy_srq\(\) waits: the application has not acknowledged 1 event\n",
    "small_cq": r"a completion queue of 16 entries has 14 completions that were not polled, and the queues that use it "
                r"can generate 32\n",
    "uc_no_receive": r"message from QP (0x\w+) to QP \1 dropped: no receive was posted\n",
    "uc_write": r"RDMA WRITE of 4,096 bytes at 0x\w+ with rkey 0x\w+ from QP (0x\w+) to QP \1 dropped: the region "
                r"\[.*\) that pid \d+ registered permits only IBV_ACCESS_LOCAL_WRITE\n",
}
# Cases of misuse.c with the transport roce and a fault rule.
ROCE_MISUSES = {
    "uc_no_receive": ("", WAITING_MISUSES["uc_no_receive"]),
    "uc_write": ("", WAITING_MISUSES["uc_write"]),
    "uc_loss": ("packet.send:drop:nth=2", r"packet from QP (0x\w+) to QP \1 dropped: its PSN is 2, the expected one 1: "
                                          r"1 packet was lost\n"),
    "uc_corrupted": ("packet.send:corrupt:nth=2", r"packet from QP (0x\w+) to QP \1 dropped: its ICRC is wrong: "),
}
MISUSES = {
    "private_data": r"rdma_connect\(\) to 127\.0\.0\.1:7999 failed with EINVAL: 200 bytes of private data; the message "
                    r"has space for 56\n",
    "bind_window": r"bind of a memory window to 100 bytes failed: its range at 0x\w+ with lkey 0x\w+ needs "
                   r"IBV_ACCESS_MW_BIND, .* permits only IBV_ACCESS_LOCAL_WRITE\n.*IBV_WC_MW_BIND_ERR",
    "create_cq": r"ibv_create_cq\(\) failed with EINVAL: cqe is 1,073,741,824, at most [\d,]+\n",
    "create_srq": r"ibv_create_srq\(\) failed with EINVAL: attr.max_wr is 0, at least 1\n",
    "alloc_mw": r"ibv_alloc_mw\(\) failed with EINVAL: ",
    "dealloc_pd": r"ibv_dealloc_pd\(\) failed with EBUSY: 1 object still uses it\n(?!.*ibv_dealloc_pd\(\) failed)",
    "fill_srq": r"ibv_post_srq_recv\(\) failed with ENOMEM: the queue is full: \d+ WRs have no polled "
                r"completion\n",
    "wr_complete": r"ibv_wr_complete\(\) for QP 0x\w+ failed with EINVAL: the queue pair was created without the flag "
                   r"of RDMA READ in send_ops_flags \(0x\w+\)\n",
    "flush": r"FLUSH of 4,096 bytes at 0x\w+ with rkey 0x\w+ failed: the peer's queue pair does not permit it",
    "srq_limit": r"0 receives are left in an SRQ for 16, fewer than its limit\n.*IBV_EVENT_SRQ_LIMIT_REACHED\n",
}

# path_mtu is 1024 at the requester and 512 at the responder.
OTHER_MTU = (r"SEND of 4,096 bytes failed: the payload of a packet is 1,024 bytes, which does not agree with the "
             r"path_mtu of 512 bytes of the receiver")
OTHER_MTU_SHORT = r"path_mtu of QP 0x\w+ is 1024 bytes, that of its peer 512 bytes: "
# enum ibv_event_type, enum vendor_err.
PORT_ACTIVE, PORT_ERR, NO_RESPONSE = 9, 10, 14


def why(lab, *arguments, is_root=False):
    status, out, err = usrdma(lab, "why", *arguments, uid=0 if is_root else UID_NOBODY)
    check(status == 0 and not err, out + err)
    return out


def mistake(lab, case, **env):
    """Returns the PIDs and QPNs of (requester, responder), both ended."""
    program = lab.start(os.path.join(lab.tree, "tests", "programs", "mistake"), case, "lo", 0, **env)
    printed = program.finish(lab.seconds(20))
    return [tuple(map(int, re.search(rf"^{side} (\d+) (\d+)$", printed, re.M).groups()))
            for side in ("requester", "responder")]


def explained(lab, case):
    """The newest incident is this one. It is found by the PIDs and QPNs of both sides."""
    cause, others = MISTAKES[case]
    (pid, qpn), (peer_pid, _) = mistake(lab, case)
    text = why(lab, pid)
    first = text.splitlines()[0]
    check(re.search(cause.replace("{0}", str(peer_pid)), first), f"{cause}\n{text}")
    check(all(other in text for other in others), f"{others}\n{text}")
    check(f"mistake (pid {pid})" in text or f"mistake (pid {peer_pid})" in text, text)
    check(why(lab, "--last", 1).startswith(text) and (why(lab, qpn) == text or case in NOT_OF_A_QP), text)
    report = json.loads(why(lab, pid, "--json").splitlines()[0])
    check(report["cause"] == first and report["first"]["pid"] in (pid, peer_pid), f"{report}")


def refused_by_nak(lab, case):
    """A NAK has one code for several causes. The responder's report has the cause."""
    (pid, _), (peer_pid, _) = mistake(lab, case, USRDMA_TRANSPORT="roce")
    text = why(lab, pid)
    check(re.search(MISTAKES[case][0].replace("{0}", str(peer_pid)), text.splitlines()[0]), text)
    check(f"its peer: mistake (pid {peer_pid}), " in text and f"then:  mistake (pid {peer_pid}): QP" in text, text)


def unknown_qpn_on_roce(lab):
    """The peer's process reports the packets that it drops."""
    (pid, _), _ = mistake(lab, "wrong_qpn", USRDMA_TRANSPORT="roce")
    check(re.search(MISTAKES["wrong_qpn"][0], first_line(lab, pid)), why(lab, pid))


def other_mtu(lab, transport, case, expected):
    """A responder refuses packets of another size. A message of one packet arrives; within one host, with a warning."""
    (pid, _), _ = mistake(lab, case, USRDMA_TRANSPORT=transport)
    check(re.match(expected, first_line(lab, pid)), why(lab, pid))


def first_line(lab, *arguments, is_root=False):
    return why(lab, *arguments, is_root=is_root).splitlines()[0]


def refused(lab):
    """rping prints the REJECTED event only; why names the port without a listener."""
    client = lab.start("rping", "-c", "-a", "127.0.0.1", "-p", 7999, "-C", 1)
    client.finish(lab.seconds(20), None)
    check(first_line(lab, client.pid) == "connection to 127.0.0.1:7999 rejected: no process listens on port 7999 there "
          "(REJ reason 8)", why(lab))


def refused_datagrams(lab):
    """udaddy prints UNREACHABLE with the SIDR status, which is not an errno."""
    client = lab.start("udaddy", "-s", "127.0.0.1", "-c", 1)
    client.finish(lab.seconds(20), None)
    text = why(lab, client.pid)
    check(text.startswith("service ID resolution at 127.0.0.1:7174 rejected: no process listens on port 7174 there "
                          "(SIDR status 1)\n") and "  do:    start the server first" in text, text)


def no_program_has_the_port(lab, *argv):
    """The peer host answers with an ICMP error. That is a response."""
    client = lab.start(*argv)
    client.finish(lab.seconds(20), None)
    text = why(lab, client.pid)
    check(text.startswith("connection to 10.88.0.2:7174: its host answered that no program holds UDP port 4791 (ICMP "
                          "port unreachable)\n") and "  do:    start usrdmad or a program that " in text, text)


def address_of_no_device(lab):
    server = lab.start("rping", "-s", "-a", "192.0.2.1", "-C", 1)
    server.finish(lab.seconds(20), None)
    check(first_line(lab, server.pid).startswith("rdma_bind_addr() of 192.0.2.1:7174 failed with EADDRNOTAVAIL: "),
          why(lab))


def unresolved(lab, address, error):
    """The failure names the destination, also if the id has no route to it."""
    client = lab.start("rping", "-c", "-a", address, "-p", 7777, "-C", 1)
    client.finish(lab.seconds(20), None)
    check(re.match(rf"rdma_resolve_addr\(\) to {re.escape(address)}:7777 failed: ({error}): ",
                   first_line(lab, client.pid)), why(lab))


def flushed_without_a_cause(lab):
    """A program that polls a flushed receive after its peer has disconnected: a note, shown with its PID only."""
    server = lab.start("rping", "-s", "-a", "127.0.0.1", "-p", 7998, "-C", 1)
    lab.listens_cm(server, 7998)
    client = lab.start("rping", "-c", "-a", "127.0.0.1", "-p", 7998, "-C", 1)
    client.finish(lab.seconds(20), None)
    server.finish(lab.seconds(20), None)
    check(f"(pid {client.pid})" not in why(lab, "--last", 0), why(lab))
    text = why(lab, server.pid)
    check(re.match(r"connection with 127\.0\.0\.1:\d+ ended by ", text) and
          re.search(r"then:  rping .* entered ERR; flushed with IBV_WC_WR_FLUSH_ERR: 0 sends, 1 receive\n", text), text)


def lost_rep(lab):
    """The daemon drops each REP. why explains it while both programs wait, and after the attempt has failed. On a busy
    machine why may need some seconds: the attempt lasts longer."""
    lab.env.update(USRDMA_FAULT="mad.send:drop:op=REP", USRDMA_CM_TIMEOUT="10")
    try:
        lab.end_daemons()
        with daemon_kit.daemon(lab):
            del lab.env["USRDMA_FAULT"]
            server = lab.start("rping", "-s", "-a", "127.0.0.1", "-p", 7997, "-C", 1)
            lab.listens_cm(server, 7997)
            client = lab.start("rping", "-c", "-a", "127.0.0.1", "-p", 7997, "-C", 1)
            cause = (rf"connection to 127\.0\.0\.1:7997: the REP is lost: rping \(pid {server.pid}\) accepted the REQ, "
                     r"and its REP was sent (\d+ times|once) in [\d.]+ m?s, but no REP arrived; the REQ was sent ")
            wait_until(lambda: re.match(cause + ".*; the attempt continues$", first_line(lab)), lab.seconds(5),
                       "an explanation of the wait")
            client.finish(lab.seconds(20), None)
            server.finish(lab.seconds(20), None)
            text = why(lab)
            check(re.match(cause, text) and "continues" not in text and
                  "RDMA_CM_EVENT_UNREACHABLE, status -110" in text, text)
    finally:
        lab.env.pop("USRDMA_FAULT", None)
        del lab.env["USRDMA_CM_TIMEOUT"]


def killed_peer_of_perftest(lab):
    """ib_send_bw prints a status only. why names the process that was killed."""
    port = lab.port()
    server = lab.start("ib_send_bw", "-d", "lo", "-x", 1, "-p", port, "-D", 30)
    lab.listens_tcp(server, port)
    client = lab.start("ib_send_bw", "-d", "lo", "-x", 1, "-p", port, "-D", 30, "127.0.0.1")
    wait_until(lambda: any(process["pid"] == client.pid and process.get("peers") for process in
                           lab.status()["processes"]), lab.seconds(20), "the connection")
    wait_until(lambda: [process for process in lab.status()["processes"] if process["pid"] == client.pid
                        and any(qp.get("state") == "RTS" for qp in process["qps"])], lab.seconds(20), "a QP in RTS")
    os.kill(server.pid, signal.SIGKILL)
    client.finish(lab.seconds(30), None)
    text = why(lab, client.pid)
    check(re.match(rf"SEND of 65,536 bytes failed: the process of the peer's queue pair \(pid {server.pid}\) has "
                   r"ended\n", text), text)


def misuse(lab, case):
    return lab.start(os.path.join(lab.tree, "tests", "programs", "misuse"), case, "lo", 1)


def explained_while_waiting(lab, case):
    """The program waits, or is not informed of the failure."""
    program = misuse(lab, case)
    wait_until(lambda: re.search("^" + WAITING_MISUSES[case], why(lab, program.pid), re.M), lab.seconds(20),
               f"{WAITING_MISUSES[case]}")
    check(program.running(), program.story())
    program.end()


def explained_on_roce(lab, case):
    rules, cause = ROCE_MISUSES[case]
    name = "uc_loss" if case == "uc_corrupted" else case
    program = lab.start(os.path.join(lab.tree, "tests", "programs", "misuse"), name, "lo", 1, USRDMA_TRANSPORT="roce",
                        USRDMA_FAULT=rules)
    wait_until(lambda: re.search(f"^{cause}", why(lab, program.pid, "--last", 0), re.M), lab.seconds(20), cause)
    program.end()


def misuse_explained(lab, case):
    program = misuse(lab, case)
    program.finish(lab.seconds(20))
    text = why(lab, program.pid)
    check(re.match(MISUSES[case], text, re.S), text)


def port_goes_down(lab):
    """The event is reported once for a process. PORT_ACTIVE is a note."""
    fault = [os.path.join(lab.tree, "usrdma"), "fault"]
    program = misuse(lab, "idle")
    program.says("waiting")
    lab.start(*fault, "add", "device:down:dev=lo", native=True).finish(lab.seconds(10))
    wait_until(lambda: first_line(lab, program.pid) == "port 1 of lo went down", lab.seconds(10), "the event")
    lab.start(*fault, "clear", native=True).finish(lab.seconds(10))
    wait_until(lambda: "port 1 of lo became active\n" in why(lab, program.pid, "--all"), lab.seconds(10), "the event")
    check(why(lab, program.pid).count("  when: ") == 1, why(lab, program.pid))
    program.end()


def reports(connection, **values):
    """Sends a failure as a process reports it."""
    layout = wire.MESSAGES.structs["ipc_failure"]
    content = bytearray(layout.size)
    for name, offset, form in layout.fields:
        if name in values:
            struct.pack_into("=" + form, content, offset, values[name])
    connection.send(wire.message(wire.ipc("FAILURE"), bytes(content[wire.HEADER.size:]),
                                 reserved=wire.ipc("UNANSWERED")))


def reports_name_each_other(lab):
    """A process may report anything. Failures that follow from each other are one incident."""
    lab.end_daemons()
    with daemon_kit.daemon(lab, uid=0), contextlib.closing(wire.Connection(wire.CM)) as connection:
        for number, follows in ((1, 3), (2, 1), (3, 2), (4, 4)):
            reports(connection, kind=wire.ipc("FAILURE_WR"), id=number, follows=follows, wr_id=number, qpn=7, status=5)
        check(connection.is_answered(), "the daemon ended the connection")
        incidents = [json.loads(line) for line in why(lab, os.getpid(), "--json", is_root=True).splitlines()]
    shown = sorted(failure["wr_id"] for incident in incidents for failure in [incident["first"], *incident["then"]])
    check(shown == [1, 2, 3, 4] and len(incidents) == 2, f"{incidents}")


def repeated_calls(lab):
    """Calls that fail for the same reason are shown once; others, and all calls with --all or --json, one by one."""
    lab.end_daemons()
    with daemon_kit.daemon(lab, uid=0), contextlib.closing(wire.Connection(wire.CM)) as connection:
        for number in range(1, 31):
            call = b"ibv_create_qp" if number % 10 else b"ibv_reg_mr"
            reports(connection, kind=wire.ipc("FAILURE_CALL"), id=number, time_ns=number, error=22, call=call,
                    qpn=4711 if number == 5 else 0)
        check(connection.is_answered(), "the daemon ended the connection")
        shown = why(lab, os.getpid(), is_root=True)
        of_qp = why(lab, 4711, is_root=True)
        rest = [why(lab, os.getpid(), *options, is_root=True) for options in (["--all"], ["--last", 0, "--json"])]
    check([shown.count(name) for name in ("ibv_create_qp() failed", "ibv_reg_mr() failed")] == [1, 1] and
          "failed for the same reason: 25," in shown and "failed for the same reason: 2," in shown, shown)
    check(of_qp.startswith("ibv_create_qp() for QP 0x001267 failed") and "note:" not in of_qp, of_qp)
    check(all(text.count("ibv_create_qp()") >= 27 for text in rest), rest)


def no_response_while_the_port_is_down(lab):
    """The port that went down is the cause of a WR without a response, unless it came back before."""
    lab.end_daemons()
    with daemon_kit.daemon(lab, uid=0), contextlib.closing(wire.Connection(wire.CM)) as connection:
        for number, device, event in ((1, b"lo", PORT_ERR), (2, b"eth0", PORT_ERR), (3, b"eth0", PORT_ACTIVE)):
            reports(connection, kind=wire.ipc("FAILURE_EVENT"), id=number, time_ns=number, device=device, event=event)
        for number, device in ((4, b"lo"), (5, b"eth0")):
            reports(connection, kind=wire.ipc("FAILURE_WR"), id=number, time_ns=number, device=device, qpn=number,
                    status=12, vendor_err=NO_RESPONSE)
        check(connection.is_answered(), "the daemon ended the connection")
        incidents = [json.loads(line) for line in why(lab, os.getpid(), "--json", is_root=True).splitlines()]
    check([incident["cause"] for incident in incidents if incident["then"]] == ["port 1 of lo went down"] and
          len(incidents) == 4, f"{incidents}")


def reports_without_pause(lab):
    """A process reports failures faster than why reads them. why ends all the same."""
    is_over = threading.Event()

    def flood():
        while not is_over.is_set():
            reports(connection, kind=wire.ipc("FAILURE_WR"), id=1, status=5)

    flooder = threading.Thread(target=flood)
    lab.end_daemons()
    with daemon_kit.daemon(lab, uid=0), contextlib.closing(wire.Connection(wire.CM)) as connection:
        reports(connection, kind=wire.ipc("FAILURE_WR"), id=1, status=5)
        check(connection.is_answered(), "the daemon ended the connection")
        flooder.start()
        try:
            shown = first_line(lab, os.getpid(), is_root=True)
        finally:
            is_over.set()
            flooder.join()
    check(shown.startswith("RDMA WRITE of 0 bytes failed: "), shown)


def no_warnings(lab):
    """The programs that have run caused no warning about the size of a CQ or about the path MTU."""
    incidents = [json.loads(line) for line in why(lab, "--last", 0, "--all", "--json").splitlines()]
    warnings = [incident["cause"] for incident in incidents if incident["first"]["seen"] == "nothing so far"]
    check(not warnings, f"{warnings}")


def ordinary_programs(lab):
    """Debian's rping and perftest cause no warning."""
    lab.end_daemons()
    cm.rping(lab, LOOPBACK["ip4"])
    if shutil.which("ib_send_bw"):
        for program, *options in (("ib_send_bw", "-s", 64), ("ib_write_bw", "-q", 4), ("ib_read_lat", "-s", 64),
                                  ("ib_send_bw", "-c", "UD", "-s", 64)):
            perftest.perftest(lab, program, LOOPBACK, *options)
    no_warnings(lab)


def nothing_stored(lab):
    check(why(lab, 4194304) == "no failure is stored\n", why(lab))


def since_a_time(lab):
    """--since selects the failures after a time, as a duration, a date or a time of the day, without a maximum."""
    (old, _), _ = mistake(lab, "past_end")
    second = int(time.time())
    wait_until(lambda: int(time.time()) > second, lab.seconds(10), "the next second of the clock")
    # Without an argument localtime() reads a clock that lags behind time().
    begin = time.localtime(time.time())
    (new, _), _ = mistake(lab, "wrong_rkey")
    for text in (time.strftime("%Y-%m-%d %H:%M:%S", begin), time.strftime("%Y-%m-%dT%H:%M:%S", begin),
                 time.strftime("%H:%M:%S", begin)):
        out = why(lab, "--since", text)
        check(f"(pid {new})" in out and f"(pid {old})" not in out, f"{text}: {out}")
        check(why(lab, old, "--since", text).startswith(f"no failure of {old} is stored as a pid or QPN since"), out)
        objects = [json.loads(line) for line in why(lab, "--since", text, "--json").splitlines()]
        check(objects and all(item["first"]["time_ns"] >= time.mktime(begin) * 1e9 for item in objects), f"{objects}")
    for text in ("1h", "90m", "3600s", "1d", time.strftime("%Y-%m-%d", time.localtime(second - 86400))):
        out = why(lab, "--since", text)
        check(f"(pid {new})" in out and f"(pid {old})" in out and "older: " not in out, f"{text}: {out}")
    check(why(lab, "--since", "1h", "--last", 1).count("  when: ") == 1, "--last")
    check(why(lab, "--since", "2100-01-01").startswith("no failure is stored since this time; "), "in the future")
    for text in ("", "x", "10", "10y", "1h2", "-1h", "25:00", "2026-13-01", "99999999999999999999s"):
        status, out, err = usrdma(lab, "why", "--since", text)
        check(status == 2 and not out and f"invalid time '{text}'" in err, f"{text}: {status} {out} {err}")


def body(lab, cases):
    cases.run("no failure is stored", nothing_stored, lab)
    for case in MISTAKES:
        cases.run(case.replace("_", " "), explained, lab, case)
    for case in ("past_end", "wrong_rkey", "no_remote_write", "qp_access", "other_pd", "past_window"):
        cases.run(case.replace("_", " ") + ", roce", refused_by_nak, lab, case)
    if shutil.which("ib_send_bw"):
        cases.run("killed peer of perftest", killed_peer_of_perftest, lab)
    for case in WAITING_MISUSES:
        cases.run(case.replace("_", " "), explained_while_waiting, lab, case)
    for case in ROCE_MISUSES:
        cases.run(case.replace("_", " ") + ", roce", explained_on_roce, lab, case)
    for case in MISUSES:
        cases.run(case.replace("_", " "), misuse_explained, lab, case)
    for transport in ("local", "roce"):
        cases.run("other mtu, " + transport, other_mtu, lab, transport, "other_mtu", OTHER_MTU)
    cases.run("other mtu, short message", other_mtu, lab, "local", "other_mtu_short", OTHER_MTU_SHORT)
    cases.run("ordinary programs", ordinary_programs, lab)
    cases.run("resolution of a group for a connection", unresolved, lab, "224.0.1.99", "ENETUNREACH")
    if lab.isolated:
        cases.run("resolution without a route", unresolved, lab, "192.0.2.1", "ENETUNREACH")
        cases.run("resolution without a neighbour", unresolved, lab, "10.77.0.99", "EHOSTUNREACH|ETIMEDOUT")
    for case in (unknown_qpn_on_roce, refused, refused_datagrams, address_of_no_device, flushed_without_a_cause,
                 port_goes_down, lost_rep, reports_name_each_other, repeated_calls,
                 no_response_while_the_port_is_down, reports_without_pause, since_a_time):
        cases.run(case.__name__.replace("_", " "), case, lab)
    if lab.isolated and os.geteuid() == 0:
        lab.add_host()
        for argv in (("rping", "-c", "-C", 1, "-a", "10.88.0.2"), ("udaddy", "-c", 1, "-s", "10.88.0.2")):
            cases.run(f"no program of the other host has the port, {argv[0]}", no_program_has_the_port, lab, *argv)


if __name__ == "__main__":
    laboratory.main(body)
