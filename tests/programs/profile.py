# SPDX-License-Identifier: BSD-2-Clause
"""Tests the names and profiles of devices: unmodified programs find them in the verbs, in the rdma_cm and in sysfs, and
the limits of a profile are enforced."""

import json
import os
import re
import shutil

from tests.programs import lab as laboratory
from tests.programs import versions
from tests.programs.command_kit import usrdma
from tests.programs.lab import WIRE, check

PYTHON = "/usr/bin/python3"
PROFILES = ("usrdma", "rxe", "connectx-6", "connectx-7", "e810", "erdma")
MLX5 = {"USRDMA_DEVICES": "mlx5_0=lo", "USRDMA_PROFILE": "connectx-6"}


def devinfo(lab, device, **env):
    """The attributes that ibv_devinfo -v prints for the device."""
    printed = lab.start("ibv_devinfo", "-v", "-d", device, **env).finish(lab.seconds(20))
    found = dict(re.findall(r"^\s*(\w+):\s+(\S.*)$", printed, re.M))
    found["gids"] = dict(re.findall(r"GID\[\s*(\d+)\]:\s+(\S+(?:, .*)?)$", printed, re.M))
    return found


def run_with_options(lab):
    """The issue's command line: names, ids, limits, port and GID table are those of the profile."""
    status, out, err = usrdma(lab, "run", "--device", "mlx5_0=lo", "--profile", "connectx-6", "--", "ibv_devinfo", "-v")
    check(status == 0 and not err and out.startswith("hca_id:\tmlx5_0\n"), out + err)
    for name, value in (("vendor_id", "0x02c9"), ("vendor_part_id", "4123"), ("max_qp_wr", "32768"), ("max_sge", "30"),
                        ("max_qp_rd_atom", "16"), ("active_width", "4X (2)"), ("active_speed", "50.0 Gbps (64)"),
                        ("local_ca_ack_delay", "16"), ("gid_tbl_len", "255")):
        check(re.search(rf"^\s*{name}:\s+{re.escape(value)}$", out, re.M), f"{name} is not {value}: {out}")
    for index, entry in ((0, r"fe80:.*, RoCE v1"), (1, r"fe80:.*, RoCE v2"), (2, r".*ffff:7f00:0001, RoCE v1"),
                         (3, r"::ffff:127\.0\.0\.1, RoCE v2")):
        check(re.search(rf"GID\[\s*{index}\]:\s+{entry}$", out, re.M), f"GID {index}: {out}")


def without_options(lab):
    """Without options, variables and file a device has the name of its interface."""
    found = devinfo(lab, "lo")
    check(found["vendor_id"] == "0xffffff" and found["max_qp_wr"] == "65536" and found["gid_tbl_len"] == "256",
          f"{found}")
    check(found["gids"]["3"] == found["gids"]["1"], f"{found['gids']}")
    check(found == devinfo(lab, "lo", USRDMA_DEVICES="", USRDMA_PROFILE=""), "empty variables change a device")
    check(found == devinfo(lab, "lo", USRDMA_PROFILE="usrdma"), "the profile usrdma changes a device")


def every_profile(lab):
    """No value is larger than that of usrdma itself, so that a program can use what it reads."""
    status, out, err = usrdma(lab, "run", "--profile", "help")
    check(status == 0 and not err and out.split("\n\n")[0].split() == list(PROFILES), out + err)
    own = devinfo(lab, "lo")
    for profile in PROFILES:
        found = devinfo(lab, "lo", USRDMA_PROFILE=profile)
        for name, value in found.items():
            if name.startswith("max_") and value.isdigit():
                check(int(value) <= int(own[name]), f"{profile}: {name} is {value}")


def invalid_options(lab):
    for argv, text, wanted in ((["--device", "x"], "invalid device 'x'", 1),
                               (["--device", "x=nix0"], "no network interface 'nix0'", 1),
                               (["--profile", "x"], "unknown profile 'x' (one of usrdma, rxe", 1),
                               (["--profile", "rxe,max_qp=x"], "invalid value", 1),
                               (["--config", "/nonexistent"], "cannot read", 1),
                               (["--nonsense"], "--nonsense", 2)):
        status, out, err = usrdma(lab, "run", *argv, "--", "echo", "ran")
        check(status == wanted and text in err and not out, f"{argv}: {status} {out} {err}")
    printed = lab.start("ibv_devinfo", native=True, LD_LIBRARY_PATH=os.path.join(lab.tree, "lib"),
                        USRDMA_DEVICES="x").finish(lab.seconds(20), None)
    check("invalid device 'x'" in printed and "Failed to get IB devices list" in printed, printed)


def config_files(lab):
    """A file that is named, or the user's own; options and the environment are stronger than the user's own file."""
    folder = os.path.join(lab.scratch, "config", "usrdma")
    os.makedirs(folder)
    path = os.path.join(folder, "run.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write("# two rails\ndevice mlx5_0=lo\n  device  mlx5_1=lo:connectx-7 # the second\n"
                   "only-devices\nprofile connectx-6\nset max_qp=7\n")
    names = ["mlx5_0", "mlx5_1"]
    own = {"XDG_CONFIG_HOME": os.path.dirname(folder)}
    for argv, env, wanted in ((["--config", path], {}, names), ([], own, names),
                              (["--device", "a=lo", "--only-devices", "--config", path], {}, ["a"]),
                              ([], {**own, "USRDMA_DEVICES": "b=lo,only"}, ["b"])):
        status, out, err = usrdma(lab, "run", *argv, "--", "ibv_devices", **env)
        check(status == 0 and [line.split()[0] for line in out.splitlines()[2:]] == wanted, f"{argv}: {out} {err}")
    status, out, err = usrdma(lab, "run", "--config", path, "ibv_devinfo", "-v", "-d", "mlx5_0")
    check(re.search(r"max_qp:\s+7\n", out) and re.search(r"vendor_part_id:\s+4123\n", out), out + err)
    status, out, err = usrdma(lab, "run", "--config", path, "ibv_devinfo", "-v", "-d", "mlx5_1")
    check(re.search(r"vendor_part_id:\s+4129\n", out) and not re.search(r"max_qp:\s+7\n", out), out + err)
    for line in ("device", "device a=lo b=lo", "set max_qp=7\nprofile rxe", "nonsense x", "only-devices x"):
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{line}\n")
        status, out, err = usrdma(lab, "run", "--config", path, "true")
        check(status == 1 and f"{path}:" in err, f"{line}: {status} {err}")


def order_of_devices(lab):
    """Named devices come first, in the order of the list. An interface without an entry keeps its name."""
    last = lab.sides[-1]["device"]
    printed = lab.start("ibv_devices", USRDMA_DEVICES=f"z=lo,a={last},m=lo").finish(lab.seconds(20))
    names = [line.split()[0] for line in printed.splitlines()[2:]]
    check(names[:3] == ["z", "a", "m"] and "lo" not in names, f"{names}")
    guids = [line.split()[1] for line in printed.splitlines()[2:]]
    check(len(set(guids)) == len(guids), f"{guids}")


READ_SYSFS = """
import json, os
top = "/sys/class/infiniband/"
def read(path):
    with open(top + path) as file: return file.read().strip()
found = {}
for name in os.listdir(top):
    port = name + "/ports/1/"
    found[name] = {"fw": read(name + "/fw_ver"), "guid": read(name + "/node_guid"), "rate": read(port + "rate"),
                   "net": os.listdir(top + name + "/device/net"),
                   "gids": {i: [read(port + "gids/" + i), read(port + "gid_attrs/types/" + i)]
                            for i in os.listdir(top + port + "gids") if set(read(port + "gids/" + i)) != {"0", ":"}}}
found["nodes"] = sorted(os.listdir("/dev/infiniband"))
found["verbs"] = {name: open("/sys/class/infiniband_verbs/" + name + "/ibdev").read().strip()
                  for name in os.listdir("/sys/class/infiniband_verbs") if name.startswith("uverbs")}
print(json.dumps(found))
"""


def sysfs(lab):
    """The files show the same devices as the verbs."""
    env = {"USRDMA_DEVICES": "mlx5_0=lo,mlx5_1=lo:e810", "USRDMA_PROFILE": "connectx-6"}
    found = json.loads(lab.start(PYTHON, "-c", READ_SYSFS, **env).finish(lab.seconds(20)).splitlines()[0])
    for device, rate in (("mlx5_0", "200 Gb/sec (4X)"), ("mlx5_1", "100 Gb/sec (4X)")):
        verbs = devinfo(lab, device, **env)
        check(found[device]["fw"] == verbs["fw_ver"] and found[device]["rate"] == rate, f"{found[device]}")
        check(found[device]["guid"] == verbs["node_guid"] and found[device]["net"] == ["lo"], f"{found[device]}")
        check(set(found[device]["gids"]) == set(verbs["gids"]), f"{found[device]}, {verbs['gids']}")
    check(found["mlx5_0"]["gids"]["3"] == ["0000:0000:0000:0000:0000:ffff:7f00:0001", "RoCE v2"], f"{found}")
    check(found["mlx5_0"]["gids"]["2"][1] == "IB/RoCE v1" and found["mlx5_0"]["guid"] != found["mlx5_1"]["guid"],
          f"{found}")
    check({"mlx5_0", "mlx5_1"} <= set(found["verbs"].values()) and set(found["verbs"]) <= set(found["nodes"]),
          f"{found}")


def perftest(lab, tool, server, client, env_server, env_client):
    port = lab.port()
    common = [tool, "-F", "-n", 100, "-p", port]
    waits = lab.start(*common, *server, **env_server)
    lab.listens_tcp(waits, port)
    lab.start(*common, *client, "127.0.0.1", **env_client).finish(lab.seconds(30))
    waits.finish(lab.seconds(30))


def gid_index_3(lab):
    perftest(lab, "ib_write_bw", ["-d", "mlx5_0", "-x", 3], ["-d", "mlx5_0", "-x", 3], MLX5, MLX5)


def roce_v1_entry(lab):
    """Index 2 has the type RoCE v1. It connects to a RoCE v2 entry, on shared memory and on the wire."""
    for transport in ("local", "roce"):
        env = {**MLX5, "USRDMA_TRANSPORT": transport}
        perftest(lab, "ib_read_bw", ["-d", "mlx5_0", "-x", 2], ["-d", "mlx5_0", "-x", 3], env, env)


def peers_with_different_views(lab):
    """One process has two rails, the other has no names: both have the same interface."""
    rails = {"USRDMA_DEVICES": "mlx5_0=lo,mlx5_1=lo", "USRDMA_PROFILE": "connectx-7"}
    perftest(lab, "ib_send_bw", ["-d", "mlx5_1", "-x", 3], ["-d", "lo", "-x", 1], rails, {})
    perftest(lab, "ib_write_bw", ["-d", "mlx5_0", "-x", 3], ["-d", "mlx5_1", "-x", 3], rails, rails)


def rdma_cm(lab):
    """The id of a connection has the first device of its interface, and its QP the right GID index."""
    for profile in PROFILES:
        env = {"USRDMA_DEVICES": "mlx5_0=lo,mlx5_1=lo", "USRDMA_PROFILE": profile}
        port = lab.port()
        server = lab.start("rping", "-s", "-C", 2, "-p", port, **env)
        lab.listens_cm(server, port)
        lab.start("rping", "-c", "-a", "127.0.0.1", "-C", 2, "-p", port, **env).finish(lab.seconds(20))
        server.finish(lab.seconds(20))
    port = lab.port()
    command = ["ib_write_bw", "-F", "-R", "-d", "mlx5_0", "-n", 100, "-p", port]
    server = lab.start(*command, **MLX5)
    lab.listens_cm(server, port)
    lab.start(*command, "127.0.0.1", **MLX5).finish(lab.seconds(30))
    server.finish(lab.seconds(30))
    for tool, port in (("udaddy", 7174), ("ucmatose", 7471)):
        server = lab.start(lab.own(tool), "-c", 1, **MLX5)
        lab.listens_cm(server, port)
        lab.start(lab.own(tool), "-s", "127.0.0.1", "-c", 1, **MLX5).finish(lab.seconds(20))
        server.finish(lab.seconds(20))


# The devices of rdma_get_devices(), whose contexts begin with the pointer to the device (struct ibv_context).
CM_DEVICES = """
import ctypes
cm, verbs = ctypes.CDLL("librdmacm.so.1"), ctypes.CDLL("libibverbs.so.1")
cm.rdma_get_devices.restype = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))
verbs.ibv_get_device_name.restype = ctypes.c_char_p
count = ctypes.c_int()
contexts = cm.rdma_get_devices(ctypes.byref(count))
print(*(verbs.ibv_get_device_name(ctypes.c_void_p(contexts[i][0])).decode() for i in range(count.value)))
"""


def rdma_get_devices(lab):
    printed = lab.start(PYTHON, "-c", CM_DEVICES, USRDMA_DEVICES="b=lo,a=lo,only").finish(lab.seconds(20))
    check(printed.splitlines()[0] == "b a", printed)


def hidden_interface(lab):
    """An id cannot be bound to the address of an interface without a device. A listener on all addresses is not
    disturbed by a request that arrives there."""
    hidden = {"USRDMA_DEVICES": f"mlx5_0={lab.sides[-1]['device']},only"}
    port = lab.port()
    server = lab.start("rping", "-s", "-P", "-C", 2, "-p", port, **hidden)
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", "127.0.0.1", "-C", 2, "-p", port, **hidden)
    printed = client.finish(lab.seconds(20), None)
    check("rdma_resolve_addr: No such device" in printed or "ADDR_ERROR" in printed, printed)
    lab.start("rping", "-c", "-a", "127.0.0.1", "-C", 2, "-p", port).finish(lab.seconds(20), None)
    check(server.running(), server.story())
    lab.start("rping", "-c", "-a", lab.sides[-1]["ip4"], "-C", 2, "-p", port).finish(lab.seconds(20))


def between_hosts(lab):
    """A peer on another host has other names, and index 3 is RoCE v2 of the IPv4 address on both."""
    env = {"USRDMA_DEVICES": "mlx5_0=wire0,mlx5_1=wire0", "USRDMA_PROFILE": "connectx-7"}
    for tool, server, client, far in (("ib_write_bw", ["-d", "mlx5_1", "-x", 3], ["-d", "mlx5_0", "-x", 3], env),
                                      ("ib_send_lat", ["-d", "mlx5_0", "-x", 2], ["-d", "wire0", "-x", 1], {})):
        port = lab.port()
        common = [tool, "-F", "-n", 100, "-p", port]
        waits = lab.start(*common, *server, **env)
        lab.listens_tcp(waits, port)
        lab.client(*common, *client, WIRE["ip4"], **far).finish(lab.seconds(30))
        waits.finish(lab.seconds(30))


def ucx(lab):
    """UCX takes the device by its name."""
    printed = lab.start("ucx_info", "-d", **MLX5).finish(lab.seconds(30))
    check(re.search(r"Transport: rc_verbs\n#\s+Device: mlx5_0:1\n", printed), printed)
    env = {**MLX5, "UCX_NET_DEVICES": "mlx5_0:1", "UCX_TLS": "rc_verbs,ud_verbs:aux"}
    port = lab.port()
    common = [*versions.ucx_perftest(), "-p", port, "-t", "tag_lat", "-n", 100]
    server = lab.start(*common, **env)
    lab.listens_tcp(server, port)
    lab.start(*common, "127.0.0.1", **env).finish(lab.seconds(60))
    server.finish(lab.seconds(60))


# Prints the errno of each call of a list, or 0.
LIMITS = """
import json
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqInitAttr, SrqAttr
import pyverbs.enums as e

context = Context(name="mlx5_0")
pd = PD(context)
cq = CQ(context, 10)
kept = []
results = {}

def attempt(name, call):
    try:
        kept.append(call())
        results.setdefault(name, []).append(0)
    except PyverbsRDMAError as error:
        results.setdefault(name, []).append(error.error_code)

def qp(**cap):
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(**cap)))

for inline in (64, 65):
    attempt("max_inline_data", lambda: qp(max_inline_data=inline))
for wr in (100, 101):
    attempt("max_send_wr", lambda: qp(max_send_wr=wr))
    attempt("max_recv_wr", lambda: qp(max_recv_wr=wr))
    attempt("max_srq_wr", lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=wr - 50))))
for sge in (3, 4):
    attempt("max_sge", lambda: qp(max_send_sge=sge))
granted = kept[2].init_attr.cap if hasattr(kept[2], "init_attr") else None
for cqe in (1000, 1001):
    attempt("max_cqe", lambda: CQ(context, cqe))
results["cqe"] = [kept[-1].cqe] if kept and isinstance(kept[-1], CQ) else []
for bytes in (4096, 8192):
    attempt("max_mr_size", lambda: MR(pd, bytes, e.IBV_ACCESS_LOCAL_WRITE))
for i in range(12):
    attempt("max_qp", lambda: qp(max_send_wr=1))
for i in range(4):
    attempt("max_mr", lambda: MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE))
    attempt("max_pd", lambda: PD(context))
    attempt("max_cq", lambda: CQ(context, 1))
    attempt("max_mw", lambda: MW(pd, e.IBV_MW_TYPE_1))
    attempt("max_srq", lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=1))))
kept[-1].close() if kept else None
print(json.dumps(results))
"""

LIMITED = ("max_inline_data=64,max_qp_wr=100,max_srq_wr=50,max_sge=3,max_cqe=1000,max_mr_size=4096,max_qp=8,max_mr=3,"
           "max_pd=3,max_cq=4,max_mw=2,max_srq=3")
ENOMEM, EINVAL, EOPNOTSUPP = 12, 22, 95
WANTED = {"max_inline_data": [0, EINVAL], "max_send_wr": [0, EINVAL], "max_recv_wr": [0, EINVAL],
          "max_srq_wr": [0, EINVAL], "max_sge": [0, EINVAL], "max_cqe": [0, EINVAL], "cqe": [1000],
          "max_mr_size": [0, EINVAL], "max_qp": [0] * 4 + [ENOMEM] * 8, "max_mr": [0, 0, ENOMEM, ENOMEM],
          "max_pd": [0, 0, ENOMEM, ENOMEM], "max_cq": [0, 0, ENOMEM, ENOMEM], "max_mw": [0, 0, ENOMEM, ENOMEM],
          "max_srq": [0, 0, ENOMEM, ENOMEM]}


def limits(lab):
    """pyverbs gets the errno of the manual page for each value above a limit. The limits hold for each device."""
    env = {"USRDMA_DEVICES": "mlx5_0=lo,mlx5_1=lo:usrdma", "USRDMA_PROFILE": f"connectx-6,{LIMITED}"}
    printed = lab.start(PYTHON, "-c", LIMITS, **env).finish(lab.seconds(30))
    found = json.loads(printed.splitlines()[0])
    check(found == WANTED, "\n".join(f"{name}: {found.get(name)} instead of {WANTED[name]}" for name in WANTED
                                     if found.get(name) != WANTED[name]))
    found = json.loads(lab.start(PYTHON, "-c", LIMITS.replace("mlx5_0", "mlx5_1"), **env).finish(
        lab.seconds(30)).splitlines()[0])
    check(not any(sum(found[name]) for name in WANTED if name != "cqe"), f"{found}")


def run_perftest(lab, cases, *functions):
    """Cases that run perftest on a device with the profile of an adapter of Mellanox."""
    for case in functions:
        name = case.__name__.replace("_", " ")
        if versions.perftest_asks_mlx5():
            cases.skip(name, "this perftest asks libmlx5 (docs/profiles.md)")
        else:
            cases.run(name, case, lab)


def body(lab, cases):
    for case in (run_with_options, without_options, every_profile, invalid_options, config_files, order_of_devices,
                 sysfs, rdma_cm, rdma_get_devices):
        cases.run(case.__name__.replace("_", " "), case, lab)
    run_perftest(lab, cases, gid_index_3, roce_v1_entry, peers_with_different_views)
    if shutil.which("ucx_perftest") and not lab.sanitized:
        cases.run("ucx", ucx, lab)
    else:
        cases.skip("ucx", "no ucx_perftest, or an instrumented build")
    if os.path.exists("/usr/lib/python3/dist-packages/pyverbs"):
        cases.run("limits", limits, lab)
    else:
        cases.skip("limits", "no pyverbs")
    if lab.isolated:
        cases.run("hidden interface", hidden_interface, lab)
        lab.add_host()
        run_perftest(lab, cases, between_hosts)


if __name__ == "__main__":
    laboratory.main(body)
