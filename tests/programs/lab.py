# SPDX-License-Identifier: BSD-2-Clause
"""The environment of program tests. It creates a network namespace with `lo` and one interface, and starts programs in
it as user nobody with our libraries. It waits until servers are ready, and checks that no files or processes remain.

    lo      127.0.0.1  ::1
    own0    10.77.0.1  fd77::1       (one end of a veth pair; the other end only provides a carrier)

A test of two hosts creates a second namespace, the far host, on the same network:

    wire0   10.88.0.1  fd88::1       the near host, where servers run
    wire0   10.88.0.2  fd88::2       the far host, where clients run

Without permission to create a namespace the machine's own is used, and cases that need own0 are skipped.
"""

import contextlib
import copy
import ctypes
import glob
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("USRDMA_BUILD", os.path.join(SOURCE, "build"))
# tests/soak sets it: tests that repeat their cases with several devices, partners or sizes then run all combinations.
EVERY = os.environ.get("USRDMA_EVERY") == "1"
# A name of tests/programs/sandbox_filter.py: the programs and the daemons that they start then run under this filter.
SANDBOX = os.environ.get("USRDMA_SANDBOX")
UID_NOBODY = 65534
CLONE_NEWNET = 0x40000000
CLONE_NEWNS = 0x00020000
LIBC = ctypes.CDLL(None, use_errno=True)

# The sides of a server: its device, a GID index of the device, and its addresses.
LOOPBACK = {"name": "lo", "device": "lo", "gid": 0, "ip4": "127.0.0.1", "ip6": "::1"}
OWN = {"name": "own address", "device": "own0", "gid": 0, "ip4": "10.77.0.1", "ip6": "fd77::1"}
WIRE = {"name": "between hosts", "device": "wire0", "gid": 1, "ip4": "10.88.0.1", "ip6": "fd88::1"}


class Failure(Exception):
    """A case found an unexpected result."""


def check(truth, why):
    if not truth:
        raise Failure(why)


def wait_until(question, seconds, what):
    """Polls the condition until it is true. `what` describes the condition in the failure."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while True:
        answer = question()
        if answer:
            return answer
        check(time.monotonic() < deadline, f"{what}: not within {seconds} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def ended_as_wanted(line, status, wanted, output):
    """Whether the program of this command line ended with the expected exit status. Debian's rping, after a successful
    run, may close the event channel while its CM thread is about to wait on it. It then exits with 255, on every
    device."""
    tripped = wanted == 0 and status == 255 and re.search(r"(^| )rping( .*)? -[cs]\b", line) and \
        output.rstrip().endswith("rdma_get_cm_event: Bad file descriptor")
    return status == wanted or bool(tripped)


class Program:
    """One started program. Its output goes to one file for each stream, so that the program never blocks on a full
    pipe."""

    def __init__(self, lab, argv, env, native, user=None):
        self.argv = argv
        name = os.path.join(lab.scratch, str(lab.count()))
        self.paths = (name + ".out", name + ".err")
        user = UID_NOBODY if user is None else user
        as_user = {"user": user, "group": user, "extra_groups": []} if lab.drops else {}
        command = argv if native else lab.command() + argv
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                            cwd=lab.scratch, start_new_session=True, **as_user)

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        """Returns its standard output, then its standard error."""
        texts = []
        for path in self.paths:
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return "\n".join(filter(None, texts))

    def running(self):
        return self.process.poll() is None

    def story(self):
        tail = "\n".join(self.output().splitlines()[-25:])
        return f"{' '.join(self.argv)} (exit status {self.process.poll()}):\n{tail}"

    def signal(self, number):
        if self.running():
            os.kill(self.pid, number)

    def end(self):
        """Kills the program and all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self, seconds, status=0):
        """Waits for the end; `status` is the required exit status (None: any)."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise Failure(f"still running after {seconds} s: {self.story()}") from None
        if status is not None:
            check(ended_as_wanted(" ".join(self.argv), self.process.returncode, status, self.output()), self.story())
        return self.output()

    def says(self, text, seconds=10):
        """Waits until the output contains this text."""
        def printed():
            check(self.running() or text in self.output(), f"ended without saying \"{text}\": {self.story()}")
            return text in self.output()
        try:
            wait_until(printed, seconds, f"\"{text}\"")
        except Failure as failure:
            raise Failure(f"{failure}\n{self.story()}") from None


class Host:
    """A second namespace, kept only by descriptors. When the last of its programs and of these descriptors is closed,
    the kernel removes it and its end of the veth pair, also after a failure of the test. `with host:` moves this
    process into it."""

    def __init__(self):
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        check(LIBC.unshare(CLONE_NEWNET) == 0, "no second namespace")
        self.namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        ip_command(*"ip link set lo up".split())
        ip_command(*f"ip link add wire0 type veth peer name wire0 netns /proc/{os.getpid()}/fd/{self.home}".split())
        enter(self.home)
        self.address(WIRE)

    def address(self, side):
        """Assigns the addresses of a side to its device on both hosts, and waits until they are usable. Both ends also
        have the kernel's link-local address: it is GID 0, and the IPv4 address is GID 1."""
        device, near4, near6 = side["device"], side["ip4"], side["ip6"]
        for host, ip4, ip6 in ((contextlib.nullcontext(), near4, near6), (self, near4[:-1] + "2", near6[:-1] + "2")):
            with host:
                assign_addresses(device, ip4, ip6)
        for host in (contextlib.nullcontext(), self):
            with host:
                wait_until(lambda: carrier_and_link_local(device), 10, device)

    def __enter__(self):
        enter(self.namespace)

    def __exit__(self, *_):
        enter(self.home)


class Lab:
    """The namespace and all programs started in it. Created once for a test program and closed at its end."""

    def __init__(self):
        # meson sends SIGTERM to a test program that exceeds its time. The finally clauses end the started programs.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        self.started = []
        self.numbers = itertools.count(1)
        self.drops = os.geteuid() == 0 and not inside_user_namespace()
        self.isolated = enter_namespace()
        self.sides = [LOOPBACK] + ([OWN] if self.isolated else [])
        self.far = None
        self.scratch = tempfile.mkdtemp(prefix="usrdma-test-")
        os.chmod(self.scratch, 0o755)
        if self.drops:
            os.chown(self.scratch, UID_NOBODY, UID_NOBODY)
        self.tree = self.readable_tree()
        self.env = self.environment()
        self.filter = os.path.join(SOURCE, "tests/programs/sandbox_filter.py")
        self.sandbox = ["/usr/bin/python3", self.copy(self.filter), SANDBOX, "--"] if SANDBOX else []
        self.ports = itertools.count(20001 if self.isolated else 20001 + os.getpid() % 20000)
        check(not os.path.isdir("/dev/infiniband") or not os.listdir("/dev/infiniband"), "/dev/infiniband has entries")

    def view(self):
        """The same laboratory with a program list of its own, for a case in a thread of its own."""
        other = copy.copy(self)
        other.started = []
        return other

    def count(self):
        return next(self.numbers)

    def port(self):
        """Returns a port that no case of this lab has used."""
        return str(next(self.ports))

    def readable_tree(self):
        """Returns the build directory, or a copy of the necessary files if user nobody cannot read the directory."""
        probe = subprocess.run(["test", "-r", os.path.join(BUILD, "lib", "libibverbs.so.1")], check=False,
                               **({"user": UID_NOBODY, "group": UID_NOBODY, "extra_groups": []} if self.drops else {}))
        if probe.returncode == 0:
            return BUILD
        tree = os.path.join(self.scratch, "tree")
        # The longest names first: a name without a version is a link to that with a version, as in the build directory.
        libraries = sorted((os.path.relpath(path, BUILD) for path in glob.glob(os.path.join(BUILD, "lib", "*.so*"))),
                           key=len, reverse=True)
        copies = {}
        for name in ("usrdma", "usrdmad", "lib/rsocket/librspreload.so", *libraries):
            file = os.path.realpath(os.path.join(BUILD, name))
            os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
            if file in copies:
                os.symlink(copies[file], os.path.join(tree, name))
            else:
                shutil.copy(file, os.path.join(tree, name))
                copies[file] = os.path.basename(name)
        for folder in ("tools", "share", "tests/programs", "tests/hostile"):
            shutil.copytree(os.path.join(BUILD, folder), os.path.join(tree, folder))
        # The programs of the build directory find their libraries there.
        os.symlink("lib", os.path.join(tree, "src"))
        return tree

    def copy(self, path):
        """Copies this program to a directory that user nobody can read."""
        copied = os.path.join(self.scratch, os.path.basename(path))
        shutil.copy(path, copied)
        return copied

    def environment(self):
        env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", "LC_ALL": "C"}
        for name in os.environ:
            if name.startswith(("USRDMA_LOG", "ASAN_", "UBSAN_", "TSAN_")):
                env[name] = os.environ[name]
        runtime = sanitizer_runtime(os.path.join(BUILD, "lib", "libibverbs.so.1"))
        if runtime:
            # The sanitizer's runtime must be loaded first, because Debian's programs are not linked with it. Their own
            # leaks are not reported.
            env["LD_PRELOAD"] = runtime
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return env

    @property
    def sanitized(self):
        return "LD_PRELOAD" in self.env

    @property
    def times(self):
        """Returns how often a case runs: once in an instrumented build, which finds its errors in the first run."""
        return ("first",) if self.sanitized else ("first", "again")

    def seconds(self, plain):
        """Scales a time limit for a busy machine and for instrumented builds."""
        return plain * (8 if self.sanitized else 2)

    def command(self):
        return [*self.sandbox, os.path.join(self.tree, "usrdma"), "run", "--"]

    def tool(self, name):
        """Returns the path of a test program of this project."""
        return os.path.join(self.tree, "tests", "programs", name)

    def own(self, name):
        """Returns the path of our tool that has the same name as a program of Debian."""
        return os.path.join(self.tree, "tools", name)

    def start(self, *argv, native=False, user=None, **extra_env):
        """Starts a program, as user nobody unless `user` is given."""
        program = Program(self, [str(a) for a in argv], dict(self.env, **extra_env), native, user)
        self.started.append(program)
        return program

    def add_host(self):
        """Creates the far host: client() starts clients there from now on."""
        self.far = Host()

    def client(self, *argv, **extra_env):
        """Starts a client: on the far host if there is one."""
        with self.far or contextlib.nullcontext():
            return self.start(*argv, **extra_env)

    def status(self):
        """Returns the output of `usrdma status --json`, or None without a daemon."""
        out = os.path.join(self.scratch, f"status.{threading.get_ident()}")
        as_uid_nobody = {"user": UID_NOBODY, "group": UID_NOBODY, "extra_groups": []} if self.drops else {}
        with open(out, "wb") as file:
            done = subprocess.run([*self.sandbox, os.path.join(self.tree, "usrdma"), "status", "--json"], stdout=file,
                                  env=self.env, stderr=subprocess.DEVNULL, timeout=30, check=False, **as_uid_nobody)
        if done.returncode != 0:
            return None
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    def circumstances(self):
        """For the report of a failure: the programs of the case with the end of their outputs, and what the running
        daemons count, without zeros."""
        lines = []
        for program in self.started:
            state = "running" if program.running() else f"exit status {program.process.returncode}"
            lines.append(f"{' '.join(program.argv)}: {state}")
            lines += [f"    {line}" for line in program.output().splitlines()[-8:]]
        for name, host in (("near host", contextlib.nullcontext()), ("far host", self.far)):
            with host or contextlib.nullcontext(), contextlib.suppress(subprocess.SubprocessError):
                if host and self.daemons():
                    lines.append(f"{name}: {json.dumps(without_zeros(self.status()))}")
        return lines

    def listens_cm(self, server, port):
        """Waits until the rdma_cm listener exists."""
        def there():
            check(server.running(), f"ended before it listened: {server.story()}")
            return str(port) in listening_ports(self.status())
        wait_until(there, self.seconds(10), f"rdma_cm listener on port {port}")

    def listens_tcp(self, server, port):
        """Waits until a socket listens on this TCP port of the namespace, without connecting to it."""
        def there():
            check(server.running(), f"ended before it listened: {server.story()}")
            return any(listening(f"/proc/self/net/{table}", int(port)) for table in ("tcp", "tcp6"))
        wait_until(there, self.seconds(10), f"TCP listener on port {port}")

    def listens_udp(self, server, port):
        """Waits until a socket is bound to this UDP port of the namespace."""
        def there():
            check(server.running(), f"ended before it had its port: {server.story()}")
            return any(listening(f"/proc/self/net/{table}", int(port), "07") for table in ("udp", "udp6"))
        wait_until(there, self.seconds(10), f"UDP port {port}")

    def connects(self, count):
        """Waits until this many queue pairs of the namespace are in RTS."""
        def ready():
            processes = (self.status() or {}).get("processes", [])
            return sum(qp["state"] == "RTS" for process in processes for qp in process.get("qps", [])) >= count
        wait_until(ready, self.seconds(10), f"{count} connected queue pairs")

    def daemons(self):
        """Returns the process IDs of the daemons of this namespace, without their guardians."""
        ours = os.readlink("/proc/self/ns/net")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                exe = os.readlink(f"/proc/{pid}/exe")
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    is_guardian = file.read().startswith("usrdmad-guard")
                if os.path.basename(exe.split(" ")[0]) == "usrdmad" and not is_guardian and \
                        os.readlink(f"/proc/{pid}/ns/net") == ours:
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def end_programs(self):
        for program in self.started:
            program.end()
        self.started.clear()

    def end_daemons(self):
        for pid in self.daemons():
            # A daemon may end between these two steps.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not self.daemons(), self.seconds(10), "the daemon's end")

    def close(self):
        self.end_programs()
        if self.far:
            with self.far:
                self.end_daemons()
        if self.isolated:
            self.end_daemons()
        shutil.rmtree(self.scratch, ignore_errors=True)


def listening_ports(status):
    """Returns the port of every listener in the output of `usrdma status --json`."""
    return {item["local"].rsplit(":", 1)[1] for item in (status or {}).get("listeners", [])}


def listening(table, port, state="0A"):
    try:
        with open(table, encoding="ascii") as rows:
            next(rows)
            for row in rows:
                fields = row.split()
                if fields[3] == state and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return True
    except OSError:
        pass
    return False


def sanitizer_runtime(library):
    """Returns the sanitizer runtime that a library is linked with, or None."""
    dynamic = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=False).stdout
    match = re.search(r"\[(lib[at]san\.so\.\d+)\]", dynamic)
    if not match:
        return None
    found = subprocess.run(["cc", f"-print-file-name={match[1]}"], stdout=subprocess.PIPE, text=True, check=True)
    return os.path.realpath(found.stdout.strip())


def inside_user_namespace():
    with open("/proc/self/uid_map", encoding="ascii") as rows:
        return rows.read().split() != ["0", "0", "4294967295"]


def enter_namespace():
    """Moves this process into a network namespace of its own; False where that is not permitted."""
    if os.geteuid() != 0 and not os.environ.get("USRDMA_TEST_IN_PLACE"):
        os.environ["USRDMA_TEST_IN_PLACE"] = "1"
        trial = subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL, check=False)
        if trial.returncode == 0:
            os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.orig_argv[1:]])
    if os.geteuid() != 0:
        return False
    if LIBC.unshare(CLONE_NEWNET) != 0:
        return False
    if os.path.isdir("/dev/infiniband"):
        if LIBC.unshare(CLONE_NEWNS) != 0:
            return False
        ip_command("mount", "--make-rprivate", "/")
        ip_command("mount", "-t", "tmpfs", "none", "/dev/infiniband")
    for line in ("ip link set lo up",
                 "ip link add own0 type veth peer name far0",
                 "ip link set far0 addrgenmode none up",
                 "ip link set own0 up",
                 "ip addr add 10.77.0.1/24 dev own0",
                 "ip addr add fd77::1/64 dev own0 nodad"):
        ip_command(*line.split())
    return True


def enter(namespace):
    """Moves this process into the network namespace behind a descriptor."""
    if LIBC.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def assign_addresses(device, ip4, ip6):
    """Assigns two addresses to a device of this namespace, without duplicate address detection, and sets it up."""
    for line in (f"sysctl -qw net.ipv6.conf.{device}.accept_dad=0",
                 f"ip addr add {ip4}/24 dev {device}",
                 f"ip addr add {ip6}/64 dev {device} nodad",
                 f"ip link set {device} up"):
        ip_command(*line.split())


def carrier_and_link_local(device):
    """Whether this device is up and has its link-local address."""
    shown = subprocess.run(["ip", "addr", "show", "dev", device], stdout=subprocess.PIPE, text=True, check=True).stdout
    return "LOWER_UP" in shown and "inet6 fe80::" in shown and "tentative" not in shown


def ip_command(*argv):
    subprocess.run(argv, check=True)


class Beside(threading.Thread):
    """A case that runs concurrently with others."""

    def __init__(self, lab, name, function, *args):
        super().__init__(name=name)
        self.lab, self.function, self.args = lab, function, args
        self.failure = None
        self.seconds = 0

    def run(self):
        started = time.monotonic()
        try:
            self.function(self.lab, *self.args)
        except Exception as failure:  # pylint: disable=broad-exception-caught
            self.failure = failure
        finally:
            self.lab.end_programs()
            self.seconds = time.monotonic() - started

    def result(self):
        if self.failure:
            raise self.failure
        print(f"# {self.name}: {self.seconds:.1f} s", flush=True)


def without_zeros(status):
    """A status without the counters that are 0 and what contains only such counters."""
    if isinstance(status, dict):
        return {key: kept for key, value in status.items() if (kept := without_zeros(value))}
    return [kept for value in status if (kept := without_zeros(value))] if isinstance(status, list) else status


class Cases:
    """Runs the cases of one test program and prints TAP."""

    def __init__(self, lab):
        self.lab = lab
        self.number = 0
        self.failed = 0
        self.only = re.compile(sys.argv[1]) if len(sys.argv) > 1 else None

    def run(self, name, function, *args):
        if self.only and not self.only.search(name):
            return
        self.number += 1
        started = time.monotonic()
        try:
            function(*args)
            print(f"ok {self.number} - {name} # {time.monotonic() - started:.1f} s", flush=True)
        except (Failure, OSError, subprocess.SubprocessError, ValueError, KeyError) as failure:
            self.failed += 1
            print(f"not ok {self.number} - {name}", flush=True)
            for line in f"{type(failure).__name__}: {failure}".splitlines() + self.lab.circumstances():
                print(f"#   {line}", flush=True)
        finally:
            self.lab.end_programs()

    def run_unless(self, why_not, name, function, *args):
        """Runs the case. Skips it if this machine cannot run it: then `why_not` is the reason, and otherwise None."""
        if why_not:
            self.skip(name, why_not)
        else:
            self.run(name, function, *args)

    def together(self, cases):
        """Runs independent cases concurrently. Each is a name, a function and its arguments; the first argument is the
        laboratory."""
        chosen = [case for case in cases if not self.only or self.only.search(case[0])]
        threads = [Beside(self.lab.view(), *case) for case in chosen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for thread in threads:
            self.run(thread.name, thread.result)

    def skip(self, name, reason):
        if self.only and not self.only.search(name):
            return
        self.number += 1
        print(f"ok {self.number} - {name} # SKIP {reason}", flush=True)

    def done(self):
        print(f"1..{self.number}")
        return 1 if self.failed else 0


def main(body):
    """Creates the lab, runs body(lab, cases) and cleans up."""
    lab = Lab()
    cases = Cases(lab)
    try:
        body(lab, cases)
    finally:
        lab.close()
    sys.exit(cases.done())
