# SPDX-License-Identifier: BSD-2-Clause
"""Attacks of users on the log of root's daemon, and on the terminal of root, who reads it and lists processes."""

import ctypes
import os
import re
import subprocess

from tests.hostile import kit
from tests.hostile.probes import refused_with, rules_file, set_rules
from tests.programs import wire

# Clears the screen, returns to the start of the line, begins a false line, and reverses the order of the characters.
ESCAPES = b"\x1b[2J\x1b[H\rusrdma: 1 info: all is well \xe2\x80\xae \x9b2J"
ATTEMPTS = 500
# A burst for each cause, and one line in 6 s: a slow machine may need some of these.
LINES_MAX = 100
PR_SET_NAME = 15


def is_printable(text):
    """Whether each character is printable for Python, which excludes controls and format characters."""
    return all(character.isprintable() for line in text.splitlines() for character in line)


def log_of(lab, process):
    """Ends the daemon, which reports the messages that it has not logged, and returns its log."""
    process.terminate()
    process.wait()
    with open(os.path.join(lab.scratch, "daemon.err"), "rb") as log:
        return log.read().decode("utf-8")


def left_out(log, cause):
    """The number of messages that the log of the attacker's uid reports as not logged."""
    return sum(int(n) for n in re.findall(rf"uid {kit.ATTACKER}: {cause}: (\d+) more messages", log))


def sets_invalid_rules():
    connection = wire.Connection(wire.CONTROL)
    answers = {refused_with(set_rules, connection, kit.ATTACKER, rules_file(ESCAPES)) for _ in range(ATTEMPTS)}
    return None, " ".join(answers)


def rules_do_not_fill_the_log(lab):
    with kit.daemon(lab, uid=0) as process, kit.Child(kit.ATTACKER, sets_invalid_rules) as attacker:
        kit.check(attacker.result == "EINVAL", f"the daemon's answers: {attacker.result}")
        log = log_of(lab, process)
    lines = log.count("invalid fault rules")
    kit.check(is_printable(log), f"the log is not printable: {log!r}")
    kit.check(1 <= lines <= LINES_MAX, f"{lines} lines about {ATTEMPTS} invalid rules")
    kit.check(lines + left_out(log, "fault rules") == ATTEMPTS, f"lines are neither logged nor counted: {log!r}")


def sends_invalid_messages():
    for _ in range(ATTEMPTS):
        connection = wire.Connection()
        connection.send(b"malformed")
        connection.hung_up()
        connection.close()
    return None, "sent"


def messages_do_not_fill_the_log(lab):
    with kit.daemon(lab, uid=0) as process, kit.Child(kit.ATTACKER, sends_invalid_messages) as attacker:
        kit.check(attacker.result == "sent", "the attacker failed")
        log = log_of(lab, process)
    lines = log.count("sent an invalid message")
    kit.check(1 <= lines <= LINES_MAX, f"{lines} lines about {ATTEMPTS} invalid messages")
    kit.check(lines + left_out(log, "invalid messages") == ATTEMPTS, f"lines are neither logged nor counted: {log!r}")


def has_an_unprintable_name():
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"\x1b[2J\r\xe2\x80\xae", 0, 0, 0)
    return wire.Engine(), "ready"


def output_of(lab, *arguments):
    return subprocess.run([lab.tree + "/usrdma", *arguments], env=lab.env, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=lab.seconds(20)).stdout.decode("utf-8")


def names_are_shown_without_escapes(lab):
    with kit.daemon(lab, uid=0), kit.Child(kit.ATTACKER, has_an_unprintable_name) as attacker:
        kit.check(attacker.result == "ready", "the attacker failed")
        for command in (("status",), ("status", "--json"), ("status", "--prometheus"),
                        ("top", "--count", "1"), ("top", "--json", "--count", "1"), ("why",), ("why", "--json"),
                        ("report", "-o", "-")):
            text = output_of(lab, *command)
            kit.check(is_printable(text) and "\\u001b" not in text, f"usrdma {' '.join(command)}: {text!r}")
        kit.check("?[2J????" in output_of(lab, "top", "--count", "1"), "the program is not listed")


def body(lab, cases):
    for case in (rules_do_not_fill_the_log, messages_do_not_fill_the_log, names_are_shown_without_escapes):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
