# SPDX-License-Identifier: BSD-2-Clause
"""usrdma report writes one HTML page for a bug report: the failure and its cause first, nothing executable, no payload
of messages, and hostile names as text."""

import base64
import contextlib
import html.parser
import os
import re
import shutil
import socket
import subprocess

from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.daemon_kit import OTHER_UID, daemon
from tests.programs.lab import OWN, UID_NOBODY, check

SECTIONS = ["failures", "doctor", "faults", "trace", "processes", "connections", "devices", "counters", "profile",
            "system", "content"]
VOID = {"meta"}
TAGS = {"a", "article", "body", "caption", "dd", "div", "dl", "dt", "g", "h1", "h2", "h3", "head", "header", "html",
        "li", "line", "main", "meta", "nav", "p", "path", "polygon", "pre", "rect", "section", "style", "svg", "table",
        "tbody", "td", "text", "th", "thead", "title", "tr", "tspan", "ul"}
# Names that a page without escapes would execute. A program's name has up to 15 characters.
PROGRAM = "<img src=x>&\"'"
INTERFACE = "<script>&\"'x"


class Page(html.parser.HTMLParser):
    """The page as a browser reads it. Fails for a tag that is not closed in order, an element or attribute that the
    report does not use, and a reference to something outside of the page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.ids = []
        self.links = []
        self.texts = {"": ""}
        self.headings = []
        self.heads = []
        self.section = ""
        self.first_heading = ""
        self.feed(text)
        self.close()
        check(not self.open, f"not closed: {self.open}")
        check(len(set(self.ids)) == len(self.ids), f"the same id twice: {self.ids}")
        check(all(link[1:] in self.ids for link in self.links if link.startswith("#")), f"{self.links} {self.ids}")

    def handle_starttag(self, tag, attrs):
        check(tag in TAGS, f"element {tag} {attrs}")
        for name, value in attrs:
            check(not name.startswith("on") and name not in ("src", "style", "action"), f"{tag} {attrs}")
            if name == "href":
                check(value.startswith(("#", "data:application/octet-stream;base64,")), value[:80])
                self.links.append(value)
            if name == "id":
                self.ids.append(value)
        if tag == "section":
            self.section = dict(attrs)["id"]
            self.texts[self.section] = ""
        if tag == "th":
            check(dict(attrs).get("scope") in ("row", "col"), f"{attrs}")
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th", "dd", "p", "h1", "h3"):
            self.texts[self.section] += "\n"

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        check(self.open and self.open[-1] == tag, f"</{tag}> after {self.open}")
        self.open.pop()
        if tag == "section":
            self.section = ""

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            check(not re.search(r"@import|url\(|expression", data), data)
            return
        if self.open and self.open[-1] == "h1":
            self.first_heading += data
        self.texts[self.section] += data

    def sections(self):
        return [name for name in self.texts if name]


def report(lab, *options, uid=UID_NOBODY, **how):
    """Returns the parsed page and its text."""
    status, out, err = usrdma(lab, "report", "-o", "-", *options, uid=uid, **how)
    check(status == 0, err)
    page = Page(out)
    check(page.sections() == SECTIONS, f"{page.sections()}")
    check(page.headings[0] == 1 and 1 not in page.headings[1:], f"{page.headings}")
    check("Content-Security-Policy\" content=\"default-src 'none';" in out, out[:800])
    return page, out


def mistake(lab, path=None):
    lab.start(path or lab.tool("mistake"), "past_end", "lo", 0).finish(lab.seconds(20))


@contextlib.contextmanager
def pair(lab, server=None, side=None):
    """A connected pair of rping that runs until the end of the block."""
    port = lab.port()
    address = (side or {"ip4": "127.0.0.1"})["ip4"]
    passive = lab.start(server or lab.own("rping"), "-s", "-a", address, "-p", port)
    lab.listens_cm(passive, port)
    active = lab.start(lab.own("rping"), "-c", "-a", address, "-p", port)
    lab.connects(2)
    yield passive, active
    active.end()
    passive.end()


def failure_comes_first(lab):
    """While a pair runs with a fault rule: the title is the first line of usrdma why, and each section has what the
    other commands print."""
    mistake(lab)
    usrdma(lab, "fault", "add", "message:drop:prog=nonsense")
    with pair(lab) as (passive, active):
        page, _ = report(lab)
        status = lab.status()
    texts = page.texts
    explained = usrdma(lab, "why")[1]
    check(page.first_heading == explained.splitlines()[0], f"{page.first_heading}\n{explained}")
    for line in explained.split("\n\n", maxsplit=1)[0].splitlines()[1:]:
        check(line.split(":", 1)[1].strip() in texts["failures"], f"{line}\n{texts['failures']}")
    check("1 fault rule is in force" in texts[""] and "1 failure\n" not in texts["failures"], texts[""])
    check("message:drop:prog=nonsense" in texts["faults"], texts["faults"])
    check("fault rule 1 is in force" in texts["doctor"] and "open files" in texts["doctor"], texts["doctor"])
    check("device lo: MTU" in texts["doctor"], texts["doctor"])
    for process in (passive, active):
        check(f"\n{process.pid}\nrping\n" in texts["processes"], texts["processes"])
    for process in status["processes"]:
        for qp in process.get("qps", []):
            check(f"\n0x{int(qp['qpn'], 16):06x}\nRC\nRTS\n" in texts["processes"], texts["processes"])
    check("127.0.0.1:" in texts["connections"], texts["connections"])
    for device in status["devices"]:
        check(f"\n{device['name']}\nACTIVE\n{device['mtu_bytes']}\n" in texts["devices"], texts["devices"])
        for gid in device["gids"]:
            check(f"\n{gid['gid']}" in texts["devices"], texts["devices"])
    check("\nall\ncm\nestablished\n" in texts["counters"], texts["counters"])
    check(re.search(r"kernel\nLinux \d+\.\d+", texts["system"]) and "\nopen files\n" in texts["system"],
          texts["system"])
    check("usrdma trace -w" in texts["trace"] and "no payload of messages" in texts["content"], texts["content"])
    usrdma(lab, "fault", "clear")


def no_failure(lab):
    lab.end_daemons()
    page, _ = report(lab)
    # A problem of the machine, if there is one, is the title.
    problem = re.search(r"\nproblem\n(.+)", page.texts["doctor"])
    check(page.first_heading == (problem[1] if problem else "No failure is stored"), page.first_heading)
    check("0 failures" in page.texts[""], page.texts[""])
    check("No injected faults" in page.texts[""], page.texts[""])


def names_are_escaped(lab):
    """Programs, rules and interfaces have names that are HTML."""
    lab.end_daemons()
    failing, serving = (os.path.join(lab.scratch, folder, PROGRAM) for folder in ("failing", "serving"))
    for path, original in ((failing, lab.tool("mistake")), (serving, lab.own("rping"))):
        os.mkdir(os.path.dirname(path), 0o755)
        shutil.copy(original, path)
    mistake(lab, failing)
    usrdma(lab, "fault", "add", "message:drop:prog=<script>")
    if lab.isolated and os.geteuid() == 0:
        for argv in (("link", "add", "name", INTERFACE, "type", "veth", "peer", "name", "plain"),
                     # A later case compares the devices: no address may become valid in between.
                     ("link", "set", INTERFACE, "addrgenmode", "none"),
                     ("address", "add", "10.78.0.1/24", "dev", INTERFACE),
                     ("link", "set", INTERFACE, "up"), ("link", "set", "plain", "up")):
            subprocess.run(["ip", *argv], check=True)
        laboratory.wait_until(lambda: any(device["name"] == INTERFACE for device in lab.status()["devices"]),
                              lab.seconds(10), "the device")
    variables = {"USRDMA_DEVICES": "<b>=lo", "USRDMA_PROFILE": "\"><script>alert(1)</script>"}
    with pair(lab, serving):
        for options in ((), ("--redact",)):
            page, _ = report(lab, *options, **variables)
            check(f"{PROGRAM} (pid " in page.texts["failures"], page.texts["failures"])
            check(f"\n{PROGRAM}\n" in page.texts["processes"], page.texts["processes"])
            check("prog=<script>" in page.texts["faults"], page.texts["faults"])
            check(variables["USRDMA_PROFILE"] in page.texts["profile"], page.texts["profile"])
            if lab.isolated and os.geteuid() == 0:
                check(f"\n{INTERFACE}\n" in page.texts["devices"], page.texts["devices"])
    usrdma(lab, "fault", "clear")


def trace_without_payload(lab):
    """The diagram of a capture file is part of the page. Its payload is, only with --payload."""
    path = os.path.join(lab.scratch, "trace.pcapng")
    port = lab.port()
    server = lab.start(lab.own("rping"), "-s", "-a", "127.0.0.1", "-p", port, USRDMA_TRANSPORT="roce")
    lab.listens_cm(server, port)
    status, _, err = usrdma(lab, "trace", "-w", path, "--", lab.own("rping"), "-c", "-a", "127.0.0.1", "-p", port,
                            "-C", 1, USRDMA_TRANSPORT="roce")
    check(status == 0, err)
    with open(path, "rb") as file:
        capture = file.read()
    check(b"rdma-ping-0" in capture, "the trace has no payload")
    page, out = report(lab, "--trace", path)
    check("Sequence diagram" in page.texts["trace"] and "RDMA READ" in page.texts["trace"], page.texts["trace"])
    check("<svg" in out and 'role="img"' in out, out[:200])
    check("rdma-ping" not in out and not any(link.startswith("data:") for link in page.links), "payload")
    page, _ = report(lab, "--trace", path, "--payload")
    embedded, = (link.split(",", 1)[1] for link in page.links if link.startswith("data:"))
    check(base64.b64decode(embedded, validate=True) == capture, "not the capture file")
    check("contains payload of messages (--payload)" in page.texts["content"], page.texts["content"])
    check(usrdma(lab, "report", "-o", "-", "--trace", "/etc/passwd")[0] == 1, "not a trace")


def redacted(lab):
    """--redact replaces addresses, Ethernet addresses, the name of the host and home directories, each by the same text
    wherever it occurs."""
    mistake(lab)
    home = os.path.join(lab.scratch, "home")
    with pair(lab, side=OWN if lab.isolated else None):
        status = lab.status()
        how = {"HOME": home, "USRDMA_FAULTS": f"{home}/rules:/home/person/rules"}
        plain, _ = report(lab, **how)
        page, out = report(lab, "--redact", **how)
    secrets = {gid["gid"] for device in status["devices"] for gid in device["gids"]}
    secrets |= {text.removeprefix("::ffff:") for text in secrets}
    secrets -= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    secrets |= {device["node_guid"] for device in status["devices"]}
    host = socket.gethostname().split(".")[0]
    for text in (*secrets, home, "/home/person"):
        check(text in "".join(plain.texts.values()), f"{text} is nowhere")
        check(text not in out, f"{text} was not replaced")
    check(len(host) < 3 or host == "localhost" or not re.search(rf"\b{re.escape(host)}\b", page.texts["system"]), host)
    check("~/rules:/home/[user]/rules" in page.texts["profile"], page.texts["profile"])
    check("address-1" in page.texts["devices"] and "guid-1" in page.texts["devices"], page.texts["devices"])
    check("127.0.0.1" in page.texts["devices"] and page.headings == plain.headings, page.texts["devices"])
    if lab.isolated:
        replaced, = set(re.findall(r"\n(address-\d+)\n*$", page.texts["devices"].split("GIDs")[1], re.M)) & \
            set(re.findall(r"\n(address-\d+):\d+\n", page.texts["connections"]))
        check(replaced, page.texts["connections"])


def addresses_in_text(lab):
    """An address is replaced in each place of a text, and what only resembles an address stays."""
    cases = {
        "to 10.1.2.3:7174: no": "to address-1:7174: no", "10.1.2.3.": "address-1.", "::ffff:10.1.2.3": "address-1",
        "[fd01::2]:80": "[address-2]:80", "fd01::2%eth0/64": "address-2%eth0/64", "=FD01:0::2,": "=address-2,",
        "02:aa:bb:cc:dd:ee": "mac-1", "02aa:bbff:fecc:ddee": "guid-1", "02aabbfffeccddee": "guid-1",
        "127.0.0.1 ::1 0.0.0.0 ::": "127.0.0.1 ::1 0.0.0.0 ::", "/home/a/b:/home/c d": "/home/[user]/b:/home/[user] d",
        "12:34:56 1.2.3 0x10aabbccddeeff00 a::b1 beef:1": "12:34:56 1.2.3 0x10aabbccddeeff00 address-3 beef:1",
        "x10.1.2.3 <10.1.2.3> &10.9.9.9;": "x10.1.2.3 <address-1> &address-4;",
    }
    lab.end_daemons()
    alone = lab.copy(os.path.join(lab.tree, "usrdma"))
    page, _ = report(lab, "--redact", path=alone, USRDMA_PROFILE=" | ".join(cases))
    found = page.texts["profile"].split("USRDMA_PROFILE\n")[1].split("\n")[0]
    for shown, wanted in zip(found.split(" | "), cases.values()):
        check(shown == wanted, f"{shown}: {wanted}")


def order_is_fixed(lab):
    """Two reports of the same state differ in their time and in counters only."""
    first, second = (report(lab)[0].texts for _ in range(2))
    for section in ("failures", "faults", "trace", "processes", "connections", "devices", "profile", "system",
                    "content"):
        check(first[section] == second[section], f"{first[section]}\n{second[section]}")


def works_without_daemon(lab):
    """The page is written also if no daemon can be started, and without a home directory."""
    lab.end_daemons()
    alone = lab.copy(os.path.join(lab.tree, "usrdma"))
    page, _ = report(lab, path=alone, prefix=("env", "-u", "HOME"))
    check("The daemon sent no report: " in page.texts[""], page.texts[""])
    check("sent no report" in page.texts["failures"], page.texts["failures"])
    check(page.first_heading == "the daemon program, usrdmad, is not installed beside this command",
          page.first_heading)
    check("Failures are not known" in page.texts[""] and "0 failures" not in page.texts[""], page.texts[""])
    check("Fault rules are not known" in page.texts[""], page.texts[""])


def daemon_of_another_user(lab):
    lab.end_daemons()
    with daemon(lab, uid=OTHER_UID):
        page, _ = report(lab)
        check("The daemon sent no report: " in page.texts[""], page.texts[""])
        check(f"the daemon belongs to uid {OTHER_UID}" in page.texts["doctor"], page.texts["doctor"])


def files_and_options(lab):
    path = os.path.join(lab.scratch, "page.html")
    status, out, err = usrdma(lab, "report", "-o", path)
    check(status == 0 and out == path + "\n" and not err, out + err)
    with open(path, encoding="utf-8") as file:
        Page(file.read())
    for argv in (("x",), ("-o",), ("--trace",), ("--payload",), ("--trace", "x", "--payload", "--redact")):
        status, out, err = usrdma(lab, "report", *argv)
        check(status == 2 and err and not out, f"{argv}: {status} {out} {err}")
    for argv in (("-o", "/nonexistent/page.html"), ("--trace", "/nonexistent/trace", "-o", path + "2")):
        status, out, err = usrdma(lab, "report", *argv)
        check(status == 1 and "/nonexistent/" in err and not out, f"{argv}: {status} {out} {err}")
    check(not os.path.exists(path + "2"), "a page without its trace")


def body(lab, cases):
    for case in (no_failure, failure_comes_first, names_are_escaped, trace_without_payload, redacted, addresses_in_text,
                 order_is_fixed, works_without_daemon, files_and_options):
        cases.run(case.__name__.replace("_", " "), case, lab)
    if lab.drops:
        cases.run("daemon of another user", daemon_of_another_user, lab)


if __name__ == "__main__":
    laboratory.main(body)
