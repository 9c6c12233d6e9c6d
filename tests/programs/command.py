# SPDX-License-Identifier: BSD-2-Clause
"""Tests the commands `usrdma` and `usrdmad`: their output, their failures, and the environment that `usrdma run` gives
to a program."""

import contextlib
import errno
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import termios

from tests.programs import lab as laboratory
from tests.programs import wire
from tests.programs.command_kit import read_until, usrdma
from tests.programs.daemon_kit import daemon
from tests.programs.lab import LOOPBACK, WIRE, check, wait_until


# What `usrdma run` preloads, in this order.
PRELOADED = ("libusrdma-sysfs.so", "libusrdma-arena.so", "libibverbs.so.1", "librdmacm.so.1")


def usage(lab):
    status, out, err = usrdma(lab, "--help")
    check(status == 0 and out.startswith("Usage: usrdma") and not err, out + err)
    names = ("completion", "doctor", "fault", "man", "run", "status", "top", "trace", "version", "why")
    for name in names:
        check(f"usrdma {name}" in out, f"no word about {name}")
        status, own, err = usrdma(lab, name, "--help")
        check(status == 0 and not err and own.startswith(f"Usage:\n  usrdma {name}") and len(own) < len(out) / 3,
              f"{name} --help: {own}{err}")
        check(not any(f"  usrdma {other} " in own for other in names if other != name), f"{name} --help: {own}")
        check(usrdma(lab, "help", name) == (0, own, ""), f"help {name}")
    for name in ("USRDMA_LOG", "USRDMA_TRANSPORT", "USRDMA_CM_TIMEOUT", "USRDMA_DEVICES", "USRDMA_PROFILE",
                 "USRDMA_SHARE", "USRDMA_FAULT"):
        check(name in out, f"no word about {name}")
    for argv in ((), ("nonsense",), ("man",), ("man", "-k"), ("version", "x"), ("status", "x"),
                 ("status", "--json", "x"), ("doctor", "-x"), ("top", "x"), ("top", "--interval"),
                 ("top", "--interval", "0"), ("top", "--count", "-1"), ("trace", "x"), ("trace", "--pid", "0"),
                 ("fault", "x"), ("fault", "add"), ("run",), ("run", "--"), ("run", "-x", "true"), ("why", "x"),
                 ("help", "x")):
        status, out, err = usrdma(lab, *argv)
        check(status == 2 and err and not out, f"{argv}: {status} {out} {err}")
    for name in ("version", "--version", "-V"):
        status, out, err = usrdma(lab, name)
        check(status == 0 and out.startswith("usrdma ") and not err, out + err)


def exit_status(lab):
    check(usrdma(lab, "run", "sh", "-c", "exit 7")[0] == 7, "not the program's exit status")
    for argv, wanted in ((["/nonexistent/program"], 127), (["/etc/passwd"], 126)):
        status, _, err = usrdma(lab, "run", *argv)
        check(status == wanted and argv[0] in err, f"{argv}: {status} {err}")


def library_path(lab):
    """LD_LIBRARY_PATH begins with the directory of our libraries, followed by its former value. No other variable
    changes."""
    ours = os.path.join(os.path.realpath(lab.tree), "lib")
    for before, wanted in (({}, ours), ({"LD_LIBRARY_PATH": ""}, ours),
                           ({"LD_LIBRARY_PATH": "/a:/b"}, f"{ours}:/a:/b")):
        _, out, err = usrdma(lab, "run", "--", "env", **before)
        after = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        check(after.pop("LD_LIBRARY_PATH") == wanted, out + err)
        expected = dict(lab.env, **before)
        expected.pop("LD_LIBRARY_PATH", None)
        preloaded = [*filter(None, [expected.pop("LD_PRELOAD", None)]),
                     *(os.path.join(ours, name) for name in PRELOADED)]
        check(after.pop("LD_PRELOAD") == ":".join(preloaded), out + err)
        check({name: after.get(name) for name in expected} == expected, f"{after}")
        check(set(after) - set(expected) <= {"_", "PWD", "SHLVL"}, f"{set(after) - set(expected)}")


def loaded_by_name(lab):
    """dlopen(3) of a name without a number, as in Apache brpc, gets the library that a linked program gets,
    also where rdma-core's is installed with that name."""
    ours = os.path.join(os.path.realpath(lab.tree), "lib")
    for name in ("libibverbs", "librdmacm", "libmlx5"):
        code = (f"import ctypes; ctypes.CDLL('{name}.so.1'); ctypes.CDLL('{name}.so'); "
                f"print(open('/proc/self/maps', encoding='utf-8').read())")
        status, out, err = usrdma(lab, "run", "python3", "-c", code)
        check(status == 0, err)
        found = {line.split()[-1] for line in out.splitlines() if f"/{name}.so" in line}
        check(found == {os.path.realpath(os.path.join(ours, f"{name}.so.1"))}, f"{found}")


def share(lab):
    """Unless USRDMA_SHARE=off, a second library is preloaded. Invalid values are reported."""
    for value, is_on, reports in (("on", True, False), ("off", False, False), ("", True, False),
                                   ("maybe", True, True)):
        status, out, err = usrdma(lab, "run", "printenv", "LD_PRELOAD", USRDMA_SHARE=value)
        check(status == 0 and ("libusrdma-arena.so" in out) == is_on and ("USRDMA_SHARE" in err) == reports, out + err)


def moved(lab):
    """An installed tree works after it was moved. A missing file of the tree is reported."""
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


def characters_of_the_path(lab):
    """The dynamic loader splits LD_PRELOAD at spaces, and LD_LIBRARY_PATH at colons and semicolons."""
    for folder, is_valid in (("with two spaces", True), ("a:b", False), ("a;b", False)):
        prefix = os.path.join(lab.scratch, folder)
        for part in ("bin", "lib/usrdma"):
            os.makedirs(os.path.join(prefix, part))
        path = shutil.copy(os.path.join(lab.tree, "usrdma"), os.path.join(prefix, "bin"))
        for name in PRELOADED:
            shutil.copy(os.path.join(lab.tree, "lib", name), os.path.join(prefix, "lib/usrdma"))
        status, out, err = usrdma(lab, "run", "cat", "/proc/self/maps", path=path)
        if is_valid:
            check(status == 0 and not err, err)
            for name in PRELOADED:
                check(os.path.join(os.path.realpath(prefix), "lib/usrdma", name) in out, f"{name} is not loaded: {out}")
        else:
            check(status == 1 and not out and f"{folder}/lib/usrdma', contains ':' or ';'" in err, f"{status} {err}")


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


def status_of_dropped_datagrams(lab):
    """The text names the counter plainly; its key in the JSON is stable."""
    server = lab.start("udaddy", "-b", LOOPBACK["ip4"])
    lab.listens_cm(server, 7174)
    client = lab.start("udaddy", "-s", LOOPBACK["ip4"], USRDMA_FAULT="message:drop:type=UD")
    wait_until(lambda: "ud_sends_dropped" in usrdma(lab, "status")[1], lab.seconds(20), "a dropped datagram")
    text, report = usrdma(lab, "status")[1], json.loads(usrdma(lab, "status", "--json")[1])
    check("without_a_way" not in text, text)
    check(report["counters"]["local"]["datagrams_without_a_way_out"] > 0, f"{report['counters']}")
    for program in (client, server):
        program.end()


# A line of Prometheus's text format 0.0.4: a comment with the metric's name, or a sample.
LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(r"^(usrdma_[a-z_]+)(?:\{" + LABEL + "(?:," + LABEL + r")*\})? [0-9]+$")


def prometheus(lab):
    """Each sample follows the type of its metric, and each metric is one block. The values are those of --json."""
    status, out, err = usrdma(lab, "status", "--prometheus")
    check(status == 0 and not err, err)
    metrics = []
    for line in out.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            check(name not in metrics and kind == ("counter" if name.endswith("_total") else "gauge"), line)
            metrics.append(name)
        elif not line.startswith("# HELP "):
            sample = SAMPLE.match(line)
            check(sample and sample[1] == metrics[-1], line)
    report = json.loads(usrdma(lab, "status", "--json")[1])
    for device in report["devices"]:
        check(f'usrdma_device_mtu_bytes{{device="{device["name"]}"}} {device["mtu_bytes"]}\n' in out, out)
    for group, events in report["counters"].items():
        for event in events:
            check(f'usrdma_events_total{{group="{group}",event="{event}"}} ' in out, out)


def have_rates(lab, pids):
    """Whether usrdma top shows that these processes of rping send messages."""
    status, out, err = usrdma(lab, "top", "--json", "--interval", "0.3", "--count", "2", "--program", "rping")
    check(status == 0 and not err and len(out.splitlines()) == 2, out + err)
    rows = json.loads(out.splitlines()[-1])
    check({row["pid"] for row in rows} == pids and all(row["program"] == "rping" for row in rows), out)
    return all(row["qps"] == 1 and row["messages_sent_per_second"] > 0 for row in rows)


def output_and_configuration_errors(lab):
    """The exit status reports output that cannot be written, and a configuration that cannot be read."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([os.path.join(lab.tree, "usrdma"), "status", "--json"], stdout=full,
                              stderr=subprocess.PIPE, env=lab.env, check=False)
    check(done.returncode == 1 and b"No space left" in done.stderr, f"{done}")
    status, out, err = usrdma(lab, "run", "--config", lab.scratch, "--", "true")
    check(status == 1 and "Is a directory" in err, f"{status}: {out}{err}")


def have_qp_rates(lab, view, pids):
    """Whether usrdma top shows rates of the queue pairs, or of their device."""
    status, out, err = usrdma(lab, "top", view, "--json", "--interval", "0.3", "--count", "2", "--program", "rping")
    check(status == 0 and not err and len(out.splitlines()) == 2, out + err)
    rows = json.loads(out.splitlines()[-1])
    if view == "--qps":
        check({row["pid"] for row in rows} == pids and all(row["type"] == "RC" for row in rows), out)
    else:
        check(len(rows) == 1 and rows[0]["qps"] == 2, out)
    check(all(0 <= row["cq_pending"] <= row["cq_size"] and row["outstanding"] < 100 for row in rows), out)
    names = ("messages_sent_per_second", "bytes_sent_per_second", "messages_received_per_second")
    return all(row[name] > 0 for row in rows for name in names)


def top_shows_rates(lab):
    """Two connected processes send messages, so both have rates; --program selects by name, and --count ends the
    command."""
    server = lab.start(lab.own("rping"), "-s", "-C", 10000000)
    lab.listens_cm(server, 7174)
    client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-C", 10000000)
    try:
        wait_until(lambda: have_rates(lab, {server.pid, client.pid}), lab.seconds(10), "rates of both processes")
        for view in ("--qps", "--devices"):
            wait_until(lambda view=view: have_qp_rates(lab, view, {server.pid, client.pid}), lab.seconds(10), view)
        status, out, err = usrdma(lab, "top", "--interval", "0.1", "--count", "1", "--program", "no such program")
        check(status == 0 and not err and len(out.splitlines()) == 2 and "SENT/s" in out and
              "has 'no such program' in its name" in out, out + err)
    finally:
        client.end()
        server.end()


def top_on_terminal(lab):
    """On a terminal the screen is switched, keys are read without a line end, and the terminal is restored."""
    main, end = pty.openpty()
    try:
        before = termios.tcgetattr(end)
        command = [os.path.join(lab.tree, "usrdma"), "top", "--interval", "0.1"]
        with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=lab.env) as process:
            try:
                printed = read_until(lab, main, b"sorted by SENT/s")
                check(printed.startswith(b"\033[?1049h"), f"the screen is not switched: {printed}")
                os.write(main, b"d")
                read_until(lab, main, b"sorted by DROPPED/s")
                os.write(main, b"q")
                read_until(lab, main, b"\033[?1049l")
                check(process.wait(lab.seconds(10)) == 0, "exit status")
            finally:
                process.kill()
        check(termios.tcgetattr(end) == before, "the terminal is not restored")
    finally:
        os.close(main)
        os.close(end)


def doctor(lab):
    """Programs run in the laboratory, so there is no problem. Causes that this test can make are found and named."""
    status, out, err = usrdma(lab, "doctor")
    check(status == 0 and not err and "\n0 problems, " in out, out + err)
    check("UDP port 4791: the daemon has it" in out and "device lo: MTU" in out, out)
    other = os.path.join(lab.scratch, "other")
    os.makedirs(other, exist_ok=True)
    os.chmod(other, 0o755)
    shutil.copy(os.path.join(lab.tree, "lib", "libibverbs.so.1"), other)
    status, out, _ = usrdma(lab, "doctor", LD_LIBRARY_PATH=other)
    check(status == 0 and f"another libibverbs first, in {other}" in out and "\n0 problems, 0 " not in out, out)
    status, out, _ = usrdma(lab, "doctor", uid=0, prefix=("prlimit", "--nofile=700:700"))
    check(status == 1 and "problem  700 open files at most" in out, out)


def doctor_names_ucx_without_verbs(lab):
    """UCX without its verbs transport is a warning, as Debian's package of UCX 1.23. With the transport it is ok."""
    place = os.path.join(lab.scratch, "ucx-libraries")
    os.makedirs(os.path.join(place, "ucx"))
    with open(os.path.join(place, "libuct.so.0"), "wb"):
        pass
    for name, words in (("libuct_cma.so.0", f"warning  UCX in {place} has no verbs transport"),
                        ("libuct_ib.so.0", f"ok       UCX in {place} has the verbs transport")):
        with open(os.path.join(place, "ucx", name), "wb"):
            pass
        status, out, _ = usrdma(lab, "doctor", LD_LIBRARY_PATH=place)
        check(status == 0 and words in out, out)


def doctor_explains_messages(lab):
    """What programs report that ask the kernel for devices."""
    _, out, _ = usrdma(lab, "doctor")
    check("'Bad value for ai_flags'" in out and "'usrdma run'" in out, out)
    check(not shutil.which("rdma") or "'Failed to open NETLINK_RDMA socket'" in out, out)


def doctor_names_port_holder(lab):
    """Another program has UDP port 4791: doctor names it, and ends with 1."""
    lab.end_daemons()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("0.0.0.0", 4791))
        status, out, err = usrdma(lab, "doctor", uid=0)
        check(status == 1 and f"pid {os.getpid()}" in out, out + err)
    lab.end_daemons()


def doctor_asks_another_host(lab):
    """The other host answers while its daemon runs. Then nothing has the port there, and doctor ends with 1."""
    address = WIRE["ip4"]
    lab.end_daemons()
    lab.add_host()
    with daemon(lab, uid=0):
        with lab.far, daemon(lab, uid=0):
            status, out, err = usrdma(lab, "doctor", address)
            check(status == 0 and not err and f"{address} answers on UDP port 4791: 10 of 10 " in out, out + err)
            check(f"path MTU to {address}: 1500, packets of this size arrive\n" in out, out)
    with lab.far, daemon(lab, uid=0):
        status, out, err = usrdma(lab, "doctor", address)
        check(status == 1 and f"problem  {address} does not answer" in out and "\n1 problem, " in out, out + err)
        check(f"path MTU to {address}: 1500, packets of this size arrive\n" in out, out)
    lab.far = None


def congestion_control(lab):
    """USRDMA_ROCE_CC selects the algorithm of RoCE. An unknown name is reported, and the default is used."""
    for name in ("newreno", "westwood", ""):
        status, out, err = usrdma(lab, "run", "ibv_devinfo", "-d", "lo", USRDMA_ROCE_CC=name)
        check(status == 0 and not err and "lo" in out, f"{name}: {status} {err}")
    status, out, err = usrdma(lab, "run", "ibv_devinfo", "-d", "lo", USRDMA_ROCE_CC="vegas")
    check(status == 0 and "lo" in out and "invalid USRDMA_ROCE_CC 'vegas' (one of westwood, newreno)" in err,
          f"{status} {err}")


def daemons_options(lab):
    """Tests usrdmad: its output and its failures."""
    path = os.path.join(lab.tree, "usrdmad")
    for argv, status, text in ((["--help"], 0, "Usage: usrdmad"), (["--version"], 0, "usrdmad "),
                               (["--idle-seconds", "x"], 1, "invalid number 'x' (0 to "),
                               (["--idle-seconds", "-1"], 1, "invalid number '-1'"),
                               (["--idle-seconds", ""], 1, "invalid number ''"), (["--nonsense"], 1, "--help"),
                               (["word"], 1, "unexpected argument 'word'"), (["--ready-fd", "77"], 1, "cannot start")):
        done = subprocess.run([path, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=lab.env, text=True,
                              check=False, timeout=lab.seconds(10))
        check(done.returncode == status and text in done.stdout, f"{argv}: {done.returncode} {done.stdout}")


def limited_start(lab, *limits):
    """Starts a daemon from a program with these resource limits."""
    lab.end_daemons()
    program = lab.start("prlimit", *limits, os.path.join(lab.tree, "usrdma"), "status", native=True)
    program.finish(lab.seconds(20), None)
    return lab.daemons()[0]


def limited_starter(lab):
    """The daemon raises inherited limits of file size and processor time. Limits that it cannot raise do not end it."""
    pid = limited_start(lab, "--fsize=65536:", "--cpu=600:")
    with open(f"/proc/{pid}/limits", encoding="ascii") as limits:
        for line in limits:
            if line.startswith(("Max file size", "Max cpu time")):
                soft, hard = re.split(r"  +", line)[1:3]
                check(soft == hard, line)
    limited_start(lab, "--fsize=512")
    # A process of another user receives port 4791 by a forwarding ring. This limit prevents the allocation of the ring.
    has_port = not lab.drops
    with (contextlib.closing(wire.Engine(has_port=has_port)) as a,
          contextlib.closing(wire.Engine(has_port=has_port)) as b):
        try:
            a.introduce(b.slot)
            check(False, "more than it may")
        except wire.Refused as answer:
            check(answer.errno == errno.EFBIG, f"errno {answer.errno}")
        check("devices" in wire.Connection(wire.CONTROL).report(), "no report")
        check(a.is_answered() and b.is_answered(), "not served any more")
    lab.end_daemons()


def limited_program(lab):
    """If a limit prevents the allocation of shared memory, the program gets an error and no signal."""
    program = lab.start("prlimit", "--fsize=65536", "ibv_devinfo", "-d", "lo")
    printed = program.finish(lab.seconds(20), None)
    check(program.process.returncode > 0 and "ulimit -f" in printed, program.story())


def full_house(lab):
    """If the daemon has reached its limit of processes, the program reports that limit once, and not a full disk."""
    usrdma(lab, "status")
    with contextlib.ExitStack() as stack:
        try:
            while True:
                stack.enter_context(contextlib.closing(wire.Connection(wire.VERBS)))
        except wire.Refused as answer:
            check(answer.errno == errno.ENOSPC, f"errno {answer.errno}")
        program = lab.start("ibv_devinfo", "-d", "lo")
        printed = program.finish(lab.seconds(20), None)
        check(program.process.returncode > 0 and printed.count("does not serve this program") == 1, program.story())


def is_refused(ask):
    try:
        ask()
        return False
    except wire.Refused:
        return True


def reports_go_on(lab):
    """Unfinished reports use no memory of the daemon without limit. Each connection reads a report of its own,
    repeatedly. The number of unfinished reports of a user is limited."""
    usrdma(lab, "status")
    pid = lab.daemons()[0]
    client = wire.Connection(wire.CONTROL)
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    for _ in range(50):
        impatient = wire.Connection(wire.CONTROL)
        impatient.send(wire.message(wire.STATUS))
        impatient.send(wire.message(wire.STATUS))
        impatient.close()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(contextlib.closing(wire.Connection(wire.CONTROL))) for _ in range(65)]
        for reader in readers[:64]:
            reader.report_piece()
        try:
            readers[64].report_piece()
            check(False, "one unfinished report too many")
        except wire.Refused as answer:
            check(answer.errno == errno.EDQUOT, f"errno {answer.errno}")
        readers[0].close()
        wait_until(lambda: not is_refused(readers[64].report), lab.seconds(10), "a report")
    for _ in range(2):
        check("devices" in client.report(), "no report")
    # The first number may contain descriptors of the command above, which the daemon closes in a thread.
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= fds, lab.seconds(10), "the reports' end")
    client.close()


def body(lab, cases):
    by_devinfo = (congestion_control, limited_program, full_house)
    has_verbs = os.path.exists("/sys/class/infiniband_verbs")
    why_not = {**dict.fromkeys(by_devinfo, None if shutil.which("ibv_devinfo") else "no ibv_devinfo"),
               doctor_explains_messages: "the kernel has RDMA devices" if has_verbs else None,
               doctor_asks_another_host: None if lab.isolated and lab.drops else "needs root"}
    for case in (usage, exit_status, library_path, loaded_by_name, share, moved, characters_of_the_path, status_report,
                 status_of_dropped_datagrams, prometheus, top_shows_rates, top_on_terminal, doctor, doctor_names_ucx_without_verbs,
                 doctor_explains_messages, doctor_names_port_holder, daemons_options,
                 reports_go_on, limited_starter, output_and_configuration_errors, *by_devinfo,
                 doctor_asks_another_host):
        cases.run_unless(why_not.get(case), case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
