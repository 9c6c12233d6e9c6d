# SPDX-License-Identifier: BSD-2-Clause
"""Tests what programs of other projects find in /sys under `usrdma run`, program by program, for the loopback device, a
virtual interface, a physical one and eight adapters (ADR 0073)."""

import contextlib
import errno
import json
import os
import re
import socket

from tests.programs import lab as laboratory
from tests.programs.lab import CLONE_NEWNS, LIBC, check, ip_command
from tests.programs.profile import devinfo

PYTHON = "/usr/bin/python3"
RAILS = [f"mlx5_{number}" for number in range(8)]
EINVAL = errno.errorcode[errno.EINVAL]
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
# The types of the GIDs at even and at odd indices.
ROCE_V2 = ("RoCE v2\n", "RoCE v2\n")
BOTH_TYPES = ("IB/RoCE v1\n", "RoCE v2\n")

# Names of counters that dashboards and alert rules have.
PORT_COUNTERS = {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "symbol_error",
                 "link_downed", "link_error_recovery", "port_rcv_errors", "port_xmit_discards", "port_xmit_wait",
                 "VL15_dropped", "unicast_rcv_packets", "multicast_xmit_packets"}
MLX5_COUNTERS = {"out_of_sequence", "out_of_buffer", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
                 "np_cnp_sent", "rp_cnp_handled", "rx_write_requests", "roce_adp_retrans", "lifespan"}
RXE_COUNTERS = {"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "retry_exceeded_err",
                "link_downed", "rdma_sends", "lifespan"}


def read(lab, *devices, **env):
    """What the readers find for these devices."""
    with open(os.path.join(os.path.dirname(__file__), "sysfs_reader.py"), encoding="utf-8") as source:
        program = lab.start(PYTHON, "-c", source.read(), *devices, **env)
    return json.loads(program.finish(lab.seconds(30)).splitlines()[0])


def function(number):
    """The PCI function of a device of the list, with numbers from 0 on."""
    bus = f"f000:{number + 1:02x}"
    return f"/sys/devices/pci{bus}/{bus}:00.0"


def check_gids(found, interface, info, kinds):
    """Each index below the length of the table has its files, as on Linux; those of an empty entry cannot be read. The
    other entries are those of the verbs."""
    entries = int(info["gid_tbl_len"])
    types, ndevs = found["nccl"]["types"], found["ucx"]["ndevs"]
    beyond = [["open", errno.ENOENT]] * (256 - entries)
    check(types[entries:] == beyond and ndevs[entries:] == ["ENOENT"] * (256 - entries), f"{types[entries:]}")
    for index, kind in enumerate(types[:entries]):
        if kind == ["read", errno.EINVAL]:
            check(ndevs[index] == EINVAL, f"{index}: {ndevs[index]}")
        else:
            check(kind == kinds[index % 2], f"{index}: {kind}")
            check(ndevs[index] == interface, f"{index}: {ndevs[index]}")
    valid = [str(index) for index, kind in enumerate(types) if isinstance(kind, str)]
    check("1" in valid and valid == list(info["gids"]), f"{types}, {info['gids']}")
    check(found["threefs"]["types"] == [kind.rstrip("\n") if isinstance(kind, str) else EINVAL for kind in types[:32]],
          f"{found['threefs']}")
    calls = found["calls"]
    check(set(calls["gids"].values()) == {entries}, f"{calls}")
    check(calls["empty"] == [ZERO_GID, EINVAL, EINVAL], f"{calls}")
    check(calls["first_empty"] == (calls["empty"] if entries > 255 else ["ENOENT"] * 3), f"{calls}")


def check_calls(lab, found, device, parent, devices):
    """Paths are those of the kernel in each result. In a namespace of the test there are no other devices."""
    calls, path = found["calls"], f"{parent}/infiniband/{device}"
    check(found["torchcomms"]["path"] == calls["python"] == path, f"{calls} {found['torchcomms']}")
    check(calls["link"] == "../.." + path[len("/sys"):] and calls["is_link"] and calls["is_directory"], f"{calls}")
    check(calls["cwd"] == path + "/ports" and calls["same"] and all(calls["watches"]), f"{calls}")
    check(calls["subsystem"] == "/sys/class/infiniband", f"{calls}")
    check(set(devices) <= set(calls["listed"]) and (not lab.isolated or sorted(devices) == calls["listed"]), f"{calls}")
    check(calls["above"] == [parent + "/infiniband", "/sys/class", "/sys"], f"{calls}")
    check(calls["verbs"] == [parent + "/infiniband_verbs"], f"{calls}")
    check(found["mooncake"]["above"] == parent, f"{found['mooncake']}")


def check_monitors(lab, found, info, adapter, counters):
    """The files agree with the verbs, and the port has all counters. In a namespace of the test their values are known:
    no program has transferred data. `adapter` is the type and the board of the device."""
    seen = found["monitors"]
    states = [f"/sys/class/infiniband/{name}/ports/1/state" for name in found["calls"]["listed"]]
    check(sorted(seen["found"]) == states, f"{seen['found']}, {states}")
    lanes, speed = int(info["active_width"].split("X")[0]), float(info["active_speed"].split()[0])
    check(seen["port"] == {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "Ethernet",
                           "rate": f"{lanes * speed:g} Gb/sec ({lanes}X)"}, f"{seen}")
    files = seen["device"]
    check(files["node_type"] == "1: CA" and (files["hca_type"], files["board_id"]) == adapter, f"{files}")
    for name in ("fw_ver", "node_guid", "sys_image_guid"):
        check(files[name] == info[name], f"{name}: {files}, {info[name]}")
    check(info["node_guid"] == info["sys_image_guid"], f"{info}")
    check(int(files["hw_rev"], 16) == int(info["hw_ver"], 16), f"{files}, {info['hw_ver']}")
    check(PORT_COUNTERS <= set(seen["counters"]) and counters <= set(seen["hw_counters"]), f"{seen}")
    for name, value in {**seen["counters"], **seen["hw_counters"]}.items():
        is_right = value == ("10" if name == "lifespan" else "0") if lab.isolated else value.isdigit()
        check(is_right, f"{name} is {value}: {seen}")


def sysfs_without_profile_has_virtual_devices(lab):
    """Without a profile, devices are below the directory of virtual devices, as those of rxe. Each has a device of its
    own."""
    names = [side["device"] for side in lab.sides]
    found = read(lab, *names)
    for name in names:
        one = found[name]
        info = devinfo(lab, name)
        check(info["gid_tbl_len"] == "256", f"{info}")
        check_calls(lab, one, name, "/sys/devices/virtual", names)
        check_gids(one, name, info, ROCE_V2)
        check_monitors(lab, one, info, ("usrdma", "usrdma"), RXE_COUNTERS)
        path = f"/sys/devices/virtual/usrdma/{name}/port"
        check(one["nvshmem"]["device"] == one["nccl"]["path"] == path, f"{one['nccl']}")
        check([one["nccl"]["subsystem"], one["ucx"]["function"]] == [None, None], f"{one['nccl']} {one['ucx']}")
        check(one["threefs"]["net"] == [name] and one["threefs"]["device_is_link"], f"{one['threefs']}")
    check(len({found[name]["nccl"]["place"] for name in names}) == len(names), "NCCL takes two devices for one")


def sysfs_with_profile_has_pci_functions(lab):
    """Each device of a profile is an adapter: a PCI function on a bus of its own, with GUIDs of its own."""
    interfaces = [lab.sides[number % len(lab.sides)]["device"] for number in range(len(RAILS))]
    env = {"USRDMA_DEVICES": ",".join(f"{rail}={interface}" for rail, interface in zip(RAILS, interfaces)),
           "USRDMA_PROFILE": "connectx-7"}
    found = read(lab, *RAILS, **env)
    for number, (rail, interface) in enumerate(zip(RAILS, interfaces)):
        one = found[rail]
        nccl, ucx = one["nccl"], one["ucx"]
        path = function(number)
        check(path == nccl["path"] == one["nvshmem"]["device"], f"{path}, {nccl}, {one['nvshmem']}")
        check(path == ucx["function"] == ucx["by_bus"], f"{path}, {ucx}")
        info = devinfo(lab, rail, **env)
        check(info["gid_tbl_len"] == "255", f"{info}")
        check_calls(lab, one, rail, path, RAILS)
        check_gids(one, interface, info, BOTH_TYPES)
        check_monitors(lab, one, info, ("MT4129", "MT_0000000838"), MLX5_COUNTERS)
        check(nccl["subsystem"] == "/sys/bus/pci" and nccl["class"] == "0x020000", f"{nccl}")
        check([nccl["vendor"], nccl["device"]] == ucx["ids"] == ["0x15b3", "0x1021"], f"{nccl}, {ucx}")
        link = ["32.0 GT/s PCIe", "16"]
        check([nccl["max_link_speed"], nccl["max_link_width"]] == ucx["link"] == link, f"{nccl}, {ucx}")
        # The interfaces are virtual: they belong to no node, and all processors are local.
        check([nccl["numa_node"], *one["mooncake"]["numa_nodes"]] == ["-1"] * 3, f"{nccl}, {one['mooncake']}")
        check(re.fullmatch(r"[0-9a-f]{1,8}(,[0-9a-f]{8})*", ucx["cpus"]), f"{ucx}")
        check(int(ucx["cpus"].replace(",", ""), 16) == (1 << os.sysconf("SC_NPROCESSORS_CONF")) - 1, f"{ucx}")
        check(one["threefs"]["net"] == [interface] and one["threefs"]["device_is_link"], f"{one['threefs']}")
    for values in ([found[rail]["nccl"]["place"] for rail in RAILS],
                   [found[rail]["monitors"]["device"]["node_guid"] for rail in RAILS],
                   [found[rail]["monitors"]["device"]["sys_image_guid"] for rail in RAILS]):
        check(len(set(values)) == len(RAILS), f"{values}")


@contextlib.contextmanager
def physical(interface):
    """In this mount namespace, /sys shows that the interface is that of a PCI function."""
    fake = "/sys/class/net"
    home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    index = str(socket.if_nametoindex(interface))
    check(LIBC.unshare(CLONE_NEWNS) == 0, "no mount namespace")
    try:
        ip_command("mount", "--make-rprivate", "/")
        ip_command("mount", "-t", "tmpfs", "-o", "mode=755", "none", fake)
        path = f"{fake}/pci/0000:81:00.0"
        os.makedirs(path)
        os.makedirs(f"{fake}/{interface}")
        for name, value in ((f"{path}/numa_node", "1"), (f"{path}/local_cpus", "ff00"),
                            (f"{path}/local_cpulist", "8-15"), (f"{fake}/{interface}/ifindex", index)):
            with open(name, "w", encoding="ascii") as file:
                file.write(value + "\n")
        os.symlink(path, f"{fake}/{interface}/device")
        yield path
    finally:
        LIBC.setns(home, CLONE_NEWNS)
        os.close(home)


def sysfs_physical_interface_has_its_function(lab):
    """A device of an interface that has a PCI function: `device` is this function without a profile; with one, the
    adapter has the place of the function."""
    interface = lab.sides[-1]["device"]
    with physical(interface) as path:
        plain = read(lab, interface)[interface]
        nccl = plain["nccl"]
        check((nccl["path"], nccl["numa_node"], nccl["local_cpus"]) == (path, "1", "ff00"), f"{nccl}")
        check(plain["torchcomms"]["path"] == f"/sys/devices/virtual/infiniband/{interface}", f"{plain['torchcomms']}")
        adapters = read(lab, "a", "b", USRDMA_DEVICES=f"a={interface},b={interface}", USRDMA_PROFILE="connectx-6")
        for number, name in enumerate(("a", "b")):
            nccl = adapters[name]["nccl"]
            check((nccl["path"], nccl["numa_node"], nccl["local_cpus"]) == (function(number), "1", "ff00"), f"{nccl}")


def sysfs_pci_functions_of_kernel_are_listed(lab):
    """The kernel's PCI functions are not hidden."""
    text = "import os; print(sorted(os.listdir('/sys/bus/pci/devices')) if os.path.isdir('/sys/bus/pci') else [])"
    seen = lab.start(PYTHON, "-c", text, USRDMA_PROFILE="connectx-7").finish(lab.seconds(20)).splitlines()[0]
    there = sorted(os.listdir("/sys/bus/pci/devices")) if os.path.isdir("/sys/bus/pci/devices") else []
    check(seen == str(there), f"{seen}, {there}")


def port_mtu_of_loopback_follows_other_devices(lab):
    """The loopback device has no larger MTU than the other devices, so that UCX does not prefer it for connections to
    other hosts. The MTU of a path within the host is not limited."""
    mtus = [devinfo(lab, device)["active_mtu"] for device in ("lo", "own0")]
    check(mtus == ["1024 (3)"] * 2, f"{mtus}")
    ip_command(*"ip link set own0 mtu 9000".split())
    try:
        laboratory.wait_until(lambda: devinfo(lab, "lo")["active_mtu"] == "4096 (5)", lab.seconds(20), "MTU 4096 of lo")
        ip_command(*"ip link set own0 mtu 560".split())
        laboratory.wait_until(lambda: devinfo(lab, "lo")["active_mtu"] == "256 (1)", lab.seconds(20), "MTU 256 of lo")
        port = lab.port()
        server = lab.start("ibv_rc_pingpong", "-d", "lo", "-g", 1, "-m", 4096, "-n", 10, "-p", port)
        lab.listens_tcp(server, port)
        lab.start("ibv_rc_pingpong", "-d", "lo", "-g", 1, "-m", 4096, "-n", 10, "-p", port,
                  "127.0.0.1").finish(lab.seconds(20))
        server.finish(lab.seconds(20))
    finally:
        ip_command(*"ip link set own0 mtu 1500".split())


def values(lab, device):
    """The counters of a device, as a monitor reads them."""
    seen = read(lab, device)[device]["monitors"]
    return {name: int(value) for kind in ("counters", "hw_counters") for name, value in seen[kind].items()}


def run_pair(lab, program, *args):
    """Runs a program and its client on the loopback device until both end."""
    port = lab.port()
    server = lab.start(program, "-d", "lo", "-p", port, *args)
    lab.listens_tcp(server, port)
    lab.start(program, "-d", "lo", "-p", port, *args, "127.0.0.1").finish(lab.seconds(20))
    server.finish(lab.seconds(20))


def sysfs_counters_contain_transfers_of_all_processes(lab):
    """The counters of a port contain what all processes transferred, also those that have ended: 20 messages of 4096
    bytes, and then 5 READs of 8192 bytes. Data are in units of 4 bytes."""
    before = values(lab, "lo")
    run_pair(lab, "ibv_rc_pingpong", "-g", 1, "-n", 10, "-s", 4096)
    sent = values(lab, "lo")
    grown = {name: value - before[name] for name, value in sent.items() if value != before[name]}
    packets = ("port_xmit_packets", "port_rcv_packets", "unicast_xmit_packets", "unicast_rcv_packets", "sent_pkts",
               "rcvd_pkts")
    check(grown.pop("rcvd_rnr_err", 0) >= 0 and
          grown == {"port_xmit_data": 20 * 4096 // 4, "port_rcv_data": 20 * 4096 // 4, **dict.fromkeys(packets, 20)},
          f"{grown}")
    run_pair(lab, "ib_read_bw", "-x", 1, "-n", 5, "-s", 8192)
    after = values(lab, "lo")
    check(after["port_xmit_data"] == sent["port_xmit_data"], f"{sent} {after}")
    check(after["port_rcv_data"] - sent["port_rcv_data"] == 5 * 8192 // 4, f"{sent} {after}")
    check(after["port_xmit_packets"] - sent["port_xmit_packets"] == 5, f"{sent} {after}")
    device, = (one for one in lab.status()["devices"] if one["name"] == "lo")
    check(device["messages_sent"] == after["port_xmit_packets"] and
          (device["bytes_sent"] - device["bytes_read"]) // 4 == after["port_xmit_data"], f"{device} {after}")
    check(set(values(lab, "own0").values()) <= {0, 10}, "another device has counted")


def body(lab, cases):
    for case in (sysfs_without_profile_has_virtual_devices, sysfs_with_profile_has_pci_functions,
                 sysfs_pci_functions_of_kernel_are_listed):
        cases.run(case.__name__.replace("_", " "), case, lab)
    why_not = None if lab.isolated else "no right to make a network namespace"
    for case in (port_mtu_of_loopback_follows_other_devices, sysfs_counters_contain_transfers_of_all_processes,
                 sysfs_physical_interface_has_its_function):
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
