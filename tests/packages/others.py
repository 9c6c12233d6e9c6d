# SPDX-License-Identifier: BSD-2-Clause
"""What Debian can check of the packages of distributions with rpm."""

import glob
import os
import re
import shutil
import subprocess

from tests.packages.debian import ROOT, check, tree_version, unpack_tree
from tests.packages.roots import Failure

SPEC = os.path.join(ROOT, "packaging/usrdma.spec")
RPMS = ("usrdma", "usrdma-devel", "usrdma-tools", "usrdma-doc")
# Warnings of rpmlint that are no faults of the packages, with the reason.
ACCEPTED = {
    "no-buildroot-tag": "rpm has ignored this tag since 4.6",
    "invalid-url": "no archive has been published",
    "no-url-tag": "the project has no site",
    "no-signature": "the distributor signs",
    "no-changelogname-tag": "CHANGELOG.md is in the package",
    "no-documentation": "the packages usrdma and usrdma-doc contain the documents",
    "devel-file-in-non-devel-package": "programs call dlopen() with the names without a number",
    "unstripped-binary-or-object": "Debian's rpm has no debug packages and does not strip",
    "shared-library-without-dependency-information": "the functions of libionic return constants",
    "rpath-in-buildconfig": "the purpose of the private pkg-config files",
    "no-pkg-config-provides": "the pkg-config files are private",
    "requires-on-release": "libraries and tools belong to one build",
    "no-packager-tag": "the distributor sets it",
    "no-group-tag": "obsolete",
    "no-dependency-on": "rpmlint takes usrdma-doc for translations",
    "no-manual-page-for-binary": "the page is a link to the page of `usrdma man`",
    "manpage-not-compressed": "a link to the page of `usrdma man`, which reads uncompressed pages",
    "invalid-license": "BSD-2-Clause is the identifier of SPDX",
    "files-duplicate": "calls that share a manual page",
}


def printed(*argv, **options):
    """The output of a program, with both streams. Raises Failure unless its status is 0."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace", check=False, **options)
    check(done.returncode == 0, f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Rpm:
    """The packages of packaging/usrdma.spec, built on this machine."""

    def __init__(self, scratch):
        self.top = os.path.join(scratch, "rpm")
        self.files = {}

    def build(self):
        name = f"usrdma-{tree_version()}"
        sources = os.path.join(self.top, "SOURCES")
        os.makedirs(os.path.join(self.top, name))
        os.makedirs(sources)
        unpack_tree(os.path.join(self.top, name))
        printed("tar", "-czf", os.path.join(sources, name + ".tar.gz"), "-C", self.top, name)
        # The names of BuildRequires are not those of Debian's packages.
        printed("rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {self.top}", "--define", f"_dbpath {self.top}/db",
                SPEC)
        for file in glob.glob(os.path.join(self.top, "RPMS/*/*.rpm")):
            self.files[re.match(r"(.*)-[^-]+-[^-]+$", os.path.basename(file))[1]] = file
        check(set(RPMS) <= set(self.files), f"built: {self.files}")

    def query(self, name, *argv):
        return printed("rpm", "--dbpath", f"{self.top}/db", "-qp", *argv, self.files[name])

    def is_private(self):
        """No package gets the private libraries as a dependency, and no directory is searched by the dynamic linker."""
        for name in RPMS:
            provided = self.query(name, "--provides")
            check("libibverbs" not in provided and "libmlx5" not in provided, provided)
            needed = self.query(name, "--requires")
            check("libibverbs" not in needed and "librdmacm" not in needed, needed)
            check("ld.so.conf" not in self.query(name, "-l"), name)

    def lint(self):
        done = subprocess.run(["rpmlint", SPEC, *(self.files[name] for name in RPMS if name in self.files)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        found = [line for line in done.stdout.splitlines() for match in [re.search(r": ([WE]): (\S+)", line)]
                 if match and match[2] not in ACCEPTED]
        check(not found and "specfiles checked" in done.stdout, "\n".join(found) or done.stdout)


def rpm(cases, scratch):
    if not shutil.which("rpmbuild"):
        cases.skip("rpm", "rpmbuild is not installed")
        return
    packages = Rpm(scratch)
    try:
        cases.run("rpm: the packages are built", packages.build, needed=True)
        cases.run("rpm: the libraries are private", packages.is_private)
    except Failure:
        return
    if shutil.which("rpmlint"):
        cases.run("rpm: rpmlint reports nothing that is not accepted", packages.lint)
    else:
        cases.skip("rpm: rpmlint", "rpmlint is not installed")
