# SPDX-License-Identifier: BSD-2-Clause
"""Debian's binaries, unmodified, find every symbol they need in our libraries.

    loading.py [--programs] DIRECTORY       DIRECTORY: has libibverbs.so.1, librdmacm.so.1 and the provider libraries

The system's own provider libraries and drivers load with the private symbols of rdma-core v44, but not with those of
every release. They are left out if the system has another release, and with --programs.

The dynamic linker resolves everything at once, functions too. A plug-in may leave symbols open that its host has; what
is open with Debian's own libraries may be open with ours.
"""

import glob
import os
import re
import subprocess
import sys

from tests.abi.tap import Tap

OURS = ("libibverbs.so.1", "librdmacm.so.1", "libefa.so.1", "libhns.so.1", "libionic.so.1", "libmana.so.1",
        "libmlx4.so.1", "libmlx5.so.1")

# Programs and libraries that link with either library, wherever Debian keeps them.
PLACES = [
    "/usr/bin/rping", "/usr/bin/ucmatose", "/usr/bin/udaddy", "/usr/bin/mckey", "/usr/bin/rdma_client",
    "/usr/bin/rdma_server", "/usr/bin/rdma_xclient", "/usr/bin/rdma_xserver", "/usr/bin/rstream", "/usr/bin/riostream",
    "/usr/bin/rcopy", "/usr/bin/udpong", "/usr/bin/cmtime", "/usr/bin/ibv_*", "/usr/bin/ib_*_bw", "/usr/bin/ib_*_lat",
    "/usr/bin/raw_ethernet_*", "/usr/bin/qperf", "/usr/bin/fio", "/usr/bin/fi_info", "/usr/bin/ucx_info",
    "/usr/lib/*/libfabric.so.1", "/usr/lib/*/ucx/libuct_*.so.0",
    "/usr/lib/*/rsocket/librspreload.so", "/usr/lib/python3/dist-packages/pyverbs/*.so",
    "/usr/lib/python3/dist-packages/pyverbs/providers/*/*.so",
    "/usr/lib/*/openmpi/lib/libmca_common_verbs.so", "/usr/lib/*/openmpi/lib/openmpi3/mca_btl_openib.so",
]

# Of this release, whose private symbols are provided.
PROVIDERS_RELEASE = 44
PROVIDERS = [
    "/usr/lib/*/libmlx5.so.1", "/usr/lib/*/libefa.so.1", "/usr/lib/*/libmlx4.so.1", "/usr/lib/*/libmana.so.1",
    "/usr/lib/*/libibverbs/lib*-rdmav34.so",
]

# Started for real, so that constructors run too: the drivers among the libraries announce themselves from theirs.
STARTED = [["ib_write_bw", "--version"], ["rping", "-h"], ["ibv_devinfo", "-h"]]


def ldd(path, directory):
    """Whether the file is linked with one of ours at all, where from, and which symbols nobody has."""
    env = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    if directory:
        env["LD_LIBRARY_PATH"] = directory
    done = subprocess.run(["ldd", "-r", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True,
                          check=False)
    sources = dict(re.findall(r"^\s*(\S+) => (\S+)", done.stdout, re.M))
    trouble = {re.sub(r"\s*\([^)]*\)\s*$", "", line.strip()) for line in done.stdout.splitlines()
               if "undefined symbol" in line or "not found" in line or "symbol lookup error" in line}
    return sources, trouble


def findings(path, directory):
    """What the file lacks with ours; None if it has nothing to do with them."""
    sources, trouble = ldd(path, directory)
    linked = [name for name in OURS if name in sources]
    if not linked:
        return None
    astray = [f"takes {name} from {sources[name]}" for name in linked
              if os.path.realpath(sources[name]) != os.path.realpath(os.path.join(directory, name))]
    if trouble:
        trouble -= ldd(path, None)[1]
    return astray + sorted(trouble)


def start(command, directory):
    """Their own exit status for a mere question differs; not being killed or refused is what counts."""
    env = dict(os.environ, LD_LIBRARY_PATH=directory, LD_BIND_NOW="1")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          text=True, timeout=60, check=False)
    if done.returncode < 0 or done.returncode == 127 or "symbol lookup error" in done.stdout:
        yield f"ends with {done.returncode}: {done.stdout.strip()[-300:]}"


def system_release():
    """The release of the system's rdma-core, by the file name of its library: libibverbs.so.1.14.44.0."""
    for path in glob.glob("/usr/lib/*/libibverbs.so.1"):
        found = re.fullmatch(r"libibverbs\.so\.1\.\d+\.(\d+)\.\d+", os.path.basename(os.path.realpath(path)))
        if found:
            return int(found[1])
    return None


def main():
    tap = Tap()
    release = system_release()
    has_providers = sys.argv[1] != "--programs" and release == PROVIDERS_RELEASE
    places = PLACES + PROVIDERS if has_providers else PLACES
    if sys.argv[1] != "--programs" and not has_providers:
        tap.skip(f"provider libraries of rdma-core v{PROVIDERS_RELEASE}", f"this system has rdma-core v{release}")
    directory = os.path.abspath(sys.argv[-1])
    tap.rule("the libraries are there", [name for name in OURS if not os.path.exists(os.path.join(directory, name))])
    tested = 0
    for place in places:
        for path in sorted(glob.glob(place)):
            found = findings(path, directory)
            if found is not None:
                tested += 1
                tap.rule(f"{path} finds its symbols", found)
    tap.rule("there was something to load", [] if tested else ["none of the programs is installed"])
    for command in STARTED:
        try:
            tap.rule(f"{' '.join(command)} starts", start(command, directory))
        except FileNotFoundError:
            tap.skip(f"{' '.join(command)} starts", "not installed")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
