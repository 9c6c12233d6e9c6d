/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_FAULT_DAEMON_H
#define TOOLS_USRDMA_FAULT_DAEMON_H

#include <stdbool.h>

#include "base/probe_page.h"
#include "ipc/client.h"

/* The rules that the daemon has for this user. The functions print the cause of a failure. */

/* Connects to the daemon, starts it if necessary. */
bool fault_daemon_open(struct ipc_client *client);

/*
 * The text of the rules, which the caller frees, and if counts is not NULL their counts. NULL:
 * failure.
 */
char *fault_daemon_rules(const struct ipc_client *client,
			 struct fault_count counts[FAULT_RULES_MAX]);

/* Replaces the rules of a user. */
bool fault_daemon_set(struct ipc_client *client, const char *text, uint32_t uid);

#endif
