/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of `usrdma doctor`, for the command and for `usrdma report`. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "doctor.h"

const char *doctor_level_name(enum doctor_level level)
{
	static const char *const names[] = {
		[DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_PROBLEM] = "problem"};

	return names[level];
}

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *mend,
		const char *format, ...)
{
	struct doctor_finding finding = {.level = level, .mend = mend};
	va_list args;
	char *text;
	int len;

	doctor->warnings += level == DOCTOR_WARNING;
	doctor->problems += level == DOCTOR_PROBLEM;
	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	finding.text = len < 0 ? "out of memory" : text;
	doctor->found(doctor->ctx, &finding);
	if (len >= 0)
		free(text);
}

struct doctor_check {
	void (*run)(struct doctor *doctor);
	bool needs_report; /* of a daemon that serves this user */
};

static const struct doctor_check checks[] = {
	{doctor_check_files, false},	     {doctor_check_daemon, false},
	{doctor_check_port, true},	     {doctor_check_devices, true},
	{doctor_check_memory_access, false}, {doctor_check_limits, false},
	{doctor_check_sandbox, false},	     {doctor_check_ipv6, false},
	{doctor_check_packet_filter, false}, {doctor_check_libraries, false},
	{doctor_check_enabled, false},	     {doctor_check_namespaces, true},
	{doctor_check_faults, true},	     {doctor_check_fault_variables, false},
	{doctor_check_packages, false},	     {doctor_check_copies, false},
	{doctor_check_gpu, false},	     {doctor_check_container, true},
};

void doctor_run(struct doctor *doctor, json_object *report, const struct report_daemon *daemon)
{
	doctor->report = report;
	doctor->daemon = *daemon;
	/*
	 * root reads the report of any user's daemon, which serves root's programs only if it is
	 * root's.
	 */
	if (report && daemon->uid != 0 && daemon->uid != geteuid()) {
		doctor->report = NULL;
		doctor->daemon.error = -EACCES;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (doctor->report || !checks[i].needs_report)
			checks[i].run(doctor);
	}
}
