# SPDX-License-Identifier: BSD-2-Clause
"""Runs the recipes of docs/ci.md as an ordinary user, in containers of an image derived from the runtime image."""

import os
import re
import shlex

from tests.containers.podman import IMAGE, ROOT
from tests.packages.debian import check

DERIVED = "localhost/usrdma-recipes"
PACKAGES = ("ibverbs-utils ucx-utils libfabric-bin openmpi-bin python3-mpi4py iproute2 "
            "gcc g++ libgloo-dev libc6-dev make pkg-config librdmacm-dev libibverbs-dev python3-netifaces xz-utils")
CONTAINERFILE = f"""
FROM {IMAGE}
RUN apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends {PACKAGES}
RUN useradd --create-home --uid 1000 demo
"""
RECIPES = "/recipes"
# The interface of a container with slirp4netns.
INTERFACE = "tap0"
# The sources of Valkey, as Debian 13 has them. Its packages have no RDMA.
VALKEY = """
set -e
echo 'deb-src http://deb.debian.org/debian trixie main' >/etc/apt/sources.list.d/source.list
apt-get -qq update
su demo -c 'cd && apt-get -qq source --download-only --tar-only valkey && tar -xf valkey_*.orig.tar.*'
su demo -c '/recipes/valkey ~/valkey-*/'
"""


def script(podman, text, user="1000:1000"):
    mounts = ["--volume", f"{os.path.join(ROOT, 'packaging/ci')}:/ci:ro",
              "--volume", f"{os.path.join(ROOT, 'packaging/ci/recipes')}:{RECIPES}:ro"]
    return podman.online(DERIVED, "sh", "-c", text, user=user, options=mounts, seconds=3600)


def ucx(podman):
    shown = script(podman, f"{RECIPES}/ucx && {RECIPES}/ucx {INTERFACE}")
    finals = re.findall(r"^Final:\s+1000 ", shown, re.M)
    check(len(finals) == 4 and "ERROR" not in shown, shown)


def libfabric(podman):
    shown = script(podman, f"{RECIPES}/libfabric {INTERFACE}")
    check(f"domain: {INTERFACE}" in shown and len(re.findall(r"^\d+[kmg]?\s+100\s", shown, re.M)) >= 6, shown)


def mpi(podman):
    shown = script(podman, f"{RECIPES}/mpi")
    check("(2 processes, 65536 bytes)" in shown, shown)


def gloo(podman):
    shown = script(podman, f"{RECIPES}/gloo && {RECIPES}/gloo {INTERFACE}")
    check(shown.count("the sums of 100000 numbers of 2 processes are right") == 4, shown)


def valkey(podman):
    shown = script(podman, VALKEY, user="0:0")
    check("Valkey Over RDMA test over" in shown, shown)


def rxe_cfg_small(podman):
    """The commands that SPDK's tests give, and their results."""
    command = "/ci/rxe_cfg_small.sh"
    lines = ["stop", "start", "status", f"status {INTERFACE}", "", "rxe-net", "add all", f"add {INTERFACE}",
             "add none0", "remove all", f"remove {INTERFACE}", "remove none0", "other"]
    text = "\n".join(f"echo {shlex.quote('> ' + line)}; {command} {line} 2>&1; echo status $?" for line in lines)
    shown = dict(re.findall(r"^> (.*)\n((?:(?!> ).*\n)*)", script(podman, text), re.M))
    ended = {line: int(re.search(r"^status (\d+)$", shown[line], re.M)[1]) for line in lines}
    check(ended == {line: {"add none0": 1, "remove none0": 1, "other": 2}.get(line, 0) for line in lines}, f"{shown}")
    row = re.search(rf"^{INTERFACE} +yes +\S+ .* 10\.0\.2\.100 +{INTERFACE} +\d+ \(\d\)$", shown["status"], re.M)
    check(row and shown[""] == shown["status"] and shown["status"].startswith("Name "), f"{shown}")
    check(shown[f"status {INTERFACE}"] == row[0] + "\nstatus 0\n", f"{shown}")
    renamed = script(podman, f"USRDMA_DEVICES=rxe0={INTERFACE} {command} status rxe")
    check(re.fullmatch(rf"{INTERFACE} .* rxe0 +\d+ \(\d\)\n", renamed), renamed)
    check(shown["rxe-net"] == f"{INTERFACE}\nstatus 0\n", f"{shown}")


def cases(counted, podman):
    counted.run("an image with the programs of the recipes is derived", podman.derive, DERIVED, CONTAINERFILE,
                needed=True)
    counted.run("rxe_cfg_small.sh has the commands of SPDK's script", rxe_cfg_small, podman)
    counted.run("UCX: ucx_perftest over rc_verbs and ud_verbs", ucx, podman)
    counted.run("libfabric: fi_pingpong of the provider verbs", libfabric, podman)
    counted.run("Open MPI over UCX: mpi4py's ring test", mpi, podman)
    counted.run("gloo: an allreduce over the transport ibverbs", gloo, podman)
    counted.run("Valkey: runtest-rdma of the sources, without --install-rxe and without root", valkey, podman)
