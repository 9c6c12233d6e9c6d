/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "sections.h"

static void add_finding(void *ctx, const struct doctor_finding *found)
{
	struct findings *findings = ctx;
	struct finding *more = realloc(findings->list,
				       (findings->count + 1) * sizeof(*findings->list));

	if (!more)
		return;
	findings->list = more;
	more[findings->count++] = (struct finding){
		.level = found->level,
		.text = strdup(found->text),
		.mend = found->mend ? strdup(found->mend) : NULL,
	};
}

static bool has_fault_rules(json_object *state)
{
	return report_length(json_object_object_get(state, "fault_rule_uids")) > 0;
}

void bug_report_collect(struct bug_report *report)
{
	report->time = time(NULL);
	report->state = report_ask_daemon(&report->daemon);
	report->doctor.found = add_finding;
	report->doctor.ctx = &report->findings;
	doctor_run(&report->doctor, report->state, &report->daemon);
	report->faults.text = (struct fault_text){.seed = 1};
	if (!report->state)
		return;
	report->has_failures = why_fetch(&report->failures);
	why_join(&report->failures);
	why_fold(&report->failures);
	for (size_t i = 0; i < report->failures.count; i++)
		report->incidents += failures_is_incident(&report->failures, i);
	if (has_fault_rules(report->state))
		fault_active_read(&report->faults);
}

void bug_report_free(struct bug_report *report)
{
	for (size_t i = 0; i < report->findings.count; i++) {
		free(report->findings.list[i].text);
		free(report->findings.list[i].mend);
	}
	free(report->findings.list);
	free(report->failures.failures);
	fault_active_free(&report->faults);
	json_object_put(report->state);
}
