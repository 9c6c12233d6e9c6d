/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's report: devices, processes, queue pairs, regions, connections and counters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "html.h"
#include "sections.h"

/* A column: its title, and the member of the object. */
struct column {
	const char *title;
	const char *key;
};

#define COLUMNS_MAX 12

/* The access flags of a memory region by their names. */
static void print_access(FILE *out, const char *flags)
{
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);

	if (memory) {
		why_write_access(memory, (uint32_t)strtoul(flags, NULL, 16));
		fclose(memory);
	}
	html_cell(out, text && *text ? text : flags);
	free(text);
}

/* Writes a cell, or the first cell of a row, with a member of an object. */
static void print_member(FILE *out, json_object *object, const char *key, bool is_head)
{
	json_object *value = json_object_object_get(object, key);

	if (is_head)
		html_row(out, value ? text_of(object, key) : "");
	else if (json_object_is_type(value, json_type_int))
		html_cell_number(out, json_object_get_uint64(value));
	else if (value && (strcmp(key, "peer_qpn") == 0 || strcmp(key, "qpn") == 0))
		html_cell_format(out, "0x%06" PRIx64, report_qpn(object, key));
	else if (value && strcmp(key, "access") == 0)
		print_access(out, text_of(object, key));
	else
		html_cell(out, value ? text_of(object, key) : "");
}

static void table_begin(FILE *out, const char *caption, const struct column *columns)
{
	const char *heads[COLUMNS_MAX + 1] = {NULL};

	for (int i = 0; i < COLUMNS_MAX && columns[i].title; i++)
		heads[i] = columns[i].title;
	html_table(out, caption, heads);
}

static void print_row(FILE *out, json_object *object, const struct column *columns)
{
	for (int i = 0; columns[i].title; i++)
		print_member(out, object, columns[i].key, i == 0);
	html_row_end(out);
}

/* A table of a list of flat objects. */
static void print_table(FILE *out, const char *caption, json_object *list,
			const struct column *columns)
{
	table_begin(out, caption, columns);
	for (size_t i = 0; i < report_length(list); i++)
		print_row(out, json_object_array_get_idx(list, i), columns);
	html_table_end(out);
}

static void print_no_daemon(FILE *out)
{
	html_paragraph(out, "The daemon sent no report.");
}

static void print_gids(FILE *out, json_object *devices)
{
	static const char *const heads[] = {"Device", "Index", "GID", NULL};

	html_table(out, "GIDs", heads);
	for (size_t i = 0; i < report_length(devices); i++) {
		json_object *device = json_object_array_get_idx(devices, i);
		json_object *gids = json_object_object_get(device, "gids");

		for (size_t j = 0; j < report_length(gids); j++) {
			json_object *gid = json_object_array_get_idx(gids, j);

			html_row(out, text_of(device, "name"));
			html_cell(out, text_of(gid, "index"));
			html_cell(out, text_of(gid, "gid"));
			html_row_end(out);
		}
	}
	html_table_end(out);
}

void section_devices(FILE *out, const struct bug_report *report)
{
	static const struct column columns[] = {{"Name", "name"},
						{"State", "state"},
						{"MTU", "mtu_bytes"},
						{"Speed, Mbit/s", "speed_mbps"},
						{"GUID", "node_guid"},
						{"Messages sent", "messages_sent"},
						{"Bytes sent", "bytes_sent"},
						{"Retries", "retries"},
						{"RNR NAKs", "rnr_naks"},
						{NULL, NULL}};
	json_object *devices = json_object_object_get(report->state, "devices");

	html_section(out, "devices", "Devices");
	if (!report->state) {
		print_no_daemon(out);
	} else if (!report_length(devices)) {
		html_paragraph(out, "No device: no interface is up with an address.");
	} else {
		print_table(out, "Devices, one for each network interface", devices, columns);
		print_gids(out, devices);
	}
	html_section_end(out);
}

static void print_processes(FILE *out, json_object *processes)
{
	static const char *const heads[] = {"PID",	   "Program",	     "UID", "Peers",
					    "Queue pairs", "Memory regions", NULL};

	html_table(out, "Processes that use a device", heads);
	for (size_t i = 0; i < report_length(processes); i++) {
		json_object *process = json_object_array_get_idx(processes, i);
		char program[REPORT_PROGRAM_BYTES];

		if (!report_program(number_of(process, "pid"), program))
			strcpy(program, "?");
		html_row(out, text_of(process, "pid"));
		html_cell(out, program);
		html_cell(out, text_of(process, "uid"));
		/* The daemon reports no more of the processes of other users. */
		print_member(out, process, "peers", false);
		print_member(out, process, "qp_count", false);
		print_member(out, process, "mr_count", false);
		html_row_end(out);
	}
	html_table_end(out);
}

/* A table of the members of all processes: queue pairs or memory regions. */
static void print_members(FILE *out, const char *caption, json_object *processes, const char *list,
			  const struct column *columns)
{
	table_begin(out, caption, columns);
	for (size_t i = 0; i < report_length(processes); i++) {
		json_object *process = json_object_array_get_idx(processes, i);
		json_object *members = json_object_object_get(process, list);

		for (size_t j = 0; j < report_length(members); j++) {
			json_object *member = json_object_array_get_idx(members, j);

			html_row(out, text_of(process, "pid"));
			for (int k = 1; columns[k].title; k++)
				print_member(out, member, columns[k].key, false);
			html_row_end(out);
		}
	}
	html_table_end(out);
}

static bool has_members(json_object *processes, const char *list)
{
	for (size_t i = 0; i < report_length(processes); i++) {
		if (report_length(
			    json_object_object_get(json_object_array_get_idx(processes, i), list)))
			return true;
	}
	return false;
}

void section_processes(FILE *out, const struct bug_report *report)
{
	static const struct column qps[] = {{"PID", "pid"},
					    {"QPN", "qpn"},
					    {"Type", "type"},
					    {"State", "state"},
					    {"Transport", "transport"},
					    {"Peer QPN", "peer_qpn"},
					    {"Peer GID", "peer_gid"},
					    {"Sent", "messages_sent"},
					    {"Received", "messages_received"},
					    {"Outstanding", "outstanding"},
					    {"Failed", "send_failures"},
					    {"Retries", "retries"},
					    {NULL, NULL}};
	static const struct column mrs[] = {{"PID", "pid"},	  {"rkey", "rkey"},
					    {"Address", "addr"},  {"Length, bytes", "length_bytes"},
					    {"Access", "access"}, {NULL, NULL}};
	json_object *processes = json_object_object_get(report->state, "processes");

	html_section(out, "processes", "Processes and queue pairs");
	if (!report->state)
		print_no_daemon(out);
	else if (!report_length(processes))
		html_paragraph(out, "No process used a device while the report was created.");
	else
		print_processes(out, processes);
	if (has_members(processes, "qps"))
		print_members(out, "Queue pairs", processes, "qps", qps);
	if (has_members(processes, "mrs"))
		print_members(out, "Memory regions", processes, "mrs", mrs);
	html_section_end(out);
}

void section_connections(FILE *out, const struct bug_report *report)
{
	static const struct column connections[] = {
		{"PID", "pid"},	      {"State", "state"},	  {"Port space", "port_space"},
		{"Device", "device"}, {"Local address", "local"}, {"Remote address", "remote"},
		{NULL, NULL}};
	static const struct column listeners[] = {
		{"PID", "pid"},		{"Port space", "port_space"},
		{"Device", "device"},	{"Local address", "local"},
		{"Backlog", "backlog"}, {NULL, NULL}};
	static const struct column joins[] = {{"PID", "pid"},
					      {"Device", "device"},
					      {"Group", "group"},
					      {"Role", "role"},
					      {NULL, NULL}};
	static const struct {
		const char *key, *caption;
		const struct column *columns;
	} lists[] = {{"connections", "Connections", connections},
		     {"listeners", "Listeners", listeners},
		     {"multicast_joins", "Multicast groups", joins}};
	bool is_empty = true;

	html_section(out, "connections", "Connections of the rdma_cm");
	if (!report->state)
		print_no_daemon(out);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		json_object *list = json_object_object_get(report->state, lists[i].key);

		if (!report_length(list))
			continue;
		print_table(out, lists[i].caption, list, lists[i].columns);
		is_empty = false;
	}
	if (report->state && is_empty)
		html_paragraph(out, "No connection, no listener and no multicast group.");
	html_section_end(out);
}

/* The counters of a group that are not 0. `pid`: of this process. */
static void print_group(FILE *out, const char *pid, const char *group, json_object *numbers)
{
	json_object_object_foreach(report_object(numbers), name, number)
	{
		if (!json_object_is_type(number, json_type_int) || !json_object_get_uint64(number))
			continue;
		html_row(out, pid);
		html_cell(out, group);
		html_cell(out, report_counter_title(name));
		html_cell_number(out, json_object_get_uint64(number));
		html_row_end(out);
	}
}

static void print_counters(FILE *out, json_object *counters, const char *pid)
{
	json_object_object_foreach(report_object(counters), group, numbers)
	{
		print_group(out, pid, group, numbers);
	}
}

void section_counters(FILE *out, const struct bug_report *report)
{
	static const char *const heads[] = {"PID", "Group", "Counter", "Value", NULL};
	json_object *processes = json_object_object_get(report->state, "processes");
	json_object *manager = json_object_object_get(report->state, "cm");

	html_section(out, "counters", "Counters");
	if (!report->state) {
		print_no_daemon(out);
	} else {
		html_table(out, "Counters that are not 0, since the daemon started", heads);
		print_counters(out, json_object_object_get(report->state, "counters"), "all");
		print_group(out, "all", "cm", manager);
		print_counters(out, manager, "all");
		for (size_t i = 0; i < report_length(processes); i++) {
			json_object *process = json_object_array_get_idx(processes, i);

			print_counters(out, json_object_object_get(process, "counters"),
				       text_of(process, "pid"));
		}
		html_table_end(out);
	}
	html_section_end(out);
}
