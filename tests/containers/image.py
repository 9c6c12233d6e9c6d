# SPDX-License-Identifier: BSD-2-Clause
"""The runtime image: its size, and programs of a derived image, with podman's default seccomp profile."""

import errno
import json
import os

from tests.containers.podman import BASE, IMAGE, ROOT, USER
from tests.packages.debian import check

ADDED_MAX_BYTES = 40_000_000
DERIVED = "localhost/usrdma-derived"
CONTAINERFILE = f"""
FROM {IMAGE}
RUN apt-get -qq update && apt-get -qq -y install --no-install-recommends ibverbs-utils rdmacm-utils busybox-static
"""
# Debian's programs, without `usrdma run`.
PROGRAMS = """
set -e
ibv_devices
ls /sys/class/infiniband
rping -s -a 127.0.0.1 -p 20001 -C 3 &
until usrdma status --json 2>/dev/null | grep -q '"local": "127.0.0.1:20001"'; do
	kill -0 $!
	sleep 0.1
done
rping -c -a 127.0.0.1 -p 20001 -C 3 -v
wait $!
"""
NO_RIGHTS = ("--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only")


def build(podman):
    podman.build(IMAGE, "packaging/container/Containerfile", "--build-arg", f"BASE={BASE}")


def size(podman):
    added = podman.size(IMAGE) - podman.size(BASE)
    print(f"# the image adds {added / 1e6:.1f} MB", flush=True)
    check(0 < added <= ADDED_MAX_BYTES, f"{added} bytes, more than {ADDED_MAX_BYTES}")


def have_devices(shown):
    check("\nlo\n" in shown and shown.count("ping data: rdma-ping-") == 3, shown)


def programs(podman):
    for user in ("0:0", USER):
        have_devices(podman.run(DERIVED, "sh", "-c", PROGRAMS, user=user))


def programs_without_rights(podman):
    have_devices(podman.run(DERIVED, "sh", "-c", PROGRAMS, user=USER, options=NO_RIGHTS))


def demo(podman):
    """scripts/demo with the packages of Debian, as an ordinary user."""
    scripts = ["--volume", f"{os.path.join(ROOT, 'scripts')}:/scripts:ro", "--env", "USRDMA=usrdma"]
    shown = podman.run(DERIVED, "/scripts/demo", user=USER, options=scripts)
    check(shown.count("ping data: rdma-ping-") == 5, shown)


def disable_and_enable(podman):
    """Root of a container changes the container only."""
    shown = podman.run(DERIVED, "sh", "-c", """
        usrdma disable && ibv_devices; echo disabled
        usrdma enable --sysfs && ibv_devices && ls /sys/class/infiniband""")
    before, after = shown.split("disabled\n")
    check("\n    lo " not in before and "\n    lo " in after and after.endswith("\nlo\n"), shown)


def static_programs(podman):
    """usrdma run --mount shows the devices to static programs, with podman's seccomp profile also to ordinary users."""
    listing = ("busybox", "ls", "/sys/class/infiniband")
    for options in ((), ("--cap-drop", "all", "--security-opt", "no-new-privileges")):
        shown = podman.run(DERIVED, "usrdma", "run", "--mount", *listing, user=USER, options=options)
        check(shown == "lo\n", shown)
    profile = os.path.join(podman.scratch, "seccomp.json")
    with open(profile, "w", encoding="ascii") as file:
        file.write(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["unshare", "mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}]}))
    shown = podman.run(DERIVED, "sh", "-c", f"usrdma run --mount {' '.join(listing)}; echo status $?", user=USER,
                       options=("--security-opt", f"seccomp={profile}"))
    check("cannot create a user and mount namespace: Operation not permitted" in shown and "status 1" in shown, shown)


def cases(counted, podman):
    counted.run("the image adds at most 40 MB", size, podman)
    counted.run("an image is derived from it", podman.derive, DERIVED, CONTAINERFILE, needed=True)
    counted.run("programs find the devices, as root and as an ordinary user", programs, podman)
    counted.run("also without capabilities, and with a read-only root", programs_without_rights, podman)
    counted.run("the demo runs as an ordinary user", demo, podman)
    counted.run("usrdma run --mount, as an ordinary user", static_programs, podman)
    counted.run("usrdma disable and enable in a container", disable_and_enable, podman)
