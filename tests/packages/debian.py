# SPDX-License-Identifier: BSD-2-Clause
"""The Debian packages of one release: built, installed, used, upgraded and purged, in clean roots of that release."""

import contextlib
import glob
import os
import re
import shutil
import subprocess

from tests.packages.roots import SHARED, USER, Failure, Root, differences
from tests.programs import debian_root

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = ("usrdma", "usrdma-dev", "usrdma-tools", "usrdma-doc")
RDMA_CORE = ("rdmacm-utils", "ibverbs-utils")
# In the roots of the build. The path of the build is a part of the keys of ccache.
SOURCE, OUTPUT, OTHER_OUTPUT, CACHE = "/source", "/tmp/usrdma-packages", "/other/place", "/ccache"

# Two programs compiled by pkg-config: with usrdma-dev, and with libibverbs-dev beside it.
COMPILE = """
set -e
cd /tmp
printf '#include <rdma/rdma_cma.h>\\nint main(void) { return !rdma_create_event_channel(); }\\n' >two.c
cc two.c -o of-rdma-core $(pkg-config --cflags --libs librdmacm)
export PKG_CONFIG_PATH=/usr/lib/$(cc -print-multiarch)/pkgconfig/usrdma
cc two.c -o of-usrdma $(pkg-config --cflags --libs librdmacm)
ldd of-rdma-core of-usrdma
"""

RPING = """
set -e
usrdma rping -s -a 127.0.0.1 -p 20001 -C 3 &
until usrdma status --json 2>/dev/null | grep -q '"local": "127.0.0.1:20001"'; do
	kill -0 $!
	sleep 0.1
done
usrdma rping -c -a 127.0.0.1 -p 20001 -C 3 -v
wait $!
"""

# The directories of the links that `systemctl enable` creates, by kind of unit.
WANTED = {"service": "/etc/systemd/system/multi-user.target.wants",
          "socket": "/etc/systemd/system/sockets.target.wants"}
# The maintainer scripts call systemctl if systemd runs. It does not run in the roots: a script records the calls.
SYSTEMCTL = f'#!/bin/sh\necho "$*" >>{SHARED}/systemctl.log\n'


def check(truth, why):
    if not truth:
        raise Failure(why)


def build_packages():
    """The packages that Build-Depends names, a compiler and ccache."""
    with open(os.path.join(ROOT, "packaging/debian/control"), encoding="utf-8") as file:
        depends = re.search(r"^Build-Depends: ((?:.*\n)(?: .*\n)*)", file.read(), re.M)[1]
    names = [re.match(r"[\w.+-]+", word.strip())[0] for word in depends.split(",")]
    return ("build-essential", "ccache", *("debhelper" if name == "debhelper-compat" else name for name in names))


def git(*argv):
    return subprocess.run(["git", "-C", ROOT, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          text=True).stdout


def tree_version():
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
        return re.search(r"^  version: '(.*)',$", file.read(), re.M)[1]


def unpack_tree(directory):
    """Writes the tracked files, as they are in the work tree, to the directory."""
    names = git("ls-files", "-z")
    check(names, f"{ROOT} is not a git work tree")
    for name in names.split("\0"):
        file = os.path.join(ROOT, name)
        if name and os.path.lexists(file):
            os.makedirs(os.path.dirname(os.path.join(directory, name)), exist_ok=True)
            shutil.copy2(file, os.path.join(directory, name), follow_symlinks=False)


def unpack_previous(directory):
    """
    Writes the tree of the last release to the directory and returns its version. If this release has no packages
    or is the present version, writes the present tree and returns a version that is lower than that of the tree.
    """
    tag = git("describe", "--tags", "--abbrev=0").strip()
    if tag not in ("", "v" + tree_version()) and git("ls-tree", "--name-only", tag, "packaging/build-deb"):
        archive = subprocess.run(["git", "-C", ROOT, "archive", tag], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
        return tag.removeprefix("v")
    print(f"# {tag or 'no release'} has no packages of another version: upgrading from this tree, lower version")
    unpack_tree(directory)
    return tree_version() + "~previous"


class Release:
    """The packages of one release of Debian. `build()` comes first."""

    def __init__(self, codename, scratch):
        self.codename = codename
        self.scratch = os.path.join(scratch, codename)
        self.packages = os.path.join(self.scratch, "packages")
        os.makedirs(self.packages)
        self.ccache = os.environ.get("CCACHE_DIR") or os.path.join(debian_root.cache_directory(), "ccache")
        os.makedirs(self.ccache, exist_ok=True)
        self.jobs = os.environ.get("JOBS") or str(os.cpu_count())
        self.epoch = git("log", "-1", "--format=%ct").strip() or "1"

    def built(self, root, source, version, output, **env):
        """Builds in the root, and returns the files on this machine."""
        root.run(f"{source}/packaging/build-deb", "-o", output, "-v", version, seconds=7200,
                 SOURCE_DATE_EPOCH=self.epoch, CCACHE_DIR=CACHE, CCACHE_COMPILERCHECK="content",
                 DEB_BUILD_OPTIONS=f"parallel={self.jobs}", **env)
        kept = os.path.join(self.packages, version + output.replace("/", "-"))
        shutil.copytree(root.path + output, kept)
        return sorted(glob.glob(f"{kept}/usrdma*_{version}_*.deb"))

    def build(self, is_repeated):
        """Builds the packages of the tree and of the previous version; if is_repeated, those of the tree again."""
        with Root(self.codename, build_packages(), self.scratch, {self.ccache: CACHE}) as root:
            os.makedirs(root.path + SOURCE)
            unpack_tree(root.path + SOURCE)
            self.now = self.built(root, SOURCE, tree_version(), OUTPUT)
            check(len(self.now) >= len(PACKAGES), f"built: {self.now}")
            self.again = is_repeated and self.built(root, SOURCE, tree_version(), OTHER_OUTPUT, LC_ALL="C",
                                                    TZ="Pacific/Apia")
            os.makedirs(root.path + "/previous")
            self.previous = self.built(root, "/previous", unpack_previous(root.path + "/previous"), OUTPUT)

    def same_bytes(self):
        for first, second in zip(self.now, self.again, strict=True):
            with open(first, "rb") as one, open(second, "rb") as other:
                check(one.read() == other.read(), f"{os.path.basename(first)} differs, see {first} and {second}")

    def lintian(self):
        changes = glob.glob(os.path.join(os.path.dirname(self.now[0]), "*.changes"))
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *changes],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        check(done.returncode == 0 and "E:" not in done.stdout and "W:" not in done.stdout, done.stdout)

    def develops(self):
        """usrdma-dev beside librdmacm-dev: pkg-config selects one of them."""
        with Root(self.codename, build_packages(), self.scratch) as root:
            root.apt("update")
            root.apt("install", "--no-install-recommends", "librdmacm-dev",
                     *root.put(files_of(self.now, "usrdma", "usrdma-dev"), "now"))
            shown = root.run("sh", "-c", COMPILE)
            found = re.findall(r"librdmacm\.so\.1 => (\S+)", shown)
            check(len(found) == 2 and "/usrdma/" not in found[0] and "/usrdma/" in found[1], shown)


def files_of(files, *packages):
    return [file for file in files if os.path.basename(file).split("_")[0] in packages]


class Installation:
    """A clean root with rdma-core's programs, in which the cases install, use and remove the packages in this order."""

    def __init__(self, release, root):
        self.release, self.root = release, root

    def prepare(self):
        self.root.apt("update")
        self.root.run("useradd", "--create-home", USER)
        self.root.put([os.path.join(ROOT, "scripts/demo")], "scripts")
        self.record_systemctl()
        # As on a machine with units of other packages: purging removes an empty directory.
        for kind, wanted in WANTED.items():
            os.makedirs(self.root.path + wanted, exist_ok=True)
            os.symlink(f"/lib/systemd/system/other.{kind}", f"{self.root.path}{wanted}/other.{kind}")
        self.before, self.linker = self.root.snapshot(), self.linker_state()

    def record_systemctl(self):
        os.makedirs(f"{self.root.path}/run/systemd/system", exist_ok=True)
        os.makedirs(f"{self.root.path}{SHARED}/bin")
        with open(f"{self.root.path}{SHARED}/bin/systemctl", "w", encoding="ascii") as file:
            file.write(SYSTEMCTL)
            os.chmod(file.fileno(), 0o755)

    def systemctl_calls(self):
        """The calls since the last time, of those that concern the service."""
        log = f"{self.root.path}{SHARED}/systemctl.log"
        if not os.path.exists(log):
            return []
        with open(log, encoding="utf-8") as file:
            calls = [line.strip() for line in file if "usrdmad" in line]
        os.unlink(log)
        return calls

    def linker_state(self):
        """The libraries in the directories of the dynamic linker, and those that rping loads."""
        listed = re.sub(r" => .*", "", self.root.run("ldconfig", "-p"))
        return re.findall(r"^\tlib(?:ibverbs|rdmacm|rspreload|efa|hns|ionic|mana|mlx[45])\..*", listed, re.M) + \
            re.findall(r"\S+ => \S+", self.root.run("ldd", "/usr/bin/rping"))

    def install_alone(self):
        """The package usrdma alone has all that its command starts: `usrdma doctor HOST` runs cm-reach."""
        self.root.apt("install", "--no-install-recommends",
                      *self.root.put(files_of(self.release.previous, "usrdma"), "alone"))
        shown = self.root.run("sh", "-c", "usrdma doctor 127.0.0.1 || true", user=USER, own_network=True, seconds=600)
        check("127.0.0.1 answers on UDP port 4791" in shown, shown)

    def install(self):
        """As an administrator does: local files, their dependencies from Debian."""
        self.root.apt("install", "--no-install-recommends",
                      *self.root.put(files_of(self.release.previous, *PACKAGES), "previous"))
        self.versions(self.release.previous)

    def versions(self, files):
        wanted = {os.path.basename(file).split("_")[1] for file in files}
        shown = set(self.root.run("dpkg-query", "-W", "-f", "${Version}\n", *PACKAGES).split())
        check(shown == wanted, f"installed: {shown}, wanted: {wanted}")

    def changes_nothing(self):
        before, now = set(self.linker), set(self.linker_state())
        check(now == before, "\n".join(sorted(now ^ before)))
        calls = self.systemctl_calls()
        check(not any(re.search(r"\b(start|restart|enable)\b(?<!try-restart)", call) for call in calls), f"{calls}")
        links = glob.glob(f"{self.root.path}/etc/systemd/system/**/usrdma*", recursive=True)
        check(not links and not glob.glob(f"{self.root.path}/etc/ld.so.conf.d/*usrdma*"), f"{links}")

    def demo(self):
        shown = self.root.run(f"{SHARED}/scripts/demo", user=USER, own_network=True, seconds=600, USRDMA="usrdma")
        check(shown.count("ping data: rdma-ping-") == 5, shown)

    def commands(self):
        """The manual, and a tool of usrdma-tools, which is not the program with the same name in PATH."""
        shown = self.root.run("usrdma", "man", "rdma_connect", user=USER)
        check("rdma_connect" in shown, shown)
        shown = self.root.run("sh", "-c", RPING, user=USER, own_network=True, seconds=600)
        check(shown.count("ping data: rdma-ping-") == 3, shown)

    def upgrade(self):
        self.systemctl_calls()
        self.root.apt("install", "--no-install-recommends",
                      *self.root.put(files_of(self.release.now, *PACKAGES), "now"))
        self.versions(self.release.now)
        calls = self.systemctl_calls()
        check(any("try-restart" in call for call in calls) and not any("stop" in call for call in calls), f"{calls}")

    def enable(self):
        """Creates the links of `systemctl enable`, which purging has to remove."""
        files = self.root.run("dpkg", "-L", "usrdma").split()
        for kind, wanted in WANTED.items():
            unit = next(path for path in files if path.endswith(f"usrdmad.{kind}"))
            os.symlink(unit, f"{self.root.path}{wanted}/usrdmad.{kind}")

    def purge(self):
        self.systemctl_calls()
        self.root.apt("purge", "--autoremove", *PACKAGES)
        calls = self.systemctl_calls()
        check(any("stop" in call for call in calls), f"the service was not stopped: {calls}")
        left = differences(self.before, self.root.snapshot())
        check(not left, "\n".join(left))


def run(cases, codename, scratch, is_repeated):
    """All cases of one release. A case whose step before failed is not run, and the failure counts once."""
    with contextlib.suppress(Failure):
        release = Release(codename, scratch)
        cases.run(f"{codename}: the packages are built", release.build, is_repeated, needed=True)
        if is_repeated:
            cases.run(f"{codename}: two builds give the same bytes", release.same_bytes)
        if shutil.which("lintian"):
            cases.run(f"{codename}: lintian reports no error and no warning", release.lintian)
        else:
            cases.skip(f"{codename}: lintian", "lintian is not installed")
        with Root(codename, RDMA_CORE, release.scratch) as root:
            used = Installation(release, root)
            cases.run(f"{codename}: a clean root is made", used.prepare, needed=True)
            cases.run(f"{codename}: apt installs usrdma alone, usrdma doctor", used.install_alone)
            cases.run(f"{codename}: apt installs the previous version", used.install, needed=True)
            cases.run(f"{codename}: installing changes nothing for other programs", used.changes_nothing)
            cases.run(f"{codename}: demo as an ordinary user", used.demo)
            cases.run(f"{codename}: apt upgrades the packages", used.upgrade, needed=True)
            cases.run(f"{codename}: the upgrade changes nothing for other programs", used.changes_nothing)
            cases.run(f"{codename}: demo after the upgrade", used.demo)
            cases.run(f"{codename}: manual and tools", used.commands)
            cases.run(f"{codename}: the service can be enabled", used.enable)
            cases.run(f"{codename}: purge leaves nothing", used.purge)
        cases.run(f"{codename}: usrdma-dev beside librdmacm-dev", release.develops)
