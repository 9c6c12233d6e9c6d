/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_DOCTOR_H
#define TOOLS_USRDMA_DOCTOR_H

#include <json-c/json.h>

/* What a finding means for the user's programs. */
enum doctor_level {
	DOCTOR_OK,
	DOCTOR_WARNING, /* works, but slower or with a part missing */
	DOCTOR_PROBLEM, /* does not work */
};

struct doctor {
	json_object *report; /* of the daemon; NULL: no daemon answered */
	unsigned int warnings;
	unsigned int problems;
};

/* Prints a finding of one line, and the command that mends it (NULL: none). */
void doctor_say(struct doctor *doctor, enum doctor_level level, const char *mend,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The checks. Each prints one finding or more. */
void doctor_check_daemon(struct doctor *doctor);
void doctor_check_devices(struct doctor *doctor);
void doctor_check_namespaces(struct doctor *doctor);
void doctor_check_libraries(struct doctor *doctor);
void doctor_check_port(struct doctor *doctor);
void doctor_check_memory_access(struct doctor *doctor);
void doctor_check_limits(struct doctor *doctor);
void doctor_check_ipv6(struct doctor *doctor);
void doctor_check_packet_filter(struct doctor *doctor);
void doctor_check_container(
	struct doctor *doctor); /* no finding if the daemon does not end with a container */

/* Whether a host, a name or an address, can be reached from here. */
void doctor_check_host(struct doctor *doctor, const char *host);

#endif /* TOOLS_USRDMA_DOCTOR_H */
