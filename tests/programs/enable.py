# SPDX-License-Identifier: BSD-2-Clause
"""Tests `usrdma enable` and `usrdma disable`: on an image's directory tree (--root), and on the machine in a mount
namespace with an /etc of its own. No case changes the machine."""

import os
import re
import shutil
import subprocess

from tests.programs import lab as laboratory
from tests.programs.daemon_kit import OTHER_UID
from tests.programs.install import installed
from tests.programs.lab import UID_NOBODY, check

CONF = "etc/ld.so.conf.d/000-usrdma.conf"
PRELOAD = "etc/ld.so.preload"
LIBRARIES = "/usr/local/lib/usrdma"
INCLUDE = "include /etc/ld.so.conf.d/*.conf\n"

# Mounts over all that a case changes: /etc, the cache of ldconfig, and /usr/local, where usrdma is installed.
MACHINE = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/etc"
for name in ld.so.conf ld.so.conf.d ld.so.cache passwd group nsswitch.conf alternatives; do
    [ ! -e "/etc/$name" ] || cp -a "/etc/$name" "$1/etc"
done
mount --bind "$1/etc" /etc
mount -t tmpfs none /var/cache/ldconfig
mount --bind "$2/usr/local" /usr/local
export PATH=/usr/local/bin:$PATH
as() { user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
set +e
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def system_library():
    """The path of the distribution's libibverbs.so.1."""
    shown = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"^\s*libibverbs\.so\.1 .* => (\S+)$", shown, re.M)[1]


class Image:
    """A directory tree with an installed usrdma and the distribution's libibverbs."""

    def __init__(self, lab, staging):
        self.lab = lab
        self.root = os.path.join(lab.scratch, f"image{lab.count()}")
        self.libraries = self.path(LIBRARIES)
        shutil.copytree(staging, self.root, symlinks=True, ignore=shutil.ignore_patterns("share", "include", "bin"))
        os.chmod(self.root, 0o755)
        library = system_library()
        write(self.path("etc/ld.so.conf"), INCLUDE)
        write(self.path("etc/ld.so.conf.d/system.conf"), os.path.dirname(library) + "\n")
        os.makedirs(os.path.dirname(self.path(library)), exist_ok=True)
        shutil.copy(library, self.path(library))

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def run(self, *argv, status=0, uid=0):
        identity = {"user": uid, "group": uid, "extra_groups": []}
        done = subprocess.run([os.path.join(self.lab.tree, "usrdma"), *argv, "--root", self.root], env=self.lab.env,
                              capture_output=True, text=True, check=False, cwd="/", timeout=self.lab.seconds(30),
                              **identity)
        check(done.returncode == status, f"{argv}: {done}")
        return done.stdout + done.stderr

    def cached(self):
        """The libibverbs.so.1 that a program of the image loads."""
        shown = subprocess.run(["ldconfig", "-r", self.root, "-p"], stdout=subprocess.PIPE, text=True, check=True)
        return re.search(r"^\s*libibverbs\.so\.1 .* => (\S+)$", shown.stdout, re.M)[1]

    def files(self):
        """The content of /etc, without the cache."""
        found = {}
        for where, _, names in os.walk(self.path("etc")):
            for name in names:
                path = os.path.join(where, name)
                if name != "ld.so.cache":
                    found[os.path.relpath(path, self.root)] = (read(path), os.lstat(path).st_mode)
        return found


def enable_writes_files_and_disable_removes_them(lab, staging):
    """The libraries precede those of the distribution. A second call changes nothing. disable restores /etc."""
    image = Image(lab, staging)
    before = image.files()
    text = image.run("enable")
    check(f"from {LIBRARIES} (/{CONF})" in text and "usrdma enable --sysfs" in text, text)
    check(image.cached() == LIBRARIES + "/libibverbs.so.1", image.cached())
    check(not os.path.exists(image.path(PRELOAD)), "ld.so.preload without --sysfs")
    image.run("enable", "--sysfs")
    after = image.files()
    check(after[PRELOAD][0] == LIBRARIES + "/libusrdma-sysfs.so\n", after[PRELOAD])
    check(oct(after[PRELOAD][1] & 0o7777) == oct(after[CONF][1] & 0o7777) == "0o644", f"{after}")
    image.run("enable")
    image.run("enable", "--sysfs", "--force")
    check(image.files() == after, f"{image.files()}")
    image.run("disable")
    check(image.files() == before, f"{image.files()}")
    check(image.cached() == system_library(), image.cached())
    check("not enabled" in image.run("disable"), "a second disable")


def enable_keeps_other_lines_of_preload(lab, staging):
    """Lines, comments and the mode of ld.so.preload are those of before after disable."""
    image = Image(lab, staging)
    ours = LIBRARIES + "/libusrdma-sysfs.so"
    for text, left in (("/lib/libone.so # libusrdma-sysfs.so\n# two\n/lib/libthree.so\n", None),
                       ("/lib/libone.so", "/lib/libone.so\n"),
                       (f"/lib/libone.so:{ours} /lib/two.so\n", "/lib/libone.so: /lib/two.so\n")):
        write(image.path(PRELOAD), text)
        os.chmod(image.path(PRELOAD), 0o640)
        image.run("enable", "--sysfs")
        check(read(image.path(PRELOAD)).count(ours) == 1, read(image.path(PRELOAD)))
        image.run("disable")
        check(read(image.path(PRELOAD)) == (left or text), read(image.path(PRELOAD)))
        check(os.stat(image.path(PRELOAD)).st_mode & 0o7777 == 0o640, "the mode has changed")


def disable_leaves_changed_files(lab, staging):
    """A file that was changed after enable stays, is named with the reason, and the exit status is 1."""
    image = Image(lab, staging)
    image.run("enable", "--sysfs")
    changed = read(image.path(CONF)) + "/opt/other\n"
    write(image.path(CONF), changed)
    preload = read(image.path(PRELOAD))
    text = image.run("disable", status=1)
    check(f"left /{CONF}: it was changed after" in text and f"left {preload.strip()} in /{PRELOAD}" in text, text)
    check(read(image.path(CONF)) == changed and read(image.path(PRELOAD)) == preload, "a changed file was changed")
    text = image.run("enable", status=1)
    check(f"/{CONF} has another content than 'usrdma enable' writes" in text, text)
    check(read(image.path(CONF)) == changed, "enable has replaced a changed file")


def enable_replaces_the_directory_of_another_installation(lab, staging):
    """After an upgrade to another prefix, both files name the new directory only."""
    image = Image(lab, staging)
    image.run("enable", "--sysfs")
    for name in (CONF, PRELOAD):
        write(image.path(name), read(image.path(name)).replace(LIBRARIES, "/opt/old"))
    image.run("enable")
    for name in (CONF, PRELOAD):
        text = read(image.path(name))
        check(LIBRARIES in text and "/opt/old" not in text, f"{name}: {text}")


def enable_refuses_libraries_that_others_can_change(lab, staging):
    """Each directory of the path, each library and the daemon belong to root and are writable for root only."""
    image = Image(lab, staging)
    before = image.files()
    library = os.path.realpath(os.path.join(image.libraries, "libibverbs.so.1"))
    daemon = image.path("usr/local/libexec/usrdma/usrdmad")
    for path in (image.libraries, os.path.dirname(image.libraries), image.path("usr"), image.root, library, daemon):
        status = os.stat(path)
        for change, words in ((lambda name: os.chown(name, UID_NOBODY, -1), f"belongs to uid {UID_NOBODY}"),
                              (lambda name: os.chmod(name, 0o777), "can be changed by all users"),
                              (lambda name: os.chmod(name, 0o1777), "can be changed by all users"),
                              (lambda name: os.chmod(name, 0o775), f"can be changed by group {status.st_gid}"),
                              (lambda name: os.chmod(name, 0o700), "by all users: processes of root")):
            change(path)
            text = image.run("enable", "--sysfs", "--force", status=1)
            seen = path[len(image.root):] or "/"
            check(f"usrdma: enable: {seen} " in text and words in text, f"{path}: {text}")
            os.chown(path, status.st_uid, status.st_gid)
            os.chmod(path, status.st_mode & 0o7777)
    elsewhere = image.path("home/user/libibverbs.so.1")
    write(elsewhere, "")
    os.chown(os.path.dirname(elsewhere), OTHER_UID, OTHER_UID)
    os.symlink("/home/user/libibverbs.so.1", os.path.join(image.libraries, "libmore.so.1"))
    check(f"/home/user belongs to uid {OTHER_UID}" in image.run("enable", status=1), "a link to a user's file")
    os.unlink(os.path.join(image.libraries, "libmore.so.1"))
    other = image.path("usr/local/lib/usrdmad")
    write(other, "")
    os.chown(other, OTHER_UID, OTHER_UID)
    check(f"/usr/local/lib/usrdmad belongs to uid {OTHER_UID}" in image.run("enable", status=1), "another daemon")
    os.unlink(other)
    kept = os.path.join(lab.scratch, "usrdmad")
    shutil.move(daemon, kept)
    check("the daemon, /usr/local/libexec/usrdma/usrdmad, does not exist" in image.run("enable", status=1), "no daemon")
    shutil.move(kept, daemon)
    check(image.files() == before, f"{image.files()}")
    image.run("enable")


def enable_does_not_follow_links_out_of_the_image(lab, staging):
    """Links of the image to files of the machine change no file of the machine."""
    outside = os.path.join(lab.scratch, "outside")
    victim = os.path.join(outside, "victim")
    write(victim, "victim\n")
    for target in (victim, "../" * 30 + victim.lstrip("/")):
        for name in (CONF, PRELOAD):
            image = Image(lab, staging)
            os.symlink(target, image.path(name))
            text = image.run("enable", "--sysfs", status=1)
            check(f"/{name}" in text and "symbolic link" in text, text)
            image.run("disable", status=1)
            check(os.path.islink(image.path(name)), "the link was removed")
        image = Image(lab, staging)
        shutil.rmtree(image.path("etc/ld.so.conf.d"))
        os.symlink(os.path.dirname(target), image.path("etc/ld.so.conf.d"))
        check("No such file or directory" in image.run("enable", status=1), "a link to a directory")
    check(os.listdir(outside) == ["victim"] and read(victim) == "victim\n", f"{os.listdir(outside)}")


def enable_reports_what_is_missing(lab, staging):
    """The libraries, the line of /etc/ld.so.conf, the right of root, a valid command line."""
    image = Image(lab, staging)
    write(image.path("etc/ld.so.conf"), "/usr/lib\n")
    check("add the line 'include /etc/ld.so.conf.d/*.conf'" in image.run("enable", status=1), "ld.so.conf")
    check("only root can change" in image.run("enable", status=1, uid=UID_NOBODY), "an ordinary user")
    check("only root can change" in image.run("disable", status=1, uid=UID_NOBODY), "an ordinary user")
    check("invalid" not in image.run("enable", "--nothing", status=2), "an unknown option")
    write(image.path("etc/ld.so.conf"), INCLUDE)
    shutil.rmtree(image.libraries)
    text = image.run("enable", status=1)
    check(f"{image.root}{LIBRARIES}: No such file" in text and "make install" in text, text)
    image.root = os.path.join(lab.scratch, "nosuch")
    check("nosuch: No such file or directory" in image.run("enable", status=1), "no image")


def machine(lab, staging, script, status=0):
    """Runs a shell script with mounts of its own. Returns its output."""
    scratch = os.path.join(lab.scratch, f"machine{lab.count()}")
    os.makedirs(scratch)
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", MACHINE + script, "sh", scratch,
                           staging, lab.tree], env=lab.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, cwd="/", timeout=lab.seconds(60))
    check(done.returncode == status, f"{done}")
    return done.stdout


def programs_of_an_enabled_machine_have_devices(lab, staging):
    """ibv_devices and programs that search /sys find the devices, without a variable, until disable. rping runs."""
    port = lab.port()
    text = machine(lab, staging, f"""
        usrdma enable --sysfs || exit 1
        as {UID_NOBODY} ibv_devices | grep '^ *lo '
        as {UID_NOBODY} cat /sys/class/infiniband/lo/node_desc
        as {UID_NOBODY} rping -s -p {port} &
        while ! as {UID_NOBODY} usrdma status | grep -q ':{port}'; do :; done
        as {UID_NOBODY} rping -c -a 127.0.0.1 -C 3 -v -p {port}
        wait
        as {UID_NOBODY} usrdma doctor
        usrdma disable || exit 1
        as {UID_NOBODY} ibv_devices
        as {UID_NOBODY} cat /sys/class/infiniband/lo/node_desc
        as {UID_NOBODY} usrdma doctor | grep enabled
        true""")
    enabled, disabled = text.split("removed /etc/ld.so.conf.d", 1)
    check(re.search(r"^ *lo\s+[0-9a-f]{16}$", enabled, re.M) and "\nusrdma\n" in enabled, text)
    check(enabled.count("ping data: rdma-ping-") == 3 and "'usrdma run' starts" not in enabled, text)
    check(re.search(rf"^ok +enabled: all programs of this machine use the libraries of {LIBRARIES}$", enabled,
                    re.M) and "ok       enabled: all programs find the devices in /sys\n" in enabled, text)
    check(not re.search(r"^ *lo\s", disabled, re.M) and "No such file or directory" in disabled and
          "enabled" not in disabled, text)


def privileged_programs_do_not_use_the_preloaded_view(lab, staging):
    """A set-user-ID program loads the library of ld.so.preload, and creates no files and starts no daemon for its
    user."""
    lab.end_daemons()
    text = machine(lab, staging, f"""
        usrdma enable --sysfs >/dev/null || exit 1
        cp /bin/cat "$1/cat"
        chmod 4755 "$1/cat"
        as {OTHER_UID} grep -c libusrdma-sysfs.so "$1/cat" /proc/self/maps
        as {OTHER_UID} "$1/cat" /proc/self/maps | grep -m 1 -o libusrdma-sysfs.so
        as {OTHER_UID} "$1/cat" /sys/class/infiniband/lo/node_desc
        true""")
    check("libusrdma-sysfs.so\n" in text and "/sys/class/infiniband/lo/node_desc: No such file" in text, text)
    check(not lab.daemons(), "the program has started a daemon")


def enable_refuses_machines_with_adapters_and_build_trees(lab, staging):
    """A device of the kernel prevents enable, a device of usrdma in a mount namespace does not."""
    text = machine(lab, staging, """
        "$3/usrdma" enable
        echo "status $?"
        usrdma run --mount -- usrdma enable >/dev/null
        echo "status $?"
        usrdma disable >/dev/null
        mount -t tmpfs none /sys/class
        mkdir -p /sys/class/infiniband/mlx5_9
        usrdma enable
        echo "status $?"
        [ -e /etc/ld.so.conf.d/000-usrdma.conf ] || echo "nothing is written"
        usrdma enable --force >/dev/null
        echo "status $?" """)
    check([int(number) for number in re.findall(r"^status (\d)$", text, re.M)] == [1, 0, 1, 0], text)
    check("has the RDMA device 'mlx5_9'" in text and "nothing is written" in text, text)
    check("this command is in a build tree" in text or lab.tree != laboratory.BUILD, text)


def doctor_names_inconsistent_files(lab, staging):
    """doctor compares the files with the cache and with the directory that they name."""
    text = machine(lab, staging, """
        usrdma enable --sysfs >/dev/null
        mv /etc/ld.so.conf.d/000-usrdma.conf /etc/kept
        ldconfig
        cp /etc/kept /etc/ld.so.conf.d/000-usrdma.conf
        usrdma doctor
        sed -i s,/usr/local/lib/usrdma,/opt/gone, /etc/ld.so.conf.d/000-usrdma.conf
        usrdma doctor
        echo /opt/gone/libusrdma-sysfs.so >/etc/ld.so.preload
        rm /etc/ld.so.conf.d/000-usrdma.conf
        usrdma doctor 2>/dev/null
        echo /opt/other >/etc/ld.so.conf.d/000-usrdma.conf
        echo /usr/local/lib/usrdma/libusrdma-sysfs.so >/etc/ld.so.preload
        usrdma doctor
        true""")
    for line in ("problem  enabled: /etc/ld.so.conf.d/000-usrdma.conf names /usr/local/lib/usrdma, but programs load "
                 f"{system_library()}: ldconfig has not run since, or another file precedes this one",
                 "problem  enabled: /etc/ld.so.conf.d/000-usrdma.conf names the directory /opt/gone, which has no "
                 "libibverbs.so.1 any more",
                 "problem  enabled: /etc/ld.so.preload names /opt/gone/libusrdma-sysfs.so, which does not exist: each "
                 "program prints an error message when it starts",
                 "warning  enabled: /etc/ld.so.conf.d/000-usrdma.conf has another content than 'usrdma enable' writes",
                 "warning  enabled: /etc/ld.so.preload shows the devices in /sys, but programs do not load the "
                 "libraries"):
        check(f"{line}\n" in text, f"{line}: {text}")


def body(lab, cases):
    why_not = None if lab.isolated and lab.drops else "needs root"
    if lab.sanitized:
        why_not = "programs of an enabled machine do not load the sanitizer's runtime first"
    staging = None
    if not why_not:
        prefix = installed(lab)
        staging = os.path.join(lab.scratch, "staging")
        if prefix + "/lib/usrdma" != staging + LIBRARIES:
            why_not = "the libraries are not installed in " + LIBRARIES
    for case in (enable_writes_files_and_disable_removes_them, enable_keeps_other_lines_of_preload,
                 disable_leaves_changed_files, enable_replaces_the_directory_of_another_installation,
                 enable_refuses_libraries_that_others_can_change, enable_does_not_follow_links_out_of_the_image,
                 enable_reports_what_is_missing, programs_of_an_enabled_machine_have_devices,
                 privileged_programs_do_not_use_the_preloaded_view,
                 enable_refuses_machines_with_adapters_and_build_trees, doctor_names_inconsistent_files):
        cases.run_unless(why_not, case.__name__.replace("_", " "), case, lab, staging)


if __name__ == "__main__":
    laboratory.main(body)
