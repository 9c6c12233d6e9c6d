# SPDX-License-Identifier: BSD-2-Clause
"""Runs server and client of a benchmark program at the same time and returns the numbers that the client prints."""

import json
import os
import re
import socket
import subprocess
import tempfile
import time

from tests.programs.lab import listening, listening_ports

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("USRDMA_BUILD", os.path.join(ROOT, "build"))
RUN = [os.path.join(BUILD, "usrdma"), "run", "--"]


class Place:
    """The environment of a server and a client: command prefix and device of each, and the server's address."""

    def __init__(self, server=(), client=(), devices=("lo", "lo"), address="127.0.0.1", options=(), env=None,
                 seconds=120):
        self.server, self.client = list(server), list(client)
        self.devices, self.address, self.options = devices, address, list(options)
        self.env = dict(os.environ, **(env or {}))
        self.seconds = seconds


def new_port():
    """Returns a TCP port that no socket of this network namespace uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(question, seconds, what):
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def tcp_ready(place, server, port):
    """Whether a TCP socket listens on the port in the server's network namespace."""
    del place
    return any(listening(f"/proc/{server.pid}/net/{table}", port) for table in ("tcp", "tcp6"))


def udp_ready(place, server, port):
    """Whether a UDP socket is bound to the port in the server's network namespace."""
    del place
    return listening(f"/proc/{server.pid}/net/udp", port, "07")


def cm_ready(place, server, port):
    """Whether the daemon reports a listener on this port."""
    del server
    done = subprocess.run(place.server + [RUN[0], "status", "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0 and str(port) in listening_ports(json.loads(done.stdout))


def kernel_cm_ready(place, server, port):
    """Whether the kernel's rdma_cm reports a listener on this port."""
    del place, server
    shown = subprocess.run(["rdma", "resource", "show", "cm_id"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return f":{port} " in shown.replace("\n", " \n")


def on_processor(number):
    """Pins each side to its own processor. Two polling processes on one processor would measure the scheduler."""
    processors = sorted(os.sched_getaffinity(0))
    return {"preexec_fn": lambda: os.sched_setaffinity(0, {processors[number % len(processors)]})}


def anywhere(_number):
    """Pins nothing: the scheduler places sides with several threads and the daemon."""
    return {}


def pair(place, server, client, port, ready, serves_on=False, processor=on_processor):
    """Runs both sides and returns the client's output. `serves_on`: the server does not exit and is killed."""
    with tempfile.TemporaryFile() as out:
        running = subprocess.Popen(place.server + server, stdout=out, stderr=out, env=place.env, **processor(0))
        try:
            wait_for(lambda: running.poll() is not None or ready(place, running, port), place.seconds / 4,
                     f"{server} on port {port}")
            done = subprocess.run(place.client + client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=place.env, text=True, timeout=place.seconds, check=False, **processor(1))
            if done.returncode != 0:
                raise RuntimeError(f"{client}: exit status {done.returncode}\n{done.stdout}")
            if not serves_on:
                running.wait(30)
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()
    return done.stdout


def result_row(printed):
    """The fields of the last row of results that a perftest program printed."""
    row = re.findall(r"^\s*\d+\s+\d+\s+[\d.]+.*$", printed, re.M)
    if not row:
        raise RuntimeError(printed)
    return [float(field) for field in row[-1].split()]


def perftest(place, program, size, iterations, *options):
    """Runs a perftest program and returns the fields of the row of results."""
    port = new_port()

    def command(device):
        return [program, "-F", "-d", device, "-p", str(port), "-s", str(size), "-n", str(iterations), *place.options,
                *options]
    printed = pair(place, command(place.devices[0]), command(place.devices[1]) + [place.address], port, tcp_ready)
    return result_row(printed)


def lat_us(place, program, size, iterations, *options):
    """Median latency in microseconds (t_typical)."""
    return perftest(place, program, size, iterations, *options)[4]


def bw_gbs(place, program, size, iterations):
    """Average bandwidth in GB/s (perftest prints MiB/s)."""
    return perftest(place, program, size, iterations)[3] * 1048576 / 1e9


def tcp_bw_gbs(place, seconds, ready=tcp_ready):
    """Throughput of one TCP stream in GB/s."""
    port = new_port()
    command = ["iperf3", "-p", str(port)]
    printed = pair(place, command + ["-s", "-1"], command + ["-c", place.address, "-t", str(seconds), "-J"], port,
                   ready)
    return json.loads(printed)["end"]["sum_received"]["bits_per_second"] / 8e9


def cm_connections(place, count, ready):
    """Connections per second in the connect step of cmtime, which establishes all connections at the same time."""
    port = new_port()
    printed = pair(place, ["cmtime", "-b", place.address, "-p", str(port)],
                 ["cmtime", "-s", place.address, "-p", str(port), "-c", str(count)], port, ready,
                 serves_on=True, processor=anywhere)
    step = re.search(r"^connect\s*:\s+([\d.]+)", printed, re.M)
    if not step:
        raise RuntimeError(printed)
    return count / (float(step[1]) / 1e3)
