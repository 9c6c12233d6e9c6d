# SPDX-License-Identifier: BSD-2-Clause
"""Shows the page of usrdma report in Chromium, and checks the metrics of usrdma status with Prometheus's promtool.
`tests/soak pages` runs it. USRDMA_PAGES=DIRECTORY keeps the page, its screenshots and its print."""

import json
import os
import re
import shutil
import subprocess

from tests.programs import lab as laboratory
from tests.programs import monitoring
from tests.programs.command_kit import usrdma
from tests.programs.lab import check
from tests.programs.report import SECTIONS, Page, mistake, pair

# The page in a frame of this many pixels, and what Chromium computes for it.
FRAME = """<!DOCTYPE html><title>frame</title>
<iframe id="page" width="{0}" height="800" src="page.html"></iframe><script>
document.getElementById("page").onload = function () {{
    var page = this.contentDocument, out = document.createElement("p");
    out.id = "measured";
    out.textContent = [page.documentElement.scrollWidth, page.body.scrollHeight,
        page.querySelectorAll("section h2").length, page.querySelectorAll("svg text").length,
        page.styleSheets.length].join(" ");
    document.body.appendChild(out);
}};
</script>"""
COLOURS_DARK = "--blink-settings=preferredColorScheme=0"
COLOURS_LIGHT = "--blink-settings=preferredColorScheme=1"


def chromium(lab, *options):
    command = ["chromium", "--headless", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
               f"--user-data-dir={lab.scratch}/chromium", *(["--no-sandbox"] if os.geteuid() == 0 else []), *options]
    done = subprocess.run(command, env=dict(lab.env, HOME=lab.scratch), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=lab.seconds(120))
    check(done.returncode == 0, done.stderr)
    return done.stdout


def pixels(path):
    """Reads a PNG by netpbm. Returns width, height and the bytes of the RGB triples."""
    image = subprocess.run(["pngtopnm", path], capture_output=True, check=True).stdout
    kind, size, _, data = image.split(b"\n", 3)
    check(kind == b"P6", f"{image[:40]}")
    return *map(int, size.split()), data


def page_of_a_failure(lab, folder):
    trace = os.path.join(lab.scratch, "trace.pcapng")
    mistake(lab)
    status, _, err = usrdma(lab, "trace", "-w", trace, "--", lab.tool("mistake"), "past_end", "lo", 0,
                            USRDMA_TRANSPORT="roce")
    check(os.path.exists(trace), f"{status} {err}")
    with pair(lab):
        status, out, err = usrdma(lab, "report", "-o", "-", "--trace", trace)
    check(status == 0, err)
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(out)
    return path


def parsed_alike(lab, path):
    """The document that Chromium builds has the elements of the file: no tag was repaired or moved."""
    with open(path, encoding="utf-8") as file:
        written = Page(file.read())
    shown = Page(chromium(lab, "--dump-dom", f"file://{path}"))
    check(shown.sections() == SECTIONS and shown.ids == written.ids, f"{shown.ids}")
    check(shown.headings == written.headings and shown.first_heading == written.first_heading, f"{shown.headings}")
    for section in SECTIONS:
        check(shown.texts[section].split() == written.texts[section].split(), section)


def fits(lab, path, width):
    """Nothing but tables and diagrams, which scroll in their own boxes, is wider than the screen."""
    frame = os.path.join(os.path.dirname(path), "frame.html")
    with open(frame, "w", encoding="utf-8") as file:
        file.write(FRAME.format(width))
    shown = chromium(lab, "--dump-dom", "--virtual-time-budget=10000", f"file://{frame}")
    measured = re.search(r'<p id="measured">(\d+) (\d+) (\d+) (\d+) (\d+)</p>', shown)
    check(measured, shown[:2000])
    scroll, height, headings, labels, sheets = map(int, measured.groups())
    check(scroll <= width, f"{scroll} pixels on a screen of {width}")
    check(height > 2000 and headings == len(SECTIONS) and labels > 10 and sheets == 2, measured[0])


def screenshot(lab, path, width, scheme, is_dark):
    """The background has the colours of the scheme, and the page is not blank from its beginning to its end."""
    name = os.path.join(os.path.dirname(path), f"page-{width}-{'dark' if is_dark else 'light'}.png")
    chromium(lab, f"--window-size={width},3000", f"--screenshot={name}", scheme, f"file://{path}")
    shown_width, height, data = pixels(name)
    check((shown_width, height) == (width, 3000), f"{shown_width} x {height}")
    back = data[:3]
    check(max(back) < 64 if is_dark else min(back) > 224, f"background {list(back)}")
    for part in range(6):
        # Text is a smooth mixture of two colours: every seventh pixel shows enough of it.
        sample = data[part * len(data) // 6:(part + 1) * len(data) // 6:21]
        inked = sum(abs(value - back[0]) > 80 for value in sample)
        check(inked > 100, f"{inked} pixels differ from the background in part {part + 1} of 6")


def printed(lab, path):
    name = os.path.join(os.path.dirname(path), "page.pdf")
    chromium(lab, f"--print-to-pdf={name}", "--no-pdf-header-footer", f"file://{path}")
    with open(name, "rb") as file:
        check(file.read(5) == b"%PDF-" and os.path.getsize(name) > 20000, "no print")


def promtool(lab):
    """Prometheus reads the metrics, the rules of docs/monitoring.md, and the expressions of the dashboard."""
    rules = [re.search(r"^```yaml\n(groups:.+?)^```", monitoring.text_of("docs", "monitoring.md"), re.M | re.S)[1],
             json.dumps({"groups": [{"name": "dashboard", "rules": [
                 {"record": f"rule:{number}", "expr": expression.replace("$__rate_interval", "1m")}
                 for number, expression in enumerate(monitoring.expressions())]}]})]
    for arguments, text in ((["metrics"], monitoring.metrics_of(lab)[0]), *((["rules"], text) for text in rules)):
        path = os.path.join(lab.scratch, "rules.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if arguments == ["rules"]:
            arguments = ["rules", path]
        done = subprocess.run(["promtool", "check", *arguments], input=text, capture_output=True, text=True,
                              check=False)
        check(done.returncode == 0 and not done.stderr, done.stdout + done.stderr)


def body(lab, cases):
    folder = os.environ.get("USRDMA_PAGES") or lab.scratch
    why_not = None if shutil.which("chromium") and shutil.which("pngtopnm") else "no chromium or netpbm"
    path = page_of_a_failure(lab, folder)
    cases.run_unless(why_not, "elements", parsed_alike, lab, path)
    for width in (360, 1280):
        cases.run_unless(why_not, f"width of {width} pixels", fits, lab, path, width)
    for width in (500, 1280):
        cases.run_unless(why_not, f"{width} pixels, light", screenshot, lab, path, width, COLOURS_LIGHT, False)
        cases.run_unless(why_not, f"{width} pixels, dark", screenshot, lab, path, width, COLOURS_DARK, True)
    cases.run_unless(why_not, "print", printed, lab, path)
    cases.run_unless(None if shutil.which("promtool") else "no promtool", "promtool", promtool, lab)


if __name__ == "__main__":
    laboratory.main(body)
