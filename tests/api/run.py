# SPDX-License-Identifier: BSD-2-Clause
"""Runs one API test program as user nobody, in a network namespace of its own, with the libraries of this build.

    python3 -m tests.api.run PROGRAM [--seconds SECONDS] [--transport NAME] [--domains] [--as-caller] [--root-daemon]
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

from tests.programs import daemon_kit
from tests.programs import lab as laboratory


def serve(listener, act):
    while True:
        asked, _ = listener.accept()
        with asked:
            asked.send(b"done" if act(asked.recv(200).decode("ascii")) else b"failed")


def offer(lab, variable, act):
    """Sets this variable to the path of a socket that accepts one line for act() in each connection, and replies when
    act() has returned."""
    path = os.path.join(lab.scratch, variable)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen()
    threading.Thread(target=serve, args=(listener, act), daemon=True).start()
    lab.env[variable] = path


def run_ip(arguments):
    """Runs `ip` for the program, which may not change the namespace that was created for it."""
    return subprocess.run(["ip"] + arguments.split(), stdin=subprocess.DEVNULL, check=False).returncode == 0


def send_signal(daemon, name):
    """Sends a signal for the program to a daemon of another user, which the program may not do."""
    daemon.send_signal(signal.Signals[name])
    return True


def run(lab, path, seconds):
    """Returns the program's exit status, after its output was printed."""
    program = lab.start(path if lab.tree == laboratory.BUILD else lab.copy(path), native=True)
    try:
        program.finish(seconds, None)
    except laboratory.Failure as failure:
        print(f"not ok - {os.path.basename(path)}: {failure}")
        return 1
    print(program.output(), end="")
    return program.process.returncode if program.process.returncode >= 0 else 128 - program.process.returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--transport", help="the one that its queue pairs are to use")
    parser.add_argument("--domains", action="store_true", help="queue pairs of thread domains, with locks of their own")
    parser.add_argument("--as-caller", action="store_true", help="not as nobody: for tests of several users")
    parser.add_argument("--root-daemon", action="store_true",
                        help="with a daemon of root's: skipped where there is no root")
    args = parser.parse_args()
    path = os.path.abspath(args.program)
    lab = laboratory.Lab()
    lab.drops = lab.drops and not args.as_caller
    seconds = lab.seconds(args.seconds)
    if args.transport:
        lab.env["USRDMA_TRANSPORT"] = args.transport
    if args.domains:
        lab.env["USRDMA_TEST_DOMAINS"] = "1"
    # The program itself is linked with the sanitizer, so nothing has to be preloaded, and its leaks are reported.
    lab.env.pop("LD_PRELOAD", None)
    lab.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "")
    lab.env.update({name: os.environ[name] for name in os.environ if name.startswith("USRDMA_CHURN")})
    lab.env["LD_LIBRARY_PATH"] = os.path.join(lab.tree, "lib")
    lab.env["CMOCKA_MESSAGE_OUTPUT"] = os.environ.get("CMOCKA_MESSAGE_OUTPUT", "STDOUT")
    if lab.isolated:
        offer(lab, "USRDMA_TEST_IP", run_ip)
    if args.root_daemon and not lab.drops:
        print("1..0 # SKIP only root can start a daemon of root's for another user")
        lab.close()
        return 0
    daemon = daemon_kit.daemon(lab, uid=0) if args.root_daemon else contextlib.nullcontext()
    try:
        with daemon as process:
            if process:
                offer(lab, "USRDMA_TEST_SIGNAL", lambda name: send_signal(process, name))
            return run(lab, path, seconds)
    finally:
        lab.close()


if __name__ == "__main__":
    sys.exit(main())
