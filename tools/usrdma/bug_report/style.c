/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The style of the page. The diagram of a trace brings a style sheet of its own, which applies to
 * the whole page; the classes of this one therefore begin with "u-".
 */
#include "html.h"

static const char colours[] =
	":root{color-scheme:light dark;--back:#ffffff;--text:#1f2328;--weak:#59636e;--line:#d1d9e0;"
	"--box:#f6f8fa;--bad:#cf222e;--warn:#8a5a00;--good:#1a7f37;--link:#0550ae}\n"
	"@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--weak:#9198a1;"
	"--line:#3d444d;--box:#161b22;--bad:#ff7b72;--warn:#e3b341;--good:#56d364;--link:#79c0ff}}\n";

static const char layout[] =
	"*{box-sizing:border-box}\n"
	"body{margin:0 auto;max-width:76rem;padding:1.5rem 1rem 4rem;background:var(--back);"
	"color:var(--text);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
	"h1{font-size:1.5rem;line-height:1.3;margin:0;overflow-wrap:anywhere}\n"
	"h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-bottom:.25rem;"
	"border-bottom:1px solid var(--line)}\n"
	"h3{font-size:1.05rem;margin:1.5rem 0 .5rem;overflow-wrap:anywhere}\n"
	"a{color:var(--link)}p{margin:.5rem 0;max-width:50rem}\n"
	"code,pre{font-family:ui-monospace,'Cascadia Mono','DejaVu Sans Mono',Menlo,monospace;"
	"font-size:.9em}\n"
	"pre{overflow-x:auto;padding:.75rem;background:var(--box);border:1px solid var(--line);"
	"border-radius:6px}\n"
	".u-weak{color:var(--weak)}\n"
	".u-summary{list-style:none;margin:1rem 0;padding:0;display:grid;gap:.5rem;"
	"grid-template-columns:repeat(auto-fit,minmax(15rem,1fr))}\n"
	".u-summary li{padding:.5rem .75rem;background:var(--box);border:1px solid var(--line);"
	"border-left:5px solid var(--weak);border-radius:6px}\n"
	".u-summary .u-bad{border-left-color:var(--bad)}"
	".u-summary .u-warn{border-left-color:var(--warn)}"
	".u-summary .u-good{border-left-color:var(--good)}\n"
	"nav ul{list-style:none;margin:1rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1rem}\n"
	"article{margin:1rem 0;padding:.75rem 1rem;background:var(--box);"
	"border:1px solid var(--line);border-left:5px solid var(--bad);border-radius:6px}\n"
	"article h3{margin:.25rem 0 .75rem}\n";

static const char lists[] =
	"dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem 1rem;margin:.5rem 0}\n"
	"dt{color:var(--weak)}dd{margin:0;overflow-wrap:anywhere}\n"
	".u-wide{overflow-x:auto;margin:.75rem 0}\n"
	"table{border-collapse:collapse;width:100%;font-size:.9rem}\n"
	"caption{text-align:left;color:var(--weak);padding:.25rem 0}\n"
	"th,td{text-align:left;vertical-align:top;padding:.35rem .75rem .35rem 0;"
	"border-bottom:1px solid var(--line)}\n"
	"th{font-weight:600;white-space:nowrap}thead th{color:var(--weak)}\n"
	"tbody tr:last-child>*{border-bottom:0}\n"
	"#doctor td:last-child{min-width:9rem}\n"
	".u-number{font-variant-numeric:tabular-nums}\n"
	".u-bad>th,.u-bad>dt{color:var(--bad)}.u-warn>th{color:var(--warn)}.u-good>th{color:var(--good)}\n"
	".u-diagram svg{display:block;max-width:100%;min-width:46rem;height:auto}\n"
	"@media(max-width:40rem){body{font-size:15px}dl{grid-template-columns:minmax(0,1fr);gap:0}"
	"dd{margin-bottom:.5rem}dt{font-size:.85rem}}\n"
	"@media print{:root{--back:#fff;--text:#000;--weak:#444;--line:#aaa;--box:#fff;--bad:#a40e26;"
	"--warn:#6b4500;--good:#116329;--link:#000}body{max-width:none;padding:0;font-size:10pt}"
	"nav{display:none}.u-wide,pre{overflow:visible}pre{white-space:pre-wrap}"
	"article,tr,.u-diagram svg{break-inside:avoid}h2,h3{break-after:avoid}"
	".u-diagram svg{min-width:0}}\n";

void html_head(FILE *out, const char *title)
{
	/*
	 * A page that shows hostile text loads and executes nothing, also if an escape were
	 * missing.
	 */
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
	      out);
	html_text(out, title);
	fputs("</title>\n<style>\n", out);
	fputs(colours, out);
	fputs(layout, out);
	fputs(lists, out);
	fputs("</style>\n</head>\n<body>\n", out);
}
