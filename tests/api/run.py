#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs one API test program as user nobody, in a network namespace of its own, on the libraries of this build.

    tests/api/run.py PROGRAM [--seconds SECONDS] [--transport NAME] [--as-caller]
"""

import argparse
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import lab as laboratory  # noqa: E402  pylint: disable=wrong-import-position


def serve_ip(listener):
    """Runs `ip` for the program, which has no right to change the namespace that was made for it."""
    while True:
        asked, _ = listener.accept()
        with asked:
            command = ["ip"] + asked.recv(200).decode("ascii").split()
            done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
            asked.send(b"done" if done.returncode == 0 else b"failed")


def offer_ip(lab):
    """USRDMA_TEST_IP: the socket that takes one line for `ip` a connection, and answers when it is done."""
    path = os.path.join(lab.scratch, "ip")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen()
    threading.Thread(target=serve_ip, args=(listener,), daemon=True).start()
    lab.env["USRDMA_TEST_IP"] = path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--transport", help="the one that its queue pairs are to use")
    parser.add_argument("--as-caller", action="store_true", help="not as nobody: for tests of several users")
    args = parser.parse_args()
    path = os.path.abspath(args.program)
    lab = laboratory.Lab()
    lab.drops = lab.drops and not args.as_caller
    seconds = lab.seconds(args.seconds)
    if args.transport:
        lab.env["USRDMA_TRANSPORT"] = args.transport
    # The program was built with the sanitizer, if there is one: nothing to load first, and its leaks are ours.
    lab.env.pop("LD_PRELOAD", None)
    lab.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "")
    lab.env.update({name: os.environ[name] for name in os.environ if name.startswith("USRDMA_CHURN")})
    lab.env["LD_LIBRARY_PATH"] = os.path.join(lab.tree, "lib")
    lab.env["CMOCKA_MESSAGE_OUTPUT"] = os.environ.get("CMOCKA_MESSAGE_OUTPUT", "STDOUT")
    if lab.isolated:
        offer_ip(lab)
    try:
        program = lab.start(path if lab.tree == laboratory.BUILD else lab.copy(path), native=True)
        try:
            program.finish(seconds, None)
        except laboratory.Failure as failure:
            print(f"not ok - {os.path.basename(path)}: {failure}")
            return 1
        print(program.output(), end="")
        return program.process.returncode if program.process.returncode >= 0 else 128 - program.process.returncode
    finally:
        lab.close()


if __name__ == "__main__":
    sys.exit(main())
