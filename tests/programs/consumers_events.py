# SPDX-License-Identifier: BSD-2-Clause
"""ibv_asyncwatch as packaged by Debian reports the port events when the interface of the device changes."""

from tests.programs import lab as laboratory
from tests.programs.lab import ip_command


def link(lab, side, change):
    """Sets one end of a veth pair up or down: the carrier of the other end follows."""
    with lab.far:
        ip_command("ip", "link", "set", side["device"], change)


def watch(lab, side):
    watcher = lab.start("ibv_asyncwatch", "-d", side["device"])
    watcher.says("async event FD")
    return watcher


def link_goes_and_comes(lab, side):
    watcher = watch(lab, side)
    link(lab, side, "down")
    watcher.says("IBV_EVENT_PORT_ERR")
    link(lab, side, "up")
    watcher.says("IBV_EVENT_PORT_ACTIVE")


def address_comes(lab, side):
    watcher = watch(lab, side)
    ip_command("ip", "addr", "add", "10.88.0.77/24", "dev", side["device"])
    try:
        watcher.says("IBV_EVENT_GID_CHANGE")
    finally:
        ip_command("ip", "addr", "del", "10.88.0.77/24", "dev", side["device"])


def body(lab, cases):
    if not lab.isolated:
        cases.skip("ibv_asyncwatch", "no network namespace")
        return
    lab.add_host()
    side = laboratory.WIRE
    for time in lab.times:
        cases.run(f"the link goes down and up, {time}", link_goes_and_comes, lab, side)
        cases.run(f"an address comes, {time}", address_comes, lab, side)


if __name__ == "__main__":
    laboratory.main(body)
