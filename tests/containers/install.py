# SPDX-License-Identifier: BSD-2-Clause
"""Runs the steps of action.yml and of packaging/ci/gitlab.yml in clean roots of Debian 12, as GitHub and GitLab do."""

import os
import re
import shlex
import subprocess

import yaml

from tests.containers.podman import BASE, ROOT
from tests.packages.debian import check, tree_version, unpack_tree

# A version that the tree does not have: the scripts must fetch its tag.
OTHER_VERSION = "97.98.99"
# Debian's ibv_devices lists the devices without `usrdma run`.
LIST = """
apt-get -qq update
apt-get -qq -y install --no-install-recommends ibverbs-utils >/dev/null
ibv_devices
ls /sys/class/infiniband
"""
# GitHub's steps run as an ordinary user with sudo, on a machine with systemd. systemd does not run in the tests: a
# script records the call.
RUNNER = """
set -e
apt-get -qq update
apt-get -qq -y install --no-install-recommends sudo git >/dev/null
useradd --create-home runner
echo 'runner ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/runner
mkdir -p /run/systemd/system
printf '#!/bin/sh\\necho "systemctl $*"\\n' >/usr/local/bin/systemctl
chmod +x /usr/local/bin/systemctl
"""


def read_yaml(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def git(directory, *argv):
    subprocess.run(["git", "-C", directory, "-c", "user.name=test", "-c", "user.email=test@invalid", *argv], check=True,
                   stdout=subprocess.DEVNULL)


class Source:
    """The tree as an action, and a repository with a tag of another version. In its main branch scripts/setup fails."""

    def __init__(self, scratch):
        self.tree = os.path.join(scratch, "action")
        self.repositories = os.path.join(scratch, "repositories")
        unpack_tree(self.tree)
        repository = os.path.join(self.repositories, "owner/usrdma")
        unpack_tree(repository)
        file = os.path.join(repository, "meson.build")
        with open(file, encoding="utf-8") as text:
            changed = text.read().replace(f"version: '{tree_version()}'", f"version: '{OTHER_VERSION}'")
        with open(file, "w", encoding="utf-8") as text:
            text.write(changed)
        git(repository, "init", "--quiet", "--initial-branch=main")
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message=test")
        git(repository, "tag", f"v{OTHER_VERSION}")
        with open(os.path.join(repository, "scripts/setup"), "w", encoding="utf-8") as text:
            text.write('#!/bin/sh\necho "$0 $*"\nexit 7\n')
        git(repository, "commit", "--quiet", "--all", "--message=main")

    def mounts(self):
        return ["--volume", f"{self.tree}:/action:ro", "--volume", f"{self.repositories}:/repositories:ro"]


def value(text, inputs):
    """The value of an expression of GitHub; action.yml has only references to inputs."""
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: inputs[match[1]], text)


def action_steps(**given):
    """The steps of action.yml as a shell script, with the values of its inputs."""
    action = read_yaml("action.yml")
    unknown = given.keys() - action["inputs"].keys()
    check(not unknown and action["runs"]["using"] == "composite", f"{unknown} {action}")
    inputs = {name: given.get(name, entry["default"]) for name, entry in action["inputs"].items()}
    lines = []
    for step in action["runs"]["steps"]:
        check(step["shell"] == "sh", f"{step}")
        settings = [f"{name}={shlex.quote(value(text, inputs))}" for name, text in step["env"].items()]
        lines.append(f"env {' '.join(settings)} sh -e -c {shlex.quote(step['run'])}")
    return "\n".join(lines)


def has_devices(shown, version):
    check(f"compiling version {version}\n" in shown, shown)
    # ibv_devices prints the device and its GUID, ls the device only.
    check(re.search(r"^\s+tap0\s+\w{16}", shown, re.M) and re.search(r"^tap0$", shown, re.M), shown)


def action_installs_another_version(podman, source):
    """The step fetches the tag of the input; it runs as an ordinary user, and enables the socket of systemd."""
    step = ("export GITHUB_ACTION_PATH=/action GITHUB_SERVER_URL=file:///repositories "
            "GITHUB_ACTION_REPOSITORY=owner/usrdma\n" + action_steps(version=OTHER_VERSION))
    # The repository belongs to another user than the one that clones it.
    prepare = RUNNER + "git config --system --add safe.directory '*'\n"
    script = f"{prepare}su runner -s /bin/sh -c {shlex.quote(step)}\n{LIST}"
    shown = podman.online(BASE, "sh", "-e", "-c", script, options=source.mounts(), seconds=3600)
    has_devices(shown, OTHER_VERSION)
    check("systemctl --quiet enable --now usrdmad.socket" in shown, shown)


def gitlab_starts_the_script_of_the_main_branch(podman, source):
    """
    The lines of the template clone the main branch and start packaging/ci/install, which compiles this checkout. The
    failure of scripts/setup ends the job there: the action's case has compiled and installed.
    """
    template = read_yaml("packaging/ci/gitlab.yml")[".usrdma"]
    settings = {**template["variables"], "USRDMA_REPOSITORY": "file:///repositories/owner/usrdma"}
    lines = [f"export {name}={shlex.quote(text)}" for name, text in settings.items()]
    # GitLab runs each line of a job in the same shell.
    script = "\n".join([*lines, "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'",
                        *template["before_script"]])
    shown = podman.online(BASE, "sh", "-c", f"sh -e -c {shlex.quote(script)}; echo status $?", options=source.mounts())
    check(f"compiling version {OTHER_VERSION}\n/tmp/usrdma/scripts/setup build\nstatus 7\n" in shown, shown)


def wrong_arguments_are_reported(podman, source):
    """Before anything is installed."""
    for arguments, words in (("-v 1.2.3", "no repository is given"), ("-v main", "invalid version 'main'"),
                             ("-f yes", "invalid FORCE 'yes'"), ("-v 1.2.3 -r file:///none", "git was not found"),
                             ("more", "usage: packaging/ci/install")):
        shown = podman.run(BASE, "sh", "-c", f"/action/packaging/ci/install {arguments}; echo status $?",
                           options=source.mounts())
        check(words in shown and "status 2" in shown, f"{arguments}: {shown}")


def cases(counted, podman):
    source = Source(podman.scratch)
    counted.run("packaging/ci/install reports wrong arguments", wrong_arguments_are_reported, podman, source)
    counted.run("the GitHub Action installs the release of its input, as a user with sudo",
                action_installs_another_version, podman, source)
    counted.run("the GitLab template starts packaging/ci/install of the main branch",
                gitlab_starts_the_script_of_the_main_branch, podman, source)
