/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_FAULT_ACTIVE_H
#define TOOLS_USRDMA_FAULT_ACTIVE_H

#include <json-c/json.h>
#include <sys/types.h>

#include "daemon.h"
#include "text.h"

/*
 * The rules that the daemon has for this user, for commands that mention them beside other output.
 */
struct fault_active {
	struct fault_text text; /* no rules, if they cannot be read */
	struct fault_count counts[FAULT_RULES_MAX];
};

void fault_active_read(struct fault_active *active);
void fault_active_free(struct fault_active *active);

/* Prints how many rules are in force, and which processes of the daemon's report they concern. */
void fault_print_concerned(const struct fault_text *text, json_object *report, uid_t uid);

#endif
