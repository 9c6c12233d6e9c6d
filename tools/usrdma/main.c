/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
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
	"      queue pairs, memory regions and connections, and what was counted, of what was dropped\n"
	"      each reason by itself.\n"
	"\n"
	"  usrdma man [SECTION] PAGE\n"
	"      Shows a page of the manual, which has every call and tool: usrdma man ibv_post_send.\n"
	"\n"
	"  usrdma TOOL [ARGUMENT]...\n"
	"      Runs one of usrdma's own tools, such as rping.\n"
	"\n"
	"  usrdma version\n"
	"  usrdma --help\n"
	"\n"
	"A small daemon, usrdmad, starts with the first program and leaves when the last one is gone.\n"
	"\n"
	"Environment of the programs that run:\n"
	"  USRDMA_LOG=error|warn|info|debug|trace\n"
	"      The libraries say on stderr what they do; off: not even what they need the user for.\n"
	"  USRDMA_TRANSPORT=local|roce\n"
	"      Data travels by this transport only, and so must its peers'. local: shared memory, never\n"
	"      the network. roce: RoCEv2 over UDP, also between processes of this machine.\n"
	"  USRDMA_CM_TIMEOUT=1 to 300\n"
	"      For how many seconds a peer may say nothing before connecting to it fails; else 8.\n";

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{"man", command_man},	      {"run", command_run},	      {"status", command_status},
	{"version", command_version}, {"--version", command_version},
};

static bool asks_for_help(const char *argument)
{
	return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static int show_help(void)
{
	fputs(help, stdout);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	if (asks_for_help(argv[1]) || strcmp(argv[1], "help") == 0)
		return show_help();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		return argc > 2 && asks_for_help(argv[2]) ? show_help() :
							    commands[i].run(argc - 1, argv + 1);
	}
	return command_tool(argc - 1, argv + 1);
}
