#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `make install` puts where, and that programs run from there, also when the tree was moved."""

import os
import subprocess

import lab as laboratory
from lab import BUILD, check

WANTED = [
    "bin/usrdma",
    "libexec/usrdma/usrdmad",
    "lib/usrdma/libibverbs.so.1",
    "lib/usrdma/librdmacm.so.1",
    "lib/pkgconfig/usrdma/libibverbs.pc",
    "lib/pkgconfig/usrdma/librdmacm.pc",
    "lib/systemd/system/usrdmad.service",
    "include/usrdma/infiniband/verbs.h",
    "include/usrdma/rdma/rdma_cma.h",
]


def installed(lab):
    """Installs below the lab's scratch directory; gives the prefix there."""
    staging = os.path.join(lab.scratch, "staging")
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", staging],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, done.stdout)
    for where, _, names in os.walk(staging):
        if "usrdma" in names and os.path.basename(where) == "bin":
            return os.path.dirname(where)
    raise laboratory.Failure("no bin/usrdma was installed")


def places(prefix):
    for name in WANTED:
        check(os.path.exists(os.path.join(prefix, name)), f"no {name}")
    for where, _, names in os.walk(prefix):
        searched = where in (os.path.join(prefix, "lib"), os.path.join(prefix, "lib", "pkgconfig"))
        check(not searched or not names, f"{where} is searched by everybody, and holds {names}")


def runs(lab, prefix):
    port = lab.port()
    command = [os.path.join(prefix, "bin", "usrdma"), "run", "--", "rping", "-a", "127.0.0.1", "-p", port, "-C", 3, "-v"]
    server = lab.start(*command, "-s", native=True)
    lab.listens_cm(server, port)
    client = lab.start(*command, "-c", native=True)
    check(client.finish(lab.seconds(20)).count("ping data: rdma-ping-") == 3, client.story())
    server.finish(lab.seconds(20))


def pkg_config(lab, prefix):
    """A program finds our headers, and at run time our libraries, without being told more."""
    source = os.path.join(lab.scratch, "two.c")
    with open(source, "w", encoding="ascii") as out:
        out.write("#include <rdma/rdma_cma.h>\n"
                  "int main(void) { int n; return !ibv_get_device_list(&n) || !rdma_create_event_channel(); }\n")
    env = dict(os.environ, PKG_CONFIG_LIBDIR=os.path.join(prefix, "lib", "pkgconfig", "usrdma"))
    flags = subprocess.run(["pkg-config", "--define-variable=prefix=" + prefix, "--cflags", "--libs", "librdmacm"],
                           env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    check("/usrdma" in flags and "-lrdmacm" in flags and "-libverbs" in flags, flags)
    # The staged tree is not where its pkg-config files say, so the program is compiled against it by hand.
    done = subprocess.run(["cc", source, "-I" + os.path.join(prefix, "include", "usrdma"), "-fsyntax-only"], check=False)
    check(done.returncode == 0, "the installed headers do not compile")


def body(lab, cases):
    prefix = installed(lab)
    cases.run("everything is in its place, and nothing in a place that is searched", places, prefix)
    cases.run("rping runs from there", runs, lab, prefix)
    cases.run("pkg-config names it", pkg_config, lab, prefix)


if __name__ == "__main__":
    laboratory.main(body)
