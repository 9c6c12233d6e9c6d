# SPDX-License-Identifier: BSD-2-Clause
"""Tests which files `make install` installs, and that programs run with the installed tree, also after it was moved."""

import json
import os
import re
import shlex
import shutil
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import BUILD, SOURCE, check

WANTED = [
    "bin/usrdma",
    "libexec/usrdma/usrdmad",
    "lib/usrdma/libibverbs.so.1",
    "lib/usrdma/librdmacm.so.1",
    "lib/usrdma/libmlx5.so.1",
    "lib/usrdma/libefa.so.1",
    "lib/usrdma/libusrdma-arena.so",
    "lib/usrdma/libusrdma-sysfs.so",
    "lib/usrdma/rsocket/librspreload.so",
    "lib/usrdma/bin/rping",
    "lib/usrdma/bin/ucmatose",
    "lib/pkgconfig/usrdma/libibverbs.pc",
    "lib/pkgconfig/usrdma/librdmacm.pc",
    "lib/systemd/system/usrdmad.service",
    "lib/systemd/system/usrdmad.socket",
    "share/bash-completion/completions/usrdma",
    "share/zsh/site-functions/_usrdma",
    "share/fish/vendor_completions.d/usrdma.fish",
    "share/man/man1/usrdma.1",
    "share/usrdma/grafana/usrdma.json",
    "share/usrdma/wireshark/heuristic_protos",
    "share/usrdma/wireshark/preferences",
    "share/man/man7/usrdma.7",
    "share/man/man8/usrdmad.8",
    "share/usrdma/man/man3/ibv_post_send.3",
    "share/usrdma/man/man3/rdma_connect.3",
    "share/usrdma/man/man7/rdma_cm.7",
    "share/usrdma/man/man7/usrdma_ordering.7",
    "include/usrdma/infiniband/verbs.h",
    "include/usrdma/rdma/rdma_cma.h",
]


def installed(lab):
    """Installs below the lab's scratch directory; returns the prefix there."""
    staging = os.path.join(lab.scratch, "staging")
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", staging],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, done.stdout)
    for where, _, names in os.walk(staging):
        if "usrdma" in names and os.path.basename(where) == "bin":
            return os.path.dirname(where)
    raise laboratory.Failure("no bin/usrdma was installed")


def places(prefix):
    for name in WANTED:
        check(os.path.exists(os.path.join(prefix, name)), f"no {name}")
    for where, _, names in os.walk(prefix):
        searched = where in (os.path.join(prefix, "lib"), os.path.join(prefix, "lib", "pkgconfig"))
        check(not searched or not names, f"{where} is searched by everybody, and holds {names}")


def manual(lab, prefix):
    """`usrdma man` shows an installed page, also by a name that the page of another call documents. No installed page
    hides a page of the system."""
    for page, words in (("rdma_connect", "rdma_connect"), ("ibv_wr_send_imm", "ibv_wr_send"), ("rdma_cm", "rdma_cm")):
        done = subprocess.run([os.path.join(prefix, "bin", "usrdma"), "man", page], stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, MANPAGER="cat", MANWIDTH="100"), check=False)
        check(done.returncode == 0 and "usrdma" in done.stdout and words in done.stdout, f"{page}: {done.stdout[:500]}")
    done = subprocess.run([os.path.join(prefix, "bin", "usrdma"), "man", "nosuch"], stderr=subprocess.PIPE, check=False)
    check(done.returncode == 1 and b"nosuch" in done.stderr, f"{done}")
    shared = [name for _, _, names in os.walk(os.path.join(prefix, "share", "man")) for name in names]
    check(sorted(shared) == ["usrdma.1", "usrdma.7", "usrdmad.8"], f"{shared}")


def printed(prefix, *argv):
    """What `usrdma man` prints on a machine without man(1)."""
    done = subprocess.run([os.path.join(prefix, "bin", "usrdma"), "man", *argv], capture_output=True, text=True,
                          env=dict(os.environ, PATH="/nonexistent"), check=False)
    check(done.returncode == 0 and not done.stderr, f"{argv}: {done}")
    return done.stdout


def manual_without_man(prefix):
    """Without man(1) the page is printed as text: sections, options, prototypes, and no macro."""
    page = printed(prefix, "usrdma")
    check("USRDMA(1)\n\nNAME\n     usrdma - runs programs with RDMA in user space" in page, page[:500])
    check("[--json | --prometheus]" in page and "\n           --only-devices\n" in page, page[:2000])
    call = printed(prefix, "3", "rdma_connect")
    check("     #include <rdma/rdma_cma.h>\n     int\n     rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param "
          "*conn_param);\n" in call and "\nERRORS\n" in call, call[:1500])
    check(printed(prefix, "ibv_wr_send_imm") == printed(prefix, "ibv_wr_send"), "a name on the page of another call")
    for section, names in (("1", ["usrdma"]), ("3", ["ibv_post_send", "ibv_wc", "rdma_get_cm_event"]),
                           ("7", ["usrdma", "rdma_cm", "usrdma_ordering"]), ("8", ["usrdmad"])):
        for name in names:
            text = printed(prefix, section, name)
            macros = [line for line in text.splitlines() if re.search(r"^\.|\\[&(\[c]", line)]
            check(not macros and len(text.splitlines()) > 15, f"{name}: {macros}")


def manual_finds_constants(prefix):
    """A constant shows or lists the pages that document it. -k searches names and descriptions."""
    for word, page in (("IBV_WC_RETRY_EXC_ERR", "ibv_wc_status"), ("RDMA_CM_EVENT_REJECTED", "rdma_cm_event_type")):
        out = printed(prefix, word)
        check(re.search(rf"^{page}\(3\)  ", out, re.M), f"{word}: {out[:1000]}")
    out = printed(prefix, "-k", "multicast")
    check(re.search(r"^rdma_join_multicast\(3\)  ", out, re.M) and "ibv_attach_mcast(3)" in out, out)


def completion(prefix):
    """The words of the completion scripts come from the table of the help."""
    command = os.path.join(prefix, "bin", "usrdma")
    for words, some, none in (((), {"doctor", "why", "help", "rping"}, {"--json"}),
                              (("status",), {"--json", "--prometheus"}, {"doctor"}),
                              (("fault", "scenario"), {"rnr-storm", "lost-rep"}, {"--seed"}),
                              (("man",), {"rdma_connect", "rdma_cm", "usrdma"}, set()),
                              (("top", "--interval"), set(), {"--json"})):
        done = subprocess.run([command, "completion", *words], capture_output=True, text=True, check=True)
        printed_words = set(done.stdout.split())
        check(some <= printed_words and not none & printed_words, f"{words}: {printed_words}")
    script = os.path.join(prefix, "share/bash-completion/completions/usrdma")
    code = (f'source {shlex.quote(script)}; COMP_WORDS=({shlex.quote(command)} status --pro); COMP_CWORD=2; _usrdma; '
            f'echo "${{COMPREPLY[@]}}"')
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    check(done.stdout == "--prometheus\n" and not done.stderr, f"{done}")


def runs(lab, prefix):
    port = lab.port()
    command = [os.path.join(prefix, "bin", "usrdma"), "run", "--", "rping", "-a", "127.0.0.1", "-p", port, "-C", 3,
               "-v"]
    server = lab.start(*command, "-s", native=True)
    lab.listens_cm(server, port)
    client = lab.start(*command, "-c", native=True)
    check(client.finish(lab.seconds(20)).count("ping data: rdma-ping-") == 3, client.story())
    server.finish(lab.seconds(20))


def tool_runs(lab, prefix):
    """Our rping finds the libraries by its own location, without a setting."""
    port = lab.port()
    server = lab.start(os.path.join(prefix, "lib", "usrdma", "bin", "rping"), "-s", "-p", port, native=True)
    lab.listens_cm(server, port)
    client = lab.start(os.path.join(prefix, "bin", "usrdma"), "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 3,
                       "-v", native=True)
    check(client.finish(lab.seconds(20)).count("ping data: rdma-ping-") == 3, client.story())
    server.finish(lab.seconds(20))


def pkg_config(lab, prefix):
    """A program compiled by pkg-config finds our headers, and our libraries at run time, without further options."""
    source = os.path.join(lab.scratch, "two.c")
    with open(source, "w", encoding="ascii") as out:
        out.write("#include <rdma/rdma_cma.h>\n"
                  "int main(void) { int n; return !ibv_get_device_list(&n) || !rdma_create_event_channel(); }\n")
    env = dict(os.environ, PKG_CONFIG_LIBDIR=os.path.join(prefix, "lib", "pkgconfig", "usrdma"))
    flags = subprocess.run(["pkg-config", "--define-variable=prefix=" + prefix, "--cflags", "--libs", "librdmacm"],
                           env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    check("/usrdma" in flags and "-lrdmacm" in flags and "-libverbs" in flags, flags)
    check(all(flag.startswith(("-l", "-I" + prefix, "-L" + prefix, "-Wl,-rpath," + prefix)) for flag in flags.split()),
          flags)
    program = os.path.join(lab.scratch, "two")
    done = subprocess.run(["cc", source, "-o", program, *flags.split()], check=False)
    check(done.returncode == 0, "the program cannot be built")
    unaided = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    found = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=False, env=unaided).stdout
    check(f"librdmacm.so.1 => {prefix}/lib/usrdma" in found, found)


def prefix_with_space(lab):
    """`make install` passes PREFIX to meson as one argument, before and after the build directory exists."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    shown = subprocess.run(["make", "-n", "-f", os.path.join(SOURCE, "Makefile"), "install", "PREFIX=/opt/x y"],
                           stdout=subprocess.PIPE, text=True, check=True, cwd=lab.scratch, env=env).stdout
    words = [word for line in shown.splitlines() for word in shlex.split(line)]
    check("--prefix=/opt/x y" in words and "-Dprefix=/opt/x y" in words, shown)


def unit(prefix):
    """The unit quotes the daemon's path, which may contain a space."""
    with open(os.path.join(prefix, "lib/systemd/system/usrdmad.service"), encoding="utf-8") as lines:
        command = next(line for line in lines if line.startswith("ExecStart="))
    check(command.startswith('ExecStart="/') and shlex.split(command)[0].endswith("/libexec/usrdma/usrdmad"), command)


CMAKE_PROJECT = """cmake_minimum_required(VERSION 3.16)
project(two C)
find_path(VERBS_HEADERS infiniband/verbs.h REQUIRED)
find_library(VERBS_LIBRARY ibverbs REQUIRED)
message("found ${VERBS_HEADERS} ${VERBS_LIBRARY}")
"""


def cmake_finds_it(lab, prefix):
    """find_path() and find_library() with the two private directories in CMAKE_PREFIX_PATH, as README.md describes."""
    source = os.path.join(lab.scratch, "cmake")
    os.makedirs(source)
    with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="ascii") as file:
        file.write(CMAKE_PROJECT)
    paths = ";".join(os.path.join(prefix, name, "usrdma") for name in ("lib", "include"))
    done = subprocess.run(["cmake", "-S", source, "-B", os.path.join(source, "build"), f"-DCMAKE_PREFIX_PATH={paths}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(f"found {prefix}/include/usrdma {prefix}/lib/usrdma/libibverbs.so" in done.stdout, done.stdout)


def unit_of_a_user(lab):
    """With a prefix in the home directory, the only units are those of the user's service manager."""
    build, prefix = os.path.join(lab.scratch, "build"), os.path.join(lab.scratch, "home", ".local")
    done = subprocess.run(["meson", "setup", "--prefix=" + prefix, "-Dtests=disabled", build, SOURCE],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, done.stdout)
    shown = subprocess.run(["meson", "introspect", "--installed", build], stdout=subprocess.PIPE, text=True, check=True)
    units = {file: place for file, place in json.loads(shown.stdout).items() if file.endswith((".service", ".socket"))}
    places = [os.path.join(prefix, "share/systemd/user/usrdmad") + kind for kind in (".service", ".socket")]
    check(sorted(units.values()) == places, f"{units}")
    with open(min(units, key=units.get), encoding="utf-8") as text:
        unit_text = text.read()
    check(f'ExecStart="{prefix}/libexec/usrdma/usrdmad"' in unit_text and "ProtectHome" not in unit_text, unit_text)


def body(lab, cases):
    prefix = installed(lab)
    cases.run("everything is in its place, and nothing in a place that is searched", places, prefix)
    if shutil.which("man"):
        cases.run("the manual is there", manual, lab, prefix)
    else:
        cases.skip("the manual is there", "no man")
    cases.run("rping runs from there", runs, lab, prefix)
    cases.run("the manual without man", manual_without_man, prefix)
    cases.run("the manual finds constants", manual_finds_constants, prefix)
    cases.run("completion", completion, prefix)
    cases.run("our own rping runs from there", tool_runs, lab, prefix)
    cases.run("pkg-config names it", pkg_config, lab, prefix)
    if shutil.which("cmake"):
        cases.run("CMake finds it", cmake_finds_it, lab, prefix)
    else:
        cases.skip("CMake finds it", "no cmake")
    cases.run("a prefix with a space", prefix_with_space, lab)
    cases.run("the unit quotes the path", unit, prefix)
    cases.run("a user's installation has a unit of the user", unit_of_a_user, lab)


if __name__ == "__main__":
    laboratory.main(body)
