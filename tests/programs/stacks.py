# SPDX-License-Identifier: BSD-2-Clause
"""Tests what AI stacks do with RDMA devices: the calls of NCCL's InfiniBand transport, the probe for GPU memory, and
libraries that travel inside Python wheels."""

import glob
import os
import re
import shutil
import subprocess
import sys

from tests.programs import lab as laboratory
from tests.programs import private_copy
from tests.programs.command_kit import usrdma
from tests.programs.lab import check

PYTHON = "/usr/bin/python3"
PYVERBS = "/usr/lib/python3/dist-packages/pyverbs"
COPY = "libibverbs-9f3e41ab.so.1"

# Eight devices of one interface, which have the ids and the GID table of ConnectX-7.
RAILS = {"USRDMA_DEVICES": ",".join([f"mlx5_{rail}=lo" for rail in range(8)] + ["only"]),
         "USRDMA_PROFILE": "connectx-7"}

# A process that calls the private copy itself, as a library does that was loaded with RTLD_DEEPBIND. It waits until a
# signal ends it.
CALLS_COPY = f"""
import ctypes, os, sys
verbs = ctypes.CDLL("{COPY}", mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
verbs.ibv_get_device_list.restype = ctypes.c_void_p
count = ctypes.c_int(0)
verbs.ibv_get_device_list(ctypes.byref(count))
print("devices:", count.value, flush=True)
while True: __import__("signal").pause()
"""


def net_ib(lab, count, env):
    """Each device passes all calls. Without gpu=yes, no device reports that it registers the memory of GPUs."""
    speed = "400000" if count else r"\d+"
    printed = lab.start(lab.tool("net_ib"), **env).finish(lab.seconds(60))
    gpu = "yes" if "gpu=yes" in env.get("USRDMA_PROFILE", "") else "no"
    rails = re.findall(rf"^\S+: gids \d+ of \d+, index \d+, speed {speed} Mb/s, gpu {gpu}, transferred$", printed, re.M)
    check(rails and f"\ndevices: {count or len(rails)}\n" in printed, printed)
    check(not count or len(rails) == count, printed)


class Copies:
    """A folder with private copies of the system's libraries, and of programs that need them."""

    def __init__(self, lab, system):
        self.folder = os.path.join(lab.scratch, "copies")
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o755)
        private_copy.copy_libraries(system, self.folder)
        self.env = {"LD_LIBRARY_PATH": self.folder}

    def program(self, name):
        path = os.path.join(self.folder, name)
        private_copy.copy(shutil.which(name), path)
        return path


def devices_of_a_program(lab, copies):
    """Without `usrdma run`, the private copy finds the devices of the kernel only."""
    path = copies.program("ibv_devices")
    for native, is_listed in ((True, False), (False, True)):
        printed = lab.start(path, native=native, **copies.env).finish(lab.seconds(20), None)
        names = [line.split()[0] for line in printed.splitlines()[2:] if line.strip()]
        check(("lo" in names) == is_listed, f"native: {native}: {printed}")


def connection_of_a_program(lab, copies):
    path, port = copies.program("rping"), lab.port()
    server = lab.start(path, "-s", "-a", "127.0.0.1", "-p", port, "-C", 3, **copies.env)
    lab.listens_cm(server, port)
    client = lab.start(path, "-c", "-a", "127.0.0.1", "-p", port, "-C", 3, "-v", **copies.env)
    check(client.finish(lab.seconds(20)).count("ping data: rdma-ping-") == 3, client.story())
    server.finish(lab.seconds(20))


def modules_of_python(lab, copies):
    """The libraries of a wheel are in the scope of the module only that needs them."""
    folder = os.path.join(copies.folder, "pyverbs")
    os.makedirs(folder)
    os.chmod(folder, 0o755)
    for path in glob.glob(os.path.join(PYVERBS, "*.so")):
        private_copy.copy(path, os.path.join(folder, os.path.basename(path)))
    for path in glob.glob(os.path.join(PYVERBS, "*.py")):
        shutil.copy(path, folder)
    code = "import pyverbs, pyverbs.device; print(pyverbs.__file__, [d.name for d in pyverbs.device.get_device_list()])"
    printed = lab.start(PYTHON, "-c", code, PYTHONPATH=copies.folder, **copies.env).finish(lab.seconds(30))
    check(folder in printed and "b'lo'" in printed, printed)


def doctor_names_copies(lab, copies):
    """A copy that is used in spite of the preloaded library is named, with a command that replaces it."""
    copy = os.path.join(copies.folder, COPY)
    ours = os.path.realpath(os.path.join(lab.tree, "lib", "libibverbs.so.1"))
    for native, mend in ((True, "start the program with usrdma run"), (False, f"ln -sf {ours} {copy}")):
        program = lab.start(PYTHON, "-c", CALLS_COPY, native=native, **copies.env)
        program.says("devices: 0", lab.seconds(10))
        status, out, err = usrdma(lab, "doctor")
        check(status == 0 and f"pid {program.pid}" in out and copy in out and f"try: {mend}" in out, out + err)
        check(("RTLD_DEEPBIND" in out) == (not native), out)
        program.end()
    os.rename(copy, copy + ".old")
    os.symlink(ours, copy)
    try:
        program = lab.start(PYTHON, "-c", CALLS_COPY, **copies.env)
        program.says("devices: ", lab.seconds(10))
        check("devices: 0" not in program.output(), program.output())
        check("private copy" not in usrdma(lab, "doctor")[1], "the replaced copy is reported")
        program.end()
    finally:
        os.rename(copy + ".old", copy)


def doctor_names_gpu_variables(lab):
    """The variables are named if NCCL and UCX would register GPU memory, and nothing is printed without a GPU."""
    wanted = {"NCCL_DMABUF_ENABLE": "0", "NCCL_NET_GDR_LEVEL": "LOC", "UCX_IB_GPU_DIRECT_RDMA": "n"}
    for env, is_named, is_warned in (({"NVIDIA_VISIBLE_DEVICES": "void"}, False, False),
                                     ({"NVIDIA_VISIBLE_DEVICES": "all"}, True, False),
                                     ({"USRDMA_PROFILE": "connectx-7,gpu=yes"}, True, True),
                                     ({"USRDMA_PROFILE": "connectx-7,gpu=yes", **wanted}, True, False)):
        status, out, err = usrdma(lab, "doctor", **env)
        lines = [line for line in out.splitlines() if "GPU" in line]
        check(status == 0 and bool(lines) == is_named, f"{env}: {out}{err}")
        check(any(line.startswith("warning") for line in lines) == is_warned, f"{env}: {out}")
        named = " ".join(f"{name}={value}" for name, value in wanted.items())
        check((named in out) == is_warned, f"{env}: {out}")


# Runs doctor where nvidia_peermem seems to be loaded.
WITH_PEER_MEMORY = ("mount -t tmpfs none /sys/module && mkdir /sys/module/nvidia_peermem && "
                    "echo 1 > /sys/module/nvidia_peermem/version && exec \"$0\" doctor")


def doctor_names_peer_memory(lab):
    """With nvidia_peermem, NCCL and UCX register device memory without a probe."""
    argv = ["unshare", "-m", "sh", "-c", WITH_PEER_MEMORY, os.path.join(lab.tree, "usrdma")]
    done = subprocess.run(argv, env=lab.env, capture_output=True, text=True, check=False, timeout=lab.seconds(30))
    check("warning  GPU: /sys/module/nvidia_peermem/version exists" in done.stdout, done.stdout + done.stderr)
    check("NCCL_NET_GDR_LEVEL=LOC" in done.stdout, done.stdout)


def system_libraries():
    """The folder of the system's libibverbs and librdmacm, or None."""
    for folder in sorted(glob.glob("/usr/lib/*-linux-gnu")):
        if all(os.path.exists(os.path.join(folder, name.decode())) for name in private_copy.RENAMED):
            return folder
    return None


def body(lab, cases):
    gpu = {"USRDMA_DEVICES": "mlx5_0=lo,only", "USRDMA_PROFILE": "connectx-7,gpu=yes"}
    for name, count, env in (("default", None, {}), ("gpu=yes", 1, gpu),
                             ("8 devices, local", 8, {**RAILS, "USRDMA_TRANSPORT": "local"}),
                             ("8 devices, roce", 8, {**RAILS, "USRDMA_TRANSPORT": "roce"})):
        cases.run(f"net_ib: {name}", net_ib, lab, count, env)
    cases.run("doctor_names_gpu_variables", doctor_names_gpu_variables, lab)
    if lab.drops:
        cases.run("doctor_names_peer_memory", doctor_names_peer_memory, lab)
    system = system_libraries()
    if not system or sys.byteorder != "little":
        cases.skip("private copies", "no libibverbs and librdmacm of the system")
        return
    copies = Copies(lab, system)
    cases.run("private copy: devices_of_a_program", devices_of_a_program, lab, copies)
    cases.run("private copy: connection_of_a_program", connection_of_a_program, lab, copies)
    if os.path.isdir(PYVERBS):
        cases.run("private copy: modules_of_python", modules_of_python, lab, copies)
    else:
        cases.skip("private copy: modules_of_python", "no pyverbs")
    cases.run("private copy: doctor_names_copies", doctor_names_copies, lab, copies)


if __name__ == "__main__":
    laboratory.main(body)
