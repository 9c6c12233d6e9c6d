/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report.h"

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *mend,
		const char *format, ...)
{
	static const char *const words[] = {
		[DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_PROBLEM] = "problem"};
	va_list args;

	doctor->warnings += level == DOCTOR_WARNING;
	doctor->problems += level == DOCTOR_PROBLEM;
	printf("%-8s ", words[level]);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	if (mend)
		printf("         try: %s\n", mend);
}

static void (*const checks[])(struct doctor *doctor) = {
	doctor_check_daemon,	    doctor_check_port,	    doctor_check_devices,
	doctor_check_memory_access, doctor_check_limits,    doctor_check_ipv6,
	doctor_check_packet_filter, doctor_check_libraries, doctor_check_namespaces,
	doctor_check_container,
};

int command_doctor(int argc, char **argv)
{
	struct doctor doctor = {0};

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fputs("usrdma: usage: usrdma doctor [HOST]\n", stderr);
		return EXIT_FAILURE;
	}
	/* Messages about a daemon that does not answer stand before the findings. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	doctor.report = report_ask();
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](&doctor);
	if (argc == 2)
		doctor_check_host(&doctor, argv[1]);
	printf("%u problems, %u warnings\n", doctor.problems, doctor.warnings);
	json_object_put(doctor.report);
	return doctor.problems ? EXIT_FAILURE : EXIT_SUCCESS;
}
