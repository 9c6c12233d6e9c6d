# SPDX-License-Identifier: BSD-2-Clause
"""Containers, hardened machines and older kernels: two programs exchange data by shared memory and by RoCE under each
of these limits, or print one line that states the cause; `usrdma doctor` names each limit that reduces
something."""

import glob
import json
import os
import re
import resource
import shlex
import subprocess

from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.daemon_kit import counter, daemon, is_listening
from tests.programs.lab import UID_NOBODY, check, wait_until

# Debian's interpreter has libseccomp's module.
PYTHON = "/usr/bin/python3"
SECCOMP = "/usr/share/doc/python3-seccomp"
# The profiles of Podman and Docker: the Debian package, and the file.
PROFILES = (("golang-github-containers-common", "/usr/share/containers/seccomp.json"),
            ("golang-github-docker-docker-dev",
             "/usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json"))
UNPACKED = os.path.join(laboratory.BUILD, "profiles")
# A uid as OpenShift assigns them: without an entry in /etc/passwd.
UID_OF_PROJECT = 1000650000
UID_OF_LIMIT = 1000650001  # no other test has processes of this user


class Sandbox:
    """How the programs of one case are started, and as which user."""

    def __init__(self, lab, *filters, prefix=(), user=None):
        self.lab = lab
        self.user = user
        self.uid = user or UID_NOBODY
        self.prefix = list(prefix)
        if filters:
            self.prefix += [PYTHON, lab.copy(lab.filter), *filters, "--"]

    def start(self, *argv, **env):
        return self.lab.start(*self.prefix, *argv, native=True, user=self.user, **env)

    def listens(self, server, port):
        """Waits until the rdma_cm listener exists. The command `usrdma status` runs outside of the sandbox."""
        def is_listed():
            check(server.running(), f"ended before it listened: {server.story()}")
            status, out, _ = usrdma(self.lab, "status", "--json", uid=self.uid)
            return status == 0 and port in laboratory.listening_ports(json.loads(out))
        wait_until(is_listed, self.lab.seconds(10), f"rdma_cm listener on port {port}")

    def usrdma(self, *argv, status=0, **env):
        return self.start(os.path.join(self.lab.tree, "usrdma"), *argv, **env).finish(self.lab.seconds(20), status)


def ping(sandbox, address="127.0.0.1", count=3, **env):
    """Two programs exchange SENDs, WRITEs and READs. Neither prints anything else."""
    lab = sandbox.lab
    port = lab.port()
    rping = (os.path.join(lab.tree, "usrdma"), "run", "--", lab.own("rping"))
    server = sandbox.start(*rping, "-s", "-a", address, "-C", count, "-p", port, **env)
    sandbox.listens(server, port)
    client = sandbox.start(*rping, "-c", "-v", "-a", address, "-C", count, "-p", port, **env)
    text = client.finish(lab.seconds(20))
    check(text.count("ping data: ") == count and "usrdma:" not in text, client.story())
    check("usrdma:" not in server.finish(lab.seconds(20)), server.story())


def works(lab, findings, *filters, prefix=(), user=None, **env):
    """Data are exchanged by both transports. doctor prints the findings, and no other warning or problem."""
    lab.end_daemons()
    sandbox = Sandbox(lab, *filters, prefix=prefix, user=user)
    # The first command starts the daemon, which then is in the sandbox, too.
    sandbox.usrdma("status")
    for transport in ("local", "roce"):
        ping(sandbox, USRDMA_TRANSPORT=transport, **env)
    finds(sandbox, findings, **env)
    lab.end_daemons()


def finds(sandbox, findings, **env):
    """doctor prints these findings, expressions of their texts, and no others that are not ok."""
    text = sandbox.usrdma("doctor", status=None, **env)
    found = re.findall(r"^(?:warning|problem) .*\n         try: .*", text, re.M)
    for finding in findings:
        check(any(re.search(finding, one) for one in found), f"doctor does not print '{finding}':\n{text}")
    others = [one for one in found if not any(re.search(finding, one) for finding in findings)]
    check(not others, f"doctor prints more: {others}")


def as_mounted(lab, script):
    """A mount namespace that root prepares with the script. The programs run as the unprivileged user of the lab."""
    return ("unshare", "-m", "sh", "-ec", f"{script}\nexec setpriv --reuid {UID_NOBODY} --regid "
            f"{UID_NOBODY} --clear-groups \"$@\"", "sh")


# tmpfs of their own in the mount namespace, so that nothing of the machine is read or written:
OWN_SHM = "mount -t tmpfs none /dev/shm"
FULL_SHM = "mount -t tmpfs -o size=64k none /dev/shm\n! dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null"
READ_ONLY = "for dir in {}; do mount --bind $dir $dir; mount -o remount,bind,ro $dir; done"
LIST = "import os; print(*sorted(os.listdir('/sys/class/infiniband')))"


def full_shm_exchanges_data_by_both_transports(lab):
    """/dev/shm has no free byte: usrdma keeps its shared memory elsewhere."""
    works(lab, [], prefix=as_mounted(lab, FULL_SHM), user=0)


def read_only_tmp_and_home_devices_are_in_sys(lab):
    """As with `docker run --read-only`, where /dev/shm is writable: the files of the devices are there."""
    script = f"{OWN_SHM}\n{READ_ONLY.format('/tmp /var/tmp /root /run')}"
    works(lab, [], prefix=as_mounted(lab, script), user=0)
    program = Sandbox(lab, prefix=as_mounted(lab, script), user=0).start(
        "sh", "-c", '"$0" run -- "$1" -c "$2"; ls -A /dev/shm', os.path.join(lab.tree, "usrdma"), PYTHON, LIST)
    check(program.finish(lab.seconds(20)) == "lo own0\n", program.story())


def read_only_directories_program_prints_cause(lab):
    """No directory is writable: data are exchanged, and programs that search /sys print why they find nothing."""
    lab.end_daemons()
    script = READ_ONLY.format("/tmp /var/tmp /dev/shm")
    sandbox = Sandbox(lab, prefix=as_mounted(lab, script), user=0)
    ping(sandbox)
    text = sandbox.usrdma("run", "--", PYTHON, "-c", LIST, status=None)
    check(text.count("usrdma: programs do not find RDMA devices in /sys: cannot create files in /tmp, /dev/shm and "
                     "/var/tmp: Read-only file system; give the container a writable /tmp (--tmpfs /tmp)\n") == 1, text)
    text = sandbox.usrdma("run", "--mount", "--", PYTHON, "-c", LIST)
    check("lo own0\n" in text and "programs do not find" not in text, text)


def linux_4_18_roots_daemon_forwards_to_other_users(lab):
    """The daemon of root has the sockets of the port, and passes the datagrams to processes of other users."""
    lab.end_daemons()
    process = Sandbox(lab, "linux-4.18", user=0).start(os.path.join(lab.tree, "usrdmad"), "--foreground")
    wait_until(is_listening, lab.seconds(10), "the daemon")
    ping(Sandbox(lab, "linux-4.18"), USRDMA_TRANSPORT="roce")
    check(counter(lab, "roce_forwarded_datagrams") > 0, "no forwarded datagram")
    process.end()


NO_ACCESS = "processes cannot access each other's memory: Operation not permitted. RDMA READ and WRITE are copied"
REFUSES = "Linux .* or a seccomp filter refuses "
OLD = [REFUSES + "F_SEAL_FUTURE_WRITE", REFUSES + "UDP_GRO", REFUSES + r"pidfd_open\(2\)"]
# Both transports exchange data under these filters; doctor prints the warnings.
DEGRADED = {
    "docker": [NO_ACCESS], "podman": [], "yama": [NO_ACCESS], "no-rseq": [REFUSES + r"rseq\(2\)"],
    "no-membarrier": [REFUSES + r"membarrier\(2\)"], "no-gro": [REFUSES + "UDP_GRO"], "linux-4.18": OLD,
    "no-ipv6": ["IPv6 sockets are refused: other hosts can be reached by IPv4 addresses only"],
}


def download_profiles():
    """Unpacks the packages in the build directory, without installing them. The laboratory has no network."""
    for package, path in PROFILES:
        if os.path.exists(path) or os.path.exists(os.path.join(UNPACKED, path.lstrip("/"))):
            continue
        os.makedirs(UNPACKED, exist_ok=True)
        subprocess.run(["apt-get", "download", package], cwd=UNPACKED, check=True, capture_output=True)
        archive, = glob.glob(os.path.join(UNPACKED, f"{package}_*.deb"))
        subprocess.run(["dpkg", "-x", archive, UNPACKED], check=True)


def profile_exchanges_data_by_both_transports(lab, path):
    """The profile file of a container engine."""
    with open(path, encoding="utf-8") as file:
        permits = any("process_vm_readv" in rule["names"] and not (rule.get("includes") or {}).get("caps")
                      for rule in json.load(file)["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW")
    works(lab, [] if permits else [NO_ACCESS], lab.copy(path))


def no_memfd_program_prints_cause(lab):
    lab.end_daemons()
    sandbox = Sandbox(lab, "no-memfd")
    text = sandbox.usrdma("rping", "-s", status=None)
    check(text.count("usrdma: no RDMA devices: the kernel or a seccomp filter refuses memfd_create(2), which shared "
                     "memory needs; permit it in the seccomp profile of the container\n") == 1, text)
    finds(sandbox, [REFUSES + r"memfd_create\(2\)", "no daemon answers"])


def no_port_steering_shared_memory_works(lab):
    """As in gVisor. Programs that need another host print the cause."""
    lab.end_daemons()
    sandbox = Sandbox(lab, "no-steering")
    sandbox.usrdma("status")
    ping(sandbox, USRDMA_TRANSPORT="local")
    finds(sandbox, ["UDP port 4791: the kernel refuses SO_ATTACH_REUSEPORT_CBPF, as gVisor does"])
    text = sandbox.usrdma("rping", "-c", "-a", "127.0.0.1", "-p", lab.port(), status=None, USRDMA_TRANSPORT="roce")
    check("usrdma: other hosts cannot be reached: UDP port 4791: Protocol not available; 'usrdma doctor' names the "
          "cause\n" in text, text)
    lab.end_daemons()


def no_ipv6_addresses_exchanges_data_by_both_transports(lab):
    """As with the kernel's parameter ipv6.disable: no interface has an IPv6 address."""
    lab.end_daemons()
    laboratory.ip_command("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    try:
        works(lab, ["no interface has an IPv6 address: devices have GIDs of IPv4 addresses only"])
    finally:
        laboratory.ip_command("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")


def unknown_uid_exchanges_data_by_both_transports(lab):
    """A user without an entry in /etc/passwd, whose programs cannot get further privileges."""
    works(lab, [], prefix=("setpriv", "--no-new-privs"), user=UID_OF_PROJECT)


def uid_beyond_map_program_prints_cause(lab):
    """A user namespace that maps root only: the programs have the overflow uid, as has each other user's daemon."""
    with daemon(lab, uid=UID_NOBODY):
        text = Sandbox(lab, prefix=("unshare", "-U"), user=UID_OF_PROJECT).usrdma("rping", "-s", status=None)
    check("usrdma: the RDMA daemon of this machine (pid " in text and "may belong to any user that this user namespace "
          "does not map" in text, text)


def process_limit_program_prints_cause(lab):
    """As pids.max of a cgroup: neither the daemon can be started, nor a thread of a program."""
    cause = "the limit of processes (ulimit -u, or pids.max of the container's cgroup) is reached; raise it " \
            "(--pids-limit)"
    lab.end_daemons()
    sandbox = Sandbox(lab, prefix=("prlimit", "--nproc=1:1"), user=UID_OF_LIMIT)
    text = sandbox.usrdma("rping", "-s", "-a", "127.0.0.1", status=None)
    check(text.count(f"usrdma: no RDMA devices: usrdmad cannot be started: {cause}\n") == 1, text)
    with daemon(lab, uid=0):
        text = sandbox.usrdma("rping", "-c", "-a", "127.0.0.1", "-p", lab.port(), status=None)
        check(text.count(f"usrdma: no RDMA devices: cannot create a thread: {cause}\n") == 1, text)
        finds(sandbox, ["problem  the limit of processes permits 0 more"])


def foreign_proc_names_no_wrong_program(lab):
    """A PID namespace without a /proc of its own, as that of pasta: there, /proc/PID is another process."""
    lab.end_daemons()
    usrdma_path = shlex.quote(os.path.join(lab.tree, "usrdma"))
    script = f"{usrdma_path} rping -c -a 127.0.0.1 -p {lab.port()}; {usrdma_path} why"
    sandbox = Sandbox(lab, prefix=("unshare", "-pf", "--kill-child"), user=0)
    text = sandbox.start("sh", "-c", script).finish(lab.seconds(20))
    check(re.search(r"^  where: process \(pid \d+\), ", text, re.M), text)
    finds(sandbox, ["/proc belongs to another PID namespace: programs are not named in reports"])
    lab.end_daemons()


def missing_sys_exchanges_data_by_both_transports(lab):
    works(lab, [], prefix=as_mounted(lab, "umount -R /sys"), user=0)


def missing_proc_program_prints_cause(lab):
    """The daemon's user cannot be checked. doctor names the file that is missing."""
    lab.end_daemons()
    sandbox = Sandbox(lab, prefix=as_mounted(lab, "umount -R /proc"), user=0)
    text = sandbox.usrdma("rping", "-s", status=None)
    check("usrdma: " in text and "mount /proc" in text, text)
    text = sandbox.usrdma("doctor", status=None)
    check("problem  /proc/self/exe: " in text and "mount -t proc proc /proc" in text, text)


def soft_limit_of_1024_files_many_qps_work(lab):
    """The usual soft limit: queue pairs need no descriptors, and the daemon raises its own limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    sandbox = Sandbox(lab, prefix=("prlimit", f"--nofile=1024:{hard}"))
    works(lab, [], prefix=sandbox.prefix)
    many = sandbox.start(os.path.join(lab.tree, "usrdma"), "run", "--", lab.tool("many"), "qps", 1500)
    check("1500 queue pairs" in many.finish(lab.seconds(30)), many.story())


def hard_limit_of_768_files_exchanges_data_by_both_transports(lab):
    works(lab, ["warning  768 open files at most: a daemon that this shell starts serves few programs"],
          prefix=("prlimit", "--nofile=768:768"))


def small_file_size_limit_program_prints_cause(lab):
    lab.end_daemons()
    sandbox = Sandbox(lab, prefix=("prlimit", "--fsize=1048576"))
    text = sandbox.usrdma("rping", "-s", "-a", "127.0.0.1", status=None)
    check("usrdma: no RDMA devices: the limit of file sizes (ulimit -f) is below the " in text, text)
    finds(sandbox, [r"the size of files is limited to 1048576 bytes \(ulimit -f\)"])


def small_address_space_exchanges_data_by_both_transports(lab):
    works(lab, ["the address space of a program is limited to 268435456 bytes"], prefix=("prlimit", "--as=268435456"))


def body(lab, cases):
    if lab.sanitized:
        cases.skip("all sandboxes", "the limits are those of programs without the runtime of a sanitizer")
        return
    filtered = None if os.path.exists(SECCOMP) else "needs the package python3-seccomp"
    needs_root = None if lab.drops and lab.isolated else "needs root"
    for name, findings in DEGRADED.items():
        cases.run_unless(filtered, f"{name} exchanges data by both transports", works, lab, findings, name)
    for package, path in PROFILES:
        path = next(filter(os.path.exists, (path, os.path.join(UNPACKED, path.lstrip("/")))), None)
        cases.run_unless(filtered or (None if path else f"{package} is not installed"),
                         f"profile of {package} exchanges data by both transports",
                         profile_exchanges_data_by_both_transports, lab, path)
    for why_not, chosen in (
            (filtered, (no_memfd_program_prints_cause, no_port_steering_shared_memory_works)),
            (filtered or needs_root, (linux_4_18_roots_daemon_forwards_to_other_users,)),
            (None, (soft_limit_of_1024_files_many_qps_work, hard_limit_of_768_files_exchanges_data_by_both_transports,
                    small_file_size_limit_program_prints_cause,
                    small_address_space_exchanges_data_by_both_transports)),
            (needs_root, (full_shm_exchanges_data_by_both_transports, read_only_tmp_and_home_devices_are_in_sys,
                          read_only_directories_program_prints_cause, unknown_uid_exchanges_data_by_both_transports,
                          uid_beyond_map_program_prints_cause, process_limit_program_prints_cause,
                          foreign_proc_names_no_wrong_program, missing_sys_exchanges_data_by_both_transports,
                          missing_proc_program_prints_cause, no_ipv6_addresses_exchanges_data_by_both_transports))):
        for case in chosen:
            cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    if laboratory.EVERY:
        download_profiles()
    laboratory.main(body)
