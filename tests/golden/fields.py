#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes cm.fields: what tshark reads in the CM MADs of the captures beside it, under the names of src/wire/cm_msg.h.

    tests/golden/fields.py          needs tshark; run again only when a capture is added

One line a field: capture, frame number, message, field, value. The captures are Linux's own packets (kernel 6.1,
rdma_rxe, rdmacm-utils 44), so this is a second opinion on the layout from two sides. tshark does not take SIDR apart.
"""

import glob
import ipaddress
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))

PATH = {
    # Not flowlabel and pktrate: tshark 4.0 shifts the one by 20 bits instead of 12, and the other into it.
    "locallid": "local_lid", "remotelid": "remote_lid",
    "tfcclass": "traffic_class", "hoplim": "hop_limit", "sl": "sl", "subnetlocal": "subnet_local",
    "localacktout": "local_ack_timeout",
}

FIELDS = {
    0x10: ("REQ", {
        "req": "local_comm_id", "req.serviceid": "service_id", "req.localcaguid": "local_ca_guid",
        "req.localqkey": "local_qkey", "req.localqpn": "local_qpn", "req.responderres": "responder_resources",
        "req.localeecn": "local_eecn", "req.initdepth": "initiator_depth", "req.remoteeecn": "remote_eecn",
        "req.remoteresptout": "remote_cm_response_timeout", "req.transpsvctype": "transport_type",
        "req.e2eflowctrl": "end_to_end_flow_control", "req.startpsn": "starting_psn",
        "req.localresptout": "local_cm_response_timeout", "req.retrcount": "retry_count", "req.pkey": "pkey",
        "req.pppmtu": "path_mtu", "req.rdcexist": "rdc_exists", "req.rnrretrcount": "rnr_retry_count",
        "req.maxcmretr": "max_cm_retries", "req.srq": "srq", "req.ext_transport": "extended_transport",
        "req.prim_localgid": "primary.local_gid", "req.prim_remotegid": "primary.remote_gid",
        "req.prim_localgid_ipv4": "primary.local_gid", "req.prim_remotegid_ipv4": "primary.remote_gid",
        "req.alt_localgid": "alternate.local_gid", "req.alt_remotegid": "alternate.remote_gid",
        **{"req.prim_" + theirs: "primary." + ours for theirs, ours in PATH.items()},
        **{"req.alt_" + theirs: "alternate." + ours for theirs, ours in PATH.items()},
        "req.ip_cm.ipv": "ip.version", "req.ip_cm.sport": "ip.src_port",
        "req.ip_cm.sip4": "ip.src", "req.ip_cm.dip4": "ip.dst",
        "req.ip_cm.sip6": "ip.src", "req.ip_cm.dip6": "ip.dst",
    }),
    0x12: ("REJ", {
        "rej.localcommid": "local_comm_id", "rej.remotecommid": "remote_comm_id", "rej.msgrej": "about",
        "rej.rejinfolen": "info_length", "rej.reason": "reason", "rej.ari": "ari", "rej.private": "private_data",
    }),
    0x13: ("REP", {
        "rep": "local_comm_id", "rep.remotecommid": "remote_comm_id", "rep.localqkey": "local_qkey",
        "rep.localqpn": "local_qpn", "rep.localeecn": "local_eecn", "rep.startpsn": "starting_psn",
        "rep.respres": "responder_resources", "rep.initdepth": "initiator_depth",
        "rep.tgtackdelay": "target_ack_delay", "rep.failoveracc": "failover_accepted",
        "rep.e2eflowctrl": "end_to_end_flow_control", "rep.rnrretrcount": "rnr_retry_count", "rep.srq": "srq",
        "rep.localcaguid": "local_ca_guid", "rep.private": "private_data",
    }),
    0x14: ("RTU", {"rtu.localcommid": "local_comm_id", "rtu.remotecommid": "remote_comm_id",
                   "rtu.private": "private_data"}),
    0x15: ("DREQ", {"dreq.localcommid": "local_comm_id", "dreq.remotecommid": "remote_comm_id",
                    "req.remoteqpneecn": "remote_qpn", "dreq.private": "private_data"}),
    0x16: ("DREP", {"drsp.localcommid": "local_comm_id", "drsp.remotecommid": "remote_comm_id",
                    "drsp.private": "private_data"}),
    0x17: ("SIDR_REQ", {}),
    0x18: ("SIDR_REP", {}),
}


def value_of(text):
    """Numbers in hex, addresses as the 32 digits of a GID, bytes as they are."""
    try:
        ip = ipaddress.ip_address(text)
        return (bytes(10) + b"\xff\xff" + ip.packed if ip.version == 4 else ip.packed).hex()
    except ValueError:
        pass
    try:
        return hex(int(text, 0))
    except ValueError:
        return text.replace(":", "")


def rows(capture):
    names = sorted({name for _, fields in FIELDS.values() for name in fields})
    common = ["frame.number", "infiniband.mad.attributeid", "infiniband.mad.transactionid"]
    command = ["tshark", "-r", capture, "-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields", "-E", "separator=|"]
    for name in common + ["infiniband.cm." + name for name in names]:
        command += ["-e", name]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    for line in out.splitlines():
        frame, attribute, tid, *values = line.split("|")
        message, fields = FIELDS[int(attribute, 0)]
        yield frame, message, "tid", value_of(tid)
        for name, value in zip(names, values, strict=False):
            if name in fields and value:
                # A byte string of digits only must not be taken for a number.
                is_bytes = name.endswith((".private", ".ari", "alt_localgid", "alt_remotegid"))
                yield frame, message, fields[name], value.replace(":", "") if is_bytes else value_of(value)


def main():
    with open(os.path.join(HERE, "cm.fields"), "w", encoding="ascii") as out:
        for capture in sorted(glob.glob(os.path.join(HERE, "*.pcap"))):
            for row in rows(capture):
                print(os.path.basename(capture), *row, file=out)


main()
