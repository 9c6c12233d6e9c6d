/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_RUN_VARIABLES_H
#define TOOLS_USRDMA_RUN_VARIABLES_H

#include <stdbool.h>

/*
 * The environment variables with which the dynamic loader gives a program usrdma's libraries.
 * `usrdma run` sets them, and `usrdma env` prints them.
 */

/* The library that emulates sysfs for programs that search it for RDMA devices (src/sysfs). */
#define PRELOAD_SYSFS_NAME "libusrdma-sysfs.so"

#define RUN_VARIABLES 2

struct run_variable {
	const char *name;
	char *part;	/* of usrdma; the caller frees it with run_variables_free() */
	bool is_before; /* whether the part precedes the present value, and does not follow it */
};

/*
 * Determines the variables. Returns 0, or the exit status after an error message, which is about
 * `purpose`, for example "run 'rping'".
 */
int run_variables_get(struct run_variable variables[RUN_VARIABLES], const char *purpose);

void run_variables_free(struct run_variable variables[RUN_VARIABLES]);

/*
 * The part and the present value of the environment, which is returned alone if it contains the
 * part. The caller frees the text. NULL: no memory.
 */
char *run_variable_value(const struct run_variable *variable);

#endif
