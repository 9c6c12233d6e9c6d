# SPDX-License-Identifier: BSD-2-Clause
"""Processes that connect, reject, send, disconnect and exit at random. Afterwards no object of them remains.

    USRDMA_STORM="PROCESSES SECONDS [SEED]"    overrides the size of the suite's storm, or repeats one that failed
"""

import os
import random
import re
import signal

from tests.programs import lab as laboratory
from tests.programs.daemon_kit import is_listening
from tests.programs.lab import check, wait_until

PROCESSES = 30
SECONDS = 6

# The first port of the processes. These are rdma_cm ports and do not conflict with ports of the kernel's sockets.
FIRST_PORT = 10000

# Memory that allocators may keep after the processes ended; a leak of one structure for each connection would exceed
# it.
GROWTH_KIB = 2048


def holdings(pid):
    """Returns the numbers of descriptors, mapped memfds and threads of a process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        memfds = sum("memfd:" in line for line in maps)
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "mapped memfds": memfds,
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def resident_kib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def leftovers(lab):
    """Returns the objects that the daemon still has for ended processes."""
    status = lab.status()
    check(status, "the daemon does not answer")
    cm = status["cm"]
    known = {name: cm[name] for name in ("ids", "channels", "cm_connections", "cm_resolutions")}
    known.update({name: len(status[name]) for name in ("processes", "listeners", "connections", "multicast_joins")})
    # The status request itself is a session.
    known["sessions"] = status["daemon"]["sessions"] - 1
    return {name: number for name, number in known.items() if number}


def expect_nothing(lab):
    try:
        wait_until(lambda: not leftovers(lab), lab.seconds(30), "the end of all that was")
    except laboratory.Failure as failure:
        raise laboratory.Failure(f"{failure}; left are {leftovers(lab)}") from None


def expect_holdings(lab, daemon, before):
    """The session of the last report may not have ended yet."""
    try:
        wait_until(lambda: holdings(daemon.pid) == before, lab.seconds(10), "the descriptors' end")
    except laboratory.Failure as failure:
        raise laboratory.Failure(f"{failure}; the daemon held {before}, now {holdings(daemon.pid)}") from None


def blow(lab, processes, seconds, seed):
    """Runs one storm; returns the counters of its processes."""
    storm = lab.start(lab.tool("storm"), "127.0.0.1", FIRST_PORT, processes, seconds, seed)
    text = storm.finish(seconds + lab.seconds(90))
    found = re.search(r"processes .*", text)
    check(found, f"no count: {storm.story()}")
    print(f"# seed {seed}: {found[0]}", flush=True)
    return {name: int(number) for name, number in re.findall(r"([a-z]+) (\d+)", found[0])}


def segments():
    """The shared memory of ours that has a name."""
    return sorted(name for name in os.listdir("/dev/shm") if "usrdma" in name)


def storm(lab, processes, seconds, seed):
    daemon = lab.start(os.path.join(lab.tree, "usrdmad"), "--foreground", "--idle-seconds", "0", native=True)
    # If no daemon listens, `usrdma status` starts one. The daemon listens before it has opened its UDP sockets.
    wait_until(is_listening, lab.seconds(10), "the daemon")
    wait_until(lab.status, lab.seconds(10), "the daemon's report")
    segments_before = segments()
    before = holdings(daemon.pid)
    kib = None
    # The first part lasts long enough for the allocator to reach its usual size on a busy machine.
    for part in (max(1, seconds // 2), seconds):
        counts = blow(lab, processes, part, seed)
        expect_nothing(lab)
        expect_holdings(lab, daemon, before)
        check(daemon.running(), daemon.story())
        if kib is None:
            kib = resident_kib(daemon.pid)
    check(counts["established"] >= processes and counts["rejected"] and counts["killed"] and counts["messages"],
          f"too calm: {counts}")
    if not lab.sanitized:
        check(resident_kib(daemon.pid) - kib <= GROWTH_KIB,
              f"the daemon grew from {kib} to {resident_kib(daemon.pid)} KiB")
    check(segments() == segments_before, f"in /dev/shm: {segments()}")
    # The daemon serves the next program.
    check("PORT_ACTIVE" in lab.start("ibv_devinfo").finish(lab.seconds(20)), "no devices")
    daemon.signal(signal.SIGTERM)
    daemon.finish(lab.seconds(20))


def body(lab, cases):
    asked = [int(word) for word in os.environ.get("USRDMA_STORM", "").split()]
    processes, seconds = asked[:2] if len(asked) >= 2 else (PROCESSES // (2 if lab.sanitized else 1), SECONDS)
    seed = asked[2] if len(asked) > 2 else random.randrange(1 << 32)
    cases.run(f"storm of {processes} processes for {seconds} s, seed {seed}", storm, lab, processes, seconds, seed)


if __name__ == "__main__":
    laboratory.main(body)
