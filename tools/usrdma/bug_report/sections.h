/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_BUG_REPORT_SECTIONS_H
#define TOOLS_USRDMA_BUG_REPORT_SECTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "../doctor.h"
#include "../fault/active.h"
#include "../report.h"
#include "../why.h"

/* Incidents with all their rows. Older ones are counted. */
#define REPORT_INCIDENTS_MAX 50
/* A capture file that is a part of the page. */
#define REPORT_CAPTURE_MAX (8u << 20)

/* Findings of usrdma doctor. */
struct findings {
	struct finding {
		enum doctor_level level;
		char *text;
		char *mend; /* NULL: none */
	} * list;
	size_t count;
};

/* What one page shows. */
struct bug_report {
	time_t time;
	const char *trace_path; /* NULL: no trace */
	bool has_payload;
	bool is_redacted;
	struct report_daemon daemon;
	json_object *state; /* the daemon's report; NULL: no daemon answered */
	bool has_failures;  /* the failures were read */
	struct why_list failures;
	size_t incidents; /* without notes and repeated ones */
	struct doctor doctor;
	struct findings findings;
	struct fault_active faults;
};

/* collect.c: reads everything but the trace. */
void bug_report_collect(struct bug_report *report);
void bug_report_free(struct bug_report *report);

/* failures.c. The first cause of the newest incident; NULL: no incident. The caller frees it. */
char *failures_newest(const struct bug_report *report);
void section_failures(FILE *out, const struct bug_report *report);
bool failures_is_incident(const struct why_list *list, size_t index);

/* checks.c: what the doctor found, and the rules of usrdma fault. */
void section_doctor(FILE *out, const struct bug_report *report);
void section_faults(FILE *out, const struct bug_report *report);

/* state.c: the daemon's report. */
void section_devices(FILE *out, const struct bug_report *report);
void section_processes(FILE *out, const struct bug_report *report);
void section_connections(FILE *out, const struct bug_report *report);
void section_counters(FILE *out, const struct bug_report *report);

/* trace.c. 0, or -errno after a message. */
int section_trace(FILE *out, const struct bug_report *report) __attribute__((warn_unused_result));

/* system.c. */
void section_profile(FILE *out, const struct bug_report *report);
void section_system(FILE *out, const struct bug_report *report);

/* summary.c: the beginning of the page, and what the page contains. */
void page_summary(FILE *out, const struct bug_report *report);
void section_content(FILE *out, const struct bug_report *report);

#endif
