/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

static const char help[] =
	"Usage: usrdma COMMAND [ARGUMENT]...\n"
	"\n"
	"RDMA without an RDMA NIC, a kernel module or root: every network interface of this machine,\n"
	"'lo' included, is an RDMA device that unmodified programs can use.\n"
	"\n"
	"  usrdma run [--device NAME=INTERFACE[:PROFILE]]... [--only-devices] [--profile PROFILE]\n"
	"             [--config FILE] [--] PROGRAM [ARGUMENT]...\n"
	"      Runs PROGRAM with libibverbs and librdmacm of usrdma instead of those of the system.\n"
	"      --device mlx5_0=eth0 names the device of an interface; --profile connectx-6 gives it ids,\n"
	"      limits, port rate and GID table of an adapter; --profile help lists the profiles.\n"
	"      Try it in two terminals: usrdma run rping -s -v, and\n"
	"      usrdma run rping -c -a 127.0.0.1 -C 3 -v\n"
	"\n"
	"  usrdma status [--json | --prometheus]\n"
	"      Shows the devices with their addresses (GIDs), the processes that use them, their\n"
	"      queue pairs, memory regions and connections, and counters, with dropped packets by\n"
	"      reason. --prometheus: the counters in the text format of Prometheus.\n"
	"\n"
	"  usrdma top [--json] [--interval SECONDS] [--count N] [--program NAME]\n"
	"      Shows each process with its rates of messages, packets, retries, RNR NAKs, dropped\n"
	"      packets and queue pair errors, every second.\n"
	"\n"
	"  usrdma trace [OPTION]... [-- PROGRAM [ARGUMENT]...]\n"
	"      Shows what running programs do: work requests, messages of the connection\n"
	"      manager, events, errors. -w FILE: a pcapng file for Wireshark, - for standard output;\n"
	"      --pid N, --qp N, --device NAME: only these; --duration SECONDS; --all: also each\n"
	"      packet, element of a FIFO and request to the daemon, which costs the programs more time.\n"
	"      -r FILE: analyses a capture file of usrdma, tcpdump or Wireshark, --json as JSON;\n"
	"      --analysis: the same for a live trace when it ends.\n"
	"      --diagram FILE.svg or FILE.html: a sequence diagram of a connection, live or with -r.\n"
	"      --wireshark-profile: the directory of a profile with which Wireshark shows these packets\n"
	"      correctly.\n"
	"\n"
	"  usrdma doctor [HOST]\n"
	"      Shows what on this machine prevents RDMA or slows it down, and how to mend it. With HOST:\n"
	"      whether that host answers on UDP port 4791, how fast, and the MTU of the path.\n"
	"\n"
	"  usrdma why [PID | QPN] [--last N] [--all] [--json]\n"
	"      Explains the last failures of all processes, also of those that have ended: the first cause,\n"
	"      both sides, the numbers, and what to do.\n"
	"\n"
	"  usrdma fault [list [--json]]\n"
	"  usrdma fault set FILE | add RULE... | clear | scenario [NAME [CONDITION]...]  [--seed N]\n"
	"      Injects faults into this user's running programs: lost packets, errors, delays. Without\n"
	"      arguments it shows the rules with their passes and firings; see usrdma(7).\n"
	"\n"
	"  usrdma man [SECTION] PAGE\n"
	"      Shows a page of the manual of a call or tool, for example usrdma man ibv_post_send.\n"
	"\n"
	"  usrdma TOOL [ARGUMENT]...\n"
	"      Runs a tool of usrdma, for example rping.\n"
	"\n"
	"  usrdma version\n"
	"  usrdma --help\n"
	"\n"
	"A daemon, usrdmad, starts with the first program and ends after the last one.\n"
	"\n"
	"Environment of the programs that run:\n"
	"  USRDMA_LOG=error|warn|info|debug|trace\n"
	"      Minimum level of messages on stderr; off: no messages.\n"
	"  USRDMA_TRANSPORT=local|roce\n"
	"      The only transport; peers need the same. local: shared memory, no network.\n"
	"      roce: RoCEv2 over UDP, also between processes of this machine.\n"
	"  USRDMA_CM_TIMEOUT=1 to 300\n"
	"      Seconds without a reply of the peer after which a connection attempt fails; default 8.\n"
	"  USRDMA_SHARE=on|off\n"
	"      Default: peers of this machine can map up to 256 MB of a process's aligned memory. on: no bound.\n"
	"      off: they cannot, and no handler of SIGBUS is installed. See usrdma(7).\n"
	"  USRDMA_DEVICES=NAME=INTERFACE[:PROFILE],..., USRDMA_PROFILE=PROFILE[,ATTRIBUTE=VALUE]...\n"
	"      Names and profiles of devices; see usrdma(7).\n"
	"  USRDMA_FAULT=RULES, USRDMA_FAULTS=FILE\n"
	"      Injects faults, for tests of the program; see usrdma(7).\n";

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{"doctor", command_doctor}, {"fault", command_fault},	  {"man", command_man},
	{"run", command_run},	    {"status", command_status},	  {"top", command_top},
	{"trace", command_trace},   {"version", command_version}, {"--version", command_version},
	{"why", command_why},
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

/* The exit status also reports that the output could not be written. */
static int flush_output(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	perror("usrdma: standard output");
	return status ? status : EXIT_FAILURE;
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
		return argc > 2 && asks_for_help(argv[2]) ?
			       show_help() :
			       flush_output(commands[i].run(argc - 1, argv + 1));
	}
	return command_tool(argc - 1, argv + 1);
}
