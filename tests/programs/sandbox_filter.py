# SPDX-License-Identifier: BSD-2-Clause
"""Runs a program as a container, an older kernel or a hardened machine would run it: under a seccomp filter in which
selected system calls fail.

    sandbox_filter.py NAME... -- PROGRAM ARGUMENT...

NAME is a name of SANDBOXES, or the path of a profile in the JSON format of Docker and Podman. The processes that the
program starts, and so the RDMA daemon, inherit the filter. The program also runs with no_new_privs, which a filter of
an unprivileged process requires. The interpreter must be Debian's: its package python3-seccomp contains libseccomp's
module."""

import contextlib
import errno
import json
import os
import socket
import sys

# The names of the constants are those of the kernel's headers.
F_ADD_SEALS = 1033
F_SEAL_FUTURE_WRITE = 0x10
MFD_NOEXEC_SEAL = 0x8
RWF_NOWAIT = 0x8
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
SO_ATTACH_REUSEPORT_CBPF = 51
SO_PEERPIDFD = 77
IPV6_MULTICAST_ALL = 29
UDP_SEGMENT, UDP_GRO = 103, 104
PROCMAP_QUERY_TYPE = 0x6600  # 'f' of the ioctl numbers of fs.h
CLONE_NEW = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET

ACCESS_TO_PROCESSES = ("process_vm_readv", "process_vm_writev", "pidfd_getfd", "ptrace", "kcmp")

# Each rule: the call, the error, and conditions (argument, mask, value): the argument with this mask has the value.
# All conditions of a rule must hold.
SANDBOXES = {
    # Calls that the profile of Docker 20.10 refuses without additional capabilities. ptrace(2), which it permits, is
    # refused as well.
    "docker": [(name, errno.EPERM) for name in (
        *ACCESS_TO_PROCESSES, "process_madvise", "userfaultfd", "unshare", "setns", "mount", "umount2",
        "perf_event_open", "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "mbind", "set_mempolicy",
        "get_mempolicy",
        "add_key", "keyctl", "request_key", "fanotify_init", "open_by_handle_at", "name_to_handle_at", "move_pages",
        "migrate_pages", "vmsplice")] + [
            ("clone", errno.EPERM, (0, 1 << bit, 1 << bit)) for bit in range(32) if CLONE_NEW & 1 << bit] + [
            ("clone3", errno.ENOSYS)],
    # Podman: calls that its profile does not list fail with ENOSYS.
    "podman": [(name, errno.EPERM) for name in (
        "userfaultfd", "kcmp", "process_madvise", "perf_event_open", "bpf", "setns", "move_pages", "migrate_pages",
        "vmsplice", "open_by_handle_at", "fanotify_init")] + [
            (name, errno.ENOSYS) for name in ("io_uring_setup", "io_uring_enter", "io_uring_register", "add_key",
                                              "keyctl", "request_key")],
    # What Yama answers to a process that is not an ancestor (ptrace_scope 1), to one without CAP_SYS_PTRACE (2), and to
    # all processes (3).
    "yama": [(name, errno.EPERM) for name in ACCESS_TO_PROCESSES],
    "no-ipv6": [("socket", errno.EAFNOSUPPORT, (0, 0xFFFFFFFF, socket.AF_INET6))],
    "no-rseq": [("rseq", errno.ENOSYS)],
    "no-membarrier": [("membarrier", errno.ENOSYS)],
    "no-memfd": [("memfd_create", errno.ENOSYS)],
    "no-gro": [("setsockopt", errno.ENOPROTOOPT, (1, 0xFFFFFFFF, socket.IPPROTO_UDP), (2, 0xFFFFFFFF, UDP_GRO))],
    "no-steering": [("setsockopt", errno.ENOPROTOOPT, (1, 0xFFFFFFFF, socket.SOL_SOCKET),
                     (2, 0xFFFFFFFF, SO_ATTACH_REUSEPORT_CBPF))],
    # Linux 4.18. Calls of Linux 5.1 and later have the numbers from 424 on, on all architectures.
    "linux-4.18": [(number, errno.ENOSYS) for number in range(424, 480)] + [
        ("fcntl", errno.EINVAL, (1, 0xFFFFFFFF, F_ADD_SEALS), (2, F_SEAL_FUTURE_WRITE, F_SEAL_FUTURE_WRITE)),
        ("memfd_create", errno.EINVAL, (1, MFD_NOEXEC_SEAL, MFD_NOEXEC_SEAL)),
        ("preadv2", errno.EOPNOTSUPP, (5, RWF_NOWAIT, RWF_NOWAIT)),
        ("madvise", errno.EINVAL, (2, 0xFFFFFFFF, MADV_POPULATE_READ)),
        ("madvise", errno.EINVAL, (2, 0xFFFFFFFF, MADV_POPULATE_WRITE)),
        ("ioctl", errno.ENOTTY, (1, 0xFF00, PROCMAP_QUERY_TYPE)),
        ("getsockopt", errno.ENOPROTOOPT, (1, 0xFFFFFFFF, socket.SOL_SOCKET), (2, 0xFFFFFFFF, SO_PEERPIDFD)),
        ("setsockopt", errno.ENOPROTOOPT, (1, 0xFFFFFFFF, socket.IPPROTO_UDP), (2, 0xFFFFFFFF, UDP_GRO)),
        ("setsockopt", errno.ENOPROTOOPT, (1, 0xFFFFFFFF, socket.IPPROTO_IPV6), (2, 0xFFFFFFFF, IPV6_MULTICAST_ALL))],
}


def load(name):
    """Installs the filter of a sandbox. Everything else is permitted."""
    import seccomp  # pylint: disable=import-error,import-outside-toplevel
    table = seccomp.SyscallFilter(seccomp.ALLOW)
    for call, error, *conditions in SANDBOXES[name]:
        table.add_rule(seccomp.ERRNO(error), call,
                       *(seccomp.Arg(argument, seccomp.MASKED_EQ, mask, value) for argument, mask, value in conditions))
    table.load()


def applies(rule):
    """Whether a rule of a profile applies to a container without capabilities on this machine."""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    architectures = {"x86_64": {"amd64", "x32"}, "aarch64": {"arm64"}}.get(os.uname().machine, set())
    return not includes.get("caps") and ("arches" not in includes or architectures & set(includes["arches"])) and \
        not architectures & set(excludes.get("arches", ()))


def load_profile(path):
    """Installs the filter of a profile file. Calls that this libseccomp does not contain get the default action."""
    import seccomp  # pylint: disable=import-error,import-outside-toplevel
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)

    def action(name, error):
        return seccomp.ALLOW if name == "SCMP_ACT_ALLOW" else seccomp.ERRNO(error)
    default = action(profile["defaultAction"], profile.get("defaultErrnoRet", errno.EPERM))
    table = seccomp.SyscallFilter(default)
    for rule in filter(applies, profile["syscalls"]):
        chosen = action(rule["action"], rule.get("errnoRet", errno.EPERM))
        # libseccomp refuses rules with the default action.
        if chosen == default:
            continue
        conditions = [condition_of(seccomp, condition) for condition in rule.get("args") or ()]
        for name in rule["names"]:
            with contextlib.suppress(ValueError):
                table.add_rule(chosen, seccomp.resolve_syscall(seccomp.Arch(), name), *conditions)
    table.load()


def condition_of(seccomp, condition):
    operator = getattr(seccomp, condition["op"].removeprefix("SCMP_CMP_"))
    more = [condition.get("valueTwo", 0)] if operator == seccomp.MASKED_EQ else []
    return seccomp.Arg(condition["index"], operator, condition["value"], *more)


def main():
    end = sys.argv.index("--")
    for name in sys.argv[1:end]:
        if name in SANDBOXES:
            load(name)
        else:
            load_profile(name)
    os.execvp(sys.argv[end + 1], sys.argv[end + 1:])


if __name__ == "__main__":
    main()
