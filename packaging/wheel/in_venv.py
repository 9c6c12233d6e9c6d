# SPDX-License-Identifier: BSD-2-Clause
"""
in_venv.py WHEEL    Installs a wheel of usrdma in a venv and tests it there. Prints a line for each test.

Needs Python 3.8, venv, pytest of the system and ibv_devices, and nothing else of this project: packaging/wheel/test
copies this file into root file systems. The network namespace needs `lo`.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 120
TESTS = '''
import ctypes
import os
import sys

import pytest


def connect(usrdma):
    return usrdma.run(["rping", "-c", "-a", "127.0.0.1", "-p", "7998", "-C", "1"])


def test_lists_devices(usrdma):
    done = usrdma.run(["ibv_devices"])
    assert done.returncode == 0 and " lo " in done.stdout, done
    assert usrdma.why() == ""


def test_reports_why(usrdma):
    assert connect(usrdma).returncode == 0, "no server listens"


def test_reports_nothing_of_earlier_tests(usrdma):
    assert usrdma.why() == ""


REPEATS = """
import ctypes
libibverbs = ctypes.CDLL("libibverbs.so.1")
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_create_cq", "ibv_reg_mr"):
    getattr(libibverbs, name).restype = ctypes.c_void_p
devices = libibverbs.ibv_get_device_list(None)
context = ctypes.c_void_p(libibverbs.ibv_open_device(ctypes.cast(devices, ctypes.POINTER(ctypes.c_void_p))[0]))
pd = ctypes.c_void_p(libibverbs.ibv_alloc_pd(context))
memory = ctypes.create_string_buffer(64)
REMOTE_WRITE = 2
for _ in range(3):
    assert not libibverbs.ibv_create_cq(context, 1 << 30, None, None, 0)
    assert not libibverbs.ibv_reg_mr(pd, memory, ctypes.c_size_t(64), REMOTE_WRITE)
"""


def test_joins_repeated_failures(usrdma):
    done = usrdma.run([sys.executable, "-c", REPEATS])
    assert done.returncode == 0, done
    text = usrdma.why()
    assert text.startswith("ibv_reg_mr() failed with EINVAL") and text.count("  when:  ") == 2, text


def ping(usrdma, port):
    server = usrdma.popen(["rping", "-s", "-p", port, "-C", "2"])
    while not any(item["local"].endswith(":" + port) for item in usrdma.status()["listeners"]):
        assert not server.poll()
    return usrdma.run(["rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "2", "-v"])


def test_communicates(usrdma):
    done = ping(usrdma, "7997")
    assert done.returncode == 0 and done.stdout.count("ping data: rdma-ping-") == 2, done
    assert usrdma.why() == ""


@pytest.mark.usrdma_fault("wr.post:fail=EIO:prog=rping")
def test_has_faults(usrdma):
    assert "wr.post" in usrdma.command("fault")
    assert ping(usrdma, "7996").returncode != 0
    assert "rule 1 of 'usrdma fault' fired" in usrdma.why(), usrdma.why()


def test_has_no_faults_of_earlier_tests(usrdma):
    assert usrdma.command("fault") == "no fault rules\\n"


STARTED = []


def test_leaves_a_program(usrdma):
    STARTED.append(usrdma.popen(["sleep", "1000"]))


def test_programs_of_earlier_tests_have_ended():
    assert STARTED[0].returncode == -9


@pytest.mark.skipif("not config.getoption('usrdma')")
def test_has_devices_itself():
    libibverbs = ctypes.CDLL("libibverbs.so.1")
    libibverbs.ibv_get_device_list.restype = ctypes.c_void_p
    number = ctypes.c_int()
    assert libibverbs.ibv_get_device_list(ctypes.byref(number)) and number.value > 0


def test_namespace():
    print("namespace", os.readlink("/proc/self/ns/net"))
'''
PROGRAM = """
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
int main(void)
{
	void *library = dlopen("libibverbs.so", RTLD_NOW);
	int number;
	return !library || dlsym(library, "ibv_get_device_list") != (void *)ibv_get_device_list ||
	       !rdma_create_event_channel() || !ibv_get_device_list(&number) || !number;
}
"""


def check(truth, why):
    if not truth:
        raise AssertionError(why)


class Venv:
    """A venv with the wheel, in a directory whose name contains a space."""

    def __init__(self, scratch, wheel):
        self.scratch = scratch
        self.where = os.path.join(scratch, "a venv")
        self.wheel = wheel
        # pytest of the system, and no settings of the user.
        self.env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": scratch, "TMPDIR": scratch, "LC_ALL": "C.UTF-8",
                    "PYTHONDONTWRITEBYTECODE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(self, *argv, status=0, **options):
        program = os.path.join(self.where, "bin", argv[0])
        done = subprocess.run([program if os.path.exists(program) else argv[0], *argv[1:]], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
                              env=dict(self.env, **options), cwd=self.scratch)
        check(status in (None, done.returncode), f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}")
        return done.stdout

    def files(self):
        return {os.path.join(where, name) for where, _, names in os.walk(self.where) for name in names}


def installs(venv):
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", venv.where], check=True, env=venv.env)
    venv.before = venv.files()
    venv.run("python", "-m", "pip", "install", "--no-index", "--no-compile", venv.wheel)


def runs_programs(venv):
    check(re.match(r"usrdma \d+\.\d+\.\d+ ", venv.run("usrdma", "version")), "usrdma version")
    for command in (("usrdma",), ("python", "-m", "usrdma")):
        check(re.search(r"^\s*lo\s", venv.run(*command, "run", "--", "ibv_devices"), re.M), "no device lo")
    check("RPING(1)" in venv.run("usrdma", "man", "rping", PATH="/nonexistent"), "usrdma man rping")
    check("loss-1-percent" in venv.run("usrdma", "fault", "scenario"), "usrdma fault scenario")


def replaces_python(venv):
    """The program has the process of the command, and does not ignore the signals that Python ignores."""
    started = subprocess.Popen([os.path.join(venv.where, "bin", "usrdma"), "run", "--", "sh", "-c",
                                "echo $$; grep SigIgn /proc/self/status"], stdout=subprocess.PIPE, text=True,
                               env=venv.env)
    printed = started.communicate(timeout=SECONDS)[0].split()
    check(int(printed[0]) == started.pid, f"{printed[0]} is not {started.pid}")
    ignored = {number for number in (signal.SIGPIPE, signal.SIGXFSZ) if int(printed[2], 16) >> (number - 1) & 1}
    check(not ignored, f"ignored signals: {ignored}")


def compiles(venv):
    for name in ("cc", "pkg-config"):
        if not shutil.which(name):
            return f"no {name}"
    with open(os.path.join(venv.scratch, "program.c"), "w", encoding="ascii") as file:
        file.write(PROGRAM)
    directory = venv.run("python", "-m", "usrdma", "--pkgconfigdir").strip()
    flags = shlex.split(venv.run("pkg-config", "--cflags", "--libs", "librdmacm", PKG_CONFIG_PATH=directory))
    venv.run("cc", "program.c", *flags, "-o", "program")
    program = os.path.join(venv.scratch, "program")
    venv.run("usrdma", "run", "--", program)
    unaided = venv.run("ldd", program)
    check(unaided.count("a venv") >= 2, unaided)
    return None


def namespace(text):
    return re.search(r"namespace (net:\[\d+\])", text)[1]


def pytest(venv, *options, prefix=()):
    """Runs TESTS, of which one fails; returns the report."""
    with open(os.path.join(venv.scratch, "test_devices.py"), "w", encoding="ascii") as file:
        file.write(TESTS)
    command = [os.path.join(venv.where, "bin", "python"), "-m", "pytest", "-p", "no:cacheprovider", "-rA"]
    text = venv.run(*prefix, *command, *options, "test_devices.py", status=1)
    check(re.search(r"1 failed, \d+ passed", text) and "FAILED test_devices.py::test_reports_why" in text, text)
    check(re.search(r"-+ usrdma why -+\nconnection to 127\.0\.0\.1:7998 rejected: .*\n +when: ", text), text)
    return text


def runs_tests(venv, *options):
    text = pytest(venv, *options)
    check((namespace(text) != os.readlink("/proc/self/ns/net")) == bool(options) or "permits no" in text, text)


# Enters a user namespace in which the kernel creates no further namespace, and executes its arguments.
WITHOUT_NAMESPACES = """
echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_net_namespaces && exec "$0" "$@"
"""


def runs_tests_without_namespaces(venv, *options):
    prefix = ("unshare", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES)
    if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False, env=venv.env).returncode != 0:
        return "no user namespace"
    text = pytest(venv, *options, prefix=prefix)
    check("permits no network namespace" in text and namespace(text) == os.readlink("/proc/self/ns/net"), text)
    return None


def processes_of_tests(venv):
    """Process IDs of the venv's programs in other network namespaces than this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe").startswith(venv.where) and \
                    os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"):
                found.append(pid)
        except OSError:
            continue
    return found


def ends_daemon(venv):
    """The daemon that --usrdma started gets a signal when pytest has ended."""
    deadline = time.monotonic() + SECONDS
    while processes_of_tests(venv):
        check(time.monotonic() < deadline, f"processes {processes_of_tests(venv)} are left")
        time.sleep(0.01)


def uninstalls(venv):
    venv.run("python", "-m", "pip", "uninstall", "-y", "usrdma")
    left = venv.files() - venv.before
    check(not left, f"{sorted(left)[:5]} are left")


def main():
    with tempfile.TemporaryDirectory(prefix="usrdma-wheel-") as scratch:
        venv = Venv(scratch, os.path.abspath(sys.argv[1]))
        for name, test, *options in (
                ("pip installs the wheel", installs), ("the command runs programs", runs_programs),
                ("the command replaces the process of Python", replaces_python),
                ("a program can be compiled", compiles), ("the fixture of pytest", runs_tests),
                ("the option --usrdma of pytest", runs_tests, "--usrdma"),
                ("the fixture without a namespace", runs_tests_without_namespaces),
                ("the option --usrdma without a namespace", runs_tests_without_namespaces, "--usrdma"),
                ("no daemon is left", ends_daemon),
                ("pip removes all files", uninstalls)):
            try:
                skipped = test(venv, *options)
            except (AssertionError, OSError, subprocess.SubprocessError) as failure:
                print(f"failed: {name}: {failure}")
                return 1
            print(f"skipped: {name}: {skipped}" if skipped else f"passed: {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
