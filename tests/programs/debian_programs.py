# SPDX-License-Identifier: BSD-2-Clause
"""The programs of one Debian release, unmodified, in a root file system of that release (debian_root.py), on the
libraries, the command and the daemon that were built here. Each release has a test program of its own
(consumers_debian*.py) that describes what differs from the other releases."""

import dataclasses
import os
import re
import socket
import subprocess
import typing

from tests.programs import debian_root
from tests.programs import lab as laboratory
from tests.programs.consumers_fabric import ROADS, pingpong
from tests.programs.lab import LOOPBACK, check

PROGRAMS = ("rdma-core", "rdmacm-utils", "ibverbs-utils", "ibverbs-providers", "perftest", "ucx-utils", "libfabric-bin",
            "openmpi-bin", "python3-pyverbs", "iproute2")

# <sys/mount.h>
MS_REC = 0x4000
MS_PRIVATE = 1 << 18

TREE = "/usrdma"
# The directory whose tests/ is this project's, for Python to find its packages.
SOURCE = "/usrdma-source"

# Where this variable is set, the root of the release that the machine itself runs is used too.
ASKS_FOR_SAME = "USRDMA_TEST_SAME_RELEASE"

PERFTEST = (
    ("ib_write_bw",), ("ib_write_lat",), ("ib_read_bw",), ("ib_read_lat",), ("ib_send_bw",), ("ib_send_lat",),
    ("ib_atomic_bw",), ("ib_atomic_lat",), ("ib_send_bw", "-c", "UD"), ("ib_write_bw", "-c", "UC"),
    ("ib_write_bw", "-R"), ("ib_send_bw", "-b"), ("ib_send_bw", "-r", "64", "--use-srq"),
)

UCX_TESTS = (("tag_lat", 8), ("tag_bw", 1 << 20), ("ucp_am_lat", 8), ("ucp_get", 1 << 20))
# These flush an endpoint after they have written to the peer's memory.
UCX_FLUSHING_TESTS = (("ucp_put_bw", 4096), ("ucp_fadd", 8))

PYVERBS_MODULES = ("test_addr", "test_atomic", "test_cq", "test_cqex", "test_device", "test_fork", "test_mr",
                   "test_odp", "test_parent_domain", "test_pd", "test_qp", "test_qpex", "test_shared_pd")

# Imports every module of pyverbs: each one is linked with the libraries that it wraps.
IMPORT_ALL = """
import importlib, pkgutil, pyverbs
names = [info.name for info in pkgutil.walk_packages(pyverbs.__path__, "pyverbs.")]
for name in names:
    importlib.import_module(name)
print(len(names), "imported")
"""

# The MCA parameters that select the transport.
UCX = ["--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "osc", "ucx"]
LIBFABRIC = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", "--mca",
             "btl", "self"]

# The tests of pyverbs ask `rdma link`, which asks the kernel, for the network interface of a device. They look in sysfs
# for a device that this command does not list.
RDMA_COMMAND = "#!/bin/sh\necho '[]'\n"


@dataclasses.dataclass(frozen=True)
class Release:
    """One Debian release: its packages, and the options and the results in which its programs differ."""
    name: str
    codename: str
    # The packages of the libraries that ours are linked with.
    libraries: tuple
    # A function of the laboratory, a side and the options in cmtime_options.
    cmtime: typing.Callable
    cmtime_options: tuple
    oversubscribe: tuple
    perftest: tuple = ()
    # The options that start ucx_perftest without MPI.
    ucx_options: tuple = ()
    # The transports of UCX whose endpoints can be flushed after writing.
    ucx_flushes: tuple = ("rc_v,self", "ud_v,self")
    pyverbs_tests: int = 100
    pyverbs_differs: frozenset = frozenset()

    def packages(self):
        return PROGRAMS + self.libraries


def is_own(release):
    """Whether this machine runs the release: then the other consumers' tests run these programs without a root."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            return re.search(rf"^VERSION_CODENAME=\"?{release.codename}\"?$", file.read(), re.M) is not None
    except OSError:
        return False


def name_this_machine(lab, root):
    """libfabric 1.17 resolves the machine's own name, which the /etc/hosts of a root made by debootstrap does not
    contain."""
    hosts = os.path.join(lab.scratch, "hosts")
    with open(hosts, "w", encoding="ascii") as file:
        file.write(f"127.0.0.1 localhost\n::1 localhost\n127.0.0.1 {socket.gethostname()}\n")
    with open(f"{root}/etc/hosts", "a", encoding="ascii"):
        pass
    laboratory.ip_command("mount", "--bind", hosts, f"{root}/etc/hosts")


def has_private_mounts():
    """From now on, the mounts of this process end with it. False in chroot(8), where / is not a mount point."""
    check(laboratory.LIBC.unshare(laboratory.CLONE_NEWNS) == 0, "no mount namespace")
    return laboratory.LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0


def enter_root(lab, root):
    """From now on, the programs of the laboratory run in the root, as UID_NOBODY."""
    for line in (f"mount -t proc proc {root}/proc",
                 f"mount --rbind /sys {root}/sys",
                 f"mount --rbind /dev {root}/dev",
                 f"mount -t tmpfs -o mode=1777 shm {root}/dev/shm",
                 f"mount -t tmpfs -o mode=1777 tmp {root}/tmp"):
        laboratory.ip_command(*line.split())
    for source, name in ((lab.tree, TREE), (os.path.join(laboratory.SOURCE, "tests"), SOURCE + "/tests")):
        os.makedirs(root + name, exist_ok=True)
        laboratory.ip_command("mount", "--bind", source, root + name)
    for source, place in debian_root.newer_libraries(root, lab.tree):
        laboratory.ip_command("mount", "--bind", source, place)
    name_this_machine(lab, root)
    user = f"{laboratory.UID_NOBODY}:{laboratory.UID_NOBODY}"
    lab.command = lambda: ["chroot", f"--userspec={user}", "--groups=", root, f"{TREE}/usrdma", "run", "--"]
    begin = lab.start
    lab.start = lambda *argv, **env: begin(*argv, user=0, **env)


def complete(lab, program, seconds=60, status=0):
    return program.finish(lab.seconds(seconds), status)


def finds_symbols(lab):
    text = complete(lab, lab.start("python3", "-B", "-m", "tests.abi.loading", "--programs", f"{TREE}/lib",
                                   PYTHONPATH=SOURCE), 60, None)
    check(re.search(r"^1\.\.\d+", text, re.M) and not re.search(r"^not ok", text, re.M), text)


def devinfo(lab):
    output = complete(lab, lab.start("ibv_devinfo", "-v"))
    check(re.search(r"hca_id:\s+lo\b", output) and "RoCE v2" in output, output)


def rping(lab, side):
    port = lab.port()
    server = lab.start("rping", "-s", "-C", 10, "-V", "-a", side["ip4"], "-p", port)
    lab.listens_cm(server, port)
    complete(lab, lab.start("rping", "-c", "-C", 10, "-V", "-a", side["ip4"], "-p", port), 30, None)
    complete(lab, server, 30)


def pingpong_verbs(lab, side):
    port = lab.port()
    words = ["ibv_rc_pingpong", "-d", side["device"], "-g", side["gid"], "-n", 200, "-p", port]
    server = lab.start(*words)
    lab.listens_tcp(server, port)
    complete(lab, lab.start(*words, side["ip4"]))
    complete(lab, server)


def perftest(lab, side, words):
    port = lab.port()
    words = [*words, "-d", side["device"], "-x", side["gid"], "-n", 200, "-p", port, "-F"]
    server = lab.start(*words)
    if "-R" in words:
        lab.listens_cm(server, port)
    else:
        lab.listens_tcp(server, port)
    output = complete(lab, lab.start(*words, side["ip4"]))
    check(re.search(r"^\s*\d+\s+200\s", output, re.M), output)
    complete(lab, server)


def ucx(lab, release, side, transports, test, size):
    port = lab.port()
    env = {"UCX_TLS": transports, "UCX_NET_DEVICES": side["device"] + ":1", "UCX_LOG_LEVEL": "error"}
    words = ["ucx_perftest", *release.ucx_options, "-p", port]
    server = lab.start(*words, **env)
    lab.listens_tcp(server, port)
    client = lab.start(*words, side["ip4"], "-t", test, "-s", size, "-n", 200, "-w", 10, **env)
    output = complete(lab, client)
    complete(lab, server)
    check(re.search(r"^Final:\s+\d+", output, re.M) and "ERROR" not in output, client.story())


def mpi(lab, release, parameters, env):
    program = lab.start("mpirun", "-np", 2, *release.oversubscribe, *parameters, f"{TREE}/tests/programs/ring",
                        TMPDIR="/tmp", **env)
    check("2 ranks: all as it should be" in complete(lab, program, 90), program.story())


def pyverbs_imports(lab):
    output = complete(lab, lab.start("python3", "-c", IMPORT_ALL))
    found = re.search(r"^(\d+) imported", output, re.M)
    check(found and int(found[1]) > 20, output)


def pyverbs_suite(lab, release, root, side):
    """Most of rdma-core's own tests of that release. Debian compresses the longer files."""
    os.mkdir(f"{root}/tmp/bin")
    with open(f"{root}/tmp/bin/rdma", "w", encoding="ascii") as script:
        script.write(RDMA_COMMAND)
    os.chmod(f"{root}/tmp/bin/rdma", 0o755)
    subprocess.run(["sh", "-c",
                    f"cp -r {root}/usr/share/doc/rdma-core/tests {root}/tmp/ && gunzip -rq {root}/tmp/tests; "
                    f"chmod -R a+rX {root}/tmp/tests"], check=True)
    chosen = [word for module in PYVERBS_MODULES for word in ("-k", f"tests.{module}.")]
    runner = "import os, sys; sys.path[:0] = ['/tmp', '/tmp/tests']; import tests, unittest; " \
             "from args_parser import parser; parser.parse_args(); unittest.main(module=tests)"
    program = lab.start("python3", "-B", "-c", runner, "--dev", side["device"], "--port", 1, "-v", *chosen,
                        PATH="/tmp/bin:" + lab.env["PATH"])
    text = complete(lab, program, 120, None)
    ran = re.search(r"^Ran (\d+) tests", text, re.M)
    failed = set(re.findall(r"^(?:ERROR|FAIL): (\w+)", text, re.M))
    check(ran and int(ran[1]) > release.pyverbs_tests and failed <= release.pyverbs_differs, text[-4000:])


def programs(lab, cases, release, root):
    own = lab.sides[-1]
    cases.run("every program and library of the release finds its symbols", finds_symbols, lab)
    cases.run("ibv_devinfo -v", devinfo, lab)
    for side in lab.sides:
        cases.run(f"ibv_rc_pingpong, {side['name']}", pingpong_verbs, lab, side)
        cases.run(f"rping, {side['name']}", rping, lab, side)
        for words in release.cmtime_options:
            cases.run(f"{' '.join(map(str, ['cmtime', *words]))}, {side['name']}", release.cmtime, lab, side, words)
    for words in PERFTEST + release.perftest:
        cases.run(f"{' '.join(words)}, {own['name']}", perftest, lab, own, words)
    for transports in ("rc_v,self", "ud_v,self"):
        for test, size in UCX_TESTS + (UCX_FLUSHING_TESTS if transports in release.ucx_flushes else ()):
            cases.run(f"ucx_perftest {test}, {size} bytes, {transports}", ucx, lab, release, LOOPBACK, transports, test,
                      size)
    if own is not LOOPBACK:
        for road in ROADS:
            cases.run(f"fi_pingpong {' '.join(road)}", pingpong, lab, own, road, "-c")
    if os.path.exists(lab.tool("ring")):
        cases.run("Open MPI, pml ucx", mpi, lab, release, UCX,
                  {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": own["device"] + ":1", "UCX_LOG_LEVEL": "error"})
        cases.run("Open MPI, pml cm, mtl ofi", mpi, lab, release, LIBFABRIC, {})
    cases.run("every module of pyverbs is imported", pyverbs_imports, lab)
    cases.run("pyverbs' tests", pyverbs_suite, lab, release, root, own)


def body(lab, cases, release, root, why):
    if not root:
        cases.skip(f"programs of {release.name}", why)
        return
    if not has_private_mounts():
        cases.skip(f"programs of {release.name}", "/ is not a mount point")
        return
    enter_root(lab, root)
    programs(lab, cases, release, root)


def main(release):
    """The root is made before the laboratory is: the network namespace of the laboratory cannot reach a mirror."""
    root, why = None, None
    if is_own(release) and not os.environ.get(ASKS_FOR_SAME):
        why = (f"this machine runs {release.name}: the other consumers' tests run its programs; "
               f"{ASKS_FOR_SAME}=1 asks for these")
    else:
        try:
            root = debian_root.make(release.codename, release.packages())
        except debian_root.Unavailable as unavailable:
            why = f"no root of {release.name}: {unavailable}"
    laboratory.main(lambda lab, cases: body(lab, cases, release, root, why))
