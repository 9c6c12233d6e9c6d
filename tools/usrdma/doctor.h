/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_DOCTOR_H
#define TOOLS_USRDMA_DOCTOR_H

#include <json-c/json.h>

#include "report.h"

/* What a finding means for the user's programs. */
enum doctor_level {
	DOCTOR_OK,
	DOCTOR_WARNING, /* works, but slower or with a part missing */
	DOCTOR_PROBLEM, /* does not work */
};

/* A finding of one line. The strings are valid during the call of `found` only. */
struct doctor_finding {
	enum doctor_level level;
	const char *text;
	const char *mend; /* the command that mends it; NULL: none */
};

struct doctor {
	struct report_daemon daemon;
	json_object *report; /* of the daemon, if it serves this user; NULL: no such daemon */
	unsigned int warnings;
	unsigned int problems;
	void (*found)(void *ctx, const struct doctor_finding *finding);
	void *ctx;
};

/*
 * Runs all checks of this machine. `report` and `daemon` are those of report_ask_daemon(); the
 * report stays the caller's, who keeps it as long as the doctor. The caller has set `found`, which
 * receives each finding.
 */
void doctor_run(struct doctor *doctor, json_object *report, const struct report_daemon *daemon);

/* "ok", "warning" or "problem". */
const char *doctor_level_name(enum doctor_level level);

/* Passes a finding to `found`. */
void doctor_say(struct doctor *doctor, enum doctor_level level, const char *mend,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * The checks, in the table of doctor_run.c. Each reports one finding or more. Those of GPUs, of
 * copies of libraries, of packages, of sandboxes, of `usrdma enable` and of a daemon that ends with
 * a container report findings only if there are any. A check that the table marks with needs_report
 * is called only if doctor->report is not NULL.
 */
void doctor_check_daemon(struct doctor *doctor);
void doctor_check_devices(struct doctor *doctor);
void doctor_check_namespaces(struct doctor *doctor);
void doctor_check_libraries(struct doctor *doctor);
void doctor_check_port(struct doctor *doctor);
void doctor_check_memory_access(struct doctor *doctor);
void doctor_check_limits(struct doctor *doctor);
void doctor_check_files(struct doctor *doctor);
void doctor_check_faults(struct doctor *doctor);
void doctor_check_fault_variables(struct doctor *doctor);
void doctor_check_ipv6(struct doctor *doctor);
void doctor_check_packet_filter(struct doctor *doctor);
void doctor_check_packages(struct doctor *doctor);
void doctor_check_copies(struct doctor *doctor);
void doctor_check_gpu(struct doctor *doctor);
void doctor_check_container(struct doctor *doctor);
void doctor_check_enabled(struct doctor *doctor);
void doctor_check_sandbox(struct doctor *doctor);

/* Whether a host, a name or an address, can be reached from here. */
void doctor_check_host(struct doctor *doctor, const char *host);

#endif /* TOOLS_USRDMA_DOCTOR_H */
