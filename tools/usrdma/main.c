/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

static const char help[] =
	"Usage: usrdma COMMAND [ARGUMENT]...\n"
	"\n"
	"RDMA without an RDMA card, a kernel module or root: every network interface of this machine,\n"
	"'lo' included, becomes an RDMA device that unmodified programs can use.\n"
	"\n"
	"  usrdma run [--] PROGRAM [ARGUMENT]...\n"
	"      Runs PROGRAM with usrdma's libibverbs and librdmacm in place of the system's.\n"
	"      Try it in two terminals: usrdma run rping -s -v, and\n"
	"      usrdma run rping -c -a 127.0.0.1 -C 3 -v\n"
	"\n"
	"  usrdma status [--json]\n"
	"      Shows the devices with their addresses (GIDs), the processes that use them, their\n"
	"      queue pairs, memory regions and connections.\n"
	"\n"
	"  usrdma version\n"
	"  usrdma --help\n"
	"\n"
	"A small daemon, usrdmad, starts with the first program and leaves when the last one is gone.\n"
	"USRDMA_LOG=error|warn|info|debug|trace makes the libraries say on stderr what they do.\n";

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{"run", command_run},
	{"status", command_status},
	{"version", command_version},
	{"--version", command_version},
};

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "usrdma: there is no command '%s'; try 'usrdma --help'\n", argv[1]);
	return EXIT_FAILURE;
}
