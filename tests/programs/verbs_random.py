# SPDX-License-Identifier: BSD-2-Clause
"""Pairs of processes exchange random operations of all services in memory of all kinds, and check every byte. At random
times processes are stopped and killed, fault rules are set and cleared, and the daemon is killed. Every error must be
explained by one of these faults.

    USRDMA_VERBS="PAIRS SECONDS [SEED]"    overrides the number of pairs, and runs each transport for this time, with
                                           some short ACK timeouts and a limit for the duration of calls

The seed determines the rounds of the pairs, and the order of the faults. The state of the rounds at the time of a fault
depends on the scheduling of the processes.
"""

import contextlib
import mmap
import os
import random
import signal
import struct
import subprocess
import time

from tests.programs import lab as laboratory
from tests.programs import verbs_random_faults as faults
from tests.programs.lab import LOOPBACK, UID_NOBODY, WIRE, check

PAIRS = 3
ROUNDS = 15
SEED = 4711
# The part of an instrumented build.
SANITIZED_ROUNDS = 8
# Faults that are in force at the same time.
NESTED_MAX = 3

# struct vr_tally.
COUNTS = ("rounds", "broken", "sends", "receives", "writes", "reads", "atomics", "invalidations", "revocations",
          "bytes", "longest call in us")
GROUPS = {"services": ("RC", "RC and SRQ", "UC", "UD", "XRC"),
          "memory": ("aligned", "private", "sealed", "unsealed", "tmpfs", "System V", "disk", "stack"),
          "ends": ("none", "dereg", "rereg", "destroy", "ERR", "RESET")}
PAIRS_MAX = 64
AUDIT_DELAY_NS = 3_000_000_000


class Tally:
    """The counts that the processes share, in a file."""

    def __init__(self, lab):
        self.path = os.path.join(lab.scratch, f"tally-{lab.count()}")
        self.words = len(COUNTS) + sum(map(len, GROUPS.values()))
        size = 8 * (self.words + 2 * PAIRS_MAX)
        with open(self.path, "wb") as file:
            file.truncate(size)
        if lab.drops:
            os.chown(self.path, UID_NOBODY, UID_NOBODY)
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), size)

    def values(self):
        return struct.unpack_from(f"={self.words}Q", self.memory)

    def next_round(self, pair):
        return max(struct.unpack_from("=2Q", self.memory, 8 * (self.words + 2 * pair)))

    def text(self):
        values = list(self.values())
        parts = [f"{name} {values.pop(0)}" for name in COUNTS]
        for group, names in GROUPS.items():
            parts.append(f"{group}: " + ", ".join(f"{name} {values.pop(0)}" for name in names))
        return "; ".join(parts)


class Pair:
    """Two processes. When both have ended, they are started again, until all rounds are done."""

    def __init__(self, soak, number):
        self.soak, self.number, self.run = soak, number, 0
        self.programs = []
        self.is_killed = [False, False]
        self.is_over = False
        self.alone_since = None

    def start(self):
        soak, lab, first = self.soak, self.soak.lab, self.soak.tally.next_round(self.number)
        rounds = soak.rounds and soak.rounds - first
        if soak.is_ending or (soak.rounds and rounds <= 0):
            self.is_over = True
            return
        self.run += 1
        self.is_killed = [False, False]
        self.alone_since = None
        path = os.path.join(lab.scratch, f"pair-{lab.count()}")
        # Half of the pairs have the allocator of `usrdma run`, and half of these have it on one side only.
        self.programs = [
            starter(lab.tool("verbs_random"), side, self.number, soak.seed, self.run, first, rounds, path,
                    soak.device["device"], soak.device["gid"], lab.scratch, soak.tally.path, int(not soak.rounds),
                    native=bool((self.number >> side) & 1), **soak.env)
            for side, starter in enumerate((lab.start, lab.client))]

    def reap(self):
        """Takes the reports when both processes have ended, and starts the next ones."""
        running = [program for program in self.programs if program.running()]
        for side, program in enumerate(self.programs):
            code = program.process.poll()
            by_us = code == -signal.SIGKILL and self.is_killed[side]
            check(code in (None, 0, 3, 4) or by_us, f"pair {self.number}: {program.story()}")
        if running and len(running) < len(self.programs):
            self.alone_since = self.alone_since or time.monotonic()
            check(time.monotonic() - self.alone_since < self.soak.lab.seconds(120),
                  f"pair {self.number} does not end after its peer: {running[0].story()}")
        if running:
            return
        codes = [program.process.returncode for program in self.programs]
        check(codes.count(3) < 2 and (3 not in codes or 4 in codes or any(self.is_killed)),
              f"pair {self.number}: exit statuses {codes}")
        for program in self.programs:
            self.soak.end_program(program)
        self.programs = []
        self.start()


class Soak:
    """All pairs of one transport, and the faults."""

    def __init__(self, lab, seed, transport, env, device, pairs, rounds, seconds):
        self.lab, self.seed, self.transport, self.env, self.device = lab, seed, transport, env, device
        self.rounds, self.seconds = rounds, seconds
        self.dice = random.Random(f"{seed} {transport}")
        self.tally = Tally(lab)
        self.injections = []
        self.offsets = {}  # of programs: how much of the output was read
        self.unaudited = {}  # reports that were not audited yet
        self.counts = {}
        self.is_ending = False
        self.depth = 0  # faults in force
        self.pairs = [Pair(self, number) for number in range(pairs)]
        kind = faults.SHARED if transport == "shared memory" else faults.ROCE
        self.rules = [fault for fault in faults.RULES if fault.transport in (faults.ANY, kind)]

    def take_reports(self, program):
        """Reads the complete lines that the program has written since the last call."""
        with open(program.paths[0], encoding="utf-8") as file:
            file.seek(self.offsets.get(program, 0))
            text = file.read()
        whole = text[:text.rfind("\n") + 1]
        self.offsets[program] = self.offsets.get(program, 0) + len(whole.encode())
        for line in whole.splitlines():
            if line.startswith("@ "):
                report = faults.parse(line)
                self.unaudited.setdefault((report["pair"], report["run"], report["round"]), []).append(report)

    def end_program(self, program):
        self.take_reports(program)
        self.offsets.pop(program, None)
        for path in program.paths:
            os.unlink(path)
        self.lab.started.remove(program)

    def usrdma_fault(self, host, *arguments):
        """Without a daemon the command may fail, and then there are no rules."""
        identity = {"user": UID_NOBODY, "group": UID_NOBODY, "extra_groups": []} if self.lab.drops else {}
        with host:
            subprocess.run([os.path.join(self.lab.tree, "usrdma"), "fault", *arguments], env=self.lab.env, check=False,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=self.lab.seconds(60), **identity)

    def some_host(self):
        return self.dice.choice([contextlib.nullcontext(), self.lab.far]) if self.lab.far else contextlib.nullcontext()

    @contextlib.contextmanager
    def injected(self, fault, pair=None):
        injection = faults.Injection(fault, pair, time.monotonic_ns())
        self.injections.append(injection)
        self.counts[fault.rule] = self.counts.get(fault.rule, 0) + 1
        yield
        injection.end_ns = time.monotonic_ns()

    def some_side(self):
        """A running process: its pair, its side and the program, or None."""
        pair = self.dice.choice(self.pairs)
        side = self.dice.randrange(2)
        if pair.is_over or len(pair.programs) < 2 or not pair.programs[side].running():
            return None
        return pair, side, pair.programs[side]

    def stop(self):
        chosen, seconds = self.some_side(), self.dice.choice((0.01, 0.1, 0.3, 1.5))
        if not chosen:
            return
        pair, _, program = chosen
        with self.injected(faults.STOP, pair.number):
            program.signal(signal.SIGSTOP)
            self.pass_time(seconds)
            program.signal(signal.SIGCONT)

    def kill(self):
        chosen = self.some_side()
        if not chosen:
            return
        pair, side, program = chosen
        with self.injected(faults.KILL, pair.number):
            pair.is_killed[side] = True
            program.signal(signal.SIGKILL)

    def kill_daemon(self):
        with self.some_host():
            pids = self.lab.daemons()
            with self.injected(faults.DAEMON):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                # The processes see it at once, the next daemon starts when one of them opens a device.
                self.pass_time(0.5)

    def rule(self):
        fault = self.dice.choice(self.rules)
        chosen, seconds = self.some_side(), self.dice.choice((0.05, 0.2, 0.5, 1.0))
        host, seed = self.some_host(), self.dice.randrange(1 << 32)
        pair = None
        if "{pid}" in fault.rule:
            if not chosen:
                return
            pair = chosen[0]
            pair.is_killed[chosen[1]] = pair.is_killed[chosen[1]] or fault.ends_process
            # A daemon knows the processes of its own host.
            host = self.lab.far if self.lab.far and chosen[1] else contextlib.nullcontext()
        text = fault.rule.format(dev=self.device["device"], pid=chosen[2].pid if chosen else 0)
        with self.injected(fault, pair.number if pair else None):
            self.usrdma_fault(host, "add", text, "--seed", str(seed))
            self.pass_time(seconds)
            self.usrdma_fault(host, "clear")
            if pair:
                # A daemon that was killed does not continue a process that it has stopped.
                chosen[2].signal(signal.SIGCONT)

    def pass_time(self, seconds):
        """The pairs go on, at times with a second fault. This is the duration of a fault, not a wait for an event."""
        if self.depth < NESTED_MAX and not self.is_ending and self.dice.random() < 0.25:
            self.fault()
        else:
            time.sleep(seconds)

    def fault(self):
        self.depth += 1
        self.dice.choices((self.rule, self.stop, self.kill, self.kill_daemon), (12, 4, 1, 1))[0]()
        self.depth -= 1

    def audit(self):
        """A later report of the peer may explain a report, so a round is audited some time after its last report."""
        for pair in self.pairs:
            for program in pair.programs:
                self.take_reports(program)
        limit = time.monotonic_ns() - AUDIT_DELAY_NS
        due = [key for key, reports in self.unaudited.items()
               if self.is_over() or max(report["to"] for report in reports) < limit]
        texts = []
        for key in due:
            for report in faults.unexplained(self.unaudited.pop(key), self.injections):
                near = [item for item in self.injections if item.is_near(report)]
                texts += [str(report), *(f"    after {item}" for item in near)]
        check(not texts, "reports that no fault explains:\n" + "\n".join(texts))

    def is_over(self):
        return all(pair.is_over for pair in self.pairs)

    def end(self):
        self.is_ending = True
        for pair in self.pairs:
            for program in pair.programs:
                program.signal(signal.SIGTERM)

    def work(self):
        began = time.monotonic()
        for pair in self.pairs:
            pair.start()
        while not self.is_over():
            if self.seconds and not self.is_ending and time.monotonic() - began > self.seconds:
                self.end()
            if self.is_ending or self.dice.random() < 0.3:
                self.pass_time(self.dice.choice((0.02, 0.1)))
            else:
                self.fault()
            for pair in self.pairs:
                if not pair.is_over:
                    pair.reap()
            self.audit()

    def run(self):
        try:
            self.work()
        except laboratory.Failure as failure:
            last = "\n".join(map(str, self.injections[-12:]))
            raise laboratory.Failure(f"seed {self.seed}: {failure}\nthe last faults:\n{last}") from None
        finally:
            print(f"# {self.transport}, seed {self.seed}: {self.tally.text()}", flush=True)
            counts = ", ".join(f"{rule} {count}" for rule, count in sorted(self.counts.items()))
            print(f"# faults: {counts}", flush=True)


def run(lab, *arguments):
    Soak(lab, *arguments).run()
    lab.end_programs()


def body(lab, cases):
    asked = [int(word) for word in os.environ.get("USRDMA_VERBS", "").split()]
    pairs, seconds = asked[:2] if len(asked) >= 2 else (PAIRS, 0)
    seed = asked[2] if len(asked) > 2 else random.randrange(1 << 32) if seconds else SEED
    rounds = 0 if seconds else SANITIZED_ROUNDS if lab.sanitized else ROUNDS
    for transport, env in (("shared memory", {}), ("RoCE v2 on one host", {"USRDMA_TRANSPORT": "roce"})):
        cases.run(f"{transport}, seed {seed}", run, lab, seed, transport, env, LOOPBACK, pairs, rounds, seconds)
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    cases.run(f"two hosts, seed {seed}", run, lab, seed, "two hosts", {}, WIRE, pairs, rounds, seconds)


if __name__ == "__main__":
    laboratory.main(body)
