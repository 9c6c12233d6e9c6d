/* SPDX-License-Identifier: BSD-2-Clause */
/* The failures that the daemon has stored, as usrdma why explains them, newest first. */
#include <stdlib.h>

#include "html.h"
#include "sections.h"

/* As usrdma why without --all: a first cause that is no note and no repetition. */
bool failures_is_incident(const struct why_list *list, size_t index)
{
	const struct why_failure *failure = &list->failures[index];

	return failure->cause == index && !failure->is_repeated &&
	       !(failure->is.flags & IPC_FAILURE_NOTE);
}

static char *cause_text(const struct why_list *list, size_t index)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	why_write_cause(out, list, index);
	return fclose(out) ? NULL : text;
}

char *failures_newest(const struct bug_report *report)
{
	for (size_t i = report->failures.count; i-- > 0;) {
		if (failures_is_incident(&report->failures, i))
			return cause_text(&report->failures, i);
	}
	return NULL;
}

static void incident_row(void *ctx, const char *name, const char *text)
{
	html_entry(ctx, name, text);
}

static void print_incident(FILE *out, const struct why_list *list, size_t index)
{
	char *cause = cause_text(list, index);

	fputs("<article>\n", out);
	html_subtitle(out, cause ? cause : "out of memory");
	html_list(out);
	why_each_row(list, index, incident_row, out);
	html_list_end(out);
	fputs("</article>\n", out);
	free(cause);
}

static void print_legend(FILE *out, time_t now)
{
	char zone[16] = "?";
	struct tm local;

	if (localtime_r(&now, &local))
		strftime(zone, sizeof(zone), "UTC%z", &local);
	html_paragraph(
		out,
		"Newest first, times in %s. The title is the first cause; \"seen\" is what the application observed, "
		"\"then\" a failure that follows from it.",
		zone);
}

void section_failures(FILE *out, const struct bug_report *report)
{
	const struct why_list *list = &report->failures;
	size_t shown = 0;

	html_section(out, "failures", "Failures");
	if (!report->state)
		html_paragraph(out, "The daemon sent no report, so that no failure can be read.");
	else if (!report->has_failures)
		html_paragraph(out, "The failures could not be read.");
	else if (!report->incidents)
		html_paragraph(
			out,
			"The daemon has stored no failure. Without programs it ends 10 minutes after the last failure, and its "
			"failures with it: let the failure happen again, and create the report within this time.");
	else
		print_legend(out, report->time);
	for (size_t i = list->count; i-- > 0 && shown < REPORT_INCIDENTS_MAX;) {
		if (!failures_is_incident(list, i))
			continue;
		print_incident(out, list, i);
		shown++;
	}
	if (report->incidents > shown)
		html_paragraph(out, "%zu older: usrdma why --last %zu", report->incidents - shown,
			       report->incidents);
	html_section_end(out);
}
