# SPDX-License-Identifier: BSD-2-Clause
"""A virtual machine with Debian's kernel (started by the script vm). It executes commands from files in a shared
directory: cmd.N is the command line, out.N the output, rc.N the exit status."""

import glob
import os
import re
import subprocess
import tempfile
import time

from tests.programs.lab import Failure, check, ended_as_wanted, wait_until

VM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vm")
SLOW = 60  # seconds; the guest is emulated
BOOT = 120

JOB = r"""
n=0
# Waiting must cost little: a new program each time is much work in an emulated machine, and others are measured there.
mkfifo /run/never
exec 9<> /run/never
touch /out/ready
while [ ! -e /out/quit ]; do
	if [ ! -e /out/cmd.$n ]; then read -r -t 0.2 -u 9; continue; fi
	( bash /out/cmd.$n > /out/out.$n 2>&1 < /dev/null; echo $? > /out/rc.$n.new; mv /out/rc.$n.new /out/rc.$n ) &
	n=$((n + 1))
done
"""


def prepare(kept, suite=None):
    """Fetches the guest's kernel into the directory if it is missing: that of this Debian suite, or of the machine's.
    Returns None, or the output of a failed command."""
    if os.path.exists(os.path.join(kept, "initrd.zst")):
        return None
    options = ["--suite", suite] if suite else []
    done = subprocess.run([VM, "prepare", kept, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode else None


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class GuestProgram:
    """A command that runs in the guest."""

    def __init__(self, out, number, line):
        self.line = line
        self.paths = [os.path.join(out, f"{name}.{number}") for name in ("out", "rc", "pid")]

    def pid(self):
        """PID of the `timeout` process, which is the parent of the program."""
        return wait_until(lambda: read(self.paths[2]).strip(), SLOW, "its start")

    def output(self):
        return read(self.paths[0])

    def running(self):
        return not os.path.exists(self.paths[1])

    def story(self):
        return f"guest: {self.line} (exit status {read(self.paths[1]).strip() or 'none yet'}):\n{self.output()[-2000:]}"

    def finish(self, seconds, status=0):
        try:
            wait_until(lambda: os.path.exists(self.paths[1]), seconds, "its end")
        except Failure as failure:
            raise Failure(f"{failure}: {self.story()}") from None
        if status is not None:
            check(ended_as_wanted(self.line, int(read(self.paths[1])), status, self.output()), self.story())
        return self.output()


class Guest:
    """The guest runs from the constructor until end(). `kept` is the directory of prepare(); `network` and `settings`
    are the NET argument and the environment of the script vm."""

    def __init__(self, kept, name, network, **settings):
        self.out = os.path.join(kept, "out")
        self.count = 0
        for old in glob.glob(os.path.join(self.out, "*")):
            os.remove(old)
        os.makedirs(self.out, exist_ok=True)
        self.job = tempfile.NamedTemporaryFile("w", suffix=".sh", dir=kept)
        self.job.write(JOB)
        self.job.flush()
        self.process = subprocess.Popen([VM, "run", kept, name, network, self.job.name], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, **settings))
        try:
            wait_until(lambda: os.path.exists(os.path.join(self.out, "ready")) or self.process.poll() is not None, BOOT,
                       "the guest")
            check(self.process.poll() is None,
                  "the guest ended: " + read(os.path.join(self.out, f"console.{name}"))[-2000:])
        except Failure:
            self.end()
            raise

    def start(self, *argv, seconds=SLOW):
        line = f"timeout {seconds} " + " ".join(str(word) for word in argv)
        path = os.path.join(self.out, f"cmd.{self.count}")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(f"echo $$ > /out/pid.{self.count}; exec {line}\n")
        os.rename(path + ".new", path)
        self.count += 1
        return GuestProgram(self.out, self.count - 1, line)

    def kill(self, program, name="KILL"):
        """Sends a signal to the program, which is a child of the `timeout` process."""
        self.start("pkill", f"-{name}", "-P", program.pid()).finish(SLOW)

    def ask(self, *argv):
        return self.start(*argv).finish(SLOW, None)

    def release(self):
        """The version of the kernel as two numbers."""
        return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", self.ask("uname", "-r")).groups())

    def listens(self, server, port, is_cm):
        """Waits until the server in the guest listens. Each check starts a program in the guest."""
        deadline = time.monotonic() + SLOW
        question = ["rdma", "resource", "show", "cm_id"] if is_cm else ["ss", "-ltn"]
        there = re.compile(rf"LISTEN.*:{port}\s")
        while not there.search(self.ask(*question)):
            check(time.monotonic() < deadline and not os.path.exists(server.paths[1]), server.story())

    def end(self):
        with open(os.path.join(self.out, "quit"), "w", encoding="utf-8"):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.job.close()
