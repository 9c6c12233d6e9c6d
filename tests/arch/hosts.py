#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`meson setup` with a compiler for a host that is not supported ends with an error that names the reason."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Macros of the compiler that meson gets; empty: a features.h without __GLIBC__, as that of musl.
HOSTS = {
    "32_bit_host_is_rejected": (["-U__SIZEOF_POINTER__", "-D__SIZEOF_POINTER__=4"], "supports 64-bit hosts only"),
    "musl_is_rejected": ([], "supports the GNU C library (glibc) only"),
}


def compiler(folder, options):
    """A compiler whose preprocessor reports another host."""
    if not options:
        options = ["-I", folder]
        with open(os.path.join(folder, "features.h"), "w", encoding="ascii") as header:
            header.write("#define _FEATURES_H\n")
    path = os.path.join(folder, "cc")
    with open(path, "w", encoding="ascii") as script:
        script.write(f'#!/bin/sh\ncase " $* " in *" -E "*) set -- "$@" {" ".join(options)};; esac\nexec cc "$@"\n')
    os.chmod(path, 0o755)
    return path


def rejected(options, wanted):
    with tempfile.TemporaryDirectory(prefix="usrdma-test-") as folder:
        done = subprocess.run(["meson", "setup", os.path.join(folder, "build"), ROOT],
                              env=dict(os.environ, CC=compiler(folder, options)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode != 0 and wanted in done.stdout, done.stdout


def main():
    print(f"1..{len(HOSTS)}")
    failed = 0
    for number, (name, (options, wanted)) in enumerate(HOSTS.items(), 1):
        passed, printed = rejected(options, wanted)
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
        if not passed:
            print("".join(f"# {line}\n" for line in printed.splitlines()[-20:]), end="")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
