# SPDX-License-Identifier: BSD-2-Clause
"""Runs under `usrdma run` and prints, as JSON, what programs of other projects find in /sys for the devices that are
named on the command line. Each function makes the calls of one of them. The test `sysfs_readers` states what they must
find."""

import ctypes
import errno
import glob
import json
import os
import sys

CLASS = "/sys/class/infiniband"
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.realpath.restype = ctypes.c_void_p


def libc_realpath(path):
    """realpath(3), which Python does not call."""
    room = ctypes.create_string_buffer(4096)
    return room.value.decode() if LIBC.realpath(path.encode(), room) else None


def text(path):
    """The line of a file, or the name of the error that prevents it."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().rstrip("\n")
    except OSError as error:
        return errno.errorcode[error.errno]


def nccl(device):
    """The place of an adapter: the path of `device` with three characters overwritten, and what is in this directory.
    The type of each GID by open(2) and read(2)."""
    path = libc_realpath(f"{CLASS}/{device}/device")
    place = list(path)
    for at in (-1, -3, -4):
        place[at] = "0"
    types = []
    for index in range(256):
        try:
            fd = os.open(f"{CLASS}/{device}/ports/1/gid_attrs/types/{index}", os.O_RDONLY)
        except OSError as error:
            types.append(["open", error.errno])
            continue
        try:
            types.append(os.read(fd, 64).decode())
        except OSError as error:
            types.append(["read", error.errno])
        os.close(fd)
    names = ("class", "vendor", "device", "max_link_speed", "max_link_width", "numa_node", "local_cpus")
    return {"path": path, "place": "".join(place), "subsystem": libc_realpath(path + "/subsystem"), "types": types,
            **{name: text(f"{path}/{name}") for name in names}}


def ucx(device):
    """The PCI function: two components above the resolved path of the device. The interface of each GID."""
    function = os.path.dirname(os.path.dirname(libc_realpath(f"{CLASS}/{device}")))
    return {"function": function if os.path.exists(function + "/device") else None,
            "link": [text(f"{function}/current_link_speed"), text(f"{function}/current_link_width")],
            "ids": [text(f"{function}/vendor"), text(f"{function}/device")],
            "cpus": text(f"{CLASS}/{device}/device/local_cpus"),
            "by_bus": libc_realpath("/sys/bus/pci/devices/" + os.path.basename(function)),
            "ndevs": [text(f"{CLASS}/{device}/ports/1/gid_attrs/ndevs/{index}") for index in range(256)]}


def mooncake(device):
    above = libc_realpath(f"{CLASS}/{device}/../..")
    return {"above": above, "numa_nodes": [text(f"{above}/numa_node"), text(f"{CLASS}/{device}/device/numa_node")]}


def torchcomms(device):
    return {"path": libc_realpath(f"{CLASS}/{device}")}


def threefs(device):
    device_is_link = os.path.islink(f"{CLASS}/{device}/device")
    return {"net": os.listdir(f"{CLASS}/{device}/ports/1/net"), "device_is_link": device_is_link,
            "types": [text(f"{CLASS}/{device}/ports/1/gid_attrs/types/{index}") for index in range(32)]}


def nvshmem(device):
    return {"device": libc_realpath(f"{CLASS}/{device}/device")}


def monitors(device):
    """node_exporter, collectd and PCP: the files of a device and all counters of its port."""
    port = f"{CLASS}/{device}/ports/1"
    return {"device": {name: text(f"{CLASS}/{device}/{name}") for name in ("board_id", "fw_ver", "hca_type", "hw_rev",
                                                                           "node_type", "node_guid", "sys_image_guid")},
            "port": {name: text(f"{port}/{name}") for name in ("state", "phys_state", "rate", "link_layer")},
            "found": glob.glob(f"{CLASS}/*/ports/*/state"),
            "counters": {name: text(f"{port}/counters/{name}") for name in os.listdir(f"{port}/counters")},
            "hw_counters": {name: text(f"{port}/hw_counters/{name}") for name in os.listdir(f"{port}/hw_counters")}}


def calls(device):
    """Other calls, and the same file by all of its paths."""
    path = libc_realpath(f"{CLASS}/{device}")
    inotify = LIBC.inotify_init()
    watches = [LIBC.inotify_add_watch(inotify, name.encode(), 0x100) for name in (CLASS, "/dev/infiniband", path)]
    os.chdir(f"{CLASS}/{device}/ports")
    return {"link": os.readlink(f"{CLASS}/{device}"), "python": os.path.realpath(f"{CLASS}/{device}"),
            "cwd": os.getcwd(), "watches": [watch > 0 for watch in watches],
            "listed": sorted(entry.name for entry in os.scandir(CLASS)),
            "same": text(f"{path}/node_guid") == text(f"{CLASS}/{device}/node_guid") == text("../node_guid"),
            "subsystem": libc_realpath(f"{CLASS}/{device}/subsystem"),
            "above": [libc_realpath(f"{CLASS}/{device}/{up}") for up in ("..", "subsystem/..", "subsystem/../..")],
            "is_link": os.path.islink(f"{CLASS}/{device}"), "is_directory": os.path.isdir(path),
            "gids": {kind: len(os.listdir(f"{CLASS}/{device}/ports/1/{kind}"))
                     for kind in ("gids", "gid_attrs/types", "gid_attrs/ndevs")},
            "first_empty": [text(f"{CLASS}/{device}/ports/1/{kind}/255")
                            for kind in ("gids", "gid_attrs/types", "gid_attrs/ndevs")],
            "empty": [text(f"{CLASS}/{device}/ports/1/{kind}/200")
                      for kind in ("gids", "gid_attrs/types", "gid_attrs/ndevs")],
            "verbs": sorted({os.path.dirname(libc_realpath(name)) for name in
                             glob.glob("/sys/class/infiniband_verbs/uverbs*") if text(name + "/ibdev") == device})}


READERS = (nccl, ucx, mooncake, torchcomms, threefs, nvshmem, monitors, calls)
print(json.dumps({name: {reader.__name__: reader(name) for reader in READERS} for name in sys.argv[1:]}))
