# SPDX-License-Identifier: BSD-2-Clause
"""Runs the programs of libibverbs as packaged by Debian: ibv_devinfo and the RC, UC, UD, SRQ and XRC pingpongs."""

from tests.programs import lab as laboratory
from tests.programs.lab import OWN, carrier_and_link_local, check, wait_until


def devinfo(lab, sides):
    printed = lab.start("ibv_devinfo", "-v").finish(lab.seconds(20))
    devices = [line.split()[1] for line in printed.splitlines() if line.startswith("hca_id:")]
    for side in sides:
        check(side["device"] in devices, f"no device {side['device']} in:\n{printed}")
    check(devices[-1] == "lo", f"lo is not the last of {devices}")
    check(printed.count("PORT_ACTIVE (4)") == len(devices), printed)
    check(printed.count("RoCE v2") >= len(devices), printed)
    check("0000:0000:0000:0000" not in [line.split()[-1] for line in printed.splitlines() if "node_guid" in line],
          printed)


def devices(lab, sides):
    printed = lab.start("ibv_devices").finish(lab.seconds(20))
    for side in sides:
        check(any(line.split()[:1] == [side["device"]] for line in printed.splitlines()), printed)


def pingpong(lab, program, side, *options):
    port = lab.port()
    common = ["-d", side["device"], "-g", side["gid"], "-p", port, *options]
    server = lab.start(program, *common)
    lab.listens_tcp(server, port)
    client = lab.client(program, *common, side["ip4"])
    check("iters in" in client.finish(lab.seconds(40)), client.story())
    check("iters in" in server.finish(lab.seconds(40)), server.story())


def xsrq_pingpong(lab, side, *options):
    port = lab.port()
    common = ["-d", side["device"], "-g", side["gid"], "-p", port, *options]
    server = lab.start("ibv_xsrq_pingpong", *common)
    lab.listens_tcp(server, port)
    client = lab.client("ibv_xsrq_pingpong", *common, side["ip4"])
    check("success" in client.finish(lab.seconds(40)).split(), client.story())
    check("success" in server.finish(lab.seconds(40)).split(), server.story())


def link_local_grh(lab, transport):
    """A datagram within a host has the addresses of its GIDs, also over UDP. `lo` has no link-local address."""
    wait_until(lambda: carrier_and_link_local(OWN["device"]), 10, "link-local address")
    lab.env["USRDMA_TRANSPORT"] = transport
    try:
        lab.start(lab.tool("misuse"), "ud_grh", OWN["device"], 0).finish(lab.seconds(20))
    finally:
        del lab.env["USRDMA_TRANSPORT"]


def body(lab, cases):
    for transport in ("local", "roce") if OWN in lab.sides else ():
        cases.run(f"link-local addresses in the GRH, {transport}", link_local_grh, lab, transport)
    for time in lab.times:
        cases.run(f"ibv_devices, {time}", devices, lab, lab.sides)
        cases.run(f"ibv_devinfo -v, {time}", devinfo, lab, lab.sides)
        for side in lab.sides:
            where = side["name"]
            for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"):
                cases.run(f"{program}, {where}, {time}", pingpong, lab, program, side, "-c")
                cases.run(f"{program} -e, {where}, {time}", pingpong, lab, program, side, "-c", "-e")
                cases.run(f"{program} -s 1000000, {where}, {time}", pingpong, lab, program, side, "-s", 1000000,
                          "-n", 100, "-c")
            cases.run(f"ibv_xsrq_pingpong, {where}, {time}", xsrq_pingpong, lab, side)
            cases.run(f"ibv_xsrq_pingpong -e, {where}, {time}", xsrq_pingpong, lab, side, "-e")
            cases.run(f"ibv_ud_pingpong, {where}, {time}", pingpong, lab, "ibv_ud_pingpong", side, "-c")
            cases.run(f"ibv_ud_pingpong -e, {where}, {time}", pingpong, lab, "ibv_ud_pingpong", side, "-c", "-e")
            cases.run(f"ibv_ud_pingpong -s 1000, {where}, {time}", pingpong, lab, "ibv_ud_pingpong", side, "-s", 1000,
                      "-c")
            cases.run(f"ibv_rc_pingpong -N, {where}, {time}", pingpong, lab, "ibv_rc_pingpong", side, "-N", "-c")


if __name__ == "__main__":
    laboratory.main(body)
