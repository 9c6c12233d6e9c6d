# SPDX-License-Identifier: BSD-2-Clause
"""Reads captures with `usrdma trace -r`: those of Linux's rxe in tests/golden, whose packets tshark counts a second
time where it is installed, and traces of unmodified programs, with and without injected faults."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree as ElementTree

from tests.programs import cm
from tests.programs import lab as laboratory
from tests.programs.lab import LOOPBACK, SOURCE, check

# BTH opcodes of reliable connections, by key of the JSON analysis: the first or only packet of a message, and its ACK.
OPCODES = {"sends": (0, 4, 5, 0x17), "writes": (6, 10, 11), "reads": (12,), "atomics": (0x13, 0x14), "acks": (17,)}
SVG = "{http://www.w3.org/2000/svg}"


def golden():
    return sorted(glob.glob(os.path.join(SOURCE, "tests", "golden", "*.pcap")))


def run(lab, *argv, stdin=subprocess.DEVNULL, status=0):
    done = subprocess.run([os.path.join(lab.tree, "usrdma"), "trace", *argv], env=lab.env, check=False, stdin=stdin,
                          capture_output=True, text=True, timeout=lab.seconds(30))
    check(done.returncode == status, f"{argv}: exit status {done.returncode}: {done.stderr}")
    return done.stdout if status == 0 else done.stderr


def analysis(lab, path, *options):
    return json.loads(run(lab, "-r", path, "--json", *options))


def tshark_opcodes(path):
    """The BTH opcode of each RoCEv2 packet."""
    command = ["tshark", "-r", path, "-Y", "infiniband", "-T", "fields", "-e", "infiniband.bth.opcode"]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    return [int(line.split(",")[0], 0) for line in out.split()]


def summed(report, key):
    return sum(side[key] for conn in report["connections"] if conn["transport"] == "RC"
               for side in conn["requests_of_side"])


def counts_agree(lab):
    for path in golden():
        name = os.path.basename(path)
        # These packets are of 86 connections, and tshark does not dissect each of them.
        if name == "made.pcap":
            continue
        report = analysis(lab, path)
        check(report["icrc_wrong"] == 0 and not report["is_truncated"], f"{name}: {report}")
        if not shutil.which("tshark"):
            continue
        opcodes = tshark_opcodes(path)
        check(report["roce_packets"] == len(opcodes), f"{name}: {report['roce_packets']} packets, {len(opcodes)}")
        for key, codes in OPCODES.items():
            expected = sum(opcode in codes for opcode in opcodes)
            check(summed(report, key) == expected, f"{name}: {summed(report, key)} {key}, tshark {expected}")


def problems_are_found(lab):
    folder = os.path.join(SOURCE, "tests", "golden")
    findings = analysis(lab, os.path.join(folder, "reject.pcap"))["connections"][0]["findings"]
    check(len(findings) == 1 and "rejected the connection: reason 8" in findings[0], f"{findings}")
    findings = analysis(lab, os.path.join(folder, "rping4.pcap"))["connections"][0]["findings"]
    check(not findings, f"{findings}")


def other_formats(lab):
    """A capture that editcap converted, and standard input, give the same connections."""
    path = os.path.join(SOURCE, "tests", "golden", "ucmatose.pcap")
    expected = analysis(lab, path)["connections"]
    with open(path, "rb") as file:
        check(json.loads(run(lab, "-r", "-", "--json", stdin=file))["connections"] == expected, "standard input")
    if not shutil.which("editcap"):
        return
    for kind in ("pcapng", "nsecpcap"):
        converted = os.path.join(lab.scratch, kind)
        subprocess.run(["editcap", "-F", kind, path, converted], check=True, stderr=subprocess.DEVNULL)
        check(analysis(lab, converted)["connections"] == expected, kind)


def members(value):
    """The names of all members of a JSON object and the objects in it, except the kinds of NAKs."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if not isinstance(value, dict):
        return set()
    return set(value) | set().union(*(members(inner) for name, inner in value.items() if name != "naks"))


def members_are_documented(lab):
    with open(os.path.join(SOURCE, "docs", "man", "usrdma.1"), encoding="utf-8") as file:
        section = re.search(r"^\.Em JSON \.\n(.*?)^\.Fl Fl diagram$", file.read(), re.M | re.S).group(1)
    documented = set(re.findall(r"\w+", "\n".join(re.findall(r"^\.(?:It )?Va (.*)$", section, re.M))))
    printed = set().union(*(members(analysis(lab, path)) for path in golden()))
    check(len(printed) > 30 and printed <= documented, f"not in usrdma.1: {sorted(printed - documented)}")


def texts_of(path):
    """All text of an SVG file, which must be well-formed."""
    root = ElementTree.parse(path).getroot()
    check(root.tag == SVG + "svg", root.tag)
    return "\n".join("".join(text.itertext()) for text in root.iter(SVG + "text"))


def diagrams(lab):
    svg, page = os.path.join(lab.scratch, "out.svg"), os.path.join(lab.scratch, "out.html")
    for path in golden():
        run(lab, "-r", path, "--diagram", svg)
        check(os.path.basename(path) in texts_of(svg), f"{path}: no name of the file")
        run(lab, "-r", path, "--diagram", page)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        check(text.startswith("<!DOCTYPE html>") and text.count("</svg>") == 1, page)
    path = os.path.join(SOURCE, "tests", "golden", "rping_big.pcap")
    run(lab, "-r", path, "--diagram", svg)
    for label in ("CM REQ", "connected after", "RDMA WRITE 20,000 bytes", "READ response 20,000 bytes", "CM DREP"):
        check(label in texts_of(svg), f"no '{label}'")


def failures(lab):
    path = os.path.join(SOURCE, "tests", "golden", "rping4.pcap")
    other = os.path.join(SOURCE, "README.md")
    svg = os.path.join(lab.scratch, "none.svg")
    check("No such file" in run(lab, "-r", "/nonexistent", status=1), "missing file")
    check("not a capture file" in run(lab, "-r", other, status=1), "file of another format")
    check("no connection of this QP" in run(lab, "-r", path, "--qp", "0x999", "--diagram", svg, status=1), "QP")
    check(not os.path.exists(svg), "a diagram without a connection")
    check("cannot write" in run(lab, "-r", path, "--diagram", "/nonexistent/x.svg", status=1), "output file")
    shown = run(lab, "--diagram", svg, "--", "true", status=1)
    # A daemon that root started gives its events to root only.
    lab.end_daemons()
    check(shown == "usrdma: no diagram: the trace contains no connection\n", shown)


def traced_rping(lab, transport, fault, *options):
    """Traces rping with a fault at the server. Returns the analysis of the capture file, the same as text, and the
    diagram's texts. The options are those of both programs."""
    base = os.path.join(lab.scratch, f"{lab.count()}")
    address, port = LOOPBACK["ip4"], lab.port()
    env = {"USRDMA_TRANSPORT": transport}
    tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "-w", base + ".pcapng", "--diagram", base + ".svg",
                       native=True)
    tracer.says("usrdma: tracing")
    server = lab.start("rping", "-s", "-a", address, "-p", port, *options, USRDMA_FAULT=fault, **env)
    lab.listens_cm(server, port)
    client = lab.start("rping", "-c", "-a", address, "-p", port, *options, **env)
    client.finish(lab.seconds(20))
    server.finish(lab.seconds(20))
    tracer.signal(signal.SIGINT)
    tracer.finish(lab.seconds(10))
    texts = texts_of(base + ".svg")
    run(lab, "-r", base + ".pcapng", "--diagram", base + ".again.svg")
    again = texts_of(base + ".again.svg")
    check(texts.count("CM REQ") == again.count("CM REQ") == 1, f"live diagram:\n{texts}\nof the file:\n{again}")
    pids = {client.pid, server.pid}
    conns = [conn for conn in analysis(lab, base + ".pcapng")["connections"]
             if {side.get("pid") for side in conn["sides"]} == pids]
    check(len(conns) == 1, f"{len(conns)} connections of {pids}")
    return conns[0], run(lab, "-r", base + ".pcapng"), texts


def rping(lab, transport):
    conn, _, texts = traced_rping(lab, transport, "", "-C", 3)
    check([side["program"] for side in conn["sides"]] == ["rping", "rping"], f"{conn['sides']}")
    first, second = conn["requests_of_side"]
    check((first["sends"], second["sends"], second["reads"], second["writes"]) == (6, 6, 3, 3), f"{conn}")
    # On a slow machine a response may take longer than the timeout.
    check(all("retransmitted" in finding for finding in conn["findings"]), f"{conn}")
    check(conn["cm"]["connected_after_ns"] > 0, f"{conn}")
    for label in ("ESTABLISHED", "RDMA READ 64 bytes", "RDMA WRITE complete", "DISCONNECTED"):
        check(label in texts, f"no '{label}' in the diagram:\n{texts}")


def rping_with_a_lost_packet(lab):
    """The server drops the first SEND of the client."""
    conn, _, texts = traced_rping(lab, "roce", "packet.receive:drop:nth=1", "-C", 3)
    side = conn["requests_of_side"][0]
    check(conn["injected_faults"] == side["lost_packets"] == 1 and side["retransmitted_packets"] >= 1, f"{conn}")
    check("injected fault: drop" in texts and "did not arrive" in texts and " again" in texts, texts)


def rows(text):
    """The table of an analysis: the columns after the label, by label. `payload` and messages depend on no time."""
    table = re.search(r"^  requester  .*\n((?:  \w.*\n)+)", text, re.M).group(1)
    return {parts[0]: parts[1:] for parts in (re.split(r"  +", line.strip()) for line in table.splitlines())}


def example_of_debugging_guide_is_current(lab):
    """usrdma trace --analysis prints the rows, messages and bytes of the example in docs/debugging.md."""
    with open(os.path.join(SOURCE, "docs", "debugging.md"), encoding="utf-8") as file:
        page = re.search(r"^\$ USRDMA_FAULT=(\S+) usrdma run rping -s (.*) &\n(.*\n)+?```", file.read(), re.M)
    _, printed, texts = traced_rping(lab, "roce", page.group(1), *page.group(2).split())
    shown, now = rows(page.group(0)), rows(printed)
    # On a slow machine there may be more retransmissions, of which the last can arrive after the end of the queue pair.
    check(set(shown) <= set(now), f"page: {shown}\nnow: {now}\n{printed}")
    for label in ("SEND", "RDMA WRITE", "RDMA READ", "payload"):
        check(shown[label] == now[label], f"{label}: {shown[label]} on the page, now {now[label]}\n{printed}")
    check(shown["lost packets"][0] == now["lost packets"][0] == "1", f"lost packets {now['lost packets']}\n{printed}")
    check("! 1 injected fault" in page.group(0) and "! 1 injected fault" in printed, printed)
    check("RDMA WRITE 20,000 bytes" in texts, texts)


def live_analysis(lab):
    tracer = lab.start(os.path.join(lab.tree, "usrdma"), "trace", "--analysis", "--json", native=True)
    tracer.says("usrdma: tracing")
    cm.rping(lab, LOOPBACK["ip4"])
    tracer.signal(signal.SIGINT)
    tracer.finish(lab.seconds(10))
    with open(tracer.paths[0], encoding="utf-8") as file:
        conns = json.load(file)["connections"]
    check([side["program"] for side in conns[0]["sides"]] == ["rping", "rping"], f"{conns}")


def body(lab, cases):
    for case in (counts_agree, problems_are_found, other_formats, members_are_documented, diagrams, failures):
        cases.run(case.__name__.replace("_", " "), case, lab)
    for transport in ("local", "roce"):
        cases.run(f"rping, {transport}", rping, lab, transport)
    cases.run("live analysis", live_analysis, lab)
    cases.run("rping with a lost packet", rping_with_a_lost_packet, lab)
    cases.run("example of debugging.md is current", example_of_debugging_guide_is_current, lab)


if __name__ == "__main__":
    laboratory.main(body)
