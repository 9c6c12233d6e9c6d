/* SPDX-License-Identifier: BSD-2-Clause */
/* What usrdma doctor found, and the rules of usrdma fault. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "html.h"
#include "sections.h"

static void print_finding(FILE *out, const struct finding *finding)
{
	static const char *const classes[] = {
		[DOCTOR_OK] = "u-good", [DOCTOR_WARNING] = "u-warn", [DOCTOR_PROBLEM] = "u-bad"};

	fprintf(out, "<tr class=\"%s\"><th scope=\"row\">%s</th>", classes[finding->level],
		doctor_level_name(finding->level));
	html_cell(out, finding->text ? finding->text : "out of memory");
	html_cell(out, finding->mend ? finding->mend : "");
	html_row_end(out);
}

void section_doctor(FILE *out, const struct bug_report *report)
{
	static const char *const heads[] = {"Result", "Finding", "Try", NULL};
	static const enum doctor_level levels[] = {DOCTOR_PROBLEM, DOCTOR_WARNING, DOCTOR_OK};

	html_section(out, "doctor", "Doctor");
	html_table(out, "What usrdma doctor found on this machine", heads);
	for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]); level++) {
		for (size_t i = 0; i < report->findings.count; i++) {
			if (report->findings.list[i].level == levels[level])
				print_finding(out, &report->findings.list[i]);
		}
	}
	html_table_end(out);
	html_section_end(out);
}

static void print_rules(FILE *out, const struct fault_active *faults)
{
	static const char *const heads[] = {"Rule",	"Text",	 "Passes", "Firings",
					    "Failures", "Cause", NULL};
	char number[16];

	html_table(out, "Rules in force of the user who created the report", heads);
	for (int i = 0; i < faults->text.count; i++) {
		const struct fault_count *count = &faults->counts[i];

		snprintf(number, sizeof(number), "%d", i + 1);
		html_row(out, number);
		html_cell(out, faults->text.rules[i]);
		html_cell_number(out, count->passes);
		html_cell_number(out, count->firings);
		html_cell_number(out, count->failures);
		html_cell(out, count->failures ? strerror(count->error) : "");
		html_row_end(out);
	}
	html_table_end(out);
	html_paragraph(out, "Seed %" PRIu64 ".", faults->text.seed);
}

void section_faults(FILE *out, const struct bug_report *report)
{
	json_object *uids = json_object_object_get(report->state, "fault_rule_uids");
	size_t users = report_length(uids);

	html_section(out, "faults", "Injected faults");
	if (!report->state)
		html_paragraph(out, "The daemon sent no report, so that the rules are not known.");
	else if (!users)
		html_paragraph(out, "No rule of usrdma fault is in force.");
	if (report->faults.text.count)
		print_rules(out, &report->faults);
	for (size_t i = 0; i < users; i++) {
		uint64_t uid = json_object_get_uint64(json_object_array_get_idx(uids, i));

		if (uid != getuid() || !report->faults.text.count)
			html_paragraph(out, "The user with uid %" PRIu64 " has rules in force.",
				       uid);
	}
	html_section_end(out);
}
