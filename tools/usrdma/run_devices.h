/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOLS_USRDMA_RUN_DEVICES_H
#define USRDMA_TOOLS_USRDMA_RUN_DEVICES_H

#include <stdbool.h>

/*
 * The options of `usrdma run` and `usrdma env` that select names and profiles of devices, and the
 * files with the same settings. The result is written to the environment of the program, which the
 * libraries read (profile/view.h).
 */

/* The options that do not concern devices. */
struct run_options {
	bool is_mount;	    /* --mount of run */
	const char *format; /* of --format of env; NULL: none */
};

/*
 * Parses the options of the command argv[0] before the program in argv[1] and following. Returns
 * the index of the program in argv, argc if it is missing, 0 if only help was requested and
 * printed, or after an error message the negative exit status.
 */
int run_devices_options(int argc, char **argv, struct run_options *found);

#endif
