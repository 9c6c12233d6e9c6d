# SPDX-License-Identifier: BSD-2-Clause
"""Tests the help of the command `usrdma`, the words of the completion of shells, and the colours of its output."""

import os
import pty
import re
import shutil
import subprocess

from tests.programs import lab as laboratory
from tests.programs.command_kit import read_until, usrdma
from tests.programs.lab import UID_NOBODY, check

ACTIONS = {"fault": {"list", "set", "add", "clear", "scenario"}}


def words_after(lab, *words):
    status, out, err = usrdma(lab, "completion", *words)
    check(status == 0 and not err, err)
    return out.split()


def help_and_completion(lab):
    """The help of each command has an example. The completion offers each command, and each option and action of its
    usage; after an option with a value of the user it offers no option, so that shells offer files."""
    commands = [word for word in words_after(lab) if word != "help" and word not in os.listdir(f"{lab.tree}/tools")]
    described = re.findall(r"^  usrdma ([a-z]+)", usrdma(lab, "--help")[1], re.M)
    check(set(commands) == set(described) - {"help"} and "report" in commands, f"{commands} {described}")
    check(set(commands) < set(words_after(lab, "help")), "usrdma help COMMAND is not completed")
    for name in commands:
        text = usrdma(lab, name, "--help")[1]
        usage = "".join(line for line in text.splitlines(True) if re.match(r" {2}usrdma | {9,}", line))
        examples = re.search(r"^Examples:\n((?:  .+\n)+)\Z", text, re.M)
        check(examples and all(f"usrdma {name}" in line for line in examples[1].splitlines()), text)
        usage = usage.removesuffix(examples[1]).replace("OPTION OF run", "--device --profile --config")
        words = words_after(lab, name)
        options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage))
        check(options | ACTIONS.get(name, set()) <= set(words), f"{name}: {words}\n{usage}")
        for option in re.findall(r"(?<![\w-])(--?[a-z][a-z-]*) (?=[A-Z])", usage):
            check(option == "-k" or not any(word.startswith("-") for word in words_after(lab, name, option)),
                  f"{name} {option}: {words_after(lab, name, option)}")
    check("connectx-6" in words_after(lab, "run", "--profile"), "no profile")
    check(words_after(lab, "env", "--format") == ["shell", "dockerfile", "github"], "formats")
    check(not words_after(lab, "run", "--", "ls") and not words_after(lab, "fault", "set"), "words of the user")


def colours(lab):
    """doctor and why print escape sequences on a terminal only, and not if NO_COLOR is set."""
    for env, has_colours in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                             ({"TERM": "xterm", "NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)):
        own, its = pty.openpty()
        done = subprocess.run([os.path.join(lab.tree, "usrdma"), "doctor"], env=dict(lab.env, **env), stdout=its,
                              stderr=its, stdin=subprocess.DEVNULL, check=False, timeout=lab.seconds(30),
                              **({"user": UID_NOBODY, "group": UID_NOBODY, "extra_groups": []}
                                 if lab.drops else {}))
        os.close(its)
        printed = read_until(lab, own, b"warnings")
        os.close(own)
        check(done.returncode in (0, 1) and (b"\033[" in printed) == has_colours, f"{env}: {printed}")
    check("\033" not in usrdma(lab, "doctor", TERM="xterm")[1], "escape sequences in a pipe")


def missing_tools(lab):
    """Without the package of the tools, each tool is named with the package that has it."""
    prefix = os.path.join(lab.scratch, "prefix")
    for folder, names in (("bin", ("usrdma",)), ("lib/usrdma", ("lib/libibverbs.so.1", "lib/librdmacm.so.1",
                                                                "lib/libusrdma-sysfs.so"))):
        os.makedirs(os.path.join(prefix, folder))
        for name in names:
            shutil.copy(os.path.join(lab.tree, name), os.path.join(prefix, folder))
    path = os.path.join(prefix, "bin", "usrdma")
    tools = [name for name in os.listdir(os.path.join(lab.tree, "tools"))
             if os.path.isfile(os.path.join(lab.tree, "tools", name)) and name != "cm-reach"]
    check("rping" in tools, f"{tools}")
    for name in tools:
        for argv in ((name, "-s"), ("run", "--", name)):
            status, out, err = usrdma(lab, *argv, path=path, PATH="/nonexistent")
            check(status == 127 and not out and
                  err == f"usrdma: the tool '{name}' is not installed: install the package usrdma-tools\n", err)
    check(usrdma(lab, "rpink", path=path)[0] == 2, "a name that is no tool")


def body(lab, cases):
    for case in (help_and_completion, colours, missing_tools):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
