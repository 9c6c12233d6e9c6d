# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios of `usrdma fault` that concern a network, against unmodified programs of two hosts: the program's message,
`usrdma why` and `usrdma trace` of its host agree."""

from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.lab import WIRE
from tests.programs.scenario_kit import PACED, PERFTEST_MESSAGE, UCX_MESSAGE, Row, perftest, run

UCX = {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": "wire0:1", "UCX_LOG_LEVEL": "error", "UCX_RC_VERBS_TIMEOUT": "60ms"}


def watched_perftest(lab):
    """With a program that prints the events of the device."""
    with lab.far:
        watch = lab.start("ibv_asyncwatch", "-d", WIRE["device"])
        watch.says("async event FD", lab.seconds(10))
    client, server = perftest(WIRE, "ib_write_bw", "-s", 64, "-t", 1, "-u", 12)(lab)
    return client, watch, server


def ucx_perftest(lab):
    port = lab.port()
    server = lab.start(*versions.ucx_perftest(), "-p", port, **UCX, **PACED)
    lab.listens_tcp(server, port)
    return lab.client(*versions.ucx_perftest(), "-p", port, WIRE["ip4"], "-t", "ucp_get", "-s", 4096, "-n", 10000000,
                      **UCX, **PACED), server


def ucmatose(lab):
    """The server disconnects first."""
    port = lab.port()
    server = lab.start("ucmatose", "-b", WIRE["ip4"], "-p", port, USRDMA_CM_TIMEOUT="1")
    lab.listens_cm(server, port)
    return lab.client("ucmatose", "-s", WIRE["ip4"], "-p", port, USRDMA_CM_TIMEOUT="1"), server


def rping(lab):
    port = lab.port()
    server = lab.start("rping", "-s", "-a", WIRE["ip4"], "-p", port, "-C", 150)
    lab.listens_cm(server, port)
    return lab.client("rping", "-c", "-a", WIRE["ip4"], "-p", port, "-C", 150, "-v", **PACED), server


RETRIES = r"failed: QP 0x\w+ of the peer did not respond after 7 retries"

ROWS = (
    Row("link-flap", "ib_write_bw", perftest(WIRE, "ib_write_bw", "-s", 64, "-t", 1, "-u", 10),
        message=PERFTEST_MESSAGE, why=r"RDMA WRITE of 64 bytes .* " + RETRIES,
        trace=(r"\[{pid}\] fault: packet.send drop pass \d+ op WRITE qpn {qpn}$",
               r"\[{pid}\] retransmission: qpn {qpn} "),
        shown=("RC RDMA Write Only", "RC Acknowledge"), rules_on_far_host=True, seen_on_far_host=True),
    Row("peer-host-vanishes", "ucx_perftest", ucx_perftest,
        message=UCX_MESSAGE.format("transport retry counter exceeded"),
        why=r"RDMA READ of 4,096 bytes .* " + RETRIES,
        trace=(r"\[{pid}\] retransmission: qpn {qpn} ",),
        shown=("RC RDMA Read Request", "RC RDMA Read Response"), seen_on_far_host=True),
    Row("half-open-connection", "ucmatose", ucmatose, is_first=True,
        message="test complete\nreturn status 0",
        why=r"connection with 10\.88\.0\.2:\d+ ended, and the peer did not confirm it \(no DREP\)\n",
        trace=(r"fault: mad.send drop pass \d+ op DREQ pid \d+", r"\[{pid}\] cm event: .* RDMA_CM_EVENT_DISCONNECTED"),
        shown=("RC Send Only",)),
    Row("peer-hangs", "ib_write_bw", perftest(WIRE, "ib_write_bw", "-s", 64, "-t", 1, "-u", 12),
        conditions=("pid={peer}",),
        message=PERFTEST_MESSAGE, why=r"RDMA WRITE of 64 bytes .* " + RETRIES,
        trace=(r"\[{pid}\] retransmission: qpn {qpn} ",),
        shown=("RC RDMA Write Only",), seen_on_far_host=True),
    Row("port-down", "ib_write_bw", watched_perftest,
        message=PERFTEST_MESSAGE, why=r"port 1 of wire0 went down\n",
        trace=(r"fault: device down pass \d+ device wire0$",
               r"ibv_asyncwatch\[\d+\] asynchronous event: port 1 port error",
               r"\[{pid}\] fault: packet.send drop"),
        shown=("RC RDMA Write Only",), rules_on_far_host=True, seen_on_far_host=True),
    Row("loss-1-percent", "rping", rping, is_first=True,
        message="rdma-ping-149: ", why=None,
        trace=(r"fault: packet.send drop", r"retransmission: qpn"),
        shown=("RC Send Only", "RC RDMA Read Request"), rules_on_far_host=True, seen_on_far_host=True),
)


def body(lab, cases):
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    run(lab, cases, ROWS)


if __name__ == "__main__":
    laboratory.main(body)
