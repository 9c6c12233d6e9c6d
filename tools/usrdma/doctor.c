/* SPDX-License-Identifier: BSD-2-Clause */
/* usrdma doctor: prints what on this machine prevents RDMA or slows it down. */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>

#include "colour.h"
#include "commands.h"
#include "report.h"

static void doctor_print(void *ctx, const struct doctor_finding *finding)
{
	static const enum colour colours[] = {[DOCTOR_OK] = COLOUR_GREEN,
					      [DOCTOR_WARNING] = COLOUR_YELLOW,
					      [DOCTOR_PROBLEM] = COLOUR_RED};

	(void)ctx;
	printf("%s%-8s%s %s\n", colour(colours[finding->level]), doctor_level_name(finding->level),
	       colour(COLOUR_NONE), finding->text);
	if (finding->mend)
		printf("         try: %s\n", finding->mend);
}

int command_doctor(int argc, char **argv)
{
	struct doctor doctor = {.found = doctor_print};
	struct report_daemon daemon;
	json_object *report;

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fputs("usrdma: usage: usrdma doctor [HOST]\n", stderr);
		return EXIT_USAGE;
	}
	/* Messages about a daemon that does not answer stand before the findings. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	report = report_ask_daemon(&daemon);
	doctor_run(&doctor, report, &daemon);
	if (argc == 2)
		doctor_check_host(&doctor, argv[1]);
	printf("%u problem%s, %u warning%s\n", doctor.problems, report_plural(doctor.problems),
	       doctor.warnings, report_plural(doctor.warnings));
	json_object_put(report);
	return doctor.problems ? EXIT_FAILURE : EXIT_SUCCESS;
}
