# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios of `usrdma fault` against unmodified programs of one host: rping, perftest, UCX, an MPI program,
rdma_client, and a pyverbs script. For each the program's message, `usrdma why` and `usrdma trace` agree."""

import os

from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.consumers_mpi import UCX as MPI_OVER_UCX
from tests.programs.lab import LOOPBACK, SOURCE
from tests.programs.scenario_kit import PACED, PERFTEST_MESSAGE, PYTHON, UCX_MESSAGE, Row, perftest, run

UCX = {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": "lo:1", "UCX_LOG_LEVEL": "error"}
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def ucx_perftest(lab):
    port = lab.port()
    server = lab.start(*versions.ucx_perftest(), "-p", port, **UCX)
    lab.listens_tcp(server, port)
    return lab.start(*versions.ucx_perftest(), "-p", port, LOOPBACK["ip4"], "-t", "tag_lat", "-n", 10000000,
                     **UCX), server


def mpi_ring(lab):
    program = lab.start("mpirun", "-np", 2, "--oversubscribe", *MPI_OVER_UCX, lab.tool("ring"), TMPDIR=lab.scratch,
                        **UCX, **MPI)
    return (program,)


def pyverbs(operation):
    def start(lab):
        port = lab.port()
        script = [PYTHON, lab.copy(os.path.join(SOURCE, "tests", "programs", "paced.py"))]
        server = lab.start(*script, "server", LOOPBACK["ip4"], port)
        lab.listens_cm(server, port)
        return lab.start(*script, "client", LOOPBACK["ip4"], port, operation), server
    return start


def rping(pings):
    def start(lab):
        port = lab.port()
        server = lab.start("rping", "-s", "-a", LOOPBACK["ip4"], "-p", port, "-C", pings)
        lab.listens_cm(server, port)
        return lab.start("rping", "-c", "-a", LOOPBACK["ip4"], "-p", port, "-C", pings, "-v", **PACED), server
    return start


def rdma_client(lab):
    port = lab.port()
    server = lab.start("rdma_server", "-s", LOOPBACK["ip4"], "-p", port, USRDMA_CM_TIMEOUT="1")
    lab.listens_cm(server, port)
    return lab.start("rdma_client", "-s", LOOPBACK["ip4"], "-p", port, USRDMA_CM_TIMEOUT="1"), server


PYVERBS_MESSAGE = (r"status +: {} *\nopcode +: \S.*\nvendor error +: (?P<vendor_err>\d+) *\n(.*\n)*?QP num +: "
                   r"(?P<qpn>\d+)")
RKEY = r" at 0x[0-9a-f]+ with rkey 0x[0-9a-f]+ failed: "
NO_MR = "no memory region of the peer has this rkey"

ROWS = (
    Row("cq-overrun", "ucx_perftest", ucx_perftest, is_first=True,
        message=r":(?P<pid>\d+)\b.* ERROR IB Async event on lo: local work queue catastrophic error on QPN "
                r"(?P<qpn>0x[0-9a-f]+)",
        why=r"QP 0x\w+ entered ERR: its completion queue of [\d,]+ entries was full, and a completion was lost\n",
        trace=(r"\[{pid}\] fault: qp.event overrun pass 100 op \w+ qpn {qpn}$",
               r"\[{pid}\] asynchronous event: CQ error",
               r"\[{pid}\] asynchronous event: qpn {qpn} local work queue catastrophic error"),
        shown=("RC Send Only",)),
    Row("peer-dies", "ib_write_bw", perftest(LOOPBACK, "ib_write_bw"), conditions=("pid={peer}",),
        message=PERFTEST_MESSAGE,
        why=r"RDMA WRITE of 65,536 bytes" + RKEY + r"the process of the peer's queue pair \(pid \d+\) has ended\n",
        trace=(r"fault: process kill pass \d+ pid {peer}$",),
        shown=("RC RDMA Write First",)),
    Row("peer-hangs", "rping", rping(400), conditions=("pid={peer}",),
        message="rdma-ping-399: ", why=None,
        trace=(r"fault: process stop pass \d+ pid {server}$",),
        shown=("RC Send Only", "RC RDMA Read Request", "RC RDMA Write Only")),
    Row("slow-receiver", "rping", rping(40), is_first=True,
        message="rdma-ping-39: ", why=None,
        trace=(r"\[{pid}\] fault: message delay", r"\] fault: completion delay pass \d+ 1000 us"),
        shown=("RC Send Only", "RC RDMA Read Request", "RC RDMA Write Only")),
    Row("rnr-storm", "pyverbs", pyverbs("send"),
        message=PYVERBS_MESSAGE.format("RNR retry exceeded"),
        why=r"SEND of 64 bytes failed: the peer had no receive posted: 1 RNR NAKs? \(rnr_retry 0\)",
        trace=(r"\[{peer}\] fault: receive empty pass \d+ .*qpn {peer_qpn}$",),
        shown=("RC Send Only", "RC Acknowledge")),
    Row("retry-exhaustion", "ib_write_lat", perftest(LOOPBACK, "ib_write_lat", "-u", 12),
        message=PERFTEST_MESSAGE,
        why=r"RDMA WRITE of 2 bytes" + RKEY + r"QP 0x\w+ of the peer did not respond .* after 7 retries",
        trace=(r"\[{pid}\] fault: message drop pass \d+ op WRITE qpn {qpn}$",),
        shown=("RC RDMA Write Only",)),
    Row("responder-access-error", "MPI", mpi_ring, is_first=True,
        message=UCX_MESSAGE.format("remote access error"),
        why=r"RDMA READ of [\d,]+ bytes" + RKEY + NO_MR,
        trace=(r"\[{peer}\] fault: access deny pass \d+ op READ qpn {peer_qpn}$",),
        shown=("RC Send Only", "RC RDMA Read Request")),
    Row("key-invalidated", "pyverbs", pyverbs("read"),
        message=PYVERBS_MESSAGE.format("remote access error"),
        why=r"RDMA READ of 64 bytes" + RKEY + NO_MR,
        trace=(r"\[{peer}\] fault: access deny pass \d+ op READ qpn {peer_qpn}$",
               r"\[{peer}\] asynchronous event: qpn {peer_qpn} local access violation work queue error"),
        shown=("RC RDMA Read Request", "RC RDMA Read Response")),
    Row("lost-rep", "rdma_client", rdma_client, is_first=True,
        message="rdma_connect: Connection timed out",
        why=r"connection to 127\.0\.0\.1:\d+: the REP is lost: rdma_server \(pid \d+\) accepted the REQ, and its REP "
            r"was sent (?P<firings>\d+) times in ",
        trace=(r"fault: mad.send drop pass \d+ op REP pid \d+",
               r"\[{pid}\] cm event: .* RDMA_CM_EVENT_UNREACHABLE status -110 .* qpn {qpn} "),
        shown=("CM: ConnectRequest",)),
)


def body(lab, cases):
    run(lab, cases, ROWS)


if __name__ == "__main__":
    laboratory.main(body)
