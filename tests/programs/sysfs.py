# SPDX-License-Identifier: BSD-2-Clause
"""Tests what programs that look for RDMA devices in /sys and /dev find under `usrdma run`, and that no files of it
remain."""

import glob
import json
import os
import re
import signal

from tests.programs import lab as laboratory
from tests.programs.lab import check, ip_command, wait_until

PYTHON = "/usr/bin/python3"
TREES = "/tmp/usrdma-sys."
NEW_TREES = "/tmp/usrdma-new."


def seen(lab, expression):
    """Returns what a separate Python program sees."""
    program = lab.start(PYTHON, "-c", f"import glob, json, os; print(json.dumps({expression}))")
    return json.loads(program.finish(lab.seconds(30)).splitlines()[0])


def devices(lab):
    names = set(seen(lab, "os.listdir('/sys/class/infiniband')"))
    check("lo" in names, f"{names}")
    state = seen(lab, "open('/sys/class/infiniband/lo/ports/1/state').read()")
    check(state == "4: ACTIVE\n", state)
    kinds = seen(lab, "[open(f'/sys/class/infiniband/lo/ports/1/gid_attrs/types/{i}').read() for i in range(4)]")
    check(kinds and set(kinds) == {"RoCE v2\n"}, f"{kinds}")
    net = seen(lab, "os.listdir('/sys/class/infiniband/lo/device/net')")
    check(net == ["lo"], f"{net}")
    node = seen(lab, "[os.access(name, os.R_OK | os.W_OK) for name in glob.glob('/dev/infiniband/*')]")
    check(len(node) == 1 + len(names) and all(node), f"{node}")


def shell(lab):
    """Tests the system calls of other programs: ls, cat, readlink, test."""
    for argv, wanted in ((["ls", "/sys/class/infiniband"], "lo"),
                         (["sh", "-c", "ls -l /sys/class/infiniband 2>&1 | grep -v -e ^l -e ^total || echo silent"],
                          "silent"),
                         (["df", "--output=target", "/sys/class/infiniband"], "/"),
                         (["cat", "/sys/class/infiniband/lo/node_type"], "1: CA"),
                         (["readlink", "/sys/class/infiniband/lo/device/net/lo"], "/sys/class/net/lo"),
                         (["stat", "-L", "-c", "%F", "/dev/infiniband/rdma_cm"], "character special"),
                         (["sh", "-c", "test -d /sys/class/infiniband/lo/ports/1 && echo there"], "there")):
        text = lab.start(*argv).finish(lab.seconds(30))
        check(wanted in text, f"{argv}: {text}")


# The C library's glob(), which does not call the functions that other programs can replace.
GLOB = """
import ctypes
class Result(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)), ("rest", ctypes.c_char * 256)]
calls = ctypes.CDLL(None)
for name in ("glob", "glob64"):
    for pattern in (b"/sys/class/infiniband/l*/ports/1/state", b"/sys/class/infiniband/lo", b"/sys/class/net/lo",
                    b"/sys/class/infiniband/none*"):
        found = Result()
        status = getattr(calls, name)(pattern, 0, None, ctypes.byref(found))
        print(name, status, *[found.paths[i].decode() for i in range(found.count)])
"""


def glob_of_the_c_library(lab):
    """glob(3) finds the devices, and its results have the prefix of the pattern."""
    output = lab.start(PYTHON, "-c", GLOB).finish(lab.seconds(30))
    for name in ("glob", "glob64"):
        for line in ("0 /sys/class/infiniband/lo/ports/1/state", "0 /sys/class/infiniband/lo", "0 /sys/class/net/lo",
                     "3"):
            check(re.search(rf"^{name} {line}$", output, re.M), output)


# The first calls of Debian's InfiniBand management programs: list the devices and open a port for MADs.
UMAD = """
import ctypes
umad = ctypes.CDLL('libibumad.so.3')
names = (ctypes.c_char * 20 * 32)()
print('init', umad.umad_init())
print('names', *sorted(names[i].value.decode() for i in range(umad.umad_get_cas_names(names, 32))))
print('device', umad.umad_get_ca(b'lo', ctypes.create_string_buffer(1 << 16)))
print('port', umad.umad_open_port(b'lo', 1))
"""


def umad(lab):
    """The system's libibumad reads every device. It opens no port for MADs: no device offers that."""
    output = lab.start(PYTHON, "-c", UMAD).finish(lab.seconds(30))
    check(re.search(r"^init 0$", output, re.M) and re.search(r"^names .*\blo\b", output, re.M), output)
    check(re.search(r"^device 0$", output, re.M) and re.search(r"^port -\d+$", output, re.M), output)


def ibstat(lab):
    """Each device has an Ethernet port, and its capabilities are those that ibv_query_port() reports."""
    output = lab.start("ibstat", "lo").finish(lab.seconds(30))
    for line in ("Number of ports: 1", "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"):
        check(re.search(rf"^\s*{line}$", output, re.M), output)
    mask = re.search(r"^\s*Capability mask: 0x(\w+)$", output, re.M)
    flags = re.search(r"port_cap_flags:\s+0x(\w+)", lab.start("ibv_devinfo", "-v", "-d", "lo").finish(lab.seconds(30)))
    check(mask and flags and int(mask[1], 16) == int(flags[1], 16), f"{mask and mask[0]}, {flags and flags[0]}")


def ibstatus(lab):
    """Runs ibstatus, a shell script that changes into the directory and reads files by relative paths."""
    output = lab.start("ibstatus").finish(lab.seconds(30))
    check("Infiniband device 'lo' port 1 status:" in output and "4: ACTIVE" in output and "unknown" not in output,
          output)


def nothing_else(lab):
    """Paths that do not belong to RDMA devices, or only resemble them, are passed to the kernel."""
    there = seen(lab, "[os.path.exists(name) for name in ('/sys/class/infiniband_x', '/sys/class/infinibandlo',"
                      " '/sys/class/infiniband/nix', '/sys/class/net/lo', '/dev/null')]")
    check(there == [False, False, False, True, True], f"{there}")


def changes(lab):
    """A running process sees a device that is added or removed."""
    text = ("import os, sys, time\n"
            "for wanted in (True, False):\n"
            "    while ('come0' in os.listdir('/sys/class/infiniband')) != wanted: time.sleep(0.01)\n"
            "    print('there' if wanted else 'gone', flush=True)\n")
    program = lab.start(PYTHON, "-c", text)
    ip_command(*"ip link add come0 type veth peer name come1".split())
    try:
        ip_command(*"ip address add 10.79.0.1/24 dev come0".split())
        ip_command(*"ip link set come0 up".split())
        program.says("there", lab.seconds(20))
    finally:
        ip_command(*"ip link delete come0".split())
    program.says("gone", lab.seconds(20))
    program.finish(lab.seconds(20))


def litter(lab):
    """A process removes its tree when it ends. The tree of a killed process is removed by the next process that reads
    the devices."""
    program = lab.start(PYTHON, "-c",
                        "import os, time; os.listdir('/sys/class/infiniband'); print('made', flush=True); "
                                      "time.sleep(60)")
    program.says("made", lab.seconds(20))
    # /proc shows the program's descriptors: its tree is the one whose lock file it has open.
    held = [os.readlink(name) for name in glob.glob(f"/proc/{program.pid}/fd/*")]
    mine = [os.path.dirname(name) for name in held if os.path.basename(name) == "lock"]
    check(len(mine) == 1 and os.path.isdir(mine[0]), f"{held}")
    program.signal(signal.SIGKILL)
    program.finish(lab.seconds(20), -signal.SIGKILL)
    check(os.path.isdir(mine[0]), "a killed program removed its tree")
    seen(lab, "os.listdir('/sys/class/infiniband')")
    wait_until(lambda: not os.path.exists(mine[0]), lab.seconds(10), "the tree of a killed program is removed")
    locks = seen(lab, "[os.listdir('/sys/class/infiniband')] and [os.path.realpath(name) for name in"
                      " glob.glob('/proc/self/fd/*') if os.path.realpath(name).endswith('/lock')]")
    check(len(locks) == 1 and locks[0].startswith(TREES), f"{locks}")
    check(not os.path.exists(os.path.dirname(locks[0])), "a program left its tree")


def children(lab):
    """A child has a tree of its own and does not prevent the removal of its parent's tree."""
    text = ("import glob, json, os\n"
            "os.listdir('/sys/class/infiniband')\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    os.listdir('/sys/class/infiniband')\n"
            "    held = [os.path.realpath(name) for name in glob.glob('/proc/self/fd/*')]\n"
            "    print(json.dumps([name for name in held if name.endswith('/lock')]), flush=True)\n"
            "    os._exit(0)\n"
            "os.waitpid(child, 0)\n")
    locks = json.loads(lab.start(PYTHON, "-c", text).finish(lab.seconds(30)).splitlines()[0])
    check(len(locks) == 1 and locks[0].startswith(TREES), f"{locks}")


def a_bad_moment(lab):
    """A process without a free descriptor creates its tree later, and no files of the first attempt remain."""
    before = set(glob.glob(NEW_TREES + "*"))
    text = ("import os, resource\n"
            "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))\n"
            "os.path.exists('/sys/class/infiniband/lo')\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
            "print(os.path.exists('/sys/class/infiniband/lo'), flush=True)\n")
    output = lab.start(PYTHON, "-c", text).finish(lab.seconds(30))
    check(output.startswith("True"), output)
    check(set(glob.glob(NEW_TREES + "*")) <= before, "something is left")


def calls_in_signal_handlers_do_not_allocate(lab):
    lab.start(lab.tool("signal_safe")).finish(lab.seconds(20))


def body(lab, cases):
    for case in (devices, shell, glob_of_the_c_library, umad, ibstat, ibstatus, nothing_else, litter, children,
                 a_bad_moment):
        cases.run(case.__name__.replace("_", " "), case, lab)
    if lab.isolated:
        cases.run("changes", changes, lab)
    if not lab.sanitized:
        cases.run("calls in signal handlers do not allocate", calls_in_signal_handlers_do_not_allocate, lab)


if __name__ == "__main__":
    laboratory.main(body)
