/* SPDX-License-Identifier: BSD-2-Clause */
#include "svg_style.h"

#include <inttypes.h>
#include <stdio.h>

#include "diagram.h"
#include "names.h"
#include "wire/cm_msg.h"
#include "wire/line.h"

/*
 * Colours of one scheme: stroke and text of each class, then background, text, weak text, lines and
 * boxes.
 */
#define SCHEME(cm, message, read, ack, again, rnr, err, ok, info, fault, bg, fg, weak, line, box) \
	".bg{fill:" bg "}text{fill:" fg "}.d,.t,.x,.sub{fill:" weak "}"                           \
	".life,.phase{stroke:" line "}.box{fill:" box ";stroke:" line "}"                         \
	".fold{fill:" box ";stroke:" weak "}.pill{fill:" bg ";stroke:" line "}.p{fill:" weak "}"  \
	".pause{fill:" again "}.note{fill:" bg "}"                                                \
	".a.cm,.note.cm{stroke:" cm "}.f.cm,text.cm,tspan.cm{fill:" cm "}"                        \
	".a.msg{stroke:" message "}.f.msg,tspan.msg{fill:" message "}"                            \
	".a.rd{stroke:" read "}.f.rd,tspan.rd{fill:" read "}"                                     \
	".a.ack{stroke:" ack "}.f.ack,tspan.ack{fill:" ack "}"                                    \
	".a.again{stroke:" again "}.f.again,tspan.again,.wait.again{fill:" again "}"              \
	".a.rnr{stroke:" rnr "}.f.rnr,tspan.rnr,.wait.rnr{fill:" rnr "}"                          \
	".a.err,.note.err{stroke:" err "}.f.err,text.err,tspan.err{fill:" err "}"                 \
	".a.ok,.note.ok{stroke:" ok "}text.ok{fill:" ok "}"                                       \
	".a.info,.note.info{stroke:" info "}text.info{fill:" fg "}"                               \
	".a.fault,.note.fault{stroke:" fault "}text.fault{fill:" fault "}"

const char svg_style_sheet[] =
	"<style>\n"
	"text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif}\n"
	".title{font-size:20px;font-weight:600}.sub{font-size:13px}.h{font-size:14px;font-weight:600}\n"
	".m{text-anchor:middle}.t{text-anchor:end;font-variant-numeric:tabular-nums}\n"
	".l,.s,.fl{font-weight:600}.d,.x{font-size:11px;font-weight:400}.s{font-size:11.5px}\n"
	".life{stroke-width:2}.gap{stroke-dasharray:1 5;stroke-linecap:round}\n"
	".phase{stroke-width:1;stroke-dasharray:4 4}.box,.note,.pill{stroke-width:1.2}\n"
	".fold{stroke-width:1;stroke-dasharray:5 4}.wait{opacity:.75}\n"
	".a{stroke-width:1.8;fill:none}.thick{stroke-width:3.4}.thin{stroke-width:1.1}\n"
	".a.lost{stroke-dasharray:6 5}.a.again{stroke-dasharray:9 3}\n"
	".a.lost{stroke:#cf222e}tspan.lost{fill:#cf222e}\n" SCHEME(
		"#8250df", "#0969da", "#0f766e", "#6e7781", "#bc4c00", "#9a6700", "#cf222e",
		"#1a7f37", "#57606a", "#bf3989", "#ffffff", "#1f2328", "#656d76", "#afb8c1",
		"#f6f8fa") "\n"
			   "@media(prefers-color-scheme:dark){\n"
			   ".a.lost{stroke:#f85149}tspan.lost{fill:#f85149}\n" SCHEME(
				   "#a371f7", "#58a6ff", "#39c5bb", "#8b949e", "#f0883e", "#d29922",
				   "#f85149", "#3fb950", "#8b949e", "#f778ba", "#0d1117", "#e6edf3",
				   "#8b949e", "#484f58", "#161b22") "\n"
								    "}\n"
								    "</style>\n";

const char *svg_class(enum step_style style)
{
	static const char *const classes[STYLE_COUNT] = {
		[STYLE_CM] = "cm",     [STYLE_MESSAGE] = "msg", [STYLE_READ] = "rd",
		[STYLE_ACK] = "ack",   [STYLE_AGAIN] = "again", [STYLE_RNR] = "rnr",
		[STYLE_ERROR] = "err", [STYLE_LOST] = "lost",	[STYLE_DONE] = "ok",
		[STYLE_INFO] = "info", [STYLE_FAULT] = "fault",
	};

	return classes[style];
}

static void add_count(struct line *line, uint64_t count, const char *one, const char *many)
{
	char text[NUMBER_BYTES];

	if (count)
		line_add(line, "%s%s %s", line->len ? ", " : "", text_of_count(text, count),
			 count == 1 ? one : many);
}

bool svg_trouble(const struct conn *conn, char *out, size_t out_bytes)
{
	struct line line = {.out = out, .room = out_bytes};
	const struct conn_dir *dirs = conn->dir;
	const char *reason;
	uint64_t naks = 0;

	out[0] = '\0';
	for (int code = 0; code < AETH_CODES; code++)
		naks += dirs[0].naks[code] + dirs[1].naks[code];
	if (conn->cm.rej_ns) {
		reason = cm_rej_reason_name(conn->cm.reject_reason);
		line_add(&line, "rejected: ");
		line_add_words(&line, reason ? reason : "reason not known");
	}
	add_count(&line, dirs[0].retransmitted_packets + dirs[1].retransmitted_packets,
		  "packet sent again", "packets sent again");
	add_count(&line, dirs[0].lost_packets + dirs[1].lost_packets, "packet lost",
		  "packets lost");
	add_count(&line, dirs[0].rnr_naks + dirs[1].rnr_naks, "RNR NAK", "RNR NAKs");
	add_count(&line, naks, "NAK", "NAKs");
	add_count(&line, conn->cm.repeated, "CM message repeated", "CM messages repeated");
	if (conn->first_status)
		line_add(&line, "%s%s", line.len ? ", " : "",
			 name_of_wc_status(conn->first_status));
	if (!conn_ends_normally(conn))
		add_count(&line, conn->failed_completions, "failed completion",
			  "failed completions");
	add_count(&line, conn->failed_calls, "failed call", "failed calls");
	add_count(&line, conn->drops, "drop", "drops");
	add_count(&line, conn->faults, "injected fault", "injected faults");
	return line.len > 0;
}
