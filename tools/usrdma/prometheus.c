/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "report.h"

/* The head of a metric. `type` is "gauge" or "counter". */
static void print_head(const char *metric, const char *type, const char *help)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

/*
 * Prints `name="value"` with the escapes of the format. The value may be a name that another
 * process chose: unprintable bytes, which include the line feed, become '?'.
 */
static void print_label(const char *name, const char *value)
{
	printf("%s=\"", name);
	while (*value) {
		size_t bytes = printable_bytes(value, strnlen(value, 3));

		if (*value == '"' || *value == '\\')
			printf("\\%c", *value);
		else if (bytes)
			fwrite(value, 1, bytes, stdout);
		else
			putchar('?');
		value += bytes ? bytes : 1;
	}
	putchar('"');
}

static void print_value(uint64_t value)
{
	printf("} %" PRIu64 "\n", value);
}

static void print_plain(const char *metric, const char *type, const char *help, uint64_t value)
{
	print_head(metric, type, help);
	printf("%s %" PRIu64 "\n", metric, value);
}

static void print_daemon(json_object *daemon)
{
	print_head("usrdma_daemon_info", "gauge", "The daemon that answered.");
	printf("usrdma_daemon_info{");
	print_label("version", text_of(daemon, "version"));
	putchar(',');
	print_label("uid", text_of(daemon, "uid"));
	print_value(1);
	print_plain("usrdma_roce_port_open", "gauge", "Whether the daemon has UDP port 4791.",
		    strcmp(text_of(daemon, "roce_port"), "open") == 0);
	print_plain("usrdma_daemon_sessions", "gauge", "Processes and commands that are connected.",
		    number_of(daemon, "sessions"));
	print_plain("usrdma_daemon_requests_total", "counter", "Requests to the daemon.",
		    number_of(daemon, "requests"));
	print_plain("usrdma_daemon_forwarded_datagrams_total", "counter",
		    "RoCEv2 datagrams that the daemon forwarded to processes of other users.",
		    number_of(daemon, "roce_forwarded_datagrams"));
	print_plain("usrdma_daemon_forward_dropped_total", "counter",
		    "RoCEv2 datagrams that the daemon could not forward.",
		    number_of(daemon, "roce_forward_dropped"));
	print_plain("usrdma_daemon_forged_datagrams_total", "counter",
		    "RoCEv2 datagrams whose source address a process of this host forged.",
		    number_of(daemon, "roce_forged"));
}

/*
 * One sample for each element of a list. The value of the label is the member `key` of the element.
 */
static void print_each(json_object *list, const char *metric, const char *help, const char *label,
		       const char *key, uint64_t (*value_of)(json_object *element))
{
	size_t count = report_length(list);

	print_head(metric, "gauge", help);
	for (size_t i = 0; i < count; i++) {
		json_object *element = json_object_array_get_idx(list, i);

		printf("%s{", metric);
		print_label(label, text_of(element, key));
		print_value(value_of(element));
	}
}

static uint64_t device_is_up(json_object *device)
{
	return strcmp(text_of(device, "state"), "ACTIVE") == 0;
}

static uint64_t device_mtu(json_object *device)
{
	return number_of(device, "mtu_bytes");
}

static uint64_t process_qps(json_object *process)
{
	return number_of(process, "qp_count");
}

static uint64_t process_mrs(json_object *process)
{
	return number_of(process, "mr_count");
}

/* The counters of all groups. `pid` is NULL for the sums of all processes. */
static void print_events(const char *metric, json_object *counters, const char *pid)
{
	json_object_object_foreach(report_object(counters), group, events)
	{
		json_object_object_foreach(report_object(events), event, value)
		{
			printf("%s{", metric);
			if (pid) {
				print_label("pid", pid);
				putchar(',');
			}
			print_label("group", group);
			putchar(',');
			print_label("event", event);
			print_value(json_object_get_uint64(value));
		}
	}
}

static void print_process_events(json_object *processes)
{
	static const char metric[] = "usrdma_process_events_total";
	size_t count = report_length(processes);

	print_head(metric, "counter",
		   "Counters of a process; group and event as in usrdma status.");
	for (size_t i = 0; i < count; i++) {
		json_object *process = json_object_array_get_idx(processes, i);

		print_events(metric, json_object_object_get(process, "counters"),
			     text_of(process, "pid"));
	}
}

void report_print_prometheus(json_object *report)
{
	json_object *devices = json_object_object_get(report, "devices");
	json_object *processes = json_object_object_get(report, "processes");

	print_daemon(json_object_object_get(report, "daemon"));
	print_each(devices, "usrdma_device_up", "Whether the port of the device is active.",
		   "device", "name", device_is_up);
	print_each(devices, "usrdma_device_mtu_bytes", "MTU of the network interface.", "device",
		   "name", device_mtu);
	print_each(processes, "usrdma_process_qps", "Queue pairs of a process.", "pid", "pid",
		   process_qps);
	print_each(processes, "usrdma_process_mrs", "Memory regions of a process.", "pid", "pid",
		   process_mrs);
	print_head("usrdma_events_total", "counter",
		   "Counters of the daemon and of all processes since it started.");
	print_events("usrdma_events_total", json_object_object_get(report, "counters"), NULL);
	print_process_events(processes);
}
