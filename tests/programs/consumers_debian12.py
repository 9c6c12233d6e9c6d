# SPDX-License-Identifier: BSD-2-Clause
"""Debian 12's programs: rdma-core 44, perftest 4.5, UCX 1.13, libfabric 1.17, Open MPI 4 and pyverbs 44."""

from tests.programs import cm
from tests.programs.debian_programs import Release, main


def cmtime(lab, side, words):
    cm.cmtime(lab, side["ip4"], *words)


BOOKWORM = Release(
    name="Debian 12",
    codename="bookworm",
    libraries=("libisal2", "libuv1", "libmnl0", "libjson-c5"),
    cmtime=cmtime,
    cmtime_options=((50,),),
    oversubscribe=("--oversubscribe",),
)

if __name__ == "__main__":
    main(BOOKWORM)
