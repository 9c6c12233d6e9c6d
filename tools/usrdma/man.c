/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "config.h"
#include "places.h"

/* The pages have the names of those of rdma-core. Their directory is therefore not in the search path of `man`. */
int command_man(int argc, char **argv)
{
	char *arguments[] = {"man", "-M", NULL, NULL, NULL, NULL};
	char dir[PATH_MAX];

	if (argc < 2 || argc > 3 || argv[1][0] == '-') {
		fputs("usrdma: usage: usrdma man [SECTION] PAGE\n", stderr);
		return EXIT_FAILURE;
	}
	if (!place_find(PLACE_MANUAL, dir)) {
		fputs("usrdma: the manual is neither beside this program nor in " USRDMA_INSTALLED_MANDIR
		      "; run 'make', or 'make install'\n",
		      stderr);
		return EXIT_FAILURE;
	}
	arguments[2] = dir;
	arguments[3] = argv[1];
	arguments[4] = argv[2];
	execvp(arguments[0], arguments);
	fprintf(stderr, "usrdma: cannot run 'man': %s\n", strerror(errno));
	return EXIT_FAILURE;
}
