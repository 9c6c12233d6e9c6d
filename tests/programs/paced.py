# SPDX-License-Identifier: BSD-2-Clause
"""A pyverbs program with a low rate: a client that sends messages to a server or reads its memory, one operation every
two milliseconds, until one fails. It then prints the completion as pyverbs formats it, and exits with status 1.

    paced.py server ADDRESS PORT
    paced.py client ADDRESS PORT send|read
"""

import struct
import sys
import time

from pyverbs import cm_enums
from pyverbs import enums
from pyverbs.cmid import AddrInfo, CMID, ConnParam
from pyverbs.qp import QPCap, QPInitAttr

BYTES = 64
RECEIVES = 32
PAUSE_S = 0.002
REGION = struct.Struct("=QI")


def endpoint(**address):
    info = AddrInfo(port_space=cm_enums.RDMA_PS_TCP, **address)
    cap = QPCap(max_send_wr=4, max_recv_wr=RECEIVES + 1)
    return CMID(creator=info, qp_init_attr=QPInitAttr(qp_type=enums.IBV_QPT_RC, cap=cap))


def report(wc):
    print(wc, flush=True)
    sys.exit(1)


def server(address, port):
    """The rnr_retry of an accept is that of the client's queue pair. With 0 an RNR NAK fails the SEND."""
    listener = endpoint(src=address, src_service=port, flags=cm_enums.RAI_PASSIVE)
    listener.listen()
    cmid = listener.get_request()
    region, messages = cmid.reg_read(BYTES), cmid.reg_msgs(BYTES)
    for _ in range(RECEIVES):
        cmid.post_recv(messages)
    cmid.accept(ConnParam(rnr_retry=0))
    messages.write(REGION.pack(region.buf, region.rkey), REGION.size)
    cmid.post_send(messages)
    while (wc := cmid.get_recv_comp()).status == enums.IBV_WC_SUCCESS:
        cmid.post_recv(messages)
    report(wc)


def client(address, port, operation):
    cmid = endpoint(dst=address, dst_service=port)
    messages = cmid.reg_msgs(BYTES)
    cmid.post_recv(messages)
    cmid.connect(ConnParam(retry=7))
    cmid.get_recv_comp()
    remote, rkey = REGION.unpack(messages.read(REGION.size, 0))
    print(f"connected: QP {cmid.qpn}", flush=True)
    while True:
        if operation == "read":
            cmid.post_read(messages, BYTES, remote, rkey, flags=enums.IBV_SEND_SIGNALED)
        else:
            cmid.post_send(messages, flags=enums.IBV_SEND_SIGNALED)
        wc = cmid.get_send_comp()
        if wc.status != enums.IBV_WC_SUCCESS:
            report(wc)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    {"server": server, "client": client}[sys.argv[1]](*sys.argv[2:])
