/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "config.h"
#include "ipc/msg.h"

int command_version(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		fputs("usrdma: version takes no arguments\n", stderr);
		return EXIT_USAGE;
	}
	printf("usrdma %s (daemon protocol %d)\n", USRDMA_VERSION, IPC_VERSION);
	return EXIT_SUCCESS;
}
