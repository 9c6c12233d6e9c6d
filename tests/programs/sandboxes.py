# SPDX-License-Identifier: BSD-2-Clause
"""Containers, hardened machines and older kernels: two programs exchange data by shared memory and by RoCE under each
of these limits, or print one line that states the cause; `usrdma doctor` names each limit that reduces
something."""

import os
import re

from tests.programs import lab as laboratory
from tests.programs.daemon_kit import counter, is_listening
from tests.programs.lab import check, wait_until

# Debian's interpreter has libseccomp's module.
PYTHON = "/usr/bin/python3"
SECCOMP = "/usr/share/doc/python3-seccomp"
# A uid as OpenShift assigns them: without an entry in /etc/passwd.
UID_OF_PROJECT = 1000650000


class Sandbox:
    """How the programs of one case are started, and as which user."""

    def __init__(self, lab, *filters, prefix=(), user=None):
        self.lab = lab
        self.user = user
        self.prefix = list(prefix)
        if filters:
            self.prefix += [PYTHON, lab.copy(os.path.join(laboratory.SOURCE, "tests/programs/sandbox_filter.py")),
                            *filters, "--"]

    def start(self, *argv, **env):
        return self.lab.start(*self.prefix, *argv, native=True, user=self.user, **env)

    def usrdma(self, *argv, status=0, **env):
        return self.start(os.path.join(self.lab.tree, "usrdma"), *argv, **env).finish(self.lab.seconds(20), status)


def ping(sandbox, address="127.0.0.1", count=3, **env):
    """Two programs exchange SENDs, WRITEs and READs. Neither prints anything else."""
    lab = sandbox.lab
    port = lab.port()
    rping = (os.path.join(lab.tree, "usrdma"), "run", "--", lab.own("rping"))
    server = sandbox.start(*rping, "-s", "-a", address, "-C", count, "-p", port, **env)
    lab.listens_cm(server, port)
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
    """A sandbox with a mount namespace of its own, which root prepares with the script; the programs run as nobody."""
    return ("unshare", "-m", "sh", "-ec", f"{script}\nexec setpriv --reuid {laboratory.UID_NOBODY} --regid "
            f"{laboratory.UID_NOBODY} --clear-groups \"$@\"", "sh")


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


def linux_4_18_exchanges_data_by_both_transports(lab):
    works(lab, [], "linux-4.18")


def linux_4_18_roots_daemon_forwards_to_other_users(lab):
    """The daemon of root has the sockets of the port, and passes the datagrams to processes of other users."""
    lab.end_daemons()
    daemon = Sandbox(lab, "linux-4.18", user=0).start(os.path.join(lab.tree, "usrdmad"), "--foreground")
    wait_until(is_listening, lab.seconds(10), "the daemon")
    ping(Sandbox(lab, "linux-4.18"), USRDMA_TRANSPORT="roce")
    check(counter(lab, "roce_forwarded_datagrams") > 0, "no forwarded datagram")
    daemon.end()


def body(lab, cases):
    why_not = None if os.path.exists(SECCOMP) else "needs the package python3-seccomp"
    needs_root = why_not or (None if lab.drops and lab.isolated else "needs root")
    for case in (linux_4_18_exchanges_data_by_both_transports,):
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)
    for case in (full_shm_exchanges_data_by_both_transports, read_only_tmp_and_home_devices_are_in_sys,
                 read_only_directories_program_prints_cause, linux_4_18_roots_daemon_forwards_to_other_users):
        cases.run_unless(needs_root, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
