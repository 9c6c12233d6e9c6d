# SPDX-License-Identifier: BSD-2-Clause
"""
Starts a daemon in a network namespace of its own, if the system permits one. Executed as a program, because only a
process with one thread may enter a user namespace.

_namespace.py daemon FD                executes the daemon, which writes one byte to FD when it is ready
_namespace.py run PROGRAM ...          starts the daemon and executes the program in its namespace
_namespace.py join FD,FD PROGRAM ...   executes the program in the namespaces of these files of /proc/PID/ns
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys

# <sched.h>, <sys/prctl.h>, <linux/sockios.h>, <linux/if.h>
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 1

# The process ID of the daemon of `run`, for the program and its child processes.
VARIABLE = "USRDMA_PYTEST_DAEMON"
STATUS_UNAVAILABLE = 126

DAEMON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix", "libexec", "usrdma", "usrdmad")


def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def enable_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack_from("16sh", request)[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def create():
    """Moves this process into a network namespace with `lo`. The user and group IDs do not change."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        call("unshare", CLONE_NEWNET)
    except PermissionError:
        call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{uid} {uid} 1")
        write("/proc/self/gid_map", f"{gid} {gid} 1")
    enable_loopback()


def enter():
    """Moves this process into a network namespace, or reports on standard error why it stays in the present one."""
    pid = os.fork()
    if pid == 0:
        # What a process entered, it cannot leave: this one tries all steps.
        try:
            create()
        except OSError as failure:
            os._exit(failure.errno or 1)
        os._exit(0)
    number = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    if number == 0:
        create()
    else:
        print(f"usrdma: the system permits no network namespace for the tests: {os.strerror(number)}; their devices "
              "and fault rules are those of all programs of this user", file=sys.stderr, flush=True)


def execute(path, *argv):
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(path, [path, *argv])


def execute_daemon(ready_fd):
    """The daemon ends with the process that started this one. It does not write to the streams of this process."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.set_inheritable(ready_fd, True)
    execute(DAEMON, "--idle-seconds", "0", "--ready-fd", str(ready_fd))


def start_daemon():
    """Returns the process ID of the daemon when it is ready."""
    ready, written = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            execute_daemon(written)
        os._exit(STATUS_UNAVAILABLE)
    os.close(written)
    if os.read(ready, 1) != b"\0":
        raise OSError(errno.ENODEV, "the daemon did not start; run usrdmad --foreground to see why")
    os.close(ready)
    return pid


def join(descriptors, argv):
    for descriptor, kind in descriptors:
        call("setns", descriptor, kind)
        os.close(descriptor)
    execute(*argv)


def main(mode, *argv):
    try:
        if mode == "daemon":
            enter()
            execute_daemon(int(argv[0]))
        if mode == "run":
            enter()
            os.environ[VARIABLE] = str(start_daemon())
            execute(*argv)
        numbers = [int(number) for number in argv[0].split(",")]
        kinds = (CLONE_NEWUSER, CLONE_NEWNET)[-len(numbers):]
        join(zip(numbers, kinds), argv[1:])
    except OSError as failure:
        print(f"usrdma: cannot start the daemon or the program: {failure.strerror}", file=sys.stderr)
    return STATUS_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
