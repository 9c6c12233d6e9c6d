/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginning of the page, and the statement of what the page contains. */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "html.h"
#include "sections.h"

static void item_begin(FILE *out, const char *class)
{
	fprintf(out, "<li class=\"%s\">", class);
}

/* What the reader has to know first; `cause`: of the newest failure, or NULL. */
static const char *title_of(const struct bug_report *report, const char *cause)
{
	for (size_t i = 0; !cause && i < report->findings.count; i++) {
		if (report->findings.list[i].level == DOCTOR_PROBLEM)
			cause = report->findings.list[i].text;
	}
	if (cause)
		return cause;
	return report->has_failures ? "No failure is stored" : "The failures are not known";
}

static void summarize_failures(FILE *out, const struct bug_report *report)
{
	size_t count = report->incidents;

	item_begin(out, !report->has_failures ? "u-warn" : count ? "u-bad" : "u-good");
	if (report->has_failures)
		html_format(out, "%zu failure%s%s", count, report_plural(count),
			    count > 1 ? "; the newest is the title" : "");
	else
		fputs("Failures are not known", out);
	fputs("</li>\n", out);
}

static void summarize_doctor(FILE *out, const struct doctor *doctor)
{
	item_begin(out, doctor->problems ? "u-bad" : doctor->warnings ? "u-warn" : "u-good");
	html_format(out, "Doctor: %u problem%s, %u warning%s", doctor->problems,
		    report_plural(doctor->problems), doctor->warnings,
		    report_plural(doctor->warnings));
	fputs("</li>\n", out);
}

static void summarize_faults(FILE *out, const struct bug_report *report)
{
	size_t users = report_length(json_object_object_get(report->state, "fault_rule_uids"));
	int count = report->faults.text.count;

	item_begin(out, users || !report->state ? "u-warn" : "u-good");
	if (!report->state)
		fputs("Fault rules are not known", out);
	else if (count)
		html_format(out,
			    "%d fault rule%s in force: failures may have been injected on purpose",
			    count, count == 1 ? " is" : "s are");
	else if (users)
		fputs("Fault rules of another user are in force", out);
	else
		fputs("No injected faults", out);
	fputs("</li>\n", out);
}

static void summarize_state(FILE *out, const struct bug_report *report)
{
	json_object *daemon = json_object_object_get(report->state, "daemon");
	size_t processes = report_length(json_object_object_get(report->state, "processes"));
	size_t devices = report_length(json_object_object_get(report->state, "devices"));

	item_begin(out, !report->state ? "u-bad" : devices ? "u-good" : "u-warn");
	if (report->state)
		html_format(out, "Daemon %s: %zu device%s, %zu process%s",
			    text_of(daemon, "version"), devices, report_plural(devices), processes,
			    processes == 1 ? "" : "es");
	else
		html_format(out, "The daemon sent no report: %s", strerror(-report->daemon.error));
	fputs("</li>\n", out);
}

static void print_navigation(FILE *out)
{
	static const struct {
		const char *id, *title;
	} links[] = {{"failures", "Failures"},
		     {"doctor", "Doctor"},
		     {"faults", "Injected faults"},
		     {"trace", "Trace"},
		     {"processes", "Processes"},
		     {"connections", "Connections"},
		     {"devices", "Devices"},
		     {"counters", "Counters"},
		     {"profile", "Profile"},
		     {"system", "System"},
		     {"content", "What this file contains"}};

	fputs("<nav aria-label=\"Sections\"><ul>\n", out);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		fprintf(out, "<li><a href=\"#%s\">%s</a></li>\n", links[i].id, links[i].title);
	fputs("</ul></nav>\n", out);
}

void page_summary(FILE *out, const struct bug_report *report)
{
	char *cause = failures_newest(report);
	char when[40] = "?";
	struct tm utc;

	if (gmtime_r(&report->time, &utc))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
	fputs("<header>\n<h1>", out);
	html_text(out, title_of(report, cause));
	fputs("</h1>\n<p class=\"u-weak\">", out);
	html_format(out, "Bug report of usrdma %s, created at %s by usrdma report%s.",
		    USRDMA_VERSION, when,
		    report->is_redacted ?
			    " --redact: addresses and names of the machine are replaced" :
			    "");
	fputs("</p>\n<ul class=\"u-summary\">\n", out);
	summarize_failures(out, report);
	summarize_doctor(out, &report->doctor);
	summarize_faults(out, report);
	summarize_state(out, report);
	fputs("</ul>\n", out);
	print_navigation(out);
	fputs("</header>\n<main>\n", out);
	free(cause);
}

void section_content(FILE *out, const struct bug_report *report)
{
	html_section(out, "content", "What this file contains");
	html_paragraph(
		out,
		"It contains names of programs (15 characters), process and user ids, names of interfaces, addresses and keys "
		"of memory regions, paths of libraries, and the variables of usrdma.%s",
		report->is_redacted ?
			" IP addresses, GIDs, Ethernet addresses, the name of the host and home directories were replaced." :
			" It contains IP addresses and GIDs; GUIDs and link-local addresses contain Ethernet addresses. "
			"usrdma report --redact replaces them.");
	html_paragraph(
		out,
		"It does not contain names of users, command lines, or other environment variables, and the name of the host "
		"only if a path contains it.");
	html_paragraph(
		out, "%s",
		report->has_payload ?
			"The capture file of the trace contains payload of messages (--payload)." :
			"It contains no payload of messages. A diagram shows sizes, keys, and the 32 bits of immediate data.");
	html_section_end(out);
}
