# SPDX-License-Identifier: BSD-2-Clause
"""Runs Open MPI as packaged by Debian: four ranks of the program ring.c, which verifies all data that it receives, over
each component of Open MPI that uses verbs. Other transports, shared memory included, are disabled."""

import os

from tests.programs import lab as laboratory
from tests.programs.lab import check
from tests.programs.why import no_warnings

RANKS = 4
UCX = ["--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "osc", "ucx"]
LIBFABRIC = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm",
             "--mca", "btl", "self"]
# Mode 2: sends and receives. The default is one-sided operations only, but ob1 needs sends.
BTL = ["--mca", "pml", "ob1", "--mca", "btl", "self,ofi", "--mca", "btl_ofi_mode", "2", "--mca",
       "btl_ofi_provider_include", "verbs"]


def ucx(side, transports):
    return {"UCX_TLS": transports, "UCX_NET_DEVICES": side["device"] + ":1", "UCX_LOG_LEVEL": "error"}


def ring(lab, road, env):
    program = lab.start("mpirun", "-np", RANKS, "--oversubscribe", *road, lab.tool("ring"), TMPDIR=lab.scratch,
                        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **env)
    printed = program.finish(lab.seconds(90))
    check(f"{RANKS} ranks: all as it should be" in printed, program.story())


def body(lab, cases):
    if not os.path.exists(lab.tool("ring")):
        cases.skip("Open MPI", "mpicc is not installed")
        return
    for side in lab.sides:
        for transports in ("rc_v,self", "ud_v,self", "rc_v,ud_v,self"):
            cases.run(f"pml ucx, {transports}, {side['name']}", ring, lab, UCX, ucx(side, transports))
    cases.run("pml cm, mtl ofi, verbs;ofi_rxm", ring, lab, LIBFABRIC, {})
    cases.run("pml ob1, btl ofi, verbs", ring, lab, BTL, {})
    cases.run("no warnings", no_warnings, lab)


if __name__ == "__main__":
    laboratory.main(body)
