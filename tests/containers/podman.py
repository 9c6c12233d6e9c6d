# SPDX-License-Identifier: BSD-2-Clause
"""podman with images, containers and networks of its own. Root only."""

import os
import resource
import shutil
import subprocess

from tests.packages.roots import Failure
from tests.programs import debian_root
from tests.programs.debian_root import Unavailable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASE, IMAGE = "localhost/debian:12", "localhost/usrdma:latest"
# The uid of an ordinary user in the containers.
USER = "1000:1000"
NEEDED = ("podman", "runc", "slirp4netns", "iptables", "podman-compose", "debootstrap")

# podman's default limits are higher than those of some machines, and only CAP_SYS_RESOURCE permits to raise them.
NPROC = 4096
CONF = """
[containers]
default_ulimits = ["nofile={nofile}:{nofile}", "nproc={nproc}:{nproc}"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{scratch}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{scratch}/networks"
"""
STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{scratch}/storage"
runroot = "{scratch}/run"
"""


def storage_driver(directory):
    """overlay shares the layers of images; vfs copies them and runs on each file system."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], stdout=subprocess.PIPE, text=True, check=True).stdout
    with open("/proc/filesystems", encoding="ascii") as known:
        return "overlay" if "\toverlay\n" in known.read() and kind.strip() != "overlayfs" else "vfs"


class Podman:
    """podman in a network namespace of its own, where it creates bridges. The end of `with` removes everything."""

    def __init__(self, scratch):
        missing = [name for name in NEEDED if not shutil.which(name)]
        if missing:
            raise Unavailable(f"{', '.join(missing)} not found; scripts/setup container installs it")
        self.scratch = scratch
        self.count = 0
        self.env = {**os.environ, "LC_ALL": "C.UTF-8"}
        for name, text in (("CONTAINERS_CONF", CONF), ("CONTAINERS_STORAGE_CONF", STORAGE)):
            self.env[name] = os.path.join(scratch, name)
            with open(self.env[name], "w", encoding="ascii") as file:
                file.write(text.format(scratch=scratch, nproc=NPROC, driver=storage_driver(scratch),
                                       nofile=resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec sleep inf"],
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        return self

    def __exit__(self, *_):
        for words in (("rm", "--all", "--force", "--time", "0"), ("pod", "rm", "--all", "--force"),
                      ("network", "prune", "--force"), ("rmi", "--all", "--force")):
            subprocess.run(["podman", *words], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           check=False)
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()

    def number(self):
        """A number for a name."""
        self.count += 1
        return self.count

    def command(self, *argv, isolated=True, seconds=900, program="podman"):
        """The output of podman, with both streams; Failure unless its status is 0. Isolated: in the own namespace."""
        inside = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"] if isolated else []
        words = [*inside, program, *argv]
        try:
            done = subprocess.run(words, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=ROOT,
                                  stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False,
                                  timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{' '.join(words)}: longer than {seconds} s\n{late.stdout or ''}") from None
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    def run(self, image, *argv, network="none", user="0:0", options=(), isolated=True, seconds=900):
        """The output of a program in a new container. podman's default seccomp profile applies."""
        return self.command("run", "--rm", "--network", network, "--user", user, *options, image, *argv,
                            isolated=isolated, seconds=seconds)

    def online(self, image, *argv, **more):
        """As run(), in a container that reaches the Debian mirror through slirp4netns and has the interface tap0."""
        return self.run(image, *argv, network="slirp4netns", isolated=False, **more)

    def build(self, tag, containerfile, *options, context=ROOT, seconds=7200):
        """Builds an image. Its commands need the Debian mirror, and no RDMA: they have the network of this machine."""
        return self.command("build", "--network", "host", "-t", tag, "-f", containerfile, *options, context,
                            isolated=False, seconds=seconds)

    def derive(self, tag, text):
        """Builds an image from the text of a Containerfile."""
        directory = os.path.join(self.scratch, tag.replace("/", "-").replace(":", "-"))
        os.makedirs(directory)
        file = os.path.join(directory, "Containerfile")
        with open(file, "w", encoding="ascii") as output:
            output.write(text)
        return self.build(tag, file, context=directory)

    def import_base(self):
        """The base image: a clean root of Debian 12, because no registry is needed for it."""
        root = debian_root.make("bookworm", ("ca-certificates",))
        with subprocess.Popen(["tar", "-C", root, "--numeric-owner", "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(["podman", "import", "-q", "-", BASE], env=self.env, stdin=tar.stdout, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if tar.returncode != 0:
            raise Failure("tar failed")

    def size(self, image):
        return int(self.command("image", "inspect", "--format", "{{.Size}}", image, isolated=False))
