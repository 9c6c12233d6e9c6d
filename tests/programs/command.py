#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The commands `usrdma` and `usrdmad`: what it prints, how it fails, and what `run` does to the environment of a program."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess

import lab as laboratory
import wire
from lab import NOBODY, check, wait_until


def usrdma(lab, *argv, path=None, **extra_env):
    """Exit status, standard output, standard error."""
    identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if lab.drops else {}
    done = subprocess.run([path or os.path.join(lab.tree, "usrdma"), *argv], env=dict(lab.env, **extra_env), check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
                          timeout=lab.seconds(30), **identity)
    return done.returncode, done.stdout, done.stderr


def usage(lab):
    status, out, err = usrdma(lab, "--help")
    check(status == 0 and out.startswith("Usage: usrdma") and not err, out + err)
    for name in ("man", "run", "status", "version"):
        check(f"usrdma {name}" in out, f"no word about {name}")
        check(usrdma(lab, name, "--help") == (0, out, ""), f"{name} --help")
    for name in ("USRDMA_LOG", "USRDMA_TRANSPORT", "USRDMA_CM_TIMEOUT"):
        check(name in out, f"no word about {name}")
    for argv in ((), ("nonsense",), ("man",), ("man", "-k", "x"), ("version", "x"), ("status", "x"), ("status", "--json", "x"), ("run",), ("run", "--"),
                 ("run", "-x", "true")):
        status, out, err = usrdma(lab, *argv)
        check(status == 1 and err and not out, f"{argv}: {status} {out} {err}")
    status, out, err = usrdma(lab, "version")
    check(status == 0 and out.startswith("usrdma ") and not err, out + err)


def exit_status(lab):
    check(usrdma(lab, "run", "sh", "-c", "exit 7")[0] == 7, "not the program's exit status")
    for argv, wanted in ((["/nonexistent/program"], 127), (["/etc/passwd"], 126)):
        status, _, err = usrdma(lab, "run", *argv)
        check(status == wanted and argv[0] in err, f"{argv}: {status} {err}")


def library_path(lab):
    """Our directory comes first, what was there stays behind it, and nothing else changes."""
    ours = os.path.join(os.path.realpath(lab.tree), "lib")
    for before, wanted in (({}, ours), ({"LD_LIBRARY_PATH": ""}, ours), ({"LD_LIBRARY_PATH": "/a:/b"}, f"{ours}:/a:/b")):
        _, out, err = usrdma(lab, "run", "--", "env", **before)
        after = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        check(after.pop("LD_LIBRARY_PATH") == wanted, out + err)
        expected = dict(lab.env, **before)
        expected.pop("LD_LIBRARY_PATH", None)
        preloaded = [*filter(None, [expected.pop("LD_PRELOAD", None)]), os.path.join(ours, "libusrdma-sysfs.so")]
        check(after.pop("LD_PRELOAD") == ":".join(preloaded), out + err)
        check({name: after.get(name) for name in expected} == expected, f"{after}")
        check(set(after) - set(expected) <= {"_", "PWD", "SHLVL"}, f"{set(after) - set(expected)}")


def moved(lab):
    """An installed tree works wherever it was moved to, and says so where it is not whole."""
    prefix = os.path.join(lab.scratch, "moved")
    for folder in ("bin", "lib/usrdma", "libexec/usrdma"):
        os.makedirs(os.path.join(prefix, folder))
    shutil.copy(os.path.join(lab.tree, "usrdma"), os.path.join(prefix, "bin"))
    shutil.copy(os.path.join(lab.tree, "usrdmad"), os.path.join(prefix, "libexec/usrdma"))
    path = os.path.join(prefix, "bin", "usrdma")
    status, _, err = usrdma(lab, "run", "true", path=path)
    check(status == 1 and "make install" in err, f"{status} {err}")
    for name in ("libibverbs.so.1", "librdmacm.so.1", "libusrdma-sysfs.so"):
        shutil.copy(os.path.join(lab.tree, "lib", name), os.path.join(prefix, "lib/usrdma"))
    status, out, err = usrdma(lab, "run", "printenv", "LD_LIBRARY_PATH", path=path)
    check(status == 0 and out.strip() == os.path.join(os.path.realpath(prefix), "lib/usrdma"), out + err)
    if shutil.which("ibv_devices"):
        status, out, err = usrdma(lab, "run", "ibv_devices", path=path)
        check(status == 0 and " lo " in out, out + err)


def status_report(lab):
    status, out, err = usrdma(lab, "status", "--json")
    check(status == 0 and not err, err)
    report = json.loads(out)
    for name in ("daemon", "devices", "processes", "listeners", "connections"):
        check(name in report, f"no {name}")
    for device in report["devices"]:
        check(device["gids"] and device["gids"][0]["index"] == 0 and int(device["node_guid"], 16) != 0, f"{device}")
    status, out, err = usrdma(lab, "status")
    check(status == 0 and not err, err)
    for word in ("daemon", "devices", "processes", "listeners", "connections", *(d["name"] for d in report["devices"])):
        check(word in out, f"no {word}: {out}")


def daemons_options(lab):
    """The other program: what it prints, and how it fails."""
    path = os.path.join(lab.tree, "usrdmad")
    for argv, status, text in ((["--help"], 0, "Usage: usrdmad"), (["--version"], 0, "usrdmad "),
                               (["--idle-seconds", "x"], 1, "no number"), (["--idle-seconds", "-1"], 1, "no number"),
                               (["--idle-seconds", ""], 1, "no number"), (["--nonsense"], 1, "--help"),
                               (["word"], 1, "one argument too many"), (["--ready-fd", "77"], 1, "cannot start")):
        done = subprocess.run([path, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=lab.env, text=True,
                              check=False, timeout=lab.seconds(10))
        check(done.returncode == status and text in done.stdout, f"{argv}: {done.returncode} {done.stdout}")


def limited_start(lab, *limits):
    """A daemon that a program with these limits started."""
    for pid in lab.daemons():
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not lab.daemons(), lab.seconds(10), "the daemon's end")
    program = lab.start("prlimit", *limits, os.path.join(lab.tree, "usrdma"), "status", native=True)
    program.finish(lab.seconds(20), None)
    return lab.daemons()[0]


def limited_starter(lab):
    """A program's limits of file sizes and time are not the daemon's, and do not end it where they cannot be undone."""
    pid = limited_start(lab, "--fsize=65536:", "--cpu=600:")
    with open(f"/proc/{pid}/limits", encoding="ascii") as limits:
        for line in limits:
            if line.startswith(("Max file size", "Max cpu time")):
                soft, hard = re.split(r"  +", line)[1:3]
                check(soft == hard, line)
    limited_start(lab, "--fsize=512")
    with contextlib.closing(wire.Engine()) as a, contextlib.closing(wire.Engine()) as b:
        for ask in (lambda: a.introduce(b.slot), lambda: wire.Connection(wire.CONTROL).request(
                wire.STATUS, fds=[os.memfd_create("report")])):
            try:
                ask()
                check(False, "more than it may")
            except wire.Refused as answer:
                check(answer.errno == errno.EFBIG, f"errno {answer.errno}")
        check(a.is_answered() and b.is_answered(), "not served any more")
    for pid in lab.daemons():
        os.kill(pid, signal.SIGTERM)


def limited_program(lab):
    """Where a limit leaves no room for shared memory, a program is told so, and not ended by a signal."""
    program = lab.start("prlimit", "--fsize=65536", "ibv_devinfo", "-d", "lo")
    heard = program.finish(lab.seconds(20), None)
    check(program.process.returncode > 0 and "ulimit -f" in heard, program.story())


def full_house(lab):
    """A program for which the daemon has no place left says that, and not that a disk is full."""
    usrdma(lab, "status")
    with contextlib.ExitStack() as stack:
        try:
            while True:
                stack.enter_context(contextlib.closing(wire.Connection(wire.VERBS)))
        except wire.Refused as answer:
            check(answer.errno == errno.ENOSPC, f"errno {answer.errno}")
        program = lab.start("ibv_devinfo", "-d", "lo")
        heard = program.finish(lab.seconds(20), None)
        check(program.process.returncode > 0 and "no place left" in heard, program.story())


def reports_go_on(lab):
    """Whoever asks and leaves, or gives nothing that can be written into, costs the daemon nothing, and others no answer."""
    usrdma(lab, "status")
    pid = lab.daemons()[0]
    client = wire.Connection(wire.CONTROL)
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    sealed = os.memfd_create("report", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(sealed, wire.F_ADD_SEALS, wire.SEAL_WRITE)
    pipe = os.pipe()
    for fd, wanted in ((sealed, errno.EPERM), (pipe[1], errno.EINVAL)):
        try:
            client.request(wire.STATUS, fds=[fd])
            check(False, "written into nothing")
        except wire.Refused as answer:
            check(answer.errno == wanted, f"errno {answer.errno}")
    reports = [os.memfd_create(f"report {i}") for i in range(3)]
    for seq, report in enumerate(reports):
        client.send(wire.message(wire.STATUS, seq=100 + seq), [report])
    for _ in range(50):
        impatient = wire.Connection(wire.CONTROL)
        impatient.send(wire.message(wire.STATUS), [sealed])
        impatient.send(wire.message(wire.STATUS), [reports[0]])
        impatient.close()
    for seq, report in enumerate(reports):
        _, _, answered, status, _ = wire.HEADER.unpack(client.receive())
        check((answered, status) == (100 + seq, 0), f"{answered} {status}")
    for report in reports[1:]:
        check("devices" in json.loads(os.pread(report, 1 << 20, 0)), "no report")
    check(client.is_answered(), "not served any more")
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) == fds, lab.seconds(10), "the reports' end")
    client.close()
    for fd in (sealed, *pipe, *reports):
        os.close(fd)


def body(lab, cases):
    for case in (usage, exit_status, library_path, moved, status_report, daemons_options, reports_go_on,
                 limited_starter, *([limited_program, full_house] if shutil.which("ibv_devinfo") else [])):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
