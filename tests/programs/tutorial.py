# SPDX-License-Identifier: BSD-2-Clause
"""Executes the commands of docs/tutorial.md in their order, with an installed tree, and compares what they print with
the page. Blocks of the language "sh" are executed without a comparison. "server$" is a terminal of its own: its command
ends after the next command of "client$"."""

import contextlib
import os
import pty
import re
import shutil
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import BUILD, SOURCE, check, wait_until

PAGE = os.path.join(SOURCE, "docs", "tutorial.md")
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.M | re.S)
PROMPT = re.compile(r"(server|client)?\$ (.*)")
# What differs between two runs.
VOLATILE = re.compile(r"0x[0-9a-f]+|fe80::[0-9a-f:]+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+|"
                      r"(?:(?<=pid )|(?<=uid )|(?<=guid )|(?<=version )|(?<=clients ))[\w.]+")


class Terminal:
    """A program on a terminal of its own, and what it prints."""

    def __init__(self, home, command):
        self.master, slave = pty.openpty()
        self.command = command
        self.process = subprocess.Popen(["bash", "-c", command], stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True, cwd=home.source, env=home.env, **home.identity)
        os.close(slave)

    def finish(self):
        """Reads until the program has ended. Returns the lines."""
        text = b""
        with contextlib.suppress(OSError):
            while part := os.read(self.master, 65536):
                text += part
        os.close(self.master)
        self.process.wait()
        return text.decode(errors="replace").replace("\r", "").splitlines()


class Home:
    """The home directory of a user who has installed usrdma, and a directory with the source code."""

    def __init__(self, lab):
        self.path = os.path.join(lab.scratch, "home")
        self.source = os.path.join(lab.scratch, "source")
        shutil.copytree(os.path.join(SOURCE, "docs", "tutorial"), os.path.join(self.source, "docs", "tutorial"))
        os.mkdir(self.path)
        self.identity = {}
        if lab.drops:
            self.identity = {"user": laboratory.UID_NOBODY, "group": laboratory.UID_NOBODY, "extra_groups": []}
            os.chown(self.path, laboratory.UID_NOBODY, laboratory.UID_NOBODY)
        self.env = dict(lab.env, HOME=self.path, NO_COLOR="1")
        # What "cd" and "export" have changed in the shells of the reader.
        self.shell = ""

    def install(self, lab):
        """As `make install PREFIX=$HOME/.local`, without another build."""
        staging = os.path.join(lab.scratch, "staging")
        subprocess.run(["meson", "install", "--quiet", "-C", BUILD, "--no-rebuild", "--destdir", staging], check=True,
                       stdout=subprocess.DEVNULL)
        prefix, = (where for where, folders, _ in os.walk(staging) if "libexec" in folders and "bin" in folders)
        os.symlink(prefix, os.path.join(self.path, ".local"))
        for name in ("libibverbs.pc", "librdmacm.pc"):
            path = os.path.join(prefix, "lib", "pkgconfig", "usrdma", name)
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"(?m)^prefix=.*$", f"prefix={self.path}/.local", file.read())
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def start(self, command):
        if command.startswith(("cd ", "export ")):
            self.shell += command + "\n"
            command = "true"
        return Terminal(self, f"{self.shell}{command}")


def steps(text):
    """Pairs of a prompt and a command with the lines that it prints; None as lines: not compared."""
    found = []
    for language, block in BLOCK.findall(text):
        for line in block.splitlines():
            prompt = PROMPT.fullmatch(line) if language == "console" else None
            if language == "sh":
                found.append((None, re.sub(r"\s{2,}#.*", "", line), None))
            elif prompt:
                found.append((prompt[1], prompt[2], []))
            else:
                found[-1][2].append(line)
    return found


def stable(line):
    return VOLATILE.sub("?", line).rstrip()


def compare(command, wanted, lines):
    """A line "..." of the page stands for any number of lines. An empty line at the end is not shown."""
    while lines and not lines[-1]:
        lines.pop()
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(stable(line)) + r"\n" for line in wanted)
    check(re.fullmatch(pattern, "".join(stable(line) + "\n" for line in lines)),
          "\n".join([f"{command} prints:", *lines, "docs/tutorial.md has:", *wanted]))


def listens(lab):
    return any(laboratory.listening_ports(lab.status()))


def commands_print_what_the_page_shows(lab, home):
    with open(PAGE, encoding="utf-8") as file:
        found = steps(file.read())
    check(len(found) > 15, f"only {len(found)} commands")
    server = None
    for place, command, wanted in found:
        if command.startswith("make install "):
            home.install(lab)
            continue
        terminal = home.start(command)
        if place == "server":
            server = terminal, wanted
            wait_until(lambda: listens(lab), lab.seconds(20), f"the listener of {command}")
            continue
        lines = terminal.finish()
        if isinstance(wanted, list):
            compare(command, wanted, lines)
        else:
            check(terminal.process.returncode == 0, f"{command}: {lines}")
        if place == "client":
            compare(server[0].command.splitlines()[-1], server[1], server[0].finish())


def diagram_shows_the_steps_of_the_page(home):
    with open(os.path.join(home.path, "tutorial", "connection.html"), encoding="utf-8") as file:
        text = file.read()
    for word in ("<svg", "REQ", "REP", "RTU", "RDMA WRITE", "SEND", "DREQ", "DREP"):
        check(word in text, f"the diagram contains no {word}")


def listings_are_parts_of_the_programs(lab):
    """The parts of C code on the page are those of the programs."""
    with open(PAGE, encoding="utf-8") as file:
        parts = re.findall(r"^```c\n(.*?)^```$", file.read(), re.M | re.S)
    code = ""
    for name in ("tutorial.h", "server.c", "client.c"):
        with open(os.path.join(SOURCE, "docs", "tutorial", name), encoding="utf-8") as file:
            code += file.read()
    check(len(parts) > 3, f"{len(parts)} parts")
    for part in parts:
        check(part in code, f"not in the programs: {part}")


def body(lab, cases):
    home = Home(lab)
    lab.end_daemons()
    cases.run("the commands print what the page shows", commands_print_what_the_page_shows, lab, home)
    cases.run("the diagram shows the steps of the page", diagram_shows_the_steps_of_the_page, home)
    cases.run("the listings are parts of the programs", listings_are_parts_of_the_programs, lab)


if __name__ == "__main__":
    laboratory.main(body)
