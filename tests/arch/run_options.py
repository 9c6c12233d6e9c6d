#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests tests/run: it rejects unknown suites, and prints the progress of a command. The other commands of developers
reject unknown arguments and print help before they build."""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.path.join(ROOT, "tests", "run")


def load():
    """The script as a module."""
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_loader("tests_run", SourceFileLoader("tests_run", RUN))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rejects(*arguments, wanted):
    """The error names the valid suites, before anything is built."""
    done = subprocess.run([sys.executable, RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    assert done.returncode == 2 and not done.stdout, f"{done.returncode} {done.stdout}"
    for text in wanted:
        assert text in done.stderr, f"no '{text}' in: {done.stderr}"


def unknown_suite_is_rejected():
    rejects("nosuch", wanted=["unknown suite 'nosuch'", "suites of build normal: abi api arch", "build clang: tidy"])


def suite_of_another_build_is_rejected():
    rejects("--build", "clang", "unit", wanted=["unknown suite 'unit'", "suites of build clang: tidy"])


def progress_shows_steps_and_time():
    run, out = load(), io.StringIO()
    script = (r"print('[7/531] Compiling C object x', flush=True); "
              r"print(' 9/12 usrdma:unit / base-timer     OK      0.01s', flush=True); input()")
    # The command waits for a line on its standard input. Shown writes this line when the last step has been printed.
    ends, wakes = os.pipe()

    class Shown(io.StringIO):
        """Ends the command when a line has been printed."""

        def write(self, text):
            out.write(text)
            if "9 of 12" in text and not self.closed:
                os.write(wakes, b"\n")
            return len(text)

    stdin = os.dup(0)
    os.dup2(ends, 0)
    try:
        with run.Progress("normal: unit", Shown(), 0.01) as progress:
            status, printed = run.run_shown([sys.executable, "-c", script], progress)
    finally:
        os.dup2(stdin, 0)
    assert status == 0 and printed.startswith("[7/531] "), printed
    assert "normal: unit: 9 of 12, base-timer finished, 0 min " in out.getvalue(), out.getvalue()


def times_name_steps_and_longest_tests():
    run, out = load(), io.StringIO()
    steps = run.Steps()
    steps.end("normal: build")
    steps.end("normal: unit")
    records = [("normal", {"name": f"usrdma:unit / test-{seconds}", "duration": seconds}) for seconds in range(20)]
    with contextlib.redirect_stdout(out):
        run.print_times(steps, records)
    lines = out.getvalue().splitlines()
    assert lines[0] == "time of each step:" and len(lines) == 4, lines
    for line, step in zip(lines[1:], ("normal: build", "normal: unit")):
        assert re.fullmatch(rf" +\d+ s, processors +\d+ % busy: {step}", line), line
    assert lines[3].startswith("longest tests: normal test-19 19 s, normal test-18 18 s, "), lines[3]
    assert lines[3].endswith(", normal test-10 10 s"), lines[3]


def second_run_has_only_the_failed_cases():
    run, asked = load(), []
    first = {"name": "usrdma:interop / interop-rxe", "result": "FAIL", "duration": 200,
             "stdout": "ok 1 - a # 0.1 s\nnot ok 2 - b (1.5 s)\n#   Failure\nok 3 - c # SKIP\n1..3\n"}
    second = {"name": first["name"], "result": "OK", "duration": 2, "stdout": "ok 1 - b (1.5 s) # 2.0 s\n1..1\n"}
    others = [{"name": "usrdma:unit / base-timer", "result": "FAIL", "stdout": "not ok 1 - a\n", "duration": 1},
              {"name": "usrdma:programs / programs-cm", "result": "TIMEOUT", "stdout": "ok 1 - a\n", "duration": 1}]

    def run_meson(name, processes, wanted, shown):
        asked.append((name, processes, wanted, shown))
        return ([second] if wanted[0] == "interop-rxe" else [others.pop(0)]), ""

    run.run_meson = run_meson
    records = [first, *others]
    with contextlib.redirect_stdout(io.StringIO()):
        records, now_passed = run.run_again("normal", records, 3)
    assert now_passed == [first["name"]], now_passed
    assert [run.count(record) for record in records] == [(2, 0, 1), (0, 1, 0), (1, 1, 0)], records
    assert [wanted for _, _, wanted, _ in asked] == [
        ["interop-rxe", "--test-args", r"'^(b\ \(1\.5\ s\))$'"], ["base-timer"], ["programs-cm"]], asked
    # A case that the pattern does not select: the whole program runs.
    whole = dict(second, stdout="ok 1 - a\nok 2 - b (1.5 s)\n1..2\n")
    answers = [dict(second, stdout="1..0\n", result="SKIP"), whole]
    run.run_meson = lambda *_: ([answers.pop(0)], "")
    with contextlib.redirect_stdout(io.StringIO()):
        assert run.run_again("normal", [first], 3) == ([whole], [first["name"]]), answers
    assert run.run_again("normal", [first, *records[1:]], 2) == ([first, *records[1:]], [])


def fuzz_prints_targets():
    for arguments, status in ((["--help"], 0), (["nosuch"], 2), (["cm", "nosuch"], 2)):
        done = subprocess.run([os.path.join(ROOT, "tests", "fuzz", "run"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == status, done.stdout
        assert "targets: capture cell cm cm_msg " in done.stdout, done.stdout


def make_lists_its_goals():
    done = subprocess.run(["make", "-s", "-C", ROOT, "help"], stdout=subprocess.PIPE, text=True, check=True)
    for goal in ("demo", "test", "install", "uninstall", "soak"):
        assert f"make {goal} " in done.stdout, done.stdout


def soak_parts_are_documented():
    """CONTRIBUTING.md has a row for each part."""
    done = subprocess.run([os.path.join(ROOT, "tests", "soak"), "nosuch"], stderr=subprocess.PIPE, text=True,
                          check=False)
    parts = done.stderr.rsplit("known: ", 1)[1].strip().split(", ")
    with open(os.path.join(ROOT, "CONTRIBUTING.md"), encoding="utf-8") as text:
        guide = text.read()
    assert len(parts) > 5, parts
    for part in parts:
        assert f"\n| {part} |" in guide, part


def main():
    cases = [unknown_suite_is_rejected, suite_of_another_build_is_rejected, progress_shows_steps_and_time,
             times_name_steps_and_longest_tests, second_run_has_only_the_failed_cases, fuzz_prints_targets,
             make_lists_its_goals, soak_parts_are_documented]
    print(f"1..{len(cases)}")
    failed = 0
    for number, case in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {case.__name__}")
        except AssertionError as failure:
            failed += 1
            print(f"not ok {number} - {case.__name__}\n# {failure}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
