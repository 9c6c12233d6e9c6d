# SPDX-License-Identifier: BSD-2-Clause
"""Checks that a process survives when a peer of the same user truncates the file of the peer's memory region, and that
other files of a process do not matter to its peers."""

import os
import signal
import subprocess

from tests.hostile import fuse, kit
from tests.hostile.late_access import free_huge_bytes

HANDLERS = ("none", "before", "after", "blocked", "fork")
HUGE_BYTES = 8 << 20


def survives(lab, kind, handler, rounds):
    path = kit.attack_program(lab, "cut_file")
    program = kit.start_as(lab, kit.VICTIM, path, "10.77.0.1", kind, handler, str(rounds))
    program.finish(lab.seconds(30))


def passes_a_file_without_attributes(lab, folder):
    """Runs the program with an inherited descriptor whose fstat() blocks."""
    def run():
        try:
            file = fuse.HangingFile(folder, silent=fuse.GETATTR)
        except (PermissionError, FileNotFoundError) as why:
            return None, f"not possible: {why}"
        argv = [*lab.command(), kit.attack_program(lab, "cut_file"), "10.77.0.1", "unsealed", "none", "1"]
        # Not subprocess.run(): processes that wait for the file system cannot be killed while this one serves it.
        with open(os.path.join(folder, "output"), "w+b") as output:
            program = subprocess.Popen(argv, env=lab.env, pass_fds=(file.fd,), stdout=output, stderr=output,
                                       start_new_session=True)
            try:
                program.wait(lab.seconds(30))
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                return None, "the program hangs"
            finally:
                os.close(file.fd)
            output.seek(0)
            return None, output.read(900).decode()
    return run


def survives_beside_a_hanging_file(lab):
    """The owner of the memory passes its descriptor to the peer. It examines its descriptors to find it."""
    folder = os.path.join(lab.scratch, "hanging")
    os.mkdir(folder, 0o700)
    os.chown(folder, kit.VICTIM, kit.VICTIM)
    with kit.Child(kit.VICTIM, passes_a_file_without_attributes(lab, folder)) as victim:
        if victim.result.startswith("not possible"):
            print(f"# not tried: a user cannot mount a file system here: {victim.result}")
            return
        kit.check("the peers survived" in victim.result, victim.result)


def body(lab, suite):
    if not lab.isolated:
        suite.skip("truncated files", "no network namespace")
        return
    for handler in HANDLERS:
        suite.run(f"truncated memfd, peer with SIGBUS handler: {handler}", survives, lab, "unsealed", handler, 3)
    suite.run("truncated memfd beside a file whose fstat() blocks", survives_beside_a_hanging_file, lab)
    suite.run("truncated file of tmpfs", survives, lab, "tmpfs", "none", 3)
    if free_huge_bytes() < HUGE_BYTES:
        suite.skip("truncated huge pages", "the kernel has no free huge pages")
    else:
        suite.run("truncated huge pages", survives, lab, "huge", "none", 3)


if __name__ == "__main__":
    kit.main(body)
