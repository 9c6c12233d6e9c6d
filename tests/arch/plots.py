#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The plots of `make bench` have a title, the machine and the date of the measurement, and the programs behind each
line."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Debian installs matplotlib for this interpreter, as for bench/plot.
PYTHON = "/usr/bin/python3"
HOST = "example: 2 processors, 2026-01-01"
WANTED = ("Latency between two processes of one host", HOST, "TCP: sockets over loopback")


def draw(folder):
    """Draws points, and returns the plot of the latencies."""
    points = os.path.join(folder, "points.csv")
    with open(points, "w", encoding="ascii") as file:
        file.write("operation,quantity,implementation,bytes,value\n")
        file.writelines(f'{operation},"{quantity}",usrdma,{size},{size}.5\n' for operation in ("WRITE", "SEND", "READ")
                        for quantity in ("latency, us", "bandwidth, GB/s") for size in (2, 8))
    with open(os.path.join(folder, "host.txt"), "w", encoding="ascii") as file:
        file.write(HOST + "\n")
    subprocess.run([PYTHON, "-B", "-m", "bench.plot", "--draw", points, os.path.join(folder, "out")], cwd=ROOT,
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "out", "latency.svg"), encoding="utf-8") as file:
        return file.read()


def main():
    print("1..1")
    name = "plots_have_title_host_date_and_programs"
    if subprocess.run([PYTHON, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, check=False).returncode:
        print(f"ok 1 - {name} # SKIP no matplotlib")
        return 0
    with tempfile.TemporaryDirectory(prefix="usrdma-test-") as folder:
        text = draw(folder)
    missing = [wanted for wanted in WANTED if wanted not in text]
    print(f"{'not ok' if missing else 'ok'} 1 - {name}" + "".join(f"\n# no '{text}'" for text in missing))
    return len(missing)


if __name__ == "__main__":
    sys.exit(main())
