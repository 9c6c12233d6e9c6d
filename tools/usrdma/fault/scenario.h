/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_FAULT_SCENARIO_H
#define TOOLS_USRDMA_FAULT_SCENARIO_H

#include <stdbool.h>

/* Files with fault rules; the installed ones are the scenarios (docs/scenarios.md). */

/* The text of a file ("-": standard input), which the caller frees. NULL and errno. */
char *scenario_read_file(const char *path);

/* The same for the scenario of that name. */
char *scenario_read(const char *name);

/* Prints each scenario's name and first line. False: failure, the cause was printed. */
bool scenario_list(void);

#endif
