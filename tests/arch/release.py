# SPDX-License-Identifier: BSD-2-Clause
"""scripts/release and scripts/dist in a repository of their own: date, commit and tag, the reasons for which a release
is refused, the source archive and its SBOM. Also the form of CHANGELOG.md."""

import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from sources import ROOT, Tap, read

KINDS = ("Added", "Changed", "Fixed", "Performance", "Security")
SECTION = "Protocol: `IPC_VERSION` 7.\n\n### Fixed\n\n- One.\n\n"
CHANGELOG = f"# Changelog\n\n## 1.2.0 (unreleased)\n\n{SECTION}## 1.1.0 (2026-01-02)\n\nFirst version.\n"
HEADER = "/* one */\n#define IPC_VERSION\t 7\nint a;\n"


def run(folder, *argv):
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env.update(GIT_AUTHOR_NAME="test", GIT_AUTHOR_EMAIL="test@localhost", GIT_COMMITTER_NAME="test",
               GIT_COMMITTER_EMAIL="test@localhost", GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull)
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def commit(folder):
    run(folder, "git", "add", "-A")
    run(folder, "git", "commit", "-qm", "change")


def project(folder):
    """A project with the files that scripts/release and scripts/dist read."""
    for name in ("scripts", "packaging", "src/ipc"):
        os.makedirs(os.path.join(folder, name))
    for name in ("release", "dist", "sbom"):
        shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(folder, "scripts"))
    set_version(folder, "1.2.0")
    write(folder, "CHANGELOG.md", CHANGELOG)
    write(folder, "src/ipc/msg.h", HEADER)
    run(folder, "git", "init", "-q")


def set_version(folder, version):
    write(folder, "meson.build", f"project('p', 'c',\n  version: '{version}',\n)\n")
    write(folder, "packaging/usrdma.spec", f"Name: p\nVersion:        {version}\n")
    write(folder, "README.md", f"# p\n\nVersion {version}, in development.\n")


def refuses(folder, why):
    """A fault unless scripts/release refuses for this reason and changes nothing."""
    before = run(folder, "git", "for-each-ref").stdout
    done = run(folder, "scripts/release")
    if why not in done.stderr or not done.returncode:
        yield f"{why}: {done}"
    if run(folder, "git", "for-each-ref").stdout != before:
        yield f"{why}: a refused release changed the repository"


def tags_release():
    with tempfile.TemporaryDirectory() as folder:
        project(folder)
        yield from refuses(folder, "has changes")
        commit(folder)
        done = run(folder, "scripts/release", "--check")
        if done.stdout != "v1.2.0 can be released\n" or run(folder, "git", "tag").stdout:
            yield f"--check: {done}"
        done = run(folder, "scripts/release")
        if done.returncode:
            yield f"{done}"
        now = run(folder, "git", "show", "v1.2.0:CHANGELOG.md").stdout
        if re.sub(r"(?m)^(## 1\.2\.0) \(\d{4}-\d\d-\d\d\)$", r"\1 (unreleased)", now) != CHANGELOG or now == CHANGELOG:
            yield f"the tagged CHANGELOG.md is {now!r}"
        if run(folder, "git", "cat-file", "-t", "v1.2.0").stdout != "tag\n":
            yield "the tag is not annotated"
        message = run(folder, "git", "tag", "-l", "--format=%(contents)", "v1.2.0").stdout.strip()
        if message != SECTION.strip():
            yield f"the tag's message is {message!r}"
        yield from refuses(folder, "exists")
        set_version(folder, "1.3.0")
        commit(folder)
        yield from refuses(folder, "no heading")


def faulty_release_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        project(folder)
        commit(folder)
        run(folder, "git", "tag", "-a", "-m", "the last one", "v1.1.0")
        faulty = {
            "packaging/usrdma.spec has version 1.1.9": ("packaging/usrdma.spec", "Version: 1.1.9\n"),
            "README.md does not contain 'Version 1.2.0'": ("README.md", "Version 1.1.0\n"),
            "lists no change": ("CHANGELOG.md", "# Changelog\n\n## 1.2.0 (unreleased)\n\nNothing.\n"),
            "does not contain '`IPC_VERSION` 7.'": ("CHANGELOG.md", CHANGELOG.replace("7.", "17.")),
            "msg.h differs from v1.1.0, and IPC_VERSION is 7": ("src/ipc/msg.h", HEADER.replace("int a;", "long a;")),
        }
        for why, (name, text) in faulty.items():
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                intact = file.read()
            write(folder, name, text)
            commit(folder)
            yield from refuses(folder, why)
            write(folder, name, intact)
            commit(folder)
        # A new number permits the change in a release with another minor number; a comment needs no number.
        write(folder, "src/ipc/msg.h", HEADER.replace("int a;", "long a;").replace("7", "8"))
        write(folder, "CHANGELOG.md", CHANGELOG.replace("7.", "8."))
        commit(folder)
        done = run(folder, "scripts/release", "--check")
        run(folder, "git", "tag", "-a", "-m", "same minor number", "v1.2.9", "HEAD~1")
        yield from refuses(folder, "increment the minor number")
        run(folder, "git", "tag", "-d", "v1.2.9")
        write(folder, "src/ipc/msg.h", HEADER.replace("one", "two"))
        write(folder, "CHANGELOG.md", CHANGELOG)
        commit(folder)
        for again in (done, run(folder, "scripts/release", "--check")):
            if again.returncode:
                yield f"{again}"


def members(path):
    with tarfile.open(path) as archive:
        return [(member.name + "/" * member.isdir(), member.uid, member.gid, member.uname, oct(member.mode),
                 member.mtime) for member in archive]


def archives_are_equal():
    """Two archives of one commit have the same bytes, with other umasks and time zones. Their files belong to root."""
    with tempfile.TemporaryDirectory() as folder:
        project(os.path.join(folder, "p"))
        commit(os.path.join(folder, "p"))
        run(folder, "sh", "-c", "umask 077; git clone -q p q")
        for copy, zone in (("p", "UTC"), ("q", "Asia/Tokyo")):
            done = run(os.path.join(folder, copy), "sh", "-c", f"umask 0; TZ={zone} scripts/dist -o ../{copy}.out")
            if done.returncode:
                yield f"{done}"
                return
        names = ["SHA256SUMS", "usrdma-1.2.0.spdx.json", "usrdma-1.2.0.tar.gz"]
        same = filecmp.cmpfiles(os.path.join(folder, "p.out"), os.path.join(folder, "q.out"), names, shallow=False)
        if same[0] != names or sorted(os.listdir(os.path.join(folder, "p.out"))) != names:
            yield f"equal, different and missing files: {same}"
        when = int(run(os.path.join(folder, "p"), "git", "log", "-1", "--format=%ct").stdout)
        found = members(os.path.join(folder, "p.out", names[2]))
        if [member[0] for member in found] != sorted(member[0] for member in found):
            yield "the names in the archive are not sorted"
        for name, *owner, mode, mtime in found:
            if owner != [0, 0, "root"] or mtime != when or mode not in ("0o755", "0o644", "0o775", "0o664"):
                yield f"{name}: owner {owner}, mode {mode}, time {mtime}"
        if run(os.path.join(folder, "p.out"), "sha256sum", "--quiet", "-c", "SHA256SUMS").returncode:
            yield "SHA256SUMS is wrong"
        with open(os.path.join(folder, "p.out", names[1]), encoding="utf-8") as file:
            yield from sbom_faults(json.load(file), [member[0] for member in found])
        write(os.path.join(folder, "p"), "new", "")
        done = run(os.path.join(folder, "p"), "scripts/dist")
        if "has changes" not in done.stderr or not done.returncode:
            yield f"a work tree with changes: {done}"


# Members that SPDX 2.3 requires (schemas/spdx-schema.json), and those of a package and a file with analyzed files.
REQUIRED = {
    "": ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages"),
    "packages": ("SPDXID", "name", "downloadLocation", "filesAnalyzed", "licenseConcluded", "licenseDeclared",
                 "copyrightText"),
    "files": ("SPDXID", "fileName", "checksums", "licenseConcluded", "licenseInfoInFiles", "copyrightText"),
    "relationships": ("spdxElementId", "relationshipType", "relatedSpdxElement"),
}


def sbom_faults(content, names):
    for kind, members_of in REQUIRED.items():
        for entry in content[kind] if kind else [content]:
            missing = [name for name in members_of if not entry.get(name, None) and entry.get(name) is not False]
            if missing:
                yield f"SBOM: {kind} {entry.get('SPDXID', '')}: {missing} are missing"
    ids = [entry["SPDXID"] for entry in [content, *content["packages"], *content["files"]]]
    if len(ids) != len(set(ids)) or not all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in ids):
        yield "SBOM: identifiers are not unique, or have invalid characters"
    ends = {entry[side] for entry in content["relationships"] for side in ("spdxElementId", "relatedSpdxElement")}
    if ends != set(ids):
        yield f"SBOM: relationships and elements differ: {ends ^ set(ids)}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", content["creationInfo"]["created"]):
        yield f"SBOM: invalid time {content['creationInfo']['created']}"
    listed = sorted(entry["fileName"].replace("./", "usrdma-1.2.0/", 1) for entry in content["files"])
    if listed != sorted(name for name in names if not name.endswith("/")):
        yield f"SBOM: lists {listed}"
    ours = content["packages"][0]
    hashes = sorted(entry["checksums"][0]["checksumValue"] for entry in content["files"])
    wanted = hashlib.sha1("".join(hashes).encode(), usedforsecurity=False).hexdigest()
    if ours["packageVerificationCode"]["packageVerificationCodeValue"] != wanted:
        yield "SBOM: wrong verification code"


def changelog():
    """Each version has a date or is unreleased; its kinds of changes are those of KINDS, in this order, once."""
    versions = re.split(r"(?m)^## ", read("CHANGELOG.md"))[1:]
    for number, text in enumerate(versions):
        head = text.split("\n", 1)[0]
        if not re.fullmatch(r"\d+\.\d+\.\d+ \((\d{4}-\d\d-\d\d|unreleased)\)", head):
            yield f"\"{head}\" is not a version with its date"
        if "unreleased" in head and number:
            yield f"\"{head}\" precedes a released version"
        kinds = re.findall(r"(?m)^### (.*)$", text)
        if kinds != [kind for kind in KINDS if kind in kinds]:
            yield f"{head}: the kinds of changes are {', '.join(kinds)}; the order is {', '.join(KINDS)}"


def main():
    tap = Tap()
    tap.rule("CHANGELOG.md has dates and the kinds of changes", changelog())
    if shutil.which("git"):
        tap.rule("scripts/release dates, commits and tags a version, or reports why not", tags_release())
        tap.rule("a faulty release is refused", faulty_release_is_refused())
        tap.rule("two source archives of a commit are equal, and have an SBOM", archives_are_equal())
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
