# SPDX-License-Identifier: BSD-2-Clause
"""
A plugin of pytest: tests get RDMA devices, with a daemon in a network namespace of their own.

The fixture `usrdma` runs programs. With the option --usrdma, the test process itself runs with the libraries. The
marker usrdma_fault injects faults for one test. The report of a failed test contains the output of `usrdma why`.
"""

import calendar
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings

import pytest

from usrdma import _namespace, program

HELPER = os.path.abspath(_namespace.__file__)
COMMAND_SECONDS = 60
# The time of a failure in the output of `usrdma why`.
WHEN = re.compile(r"(?m)^  when:  (\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)\.(\d+)$")


class Unavailable(Exception):
    """The namespace or the daemon cannot be used."""


def helper(*words):
    return [sys.executable, "-I", HELPER, *words]


def command_line():
    """The command line of this process, from which Python removes its own options."""
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def namespaces(pid):
    """Opens the namespaces of a process that are not those of this process: user, network."""
    found = []
    for kind in ("user", "net"):
        path = f"/proc/{pid}/ns/{kind}"
        if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{kind}").st_ino:
            found.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    return found


class Session:
    """The daemon and the namespace of a test session. Programs join the namespace by descriptors, which keep it."""

    def __init__(self):
        self.daemon = None
        self.descriptors = []

    def start(self):
        if self.daemon or is_inside():
            return
        ready, written = os.pipe()
        self.daemon = subprocess.Popen(helper("daemon", str(written)), pass_fds=[written], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(written)
        is_ready = os.read(ready, 1) == b"\0"
        os.close(ready)
        # The daemon itself does not write to it.
        with self.daemon.stderr as messages:
            report = messages.read().strip()
        if not is_ready:
            self.end()
            raise Unavailable(report or "usrdma: the daemon did not start; run usrdmad --foreground to see why")
        if report:
            warnings.warn(report, stacklevel=2)
        else:
            self.descriptors = namespaces(self.daemon.pid)

    def prefix(self):
        """The command line that executes a program in the namespace."""
        return helper("join", ",".join(map(str, self.descriptors))) if self.descriptors else []

    def end(self):
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.daemon, self.descriptors = None, []


def is_inside():
    """Whether --usrdma has started this process."""
    return _namespace.VARIABLE in os.environ


def milliseconds(when):
    """The time since 1970 of a match of WHEN."""
    return calendar.timegm(tuple(map(int, when[:6]))) * 1000 + int(when[6])


class Devices:
    """What the fixture `usrdma` provides."""

    def __init__(self, session):
        self._session = session
        self._since_ms = time.time_ns() // 1000000
        self._programs = []
        self._has_faults = False

    def _options(self, options):
        options["pass_fds"] = (*options.get("pass_fds", ()), *self._session.descriptors)
        options.setdefault("text", True)
        return options

    def _line(self, argv):
        return [*self._session.prefix(), program(), "run", "--", *map(os.fspath, argv)]

    def run(self, argv, **options):
        """
        Runs a program with the libraries and returns its subprocess.CompletedProcess. The options are those of
        subprocess.run(). Without options for the standard streams, the output is captured. It is text by default.
        """
        if not {"stdout", "stderr", "capture_output"} & set(options):
            options["capture_output"] = True
        return subprocess.run(self._line(argv), **self._options(options))

    def popen(self, argv, **options):
        """
        Starts a program with the libraries and returns its subprocess.Popen. The options are those of
        subprocess.Popen(). The program and its child processes are killed at the end of the test.
        """
        options["start_new_session"] = True
        started = subprocess.Popen(self._line(argv), **self._options(options))
        self._programs.append(started)
        return started

    def command(self, *words, **options):
        """Runs the command `usrdma` with these arguments and the options of subprocess.run(); returns its output."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([*self._session.prefix(), program(), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=COMMAND_SECONDS, **self._options(options))
        if done.returncode != 0:
            raise RuntimeError(f"usrdma {' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def fault(self, *rules, seed=None):
        """Adds rules of `usrdma fault` for all programs of this test, also for those that run."""
        self._has_faults = True
        options = ["--seed", str(seed)] if seed is not None else []
        return self.command("fault", "add", *rules, *options)

    def status(self):
        """Returns the object of `usrdma status --json`."""
        return json.loads(self.command("status", "--json"))

    def why(self):
        """Returns the explanations of `usrdma why` for the failures since the start of the test."""
        # The newest explanations come first. JSON has more of them, because only the text joins repeated failures.
        text = self.command("why", "--last", "0", env=dict(os.environ, TZ="UTC0"))
        number = sum(milliseconds(when) >= self._since_ms for when in WHEN.findall(text))
        text = self.command("why", "--last", str(number)) if number else ""
        return re.sub(r"(?m)^\d+ older: .*$", "", text).strip()

    def _end(self):
        for started in self._programs:
            # The number of a process that was waited for may belong to another one.
            was_waited_for = started.returncode is not None
            if not was_waited_for:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            for stream in (started.stdin, started.stdout, started.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
        if self._has_faults:
            self.command("fault", "clear")


DEVICES = pytest.StashKey()
SESSION = pytest.StashKey()


def pytest_addoption(parser):
    parser.getgroup("usrdma", "RDMA devices by usrdma").addoption(
        "--usrdma", action="store_true",
        help="run the test process with libibverbs and librdmacm of usrdma, in a network namespace with its own daemon")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Executes pytest again with the libraries, before it redirects the standard streams and loads the tests."""
    if early_config.known_args_namespace.usrdma and not is_inside():
        argv = [program(), "run", "--", sys.executable, *command_line()[1:]]
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, helper("run", *argv))
    yield


def pytest_configure(config):
    config.addinivalue_line("markers", "usrdma_fault(rule, ..., seed=None): injects faults by rules of `usrdma fault` "
                                       "during the test.")
    config.stash[SESSION] = Session()


def pytest_unconfigure(config):
    session = config.stash.get(SESSION, None)
    if session:
        session.end()


def pytest_report_header():
    return "usrdma: the test process has RDMA devices" if is_inside() else None


@pytest.fixture
def usrdma(request):
    """RDMA devices for the programs of this test: run(), popen(), fault(), why(), status() and command()."""
    session = request.config.stash[SESSION]
    try:
        session.start()
    except Unavailable as failure:
        pytest.fail(str(failure), pytrace=False)
    devices = Devices(session)
    request.node.stash[DEVICES] = devices
    try:
        for marker in request.node.iter_markers("usrdma_fault"):
            devices.fault(*marker.args, **marker.kwargs)
        yield devices
    finally:
        devices._end()


@pytest.fixture(autouse=True)
def _usrdma_of_each_test(request):
    """Tests need not request the fixture if they have the marker, or if the test process has devices."""
    if is_inside() or request.node.get_closest_marker("usrdma_fault"):
        request.getfixturevalue("usrdma")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    devices = item.stash.get(DEVICES, None)
    if report.failed and devices and report.when != "teardown":
        try:
            text = devices.why() or "no failure was reported during the test"
        except (OSError, RuntimeError, subprocess.SubprocessError) as failure:
            text = str(failure)
        report.sections.append(("usrdma why", text))
