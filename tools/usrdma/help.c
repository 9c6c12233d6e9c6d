/* SPDX-License-Identifier: BSD-2-Clause */
#include "help.h"

#include <string.h>

const struct help_command help_commands[] = {
	{
		.name = "run",
		.usage =
			"run [--device NAME=INTERFACE[:PROFILE]]... [--only-devices] [--profile PROFILE]\n"
			"           [--config FILE] [--mount] [--] PROGRAM [ARGUMENT]...\n",
		.text = "Runs PROGRAM with libibverbs and librdmacm of usrdma instead of those of the system.\n"
			"--device mlx5_0=eth0 names the device of an interface; --profile connectx-6 gives it ids,\n"
			"limits, port rate and GID table of an adapter; --profile help lists the profiles.\n"
			"--only-devices: the other interfaces have no device. --config FILE has these settings.\n"
			"--mount: static and Go programs find the devices in /sys, too.\n",
		.examples = "usrdma run rping -s -v\n"
			    "usrdma run rping -c -a 127.0.0.1 -C 3 -v\n"
			    "usrdma run --device mlx5_0=eth0 --profile connectx-6 -- ibv_devinfo\n",
		.words = "--device --only-devices --profile --config --mount --",
		.values = "--device --profile --config",
	},
	{
		.name = "env",
		.usage = "env [--format shell|dockerfile|github] [OPTION OF run]...\n",
		.text = "Prints the environment variables that usrdma run sets, for a shell, a Dockerfile or the\n"
			"following steps of a GitHub Actions job.\n",
		.examples = "eval \"$(usrdma env)\"\n"
			    "usrdma env --format github >>\"$GITHUB_ENV\"\n",
		.words = "--format --device --only-devices --profile --config",
		.values = "--format --device --profile --config",
	},
	{
		.name = "enable",
		.usage = "enable [--sysfs] [--root DIR] [--force]\n",
		.text = "As root: all programs of this machine, or of the image in DIR, use usrdma without usrdma run.\n"
			"--sysfs: all programs also find the devices in /sys, by /etc/ld.so.preload.\n"
			"--force: also if the machine has RDMA adapters, which programs then cannot use.\n",
		.examples = "sudo usrdma enable --sysfs\n"
			    "sudo usrdma enable --root /srv/image\n",
		.words = "--sysfs --root --force",
		.values = "--root",
	},
	{
		.name = "disable",
		.usage = "disable [--root DIR]\n",
		.text = "As root: removes what usrdma enable wrote.\n",
		.examples = "sudo usrdma disable\n",
		.words = "--root",
		.values = "--root",
	},
	{
		.name = "status",
		.usage = "status [--json | --prometheus]\n",
		.text = "Shows the devices with their addresses (GIDs), the processes that use them, their\n"
			"queue pairs, memory regions and connections, fault rules, and counters, with dropped\n"
			"packets by reason. --prometheus: the counters in the text format of Prometheus.\n",
		.examples = "usrdma status\n"
			    "usrdma status --json | jq .devices\n",
		.words = "--json --prometheus",
		.values = "",
	},
	{
		.name = "top",
		.usage =
			"top [--qps | --devices] [--json] [--interval SECONDS] [--count N] [--program NAME]\n",
		.text = "Shows each process with its rates of messages, packets, retries, RNR NAKs, dropped\n"
			"packets and queue pair errors, every second. --qps, --devices: each queue pair or device.\n"
			"--program: programs whose name contains NAME. Keys: q quit, v next view, letters sort.\n",
		.examples = "usrdma top --qps\n"
			    "usrdma top --json --count 10 --program rping\n",
		.words = "--qps --devices --json --interval --count --program",
		.values = "--interval --count --program",
	},
	{
		.name = "trace",
		.usage =
			"trace [--pid N] [--qp N] [--device NAME] [--duration SECONDS] [--all] [--text]\n"
			"             [--analysis [--json]] [-w FILE] [--diagram FILE] [-- PROGRAM [ARGUMENT]...]\n"
			"trace -r FILE [--qp N] [--json] [--text] [--analysis] [--diagram FILE] [-w FILE]\n"
			"trace --wireshark-profile\n",
		.text = "Shows what running programs do: work requests, messages of the connection\n"
			"manager, events, errors. -w FILE: a pcapng file for Wireshark, - for standard output;\n"
			"--text: also the lines.\n"
			"--pid N, --qp N, --device NAME: only these; --duration SECONDS; --all: also each\n"
			"packet, element of a FIFO and request to the daemon, which costs the programs more time.\n"
			"-r FILE: analyses a capture file of usrdma, tcpdump or Wireshark, --json as JSON;\n"
			"--analysis: the same for a live trace when it ends.\n"
			"--diagram FILE.svg or FILE.html: a sequence diagram of a connection, live or with -r.\n"
			"--wireshark-profile: the directory of a profile with which Wireshark shows these\n"
			"packets correctly.\n",
		.examples =
			"usrdma trace -w trace.pcapng --diagram trace.svg -- rping -c -a 127.0.0.1 -C 1\n"
			"usrdma trace -r trace.pcapng --analysis\n",
		.words = "--pid --qp --device --duration --all --text --analysis --json --diagram "
			 "--wireshark-profile -w -r --",
		.values = "--pid --qp --device --duration --diagram -w -r",
	},
	{
		.name = "doctor",
		.usage = "doctor [HOST]\n",
		.text = "Shows what on this machine prevents RDMA or slows it down, and how to mend it. With HOST:\n"
			"whether that host answers on UDP port 4791, how fast, and the MTU of the path.\n",
		.examples = "usrdma doctor\n"
			    "usrdma doctor 192.0.2.7\n",
		.words = "",
		.values = "",
	},
	{
		.name = "why",
		.usage = "why [PID | QPN] [--since TIME] [--last N] [--all] [--json]\n",
		.text = "Explains the last failures of all processes, also of those that have ended: the first cause,\n"
			"both sides, the numbers, and what to do. --since TIME: 90s, 10m, 2h, 1d, 13:36 or\n"
			"'2026-11-23 13:36:41'.\n",
		.examples = "usrdma why\n"
			    "usrdma why 4711 --last 20\n"
			    "usrdma why --since 10m\n",
		.words = "--since --last --all --json",
		.values = "--since --last",
	},
	{
		.name = "report",
		.usage = "report [-o FILE] [--trace FILE [--payload]] [--redact]\n",
		.text = "Writes one HTML file for a bug report: failures with their causes, doctor, fault rules,\n"
			"processes, devices, counters, versions. Default: usrdma-report.html; -o -: standard output.\n"
			"--trace FILE: the diagram of a capture file of usrdma trace -w. The file has no payload of\n"
			"messages; --payload adds the capture file. --redact replaces addresses and host name.\n",
		.examples = "usrdma report\n"
			    "usrdma report --redact -o bug.html --trace trace.pcapng\n",
		.words = "-o --trace --payload --redact",
		.values = "-o --trace",
	},
	{
		.name = "fault",
		.usage =
			"fault [list [--json]]\n"
			"fault set FILE | add RULE... | clear | scenario [NAME [CONDITION]...]  [--seed N]\n"
			"             [--user UID]\n",
		.text = "Injects faults into this user's running programs: lost packets, errors, delays. Without\n"
			"arguments it shows the rules with their passes and firings; see usrdma(7).\n"
			"--user UID: root sets or clears the rules of this user.\n",
		.examples = "usrdma fault scenario loss-1-percent\n"
			    "usrdma fault add packet.send:drop:nth=7:prog=rping\n"
			    "usrdma fault clear\n",
		.words = "list set add clear scenario --json --seed --user",
		.values = "--seed --user",
	},
	{
		.name = "man",
		.usage = "man [SECTION] PAGE\n"
			 "man -k WORD\n",
		.text = "Shows a page of the manual of a call or tool, for example usrdma man ibv_post_send. The name\n"
			"of a constant, type or field shows or lists the pages that document it. -k WORD searches.\n",
		.examples = "usrdma man ibv_post_send\n"
			    "usrdma man -k multicast\n",
		.words = "-k",
		.values = "",
	},
	{
		.name = "completion",
		.usage = "completion [WORD]...\n",
		.text = "Prints the words that can follow on the command line; for the completion of shells.\n",
		.examples = "usrdma completion status\n",
		.words = "",
		.values = "",
	},
	{
		.name = "version",
		.usage = "version\n",
		.text = "Prints the version of this command and of the daemon's protocol; also -V, --version.\n",
		.examples = "usrdma version\n",
		.words = "",
		.values = "",
	},
};

const size_t help_command_count = sizeof(help_commands) / sizeof(help_commands[0]);

static const char introduction[] =
	"Usage: usrdma COMMAND [ARGUMENT]...\n"
	"\n"
	"RDMA without an RDMA NIC, a kernel module or root: every network interface of this machine,\n"
	"'lo' included, is an RDMA device that unmodified programs can use.\n"
	"\n";

static const char conclusion[] =
	"  usrdma TOOL [ARGUMENT]...\n"
	"      Runs a tool of usrdma, for example rping.\n"
	"\n"
	"  usrdma help [COMMAND]\n"
	"  usrdma COMMAND --help\n"
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

const struct help_command *help_find(const char *name)
{
	for (size_t i = 0; i < help_command_count; i++) {
		if (strcmp(help_commands[i].name, name) == 0)
			return &help_commands[i];
	}
	return NULL;
}

/*
 * Prints each line after `lead`. A line of a usage that continues another one begins with a blank.
 */
static void print_lines(FILE *out, const char *lines, const char *lead)
{
	while (*lines) {
		size_t len = strcspn(lines, "\n");

		fprintf(out, "%s%.*s\n", *lines == ' ' ? "  " : lead, (int)len, lines);
		lines += len + (lines[len] == '\n');
	}
}

static void print_command(FILE *out, const struct help_command *command)
{
	print_lines(out, command->usage, "  usrdma ");
	print_lines(out, command->text, "      ");
}

void help_print(FILE *out, const struct help_command *command)
{
	if (command) {
		fputs("Usage:\n", out);
		print_command(out, command);
		fputs("Examples:\n", out);
		print_lines(out, command->examples, "  ");
		return;
	}
	fputs(introduction, out);
	for (size_t i = 0; i < help_command_count; i++) {
		print_command(out, &help_commands[i]);
		fputc('\n', out);
	}
	fputs(conclusion, out);
}
