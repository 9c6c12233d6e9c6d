# SPDX-License-Identifier: BSD-2-Clause
"""Threads that wait for completions in all ways that the API permits, and change it at random: no event is lost.

    USRDMA_WAITS="RUNS SECONDS [SEED]"    overrides the runs of each case and their duration, or repeats failed ones
"""

import os
import random

from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, WIRE

RUNS = 4
SECONDS = 1


def one_run(lab, address, seconds, seed, env):
    """One process serves one or two others, each with some threads."""
    dice = random.Random(seed)
    connections, drivers, port = dice.randint(1, 4), dice.randint(1, 2), lab.port()
    server = lab.start(lab.tool("waits"), "serve", address, port, connections * drivers, seconds, seed, **env)
    lab.listens_cm(server, port)
    clients = [lab.client(lab.tool("waits"), "drive", address, port, connections, seconds, seed + number + 1, **env)
               for number in range(drivers)]
    for program in (*clients, server):
        program.finish(seconds + lab.seconds(60))


def run_all(lab, address, runs, seconds, seed, env):
    for number in range(runs):
        try:
            one_run(lab, address, seconds, seed + number, env)
        except laboratory.Failure as failure:
            raise laboratory.Failure(f"seed {seed + number}: {failure}") from None


def body(lab, cases):
    asked = [int(word) for word in os.environ.get("USRDMA_WAITS", "").split()]
    runs, seconds = asked[:2] if len(asked) >= 2 else (RUNS, SECONDS)
    seed = asked[2] if len(asked) > 2 else random.randrange(1 << 32)
    cases.run(f"shared memory, seed {seed}", run_all, lab, LOOPBACK["ip4"], runs, seconds, seed, {})
    cases.run(f"RoCEv2 on one host, seed {seed}", run_all, lab, LOOPBACK["ip4"], runs, seconds, seed,
              {"USRDMA_TRANSPORT": "roce"})
    if not lab.isolated:
        cases.skip("two hosts", "no right to make a network namespace")
        return
    lab.add_host()
    cases.run(f"two hosts, seed {seed}", run_all, lab, WIRE["ip4"], runs, seconds, seed, {})


if __name__ == "__main__":
    laboratory.main(body)
