/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "ipc/client.h"

/* Reads the daemon's report piece by piece into the parser. Returns the report; NULL: failure, the cause was printed. */
static json_object *report_read(struct ipc_client *client, json_tokener *parser)
{
	static struct ipc_status_reply reply;
	json_object *report = NULL;
	int error;

	do {
		struct ipc_status request = {.hdr.type = IPC_STATUS};

		error = ipc_call(client, &request, sizeof(request), NULL, 0, &reply, sizeof(reply));
		if (error) {
			fprintf(stderr, "usrdma: the daemon could not report: %s\n",
				strerror(-error));
			return NULL;
		}
		if (reply.bytes > 0 && reply.bytes <= sizeof(reply.text) && !report)
			report = json_tokener_parse_ex(parser, reply.text, (int)reply.bytes);
	} while (reply.more);
	if (!report)
		fputs("usrdma: the daemon's report cannot be read\n", stderr);
	return report;
}

/* Requests the daemon's report. NULL: failure, the cause was printed. */
static json_object *report_ask(void)
{
	json_tokener *parser;
	json_object *report = NULL;
	struct ipc_client client;
	int error = ipc_client_open(&client, IPC_ROLE_CONTROL);

	if (error == -ENOENT) {
		fputs("usrdma: the daemon program, usrdmad, is not installed beside this one\n",
		      stderr);
		return NULL;
	}
	if (error) {
		fprintf(stderr, "usrdma: no daemon to ask: %s\n", strerror(-error));
		return NULL;
	}
	parser = json_tokener_new();
	if (parser)
		report = report_read(&client, parser);
	else
		fprintf(stderr, "usrdma: %s\n", strerror(ENOMEM));
	json_tokener_free(parser);
	ipc_client_close(&client);
	return report;
}

static const char *text_of(json_object *object, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(object, key));

	return text ? text : "?";
}

static uint64_t number_of(json_object *object, const char *key)
{
	return json_object_get_uint64(json_object_object_get(object, key));
}

static void print_devices(json_object *devices)
{
	size_t count = devices ? json_object_array_length(devices) : 0;

	puts("devices");
	if (count == 0)
		puts("  none: no interface is up with an address");
	for (size_t i = 0; i < count; i++) {
		json_object *device = json_object_array_get_idx(devices, i);
		json_object *gids = json_object_object_get(device, "gids");

		printf("  %-15s %-6s mtu %-6s guid %s\n", text_of(device, "name"),
		       text_of(device, "state"), text_of(device, "mtu_bytes"),
		       text_of(device, "node_guid"));
		for (size_t j = 0; gids && j < json_object_array_length(gids); j++) {
			json_object *gid = json_object_array_get_idx(gids, j);

			printf("    gid %-3s %s\n", text_of(gid, "index"), text_of(gid, "gid"));
		}
	}
}

static void print_qps(json_object *process)
{
	json_object *qps = json_object_object_get(process, "qps");

	for (size_t i = 0; qps && i < json_object_array_length(qps); i++) {
		json_object *qp = json_object_array_get_idx(qps, i);

		printf("    qp %-9s %-3s %-5s", text_of(qp, "qpn"), text_of(qp, "type"),
		       text_of(qp, "state"));
		if (json_object_object_get(qp, "peer_qpn"))
			printf(" to %s at %s", text_of(qp, "peer_qpn"), text_of(qp, "peer_gid"));
		if (json_object_object_get(qp, "transport"))
			printf(" by %s", text_of(qp, "transport"));
		putchar('\n');
	}
}

static void print_mrs(json_object *process)
{
	json_object *mrs = json_object_object_get(process, "mrs");

	for (size_t i = 0; mrs && i < json_object_array_length(mrs); i++) {
		json_object *mr = json_object_array_get_idx(mrs, i);

		printf("    mr rkey %-10s %s bytes at %s, access %s\n", text_of(mr, "rkey"),
		       text_of(mr, "length_bytes"), text_of(mr, "addr"), text_of(mr, "access"));
	}
}

/* Prints the counters that are not 0, one line for each group. */
static void print_counters(json_object *counters, const char *indent)
{
	if (!counters)
		return;
	json_object_object_foreach(counters, group, numbers)
	{
		const char *separator = " ";

		json_object_object_foreach(numbers, name, number)
		{
			if (!json_object_get_uint64(number))
				continue;
			if (*separator == ' ')
				printf("%s%s", indent, group);
			printf("%s%s %s", separator, name, json_object_get_string(number));
			separator = ", ";
		}
		if (*separator != ' ')
			putchar('\n');
	}
}

static void print_processes(json_object *processes)
{
	size_t count = processes ? json_object_array_length(processes) : 0;

	puts("processes");
	if (count == 0)
		puts("  none");
	for (size_t i = 0; i < count; i++) {
		json_object *process = json_object_array_get_idx(processes, i);

		printf("  pid %s  uid %s  slot %s  peers %s", text_of(process, "pid"),
		       text_of(process, "uid"), text_of(process, "slot"),
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

/* Prints the report of the communication manager: lists of flat objects, without changes. */
static void print_list(json_object *report, const char *name)
{
	json_object *list = json_object_object_get(report, name);
	size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) :
								    0;

	puts(name);
	if (count == 0)
		puts("  none");
	for (size_t i = 0; i < count; i++) {
		const char *separator = "  ";

		json_object_object_foreach(json_object_array_get_idx(list, i), key, value)
		{
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
		       "  (the kernel's rxe may hold it: 'rdma link show', 'rdma link delete NAME')\n",
		       state);
}

static void print_report(json_object *report)
{
	json_object *daemon = json_object_object_get(report, "daemon");

	printf("daemon\n  pid %s  uid %s  version %s  clients %llu\n", text_of(daemon, "pid"),
	       text_of(daemon, "uid"), text_of(daemon, "version"),
	       /* This command is one of the sessions. */
	       (unsigned long long)number_of(daemon, "sessions") - 1);
	print_port(text_of(daemon, "roce_port"));
	print_devices(json_object_object_get(report, "devices"));
	print_processes(json_object_object_get(report, "processes"));
	print_list(report, "listeners");
	print_list(report, "connections");
	print_list(report, "multicast_joins");
	puts("counters, of the daemon and of all processes since it started");
	print_counters(json_object_object_get(report, "counters"), "  ");
}

int command_status(int argc, char **argv)
{
	bool wants_json = argc == 2 && strcmp(argv[1], "--json") == 0;
	json_object *report;

	if (argc > 1 && !wants_json) {
		fputs("usrdma: usage: usrdma status [--json]\n", stderr);
		return EXIT_FAILURE;
	}
	report = report_ask();
	if (!report)
		return EXIT_FAILURE;
	if (wants_json)
		puts(json_object_to_json_string_ext(
			report, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					JSON_C_TO_STRING_NOSLASHESCAPE));
	else
		print_report(report);
	json_object_put(report);
	return EXIT_SUCCESS;
}
