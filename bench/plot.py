# SPDX-License-Identifier: BSD-2-Clause
"""Draws latency and bandwidth over the size of the message as SVG.

    bench/plot [DIRECTORY]      measures, writes points.csv, host.txt, latency.svg and bandwidth.svg;
                                default build/plots
    bench/plot --draw CSV DIRECTORY     draws the points of an earlier run
"""

import csv
import datetime
import os
import platform
import re
import sys

import matplotlib
from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from bench.pairs import BUILD
from bench.sweep import BANDWIDTH, LATENCY, OPERATIONS, OURS_NAME, SIZES, TCP_NAME, UCX_NAME, sweep

# Beside points.csv: the machine and the date.
HOST_FILE = "host.txt"
# Colour and marker. The colours have contrast to white and to black.
STYLES = {OURS_NAME: ("#1f7fe0", "o"), UCX_NAME: ("#d9730d", "s"), TCP_NAME: ("#8a63d2", "^")}
# matplotlib writes one colour for text and axes and one for the background. The style sheet replaces them.
INK, PAPER = "#010203", "#fdfcfb"
STYLE_SHEET = """<style>
svg{color:#1f2328}.paper{fill:#ffffff}
@media (prefers-color-scheme: dark){svg{color:#e6edf3}.paper{fill:#0d1117}}
</style>
"""


# What the lines are; bench/sweep.py has the programs.
EXPLANATION = ("usrdma: perftest. UCX posix: ucx_perftest over shared memory. TCP: sockets over loopback; WRITE and "
               "SEND: qperf, a message in one direction; READ: a request of 64 B and a reply of the size (bench-rpc).")


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def value_name(value, _position=None):
    return f"{value:g}" if value < 10000 else f"{value:.0f}"


def draw_panel(axes, points, operation, quantity):
    for name, (colour, marker) in STYLES.items():
        line = sorted((size, value) for what, of, whose, size, value in points
                      if (what, of, whose) == (operation, quantity, name))
        axes.plot(*zip(*line, strict=True) if line else ([], []), color=colour, marker=marker, markersize=5,
                  linewidth=1.8, label=name)
    axes.set_title(operation)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(SIZES[::2] + SIZES[-1:]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_name(int(size))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(value_name))
    axes.tick_params(axis="x", rotation=40)
    axes.grid(True, color=INK, alpha=0.15, linewidth=0.8)
    axes.set_xlabel("message size")


def described_host():
    """This machine and the date of the measurement, for the caption of the plots."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
                     platform.machine())
    return (f"{platform.node()}: {os.cpu_count()} processors, {model}, Linux {platform.release()}, load "
            f"{os.getloadavg()[0]:.1f} at the start, {datetime.date.today()}")


def draw(points, quantity, path, host):
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "bench", "font.family": "sans-serif", "font.size": 11,
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
        "axes.facecolor": PAPER, "figure.facecolor": PAPER, "savefig.facecolor": PAPER, "legend.framealpha": 0})
    figure, panels = pyplot.subplots(1, len(OPERATIONS), figsize=(14, 4.8), sharey=True, layout="constrained")
    for axes, operation in zip(panels, OPERATIONS, strict=True):
        draw_panel(axes, points, operation, quantity)
    kind, unit = quantity.split(", ")
    caption = f"{host}\n{EXPLANATION}"
    panels[0].set_ylabel(f"{kind} ({unit.replace('us', 'µs')})")
    panels[0].legend(loc="upper left")
    figure.suptitle(f"{kind.capitalize()} between two processes of one host")
    figure.supxlabel(caption, fontsize=9, x=0.01, ha="left")
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(f'style="fill: {PAPER}[^"]*"', 'class="paper"', text).replace(INK, "currentColor")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("<defs>", STYLE_SHEET + "<defs>", 1))


def read_points(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [(what, of, whose, int(size), float(value)) for what, of, whose, size, value in rows]


def read_host(source):
    """The description of the host that measured these points, from the file beside them."""
    path = os.path.join(os.path.dirname(source), HOST_FILE)
    if not os.path.exists(path):
        return "unknown host and date"
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def write_points(points, path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("operation", "quantity", "implementation", "bytes", "value"), *points])


def main():
    if sys.argv[1:2] == ["--draw"]:
        source, directory = sys.argv[2:]
        points, host = read_points(source), read_host(source)
    else:
        directory = sys.argv[1] if sys.argv[1:] else os.path.join(BUILD, "plots")
        host = described_host()
        points = sweep()
    os.makedirs(directory, exist_ok=True)
    write_points(points, os.path.join(directory, "points.csv"))
    with open(os.path.join(directory, HOST_FILE), "w", encoding="utf-8") as file:
        print(host, file=file)
    for quantity in (LATENCY, BANDWIDTH):
        path = os.path.join(directory, quantity.split(",")[0] + ".svg")
        draw(points, quantity, path, host)
        print(path)


if __name__ == "__main__":
    main()
