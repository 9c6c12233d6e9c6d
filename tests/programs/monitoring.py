# SPDX-License-Identifier: BSD-2-Clause
"""docs/monitoring.md and the dashboard for Grafana agree with the metrics that usrdma status prints."""

import json
import os
import re
import subprocess

from tests.programs import lab as laboratory
from tests.programs.command_kit import usrdma
from tests.programs.lab import SOURCE, check
from tests.programs.report import pair

NAME = re.compile(r"\busrdma_[a-z_]+\b")
SELECTOR = re.compile(r"\b(usrdma_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'([a-z]+)(=~|=)"([^"]*)"')


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def metrics_of(lab):
    """Returns the output, and for each metric its type and the labels of its samples."""
    with pair(lab):
        status, out, err = usrdma(lab, "status", "--prometheus")
    check(status == 0 and not err, err)
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", out, re.M))
    samples = {name: [] for name in types}
    for line in out.splitlines():
        if not line.startswith("#"):
            samples[re.match(r"[a-z_]+", line)[0]].append(dict(re.findall(r'([a-z]+)="([^"]*)"', line)))
    check(all(samples.values()), f"no sample: {samples}")
    return out, types, samples


def dashboard():
    return json.loads(text_of("share", "grafana", "usrdma.json"))


def expressions():
    """Each expression of the dashboard and of the alerts of the page."""
    targets = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    return targets + re.findall(r"^ +expr: (.+)$", text_of("docs", "monitoring.md"), re.M)


def page_lists_each_metric(lab):
    """The table of the page has the metrics with their types and labels, and the page names no other one."""
    _, types, samples = metrics_of(lab)
    page = text_of("docs", "monitoring.md")
    table = {}
    for name, kind, labels in re.findall(r"^\| `(usrdma_\w+)` \| (\w+) \| [^|]+ \|([^|]*)\|", page, re.M):
        table[name] = (kind, re.findall(r"`(\w+)`", labels))
    check(table == {name: (types[name], list(samples[name][0])) for name in types}, f"{table}\n{types}")
    check(set(NAME.findall(page)) <= set(types), f"{set(NAME.findall(page)) - set(types)}")
    events = {sample["event"] for sample in samples["usrdma_events_total"]}
    rows = page.split("| events | meaning |")[1].split("\n\n")[0]
    named = re.findall(r"`([a-z_]+)`", rows)
    check(len(named) > 10 and set(named) <= events, f"{set(named) - events}")


def expressions_select_samples(lab):
    """Each selector has a metric and labels that exist, and each event that it names exists in its group."""
    _, types, samples = metrics_of(lab)
    for expression in expressions():
        names = set(NAME.findall(re.sub(r'"[^"]*"', '""', expression)))
        check(names and names <= set(types), expression)
        for metric, matchers in SELECTOR.findall(expression):
            wanted = {label: value for label, _, value in MATCHER.findall(matchers) if label != "instance"}
            check(set(wanted) <= set(samples[metric][0]), expression)
            of_group = [sample for sample in samples[metric] if wanted.get("group") in (None, sample.get("group"))]
            for event in filter(None, wanted.get("event", "").split("|")):
                check(any(re.fullmatch(event, sample["event"]) for sample in of_group), f"{event}: {expression}")
        if "rate(" in expression or "increase(" in expression:
            check(all(types[name] == "counter" for name in names), expression)


def dashboard_is_complete(_):
    """Panels have different ids and places, queries of the variable's data source, and a description."""
    board = dashboard()
    check(board["schemaVersion"] >= 36 and board["uid"] == "usrdma" and "id" not in board, f"{board['schemaVersion']}")
    variables = {variable["name"] for variable in board["templating"]["list"]}
    panels = board["panels"]
    check(len({panel["id"] for panel in panels}) == len(panels), "the same id twice")
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        check(not taken & cells and place["x"] + place["w"] <= 24, panel["title"])
        taken |= cells
        check(panel["type"] == "row" or (panel["targets"] and panel["description"]), panel["title"])
        for target in panel.get("targets", []):
            check(target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"])
            used = set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval"}
            check(used <= variables and 'instance=~"$instance"' in target["expr"], target["expr"])
        refs = [target["refId"] for target in panel.get("targets", [])]
        check(len(set(refs)) == len(refs), panel["title"])


def service_writes_the_file(lab):
    """The command of the unit writes a complete file, and leaves no other one."""
    command = re.search(r"^ExecStart=/bin/sh -c '(.+)'$", text_of("docs", "monitoring.md"), re.M)[1]
    folder = os.path.join(lab.scratch, "node-exporter")
    os.mkdir(folder)
    env = dict(lab.env, FILE=os.path.join(folder, "usrdma.prom"), PATH=f"{lab.tree}:{lab.env['PATH']}")
    for _ in lab.times:
        done = subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, text=True, check=False,
                              timeout=lab.seconds(30))
        check(done.returncode == 0 and not done.stdout + done.stderr, f"{done}")
        check(os.listdir(folder) == ["usrdma.prom"], f"{os.listdir(folder)}")
    with open(env["FILE"], encoding="utf-8") as file:
        check("\nusrdma_roce_port_open " in file.read(), "no metric")


def body(lab, cases):
    for case in (page_lists_each_metric, expressions_select_samples, dashboard_is_complete, service_writes_the_file):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    laboratory.main(body)
