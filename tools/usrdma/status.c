/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "fault/active.h"
#include "report.h"

static void print_devices(json_object *devices)
{
	size_t count = report_length(devices);

	puts("devices");
	if (count == 0)
		puts("  none: no interface is up with an address");
	for (size_t i = 0; i < count; i++) {
		json_object *device = json_object_array_get_idx(devices, i);
		json_object *gids = json_object_object_get(device, "gids");

		printf("  %-15s %-6s mtu %-6s guid %s\n", text_of(device, "name"),
		       text_of(device, "state"), text_of(device, "mtu_bytes"),
		       text_of(device, "node_guid"));
		for (size_t j = 0; j < report_length(gids); j++) {
			json_object *gid = json_object_array_get_idx(gids, j);

			printf("    gid %-3s %s\n", text_of(gid, "index"), text_of(gid, "gid"));
		}
	}
}

static void print_qps(json_object *process)
{
	json_object *qps = json_object_object_get(process, "qps");

	for (size_t i = 0; i < report_length(qps); i++) {
		json_object *qp = json_object_array_get_idx(qps, i);

		printf("    qp 0x%06" PRIx64 "  %-3s %-5s", report_qpn(qp, "qpn"),
		       text_of(qp, "type"), text_of(qp, "state"));
		if (json_object_object_get(qp, "peer_qpn"))
			printf(" to 0x%06" PRIx64 " at %s", report_qpn(qp, "peer_qpn"),
			       text_of(qp, "peer_gid"));
		if (json_object_object_get(qp, "transport"))
			printf(" by %s", text_of(qp, "transport"));
		putchar('\n');
	}
}

static void print_mrs(json_object *process)
{
	json_object *mrs = json_object_object_get(process, "mrs");

	for (size_t i = 0; i < report_length(mrs); i++) {
		json_object *mr = json_object_array_get_idx(mrs, i);

		printf("    mr rkey %-10s %s bytes at %s, access %s\n", text_of(mr, "rkey"),
		       text_of(mr, "length_bytes"), text_of(mr, "addr"), text_of(mr, "access"));
	}
}

/* Prints the counters that are not 0, one line for each group. */
static void print_counters(json_object *counters, const char *indent)
{
	json_object_object_foreach(report_object(counters), group, numbers)
	{
		const char *separator = " ";

		json_object_object_foreach(report_object(numbers), name, number)
		{
			if (!json_object_get_uint64(number))
				continue;
			if (*separator == ' ')
				printf("%s%s", indent, group);
			printf("%s%s %s", separator, report_counter_title(name),
			       json_object_get_string(number));
			separator = ", ";
		}
		if (*separator != ' ')
			putchar('\n');
	}
}

static void print_processes(json_object *processes)
{
	size_t count = report_length(processes);

	puts("processes");
	if (count == 0)
		puts("  none");
	for (size_t i = 0; i < count; i++) {
		json_object *process = json_object_array_get_idx(processes, i);

		printf("  pid %s  uid %s", text_of(process, "pid"), text_of(process, "uid"));
		/* The daemon reports no more of the processes of other users. */
		if (json_object_object_get(process, "slot"))
			printf("  slot %s  peers %s", text_of(process, "slot"),
			       text_of(process, "peers"));
		if (json_object_object_get(process, "qp_count"))
			printf("  qps %s  mrs %s", text_of(process, "qp_count"),
			       text_of(process, "mr_count"));
		putchar('\n');
		print_counters(json_object_object_get(process, "counters"), "    counted by ");
		print_qps(process);
		print_mrs(process);
	}
}

/*
 * Prints the report of the communication manager: lists of flat objects. QPNs have the notation of
 * the processes' queue pairs.
 */
static void print_list(json_object *report, const char *name)
{
	json_object *list = json_object_object_get(report, name);
	size_t count = report_length(list);

	puts(name);
	if (count == 0)
		puts("  none");
	for (size_t i = 0; i < count; i++) {
		const char *separator = "  ";

		json_object_object_foreach(report_object(json_object_array_get_idx(list, i)), key,
					   value)
		{
			if (strcmp(key, "qp") == 0 || strcmp(key, "remote_qp") == 0)
				printf("%s%s 0x%06" PRIx64, separator, key,
				       json_object_get_uint64(value));
			else
				printf("%s%s %s", separator, key, json_object_get_string(value));
			separator = "  ";
		}
		putchar('\n');
	}
}

/* Printed only if the port is not open, so that other hosts cannot be reached. */
static void print_port(const char *state)
{
	if (strcmp(state, "open") != 0)
		printf("  other hosts cannot be reached: UDP port 4791: %s\n"
		       "  ('usrdma doctor' names the cause)\n",
		       state);
}

/* The rules of this user, and the other users whose rules the daemon reports. */
static void print_faults(json_object *report)
{
	json_object *uids = json_object_object_get(report, "fault_rule_uids");
	size_t count = report_length(uids);
	struct fault_active active;

	if (count == 0)
		return;
	puts("fault rules");
	fault_active_read(&active);
	for (int i = 0; i < active.text.count; i++)
		printf("  rule %d  passes %" PRIu64 "  firings %" PRIu64 "  %s\n", i + 1,
		       active.counts[i].passes, active.counts[i].firings, active.text.rules[i]);
	fault_active_free(&active);
	for (size_t i = 0; i < count; i++) {
		uint64_t uid = json_object_get_uint64(json_object_array_get_idx(uids, i));

		if (uid != getuid())
			printf("  of uid %" PRIu64 "\n", uid);
	}
}

static void print_report(json_object *report)
{
	json_object *daemon = json_object_object_get(report, "daemon");

	printf("daemon\n  pid %s  uid %s  version %s  clients %llu\n", text_of(daemon, "pid"),
	       text_of(daemon, "uid"), text_of(daemon, "version"),
	       /* This command is one of the sessions. */
	       (unsigned long long)number_of(daemon, "sessions") - 1);
	print_port(text_of(daemon, "roce_port"));
	print_faults(report);
	print_devices(json_object_object_get(report, "devices"));
	print_processes(json_object_object_get(report, "processes"));
	print_list(report, "listeners");
	print_list(report, "connections");
	print_list(report, "multicast_joins");
	puts("counters, of the daemon and of all processes since it started");
	print_counters(json_object_object_get(report, "counters"), "  ");
}

static void print_json(json_object *report)
{
	puts(json_object_to_json_string_ext(report, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_SPACED |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
}

int command_status(int argc, char **argv)
{
	static const struct {
		const char *option;
		void (*print)(json_object *report);
	} formats[] = {{"--json", print_json}, {"--prometheus", report_print_prometheus}};
	void (*print)(json_object * report) = argc == 1 ? print_report : NULL;
	json_object *report;

	for (size_t i = 0; argc == 2 && i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (strcmp(argv[1], formats[i].option) == 0)
			print = formats[i].print;
	}
	if (!print) {
		fputs("usrdma: usage: usrdma status [--json | --prometheus]\n", stderr);
		return EXIT_USAGE;
	}
	report = report_ask();
	if (!report)
		return EXIT_FAILURE;
	print(report);
	json_object_put(report);
	return EXIT_SUCCESS;
}
