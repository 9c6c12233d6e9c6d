# SPDX-License-Identifier: BSD-2-Clause
"""Executes one measurement inside the virtual machine that bench/machine.py boots.

    python3 -m bench.inside prepare         creates the three networks
    python3 -m bench.inside WHOSE WHAT      WHOSE: ours, rxe or tcp; prints a number

    rxe         the initial network namespace, the only one in which rxe opens sockets. Traffic goes from the address of
                a dummy device to itself.
    ours        a separate namespace with the same setup, because rxe uses port 4791 of the initial one.
    road        two namespaces, near and far, connected by a bridge in the initial one. The bridge delays and drops
                packets in both directions. GSO is off, so that the bridge receives single packets as from a wire.
"""

import subprocess
import sys

from bench import pairs

ROAD = "netem delay 500us loss 1% limit 10000"
SETUP = f"""
modprobe -a crc32_generic crc32_pclmul rdma_rxe rdma_ucm ib_uverbs ib_umad dummy veth bridge sch_netem
ip link add self0 type dummy
ip link set self0 mtu 9000 up
ip addr add 10.79.1.1/24 dev self0
rdma link add rxe0 type rxe netdev self0
ip netns add ours
ip -n ours link set lo up
ip -n ours link add self0 type dummy
ip -n ours link set self0 mtu 9000 up
ip -n ours addr add 10.79.1.1/24 dev self0
ip link add road type bridge
ip link set road up
ip netns add near
ip netns add far
ip link add near0 type veth peer name wire0 netns near
ip link add far0 type veth peer name wire0 netns far
ip link set near0 master road up
ip link set far0 master road up
ip -n near addr add 10.79.0.1/24 dev wire0
ip -n far addr add 10.79.0.2/24 dev wire0
ip -n near link set wire0 up
ip -n far link set wire0 up
ip -n near link set lo up
ip -n far link set lo up
ip -n near link set wire0 gso_max_segs 1
ip -n far link set wire0 gso_max_segs 1
tc qdisc add dev near0 root {ROAD}
tc qdisc add dev far0 root {ROAD}
"""

SECONDS = 150  # limit for one measurement; the processors are emulated and the host may be busy


def inside(namespace):
    return ["ip", "netns", "exec", namespace]


RXE = pairs.Place((), (), ("rxe0", "rxe0"), "10.79.1.1", options=["-x", "1"], seconds=SECONDS)
OURS = pairs.Place(inside("ours") + pairs.RUN, inside("ours") + pairs.RUN, ("self0", "self0"), "10.79.1.1",
                   options=["-x", "1"], seconds=SECONDS, env={"USRDMA_TRANSPORT": "roce"})
OURS_BY_MEMORY = pairs.Place(inside("ours") + pairs.RUN, inside("ours") + pairs.RUN, ("self0", "self0"), "10.79.1.1",
                             options=["-x", "1"], seconds=SECONDS)
OURS_ON_THE_ROAD = pairs.Place(inside("far") + pairs.RUN, inside("near") + pairs.RUN, ("wire0", "wire0"), "10.79.0.2",
                               options=["-x", "1"], seconds=SECONDS)
TCP_ON_THE_ROAD = pairs.Place(inside("far"), inside("near"), address="10.79.0.2", seconds=SECONDS)

WRITES_64K, WRITES_1M, PINGS, CONNECTIONS, WRITES_ON_THE_ROAD, TCP_SECONDS = 500, 50, 1000, 500, 10, 8

FIGURES = {
    ("ours", "write_64k"): lambda: pairs.bw_gbs(OURS, "ib_write_bw", 65536, WRITES_64K),
    ("rxe", "write_64k"): lambda: pairs.bw_gbs(RXE, "ib_write_bw", 65536, WRITES_64K),
    ("ours", "write_1m"): lambda: pairs.bw_gbs(OURS, "ib_write_bw", 1048576, WRITES_1M),
    ("rxe", "write_1m"): lambda: pairs.bw_gbs(RXE, "ib_write_bw", 1048576, WRITES_1M),
    ("ours", "memory_write_1m"): lambda: pairs.bw_gbs(OURS_BY_MEMORY, "ib_write_bw", 1048576, WRITES_1M),
    ("ours", "memory_send_lat"): lambda: pairs.lat_us(OURS_BY_MEMORY, "ib_send_lat", 64, PINGS),
    ("ours", "send_lat"): lambda: pairs.lat_us(OURS, "ib_send_lat", 64, PINGS),
    ("rxe", "send_lat"): lambda: pairs.lat_us(RXE, "ib_send_lat", 64, PINGS),
    ("ours", "cmtime"): lambda: pairs.cm_connections(OURS, CONNECTIONS, pairs.cm_ready),
    ("rxe", "cmtime"): lambda: pairs.cm_connections(RXE, CONNECTIONS, pairs.kernel_cm_ready),
    ("ours", "road"): lambda: pairs.bw_gbs(OURS_ON_THE_ROAD, "ib_write_bw", 1048576, WRITES_ON_THE_ROAD),
    ("tcp", "road"): lambda: pairs.tcp_bw_gbs(TCP_ON_THE_ROAD, TCP_SECONDS),
}


def prepare():
    for line in SETUP.split("\n"):
        if line:
            subprocess.run(line.split(), check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["prepare"]:
        prepare()
    else:
        print(FIGURES[sys.argv[1], sys.argv[2]]())
