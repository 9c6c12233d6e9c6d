# SPDX-License-Identifier: BSD-2-Clause
"""Tests `usrdma env`, whose output a shell, a Dockerfile and GitHub Actions read, and `usrdma run --mount`, with which
static programs find the devices."""

import os
import re
import subprocess

from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.daemon_kit import OTHER_UID, daemon
from tests.programs.lab import check, wait_until

NAMES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "USRDMA_DEVICES", "USRDMA_PROFILE")
# What the user already has: characters with a meaning in shells and Dockerfiles, and an empty value.
DIFFICULT = "/o'ne \"two\" $HOME `three` \\four {five}"


def variables(text):
    """The variables of NAMES in the output of env -0."""
    pairs = dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
    return {name: pairs[name] for name in NAMES if name in pairs}


def of_run(lab, *options, **env):
    """The variables that a program has under `usrdma run`."""
    status, out, err = usrdma(lab, "run", *options, "--", "env", "-0", **env)
    check(status == 0, err)
    return variables(out)


def of_shell(lab, *options, **env):
    """The variables that a shell has after it has evaluated the output of `usrdma env`."""
    script = 'text=$("$0" env "$@") && eval "$text" && exec env -0'
    done = subprocess.run(["sh", "-c", script, os.path.join(lab.tree, "usrdma"), *options], env=dict(lab.env, **env),
                          capture_output=True, text=True, check=True, cwd="/")
    return variables(done.stdout)


def of_github(text):
    """The variables that GitHub Actions reads from a file GITHUB_ENV with this text."""
    found, lines = {}, iter(text.split("\n")[:-1])
    for line in lines:
        if "<<" in line.split("=")[0]:
            name, end = line.split("<<", 1)
            value = []
            while (part := next(lines)) != end:
                value.append(part)
            found[name] = "\n".join(value)
        else:
            name, value = line.split("=", 1)
            found[name] = value
    return found


def of_dockerfile(text, before):
    """The variables of an image after these lines of a Dockerfile: backslashes, quotes, $NAME and ${NAME:+WORD}."""
    found = dict(before)
    for line in text.splitlines():
        name, value = re.fullmatch(r'ENV (\w+)="((?:\\.|[^"\\])*)"', line).groups()

        def plain(word):
            return re.sub(r"\\(.)|\$(\w+)", lambda match: match[1] or found.get(match[2], ""), word)
        parts = re.split(r"(?<!\\)\$\{(\w+):\+([^}]*)\}", value)
        result = plain(parts[0])
        for variable, word, rest in zip(parts[1::3], parts[2::3], parts[3::3]):
            result += (plain(word) if found.get(variable) else "") + plain(rest)
        found[name] = result
    return found


def env_sets_the_variables_of_run(lab):
    """In each format the variables have the values that `usrdma run` gives a program."""
    options = ("--device", "mlx5_0=lo", "--profile", "connectx-6")
    runtime = {"LD_PRELOAD": lab.env.get("LD_PRELOAD", "")}
    for env in ({}, {"LD_LIBRARY_PATH": ""}, {"LD_LIBRARY_PATH": "/one:/two"}, {"LD_LIBRARY_PATH": DIFFICULT},
                {"LD_LIBRARY_PATH": "/one\n/two"}, {"USRDMA_SHARE": "off"}):
        wanted = of_run(lab, *options, **env)
        check(len(wanted) == len(NAMES), f"{wanted}")
        check(of_shell(lab, *options, **env) == wanted, f"{env}: {of_shell(lab, *options, **env)} and {wanted}")
        status, out, err = usrdma(lab, "env", "--format", "github", *options, **env)
        check(status == 0 and not err and of_github(out) == wanted, f"{env}: {out}")
        status, out, err = usrdma(lab, "env", "--format", "dockerfile", *options, **env)
        image = {**runtime, **env}
        image.pop("USRDMA_SHARE", None)
        check(status == 0 and not err and of_dockerfile(out, image) == wanted, f"{env}: {out}")


def env_twice_changes_nothing(lab):
    """The output of a shell that has the variables does not name a library twice."""
    for env in ({}, {"LD_LIBRARY_PATH": "/one"}):
        first = of_run(lab, **env)
        check(of_shell(lab, **{**env, **first}) == first and of_run(lab, **{**env, **first}) == first, f"{first}")


def env_serves_programs(lab):
    """A program of a shell with the variables has the devices."""
    script = 'eval "$("$0" env --device my0=lo --only-devices)" && exec ibv_devices'
    done = lab.start("sh", "-c", script, os.path.join(lab.tree, "usrdma"), native=True).finish(lab.seconds(20))
    check(re.search(r"^\s+my0\s+[0-9a-f]{16}$", done, re.M) and " lo " not in done, done)


def env_rejects_invalid_command_lines(lab):
    for argv, text in ((("--format", "yaml"), "unknown format 'yaml' (shell, dockerfile or github)"),
                       (("--mount",), "env: unknown option, or an option without a value: '--mount'"),
                       (("--format",), "'--format'"), (("ibv_devices",), "unexpected argument 'ibv_devices'")):
        status, out, err = usrdma(lab, "env", *argv)
        check(status == 2 and not out and text in err, f"{argv}: {status} {err}")
    status, _, err = usrdma(lab, "run", "--format", "shell", "--", "true")
    check(status == 2 and "run: unknown option" in err, err)


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return lines.read()


def static_programs_find_the_devices(lab):
    """A static program sees the devices as root and as an ordinary user. The mounts of the machine stay the same, and
    the other files of /sys and /dev are those of the kernel."""
    before = mounts()
    static = lab.tool("sysfs_static")
    compare = ("readlink -f /sys/class/net/lo; cat /sys/class/net/lo/address; ls -A /sys/kernel /sys/class/net; "
               "stat -c '%n %t %T' /dev/null /dev/zero /dev/tty; [ -w /dev/null ] && pwd; ls -A /dev | sort")
    plain = subprocess.run(["sh", "-c", compare], stdout=subprocess.PIPE, text=True, check=True, cwd="/").stdout
    for uid in (0, OTHER_UID):
        lab.end_daemons()
        status, out, err = usrdma(lab, "run", static, uid=uid)
        check(status == 1 and "No such file" in out + err, f"without --mount: {out}{err}")
        status, out, err = usrdma(lab, "run", "--mount", static, uid=uid)
        check(status == 0 and not err, f"{status} {err}")
        for line in ("lo ports/1/state 4: ACTIVE", r"lo ports/1/gids/0 [0-9a-f:]{39}",
                     r"lo ports/1/counters/port_xmit_packets \d+", "lo is /sys/devices/virtual/infiniband/lo"):
            check(re.search(f"^{line}$", out, re.M), f"{line}: {out}")
        status, out, err = usrdma(lab, "run", "--mount", "sh", "-c", compare, uid=uid)
        check(status == 0 and out.splitlines() == with_infiniband(plain), f"{out}{err} and {plain}")
        status, out, err = usrdma(lab, "run", "--mount", "sh", "-c", "id -u; id -g; exit 7", uid=uid)
        check(status == 7 and out.split() == [str(uid)] * 2, f"{status} {out}{err}")
        status, out, err = usrdma(lab, "run", "--mount", "/nosuch", uid=uid)
        check(status == 127, f"{status}: {err}")
    check(mounts() == before, "the mounts of the machine have changed")


def with_infiniband(text):
    """The lines of a listing that ends with that of /dev, with the directory of the devices."""
    lines = text.splitlines()
    start = lines.index("/") + 1
    return lines[:start] + sorted(lines[start:] + ["infiniband"])


def mounted_devices_have_names_and_profiles(lab):
    """The files are those of the options: with an adapter's profile, also the PCI function."""
    status, out, err = usrdma(lab, "run", "--mount", "--device", "mlx5_0=lo", "--profile", "connectx-6", "--",
                              lab.tool("sysfs_static"), uid=0)
    match = re.search(r"^mlx5_0 is (/sys/devices/pci\S+/infiniband/mlx5_0)$", out, re.M)
    check(status == 0 and match and "\nown0 is" in out, f"{status} {out}{err}")


def mounted_programs_connect(lab):
    """A program with --mount of an ordinary user connects to one without."""
    lab.end_daemons()
    port = lab.port()
    server = lab.start("rping", "-s", "-p", port, user=OTHER_UID)
    wait_until(lambda: f":{port}" in usrdma(lab, "status", uid=OTHER_UID)[1], lab.seconds(10), "the listener")
    client = lab.start(os.path.join(lab.tree, "usrdma"), "run", "--mount", "--", "rping", "-c", "-a", "127.0.0.1", "-C",
                       3, "-v", "-p", port, native=True, user=OTHER_UID)
    check(client.finish(lab.seconds(30)).count("ping data: rdma-ping-") == 3, client.story())
    server.finish(lab.seconds(20))


def mounted_program_is_alone_in_its_namespace(lab):
    """The command is on a mount of a namespace that has no other process, as in a container with a volume: the kernel
    removes this mount when the command enters a new namespace."""
    # The daemon is outside.
    usrdma(lab, "status")
    script = 'mount --bind "$0" "$0"\nexec "$0/usrdma" run --mount -- "$1"'
    done = subprocess.run(["unshare", "-m", "sh", "-ec", script, lab.tree, lab.tool("sysfs_static")],
                          env=lab.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=lab.seconds(20))
    check(done.returncode == 0, done.stdout)


def mount_names_a_daemon_that_the_program_cannot_use(lab):
    """In a user namespace root's daemon cannot be verified: the program only has the files."""
    lab.end_daemons()
    with daemon(lab, uid=0):
        status, out, err = usrdma(lab, "run", "--mount", lab.tool("sysfs_static"), uid=OTHER_UID)
    check(status == 0 and "lo ports/1/state 4: ACTIVE" in out, out + err)
    check(err.count("\n") == 1 and "cannot verify that the daemon belongs to uid 0" in err, err)


def mount_names_what_was_refused(lab):
    """Without permission to create a namespace, the message has the reason and what to do; no program starts."""
    lab.end_daemons()
    command = ("echo 0 >/proc/sys/user/max_user_namespaces && "
               'exec setpriv --bounding-set=-sys_admin "$0" run --mount -- echo started')
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", command, os.path.join(lab.tree, "usrdma")], env=lab.env,
                          capture_output=True, text=True, check=False, cwd="/", timeout=lab.seconds(30))
    check(done.returncode == 1 and not done.stdout, f"{done}")
    check(done.stderr.startswith("usrdma: run --mount: cannot create a user and mount namespace: No space left on "
                                 "device: the limit of namespaces is reached: sysctl user.max_user_namespaces; "),
          done.stderr)


def body(lab, cases):
    for case in (env_sets_the_variables_of_run, env_twice_changes_nothing, env_serves_programs,
                 env_rejects_invalid_command_lines):
        cases.run(case.__name__.replace("_", " "), case, lab)
    why_not = None if lab.isolated and lab.drops else "needs root"
    for case in (static_programs_find_the_devices, mounted_devices_have_names_and_profiles, mounted_programs_connect,
                 mounted_program_is_alone_in_its_namespace,
                 mount_names_a_daemon_that_the_program_cannot_use, mount_names_what_was_refused):
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
