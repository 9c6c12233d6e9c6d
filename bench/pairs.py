# SPDX-License-Identifier: BSD-2-Clause
"""A server and a client of some measuring program, run side by side, and what the client printed as figures."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("USRDMA_BUILD", os.path.join(ROOT, "build"))
RUN = [os.path.join(BUILD, "usrdma"), "run", "--"]

sys.path.insert(0, os.path.join(ROOT, "tests", "programs"))
from lab import listening, listening_ports  # noqa: E402  pylint: disable=wrong-import-position

next_port = 23000 + os.getpid() % 10000


class Place:
    """Where a pair runs: what comes before either program, the device it names, and where the client finds the server."""

    def __init__(self, server=(), client=(), devices=("lo", "lo"), address="127.0.0.1", options=(), env=None, seconds=120):
        self.server, self.client = list(server), list(client)
        self.devices, self.address, self.options = devices, address, list(options)
        self.env = dict(os.environ, **(env or {}))
        self.seconds = seconds


def new_port():
    global next_port
    next_port += 1
    return next_port


def wait_for(question, seconds, what):
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def tcp_ready(place, server, port):
    """Somebody listens where the server is."""
    del place
    return any(listening(f"/proc/{server.pid}/net/{table}", port) for table in ("tcp", "tcp6"))


def cm_ready(place, server, port):
    """The daemon knows a listener on this port."""
    del server
    done = subprocess.run(place.server + [RUN[0], "status", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    return done.returncode == 0 and str(port) in listening_ports(json.loads(done.stdout))


def kernel_cm_ready(place, server, port):
    """The kernel's rdma_cm does."""
    del place, server
    shown = subprocess.run(["rdma", "resource", "show", "cm_id"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return f":{port} " in shown.replace("\n", " \n")


def on_processor(number):
    """Each side has a processor of its own, ours and the peer's alike: two that spin on one measure the scheduler."""
    processors = sorted(os.sched_getaffinity(0))
    return {"preexec_fn": lambda: os.sched_setaffinity(0, {processors[number % len(processors)]})}


def anywhere(_number):
    """For sides of several threads and a daemon between them: the scheduler places them, as it does everywhere else."""
    return {}


def pair(place, server, client, port, ready, serves_on=False, processor=on_processor):
    """Runs both sides and gives what the client printed; a server that serves on is told to stop."""
    with tempfile.TemporaryFile() as out:
        running = subprocess.Popen(place.server + server, stdout=out, stderr=out, env=place.env, **processor(0))
        try:
            wait_for(lambda: running.poll() is not None or ready(place, running, port), place.seconds / 4,
                     f"{server} on port {port}")
            done = subprocess.run(place.client + client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=place.env,
                                  text=True, timeout=place.seconds, check=False, **processor(1))
            if done.returncode != 0:
                raise RuntimeError(f"{client}: exit status {done.returncode}\n{done.stdout}")
            if not serves_on:
                running.wait(30)
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()
    return done.stdout


def perftest(place, program, size, iterations, *options):
    """The fields of the one row that it prints."""
    port = new_port()

    def command(device):
        return [program, "-F", "-d", device, "-p", str(port), "-s", str(size), "-n", str(iterations), *place.options, *options]
    heard = pair(place, command(place.devices[0]), command(place.devices[1]) + [place.address], port, tcp_ready)
    row = re.findall(r"^\s*\d+\s+\d+\s+[\d.]+.*$", heard, re.M)
    if not row:
        raise RuntimeError(heard)
    return [float(field) for field in row[-1].split()]


def lat_us(place, program, size, iterations):
    """t_typical, which is the median."""
    return perftest(place, program, size, iterations)[4]


def bw_gbs(place, program, size, iterations):
    """Average bandwidth in GB/s (perftest prints MiB/s)."""
    return perftest(place, program, size, iterations)[3] * 1048576 / 1e9


def tcp_bw_gbs(place, seconds):
    """One TCP stream."""
    port = new_port()
    command = ["iperf3", "-p", str(port)]
    heard = pair(place, command + ["-s", "-1"], command + ["-c", place.address, "-t", str(seconds), "-J"], port, tcp_ready)
    return json.loads(heard)["end"]["sum_received"]["bits_per_second"] / 8e9


def cm_connections(place, count, ready):
    """Connections a second in cmtime's connect step, all of them under way at the same time."""
    port = new_port()
    heard = pair(place, ["cmtime", "-b", place.address, "-p", str(port)],
                 ["cmtime", "-s", place.address, "-p", str(port), "-c", str(count)], port, ready,
                 serves_on=True, processor=anywhere)
    step = re.search(r"^connect\s*:\s+([\d.]+)", heard, re.M)
    if not step:
        raise RuntimeError(heard)
    return count / (float(step[1]) / 1e3)
