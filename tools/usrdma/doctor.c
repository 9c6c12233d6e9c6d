/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "colour.h"
#include "commands.h"
#include "report.h"

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *mend,
		const char *format, ...)
{
	static const char *const words[] = {
		[DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_PROBLEM] = "problem"};
	static const enum colour colours[] = {[DOCTOR_OK] = COLOUR_GREEN,
					      [DOCTOR_WARNING] = COLOUR_YELLOW,
					      [DOCTOR_PROBLEM] = COLOUR_RED};
	va_list args;

	doctor->warnings += level == DOCTOR_WARNING;
	doctor->problems += level == DOCTOR_PROBLEM;
	printf("%s%-8s%s ", colour(colours[level]), words[level], colour(COLOUR_NONE));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	if (mend)
		printf("         try: %s\n", mend);
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

/* root reads the report of any user's daemon, which serves root's programs only if it is root's. */
static void take_report(struct doctor *doctor)
{
	doctor->report = report_ask_daemon(&doctor->daemon);
	if (!doctor->report || doctor->daemon.uid == 0 || doctor->daemon.uid == geteuid())
		return;
	json_object_put(doctor->report);
	doctor->report = NULL;
	doctor->daemon.error = -EACCES;
}

static const char *plural(unsigned int count)
{
	return count == 1 ? "" : "s";
}

int command_doctor(int argc, char **argv)
{
	struct doctor doctor = {0};

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fputs("usrdma: usage: usrdma doctor [HOST]\n", stderr);
		return EXIT_USAGE;
	}
	/* Messages about a daemon that does not answer stand before the findings. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	take_report(&doctor);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (doctor.report || !checks[i].needs_report)
			checks[i].run(&doctor);
	}
	if (argc == 2)
		doctor_check_host(&doctor, argv[1]);
	printf("%u problem%s, %u warning%s\n", doctor.problems, plural(doctor.problems),
	       doctor.warnings, plural(doctor.warnings));
	json_object_put(doctor.report);
	return doctor.problems ? EXIT_FAILURE : EXIT_SUCCESS;
}
