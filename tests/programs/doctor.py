# SPDX-License-Identifier: BSD-2-Clause
"""Tests what `usrdma doctor` and the other diagnostic commands print in situations that a user meets: a daemon of
another user, fault rules that are still in force, a UDP port that another program has, small limits, a small
terminal."""

import fcntl
import json
import os
import pty
import re
import socket
import struct
import subprocess
import termios

from tests.programs import lab as laboratory
from tests.programs.command_kit import read_until, usrdma
from tests.programs.daemon_kit import OTHER_UID, daemon
from tests.programs.lab import UID_NOBODY, check, wait_until


CLEAR_SCREEN = b"\033[H\033[2J"


def doctor_reports_daemon_of_another_user(lab):
    """The only finding about the daemon is that it serves another user. What depends on the daemon is not checked."""
    lab.end_daemons()
    with daemon(lab, uid=UID_NOBODY) as process:
        for uid in (0, OTHER_UID):
            status, out, _ = usrdma(lab, "doctor", uid=uid)
            check(status == 1 and f"problem  the daemon belongs to uid {UID_NOBODY} and serves only that user (pid "
                  f"{process.pid})\n         try: " in out and "\n1 problem, " in out, out)
            check(f"kill {process.pid}" in out and "systemctl enable --now usrdmad.socket" in out, out)
            check(("ask root to run: " in out) == (uid != 0), out)
            for text in ("no device", "device lo", "UDP port 4791", "ip link set", "usrdmad --foreground", "?"):
                check(text not in out, f"{text}: {out}")
        status, out, err = usrdma(lab, "doctor")
        check(status == 0 and not err and "\n0 problems, " in out, out + err)


def doctor_and_status_show_fault_rules(lab):
    """doctor warns of rules in force, status lists them, and neither prints a line when no rule is in force."""
    lab.end_daemons()
    status, out, _ = usrdma(lab, "doctor")
    check(status == 0 and "fault" not in out, out)
    check("fault rules" not in usrdma(lab, "status")[1], usrdma(lab, "status")[1])
    usrdma(lab, "fault", "add", "message:drop:prog=nonsense", "mad.send:drop:op=REJ")
    status, out, err = usrdma(lab, "doctor")
    check(status == 0 and not err and "warning  fault rule 2 is in force and has fired 0 times: mad.send:drop:op=REJ\n"
          "         try: usrdma fault clear\n" in out, out + err)
    out = usrdma(lab, "status")[1]
    check("fault rules\n  rule 1  passes 0  firings 0  message:drop:prog=nonsense\n" in out, out)
    check(json.loads(usrdma(lab, "status", "--json")[1])["fault_rule_uids"] == [UID_NOBODY if lab.drops else 0], out)
    usrdma(lab, "fault", "clear")
    check("fault" not in usrdma(lab, "doctor")[1] + usrdma(lab, "status")[1], "rules after they were cleared")
    out = usrdma(lab, "doctor", USRDMA_FAULT="message:drop:nth=1")[1]
    check("warning  USRDMA_FAULT is set: " in out, out)


def doctor_and_status_show_rules_of_daemons_user(lab):
    """Rules of root's daemon can concern all users."""
    lab.end_daemons()
    with daemon(lab, uid=0):
        usrdma(lab, "fault", "add", "mad.send:drop:op=REJ", uid=0)
        out = usrdma(lab, "doctor")[1]
        check("warning  the daemon's user, uid 0, has set fault rules" in out, out)
        check("fault rules\n  of uid 0\n" in usrdma(lab, "status")[1], usrdma(lab, "status")[1])


def fault_prints_rules_and_concerned_programs(lab):
    """set, add and scenario print the number of rules and the running programs that they concern."""
    path = os.path.join(lab.scratch, "rules")
    with open(path, "w", encoding="ascii") as file:
        file.write("message:drop:prog=none\n")
    os.chmod(path, 0o644)
    for argv in (("add", "message:drop:prog=none"), ("set", path)):
        check(usrdma(lab, "fault", *argv) ==
              (0, "1 rule in force until 'usrdma fault clear'; no running program is concerned\n", ""), argv[0])
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-p", port)
    lab.listens_cm(server, port)
    for argv, concerned in ((("scenario", "rnr-storm"), True), (("scenario", "rnr-storm", "prog=rping"), True),
                            (("scenario", "rnr-storm", f"pid={server.pid}"), True),
                            (("scenario", "rnr-storm", "pid=1"), False)):
        status, out, err = usrdma(lab, "fault", *argv)
        check(status == 0 and not err and "1 rule in force" in out, out + err)
        check((f"running programs: rping (pid {server.pid})\n" in out) == concerned, f"{argv}: {out}")
    usrdma(lab, "fault", "clear")
    server.end()


def why_injected_failure_names_rule(lab):
    """The explanation of an injected failure names the rule, at the side where it fired and at the other one."""
    lab.end_daemons()
    usrdma(lab, "fault", "add", "message:drop:prog=none", "access:deny:nth=2")
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-p", port)
    lab.listens_cm(server, port)
    client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-p", port, "-C", 10)
    client.finish(lab.seconds(20), None)
    server.finish(lab.seconds(20), None)
    for pid in (client.pid, server.pid):
        out = usrdma(lab, "why", pid)[1]
        check(re.search(r"^  fault: rule 2 of 'usrdma fault' fired for rping \(pid \d+\) immediately before: ", out,
                        re.M), out)
    report = json.loads(usrdma(lab, "why", client.pid, "--json")[1].splitlines()[0])
    check(report["fault"].startswith("rule 2 of 'usrdma fault' fired"), f"{report}")
    usrdma(lab, "fault", "clear")


def why_dropped_rep_names_rule(lab):
    """A rule makes the daemon drop the REPs. The client's timeout ends first, and its REJ ends the server. The
    explanation of a failure without a rule names none."""
    lab.end_daemons()
    usrdma(lab, "fault", "add", "mad.send:drop:op=REP")
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-p", port)
    lab.listens_cm(server, port)
    client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-p", port, "-C", 1, USRDMA_CM_TIMEOUT="1")
    client.finish(lab.seconds(20), None)
    server.finish(lab.seconds(20), None)
    for pid in (client.pid, server.pid):
        out = usrdma(lab, "why", pid)[1]
        check(out.startswith(f"connection to 127.0.0.1:{port}: the REP is lost: rping (pid {server.pid}) accepted the "
                             "REQ"), out)
        check(f"\n  fault: rule 1 of 'usrdma fault' fired for rping (pid {server.pid}) " in out, out)
        check("\n  do:    check the network with usrdma doctor 127.0.0.1, " in out, out)
    usrdma(lab, "fault", "clear")
    client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-p", lab.port(), "-C", 1)
    client.finish(lab.seconds(20), None)
    out = usrdma(lab, "why", client.pid)[1]
    check("no process listens" in out and "fault:" not in out, out)


def why_port_in_use_names_holder(lab):
    """Another program has UDP port 4791: why names it, and the advice contains what to do."""
    lab.end_daemons()
    laboratory.ip_command(*"ip neigh replace 10.77.0.77 lladdr 02:00:00:00:00:77 dev own0".split())
    port = lab.port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("0.0.0.0", 4791))
        client = lab.start(lab.own("rping"), "-c", "-a", "10.77.0.77", "-p", port, "-C", 1, user=0)
        client.finish(lab.seconds(20), None)
        out = usrdma(lab, "why", client.pid, uid=0)[1]
        check(re.match(rf"rdma_resolve_\w+\(\) to 10.77.0.77:{port} failed: UDP port 4791 of this host, which RoCEv2 "
                       rf"uses, was in use; it belongs to \S+, pid {os.getpid()}\n", out), out)
        check("  do:    end the program that has the port" in out, out)
    lab.end_daemons()


def why_unknown_pid_prints_number_of_failures(lab):
    """A number without a stored failure, while others are stored."""
    lab.end_daemons()
    check(usrdma(lab, "why", 4194304)[1] == "no failure is stored\n", "no failures")
    lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-p", lab.port(), "-C", 1).finish(lab.seconds(20), None)
    out = usrdma(lab, "why", 4194304)[1]
    check(re.fullmatch(r"no failure of 4194304 is stored as a pid or QPN; \d+ others? (is|are): usrdma why --all\n",
                       out), out)


def table_of_top(lab, rows, columns, *options):
    """The lines of a table of `usrdma top` on a terminal of this size."""
    main, end = pty.openpty()
    try:
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        command = [os.path.join(lab.tree, "usrdma"), "top", "--interval", "0.1", *options]
        with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=lab.env) as process:
            try:
                text = b""
                while text.count(CLEAR_SCREEN) < 3:
                    text += read_until(lab, main, b"\n")
                os.write(main, b"q")
                read_until(lab, main, b"\033[?1049l")
            finally:
                process.kill()
    finally:
        os.close(main)
        os.close(end)
    lines = text.split(CLEAR_SCREEN)[2].decode().split("\r\n")
    return [line for line in lines if line]


def top_lines_fit_terminal(lab):
    """No line of a table is longer than the terminal is wide. On a wide one all columns are shown."""
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-C", 10000000, "-p", port)
    lab.listens_cm(server, port)
    client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-C", 10000000, "-p", port)
    wait_until(lambda: len(lab.status()["processes"]) == 2, lab.seconds(10), "two processes")
    for options in ((), ("--qps",), ("--devices",)):
        for rows, columns in ((24, 80), (10, 60), (24, 30), (24, 160)):
            lines = table_of_top(lab, rows, columns, *options)
            check(len(lines) >= 3 and max(map(len, lines)) <= columns, f"{options} {columns}: {lines}")
            check(columns < 60 or "SENT/s" in lines[1], f"{options} {columns}: {lines}")
            check(("RECEIVED/s" in lines[1]) == (columns == 160), f"{options} {columns}: {lines}")
    check(not {"PKTS/s", "DROP/s"} - set(table_of_top(lab, 24, 80)[1].split()), "columns of 80 characters")
    client.end()
    server.end()


def top_without_programs_prints_message(lab):
    lab.end_daemons()
    status, out, err = usrdma(lab, "top", "--interval", "0.1", "--count", "1")
    check(status == 0 and not err and out.splitlines()[1:] == ["no program uses RDMA"], out + err)


def doctor_small_limit_of_files_is_named(lab):
    """The port's finding names the limit and not another program. Without a free descriptor the error is EMFILE."""
    lab.end_daemons()
    status, out, _ = usrdma(lab, "doctor", prefix=("prlimit", "--nofile=64:64"))
    check(status == 1 and "UDP port 4791: the daemon cannot open a socket for each process: Too many open files" in out
          and "It belongs to" not in out and "problem  64 open files at most" in out, out)
    lab.end_daemons()
    status, out, err = usrdma(lab, "doctor", prefix=("prlimit", "--nofile=16:16"))
    check(status == 1 and "Too many open files" in out + err and "Cannot allocate memory" not in out + err, out + err)
    program = lab.start(lab.own("rping"), "-s", "-p", lab.port())
    check("does not serve this program: the daemon has reached its limit of open files" in
          program.finish(lab.seconds(20), None), program.story())
    lab.end_daemons()


def doctor_without_proc_and_dev_names_missing_files(lab):
    """In a root directory without /proc and /dev the findings name the files that are missing."""
    root = os.path.join(lab.scratch, "root")
    os.makedirs(root)
    script = """mount -t tmpfs none "$0" && cd "$0" || exit 9
        for dir in usr lib lib64 bin etc; do
            if [ -L /$dir ]; then cp -P /$dir .; elif [ -d /$dir ]; then mkdir $dir && mount --rbind /$dir $dir; fi
        done
        mkdir -p ".$1" && mount --rbind "$1" ".$1" || exit 9
        chroot . "$1/usrdma" doctor; chroot . "$1/usrdma" run true"""
    lab.end_daemons()
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, root, os.path.realpath(lab.tree)], env=lab.env,
                          capture_output=True, text=True, check=False, timeout=lab.seconds(30))
    for path in ("/proc/self/exe", "/dev/null"):
        check(f"problem  {path}: No such file or directory: " in done.stdout, f"{done}")
    check("cannot open /dev/null: " in done.stderr and "mount /proc" in done.stderr, f"{done}")


def doctor_without_interface_reports_no_device(lab):
    """In a new namespace `lo` is down: this is the only problem that doctor finds."""
    script = '"$0" doctor; "$0" status --json >/dev/null; for pid in $(pidof usrdmad); do [ "$(readlink ' \
             '/proc/$pid/ns/net)" != "$(readlink /proc/self/ns/net)" ] || kill $pid; done'
    done = subprocess.run(["unshare", "-n", "sh", "-c", script, os.path.join(lab.tree, "usrdma")], env=lab.env,
                          capture_output=True, text=True, check=False, timeout=lab.seconds(30))
    check("problem  no device: no interface is up" in done.stdout and "IPv6" not in done.stdout and
          "\n1 problem, " in done.stdout, f"{done}")


def doctor_prints_colours_on_terminals_only(lab):
    """doctor and why use colours on a terminal, unless NO_COLOR is set."""
    check("\033" not in usrdma(lab, "doctor", TERM="xterm")[1], "colours in a pipe")
    for variables, has_colours in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                                   ({"TERM": "dumb"}, False)):
        main, end = pty.openpty()
        with subprocess.Popen([os.path.join(lab.tree, "usrdma"), "doctor"], stdin=end, stdout=end, stderr=end,
                              env=dict(lab.env, **variables)) as process:
            os.close(end)
            text = read_until(lab, main, b" problem")
            process.wait(lab.seconds(10))
        os.close(main)
        check((b"\033[" in text) == has_colours, f"{variables}: {text}")


def status_prints_one_notation_of_qpns(lab):
    """status prints the QPN of a queue pair in the same form with its process and with its connection."""
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-C", 10000000, "-p", port)
    lab.listens_cm(server, port)
    client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-C", 10000000, "-p", port)
    lab.connects(2)
    out = usrdma(lab, "status")[1]
    qpns = re.findall(r"^    qp (0x[0-9a-f]{6}) ", out, re.M)
    for qpn in qpns:
        check(re.search(rf"^  uid .*  qp {qpn}  remote_qp 0x[0-9a-f]{{6}}$", out, re.M), out)
    check(len(qpns) == 2, out)
    client.end()
    server.end()


def status_shows_processes_of_other_users(lab):
    """status shows of another user's process what the daemon reports of it, and no question marks."""
    lab.end_daemons()
    with daemon(lab, uid=0):
        port = lab.port()
        server = lab.start(lab.own("rping"), "-s", "-C", 10000000, "-p", port)
        lab.listens_cm(server, port)
        client = lab.start(lab.own("rping"), "-c", "-a", "127.0.0.1", "-C", 10000000, "-p", port)
        lab.connects(2)
        out = usrdma(lab, "status", uid=OTHER_UID)[1]
        check(f"  pid {client.pid}  uid {UID_NOBODY}\n" in out and "?" not in out, out)
        client.end()
        server.end()


def trace_unknown_object_fails(lab):
    """A process or interface that does not exist is an error. A capture ends with the numbers of events and packets."""
    for argv, text in ((("--pid", 4194304), "no process has the pid 4194304"),
                       (("--device", "nope"), "no network interface has the name 'nope'")):
        status, out, err = usrdma(lab, "trace", "--duration", "0.1", *argv)
        check(status == 1 and not out and text in err, f"{status} {out} {err}")
    path = os.path.join(lab.scratch, "empty.pcapng")
    status, _, err = usrdma(lab, "trace", "--duration", "0.1", "-w", path)
    check(status == 0 and re.search(r"^usrdma: \d+ events?, \d+ packets?$", err, re.M), err)


def body(lab, cases):
    for case in (doctor_and_status_show_fault_rules, fault_prints_rules_and_concerned_programs,
                 why_injected_failure_names_rule, why_dropped_rep_names_rule,
                 why_unknown_pid_prints_number_of_failures, top_lines_fit_terminal,
                 top_without_programs_prints_message, doctor_small_limit_of_files_is_named,
                 doctor_prints_colours_on_terminals_only, status_prints_one_notation_of_qpns,
                 trace_unknown_object_fails):
        cases.run(case.__name__.replace("_", " "), case, lab)
    why_not = None if lab.isolated and lab.drops else "needs root"
    for case in (doctor_reports_daemon_of_another_user, doctor_and_status_show_rules_of_daemons_user,
                 why_port_in_use_names_holder, status_shows_processes_of_other_users,
                 doctor_without_interface_reports_no_device, doctor_without_proc_and_dev_names_missing_files):
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
