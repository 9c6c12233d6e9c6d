/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "daemon/cma.h"
#include "daemon/control_counters.h"
#include "daemon/control_segment.h"
#include "daemon/netdev.h"

static void add_u64(json_object *to, const char *key, uint64_t value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

static void add_string(json_object *to, const char *key, const char *value)
{
	json_object_object_add(to, key, json_object_new_string(value));
}

static json_object *report_daemon(const struct server *server)
{
	const struct server_counters *counters = &server->counters;
	json_object *report = json_object_new_object();

	add_string(report, "version", USRDMA_VERSION);
	add_u64(report, "pid", (uint64_t)getpid());
	add_u64(report, "uid", server->uid);
	add_string(report, "roce_port",
		   server->port.error ? strerror(-server->port.error) : "open");
	add_u64(report, "sessions", server->session_count);
	add_u64(report, "sessions_accepted", counters->sessions);
	add_u64(report, "sessions_refused", counters->refused);
	add_u64(report, "sessions_malformed", counters->malformed);
	add_u64(report, "sessions_unresponsive", counters->unresponsive);
	add_u64(report, "requests", counters->requests);
	add_u64(report, "introductions", counters->introductions);
	return report;
}

static json_object *report_gids(const struct netdev *dev)
{
	json_object *gids = json_object_new_array();

	for (uint32_t i = 0; i < dev->gid_count; i++) {
		char text[INET6_ADDRSTRLEN];
		json_object *gid;

		if (!dev->gids[i].is_valid)
			continue;
		gid = json_object_new_object();
		inet_ntop(AF_INET6, dev->gids[i].raw, text, sizeof(text));
		add_u64(gid, "index", i);
		add_string(gid, "gid", text);
		json_object_array_add(gids, gid);
	}
	return gids;
}

static json_object *report_devices(void)
{
	json_object *devices = json_object_new_array();
	const struct netdev *dev;
	uint32_t cursor = 0;

	while ((dev = netdev_from_cursor(cursor, &cursor))) {
		json_object *device = json_object_new_object();
		char guid[20];

		snprintf(guid, sizeof(guid), "%016" PRIx64, dev->node_guid);
		add_string(device, "name", dev->name);
		add_u64(device, "dev_id", dev->dev_id);
		add_string(device, "node_guid", guid);
		add_string(device, "state", dev->is_up ? "ACTIVE" : "DOWN");
		add_u64(device, "mtu_bytes", dev->mtu_bytes);
		add_u64(device, "speed_mbps", dev->speed_mbps);
		json_object_object_add(device, "gids", report_gids(dev));
		json_object_array_add(devices, device);
	}
	return devices;
}

static void report_segment(json_object *process, const struct deposit *deposit, uint32_t slot,
			   bool is_open, json_object *counters)
{
	json_object *own = json_object_new_object();

	control_counters_read(own, deposit->segment_fd, deposit->segment_bytes);
	control_counters_sum(counters, own);
	if (!is_open) {
		json_object_put(own);
		return;
	}
	control_report_segment(process, deposit->segment_fd, deposit->segment_bytes, slot);
	json_object_object_add(process, "counters", own);
}

/* Sums up in `counters` what all processes count, and shows of each what its user may see. */
static json_object *report_processes(const struct session *asker, json_object *counters)
{
	json_object *processes = json_object_new_array();
	const struct session *session;

	list_for_each_entry(session, &asker->server->sessions, node) {
		bool is_open = asker->cred.uid == 0 || asker->cred.uid == session->cred.uid;
		json_object *process;

		if (session->role != IPC_ROLE_VERBS)
			continue;
		process = json_object_new_object();
		add_u64(process, "pid", (uint64_t)session->cred.pid);
		add_u64(process, "uid", session->cred.uid);
		add_u64(process, "slot", session->slot);
		add_u64(process, "peers", session->deposit.pair_count);
		if (session->deposit.segment_fd >= 0)
			report_segment(process, &session->deposit, session->slot, is_open,
				       counters);
		json_object_array_add(processes, process);
	}
	return processes;
}

/* What the daemon does itself: the communication manager, and what QP1 and it count. */
static void report_own(const struct server *server, json_object *report, json_object *counters)
{
	json_object *own = json_object_new_object();

	cma_report(server->cma, report, own);
	control_counters_sum(counters, own);
	json_object_object_add(json_object_object_get(report, "daemon"), "counters", own);
}

static int write_all(int fd, const char *text, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t written = pwrite(fd, text + done, len - done, (off_t)done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		done += (size_t)written;
	}
	return 0;
}

int control_report(struct session *asker, int fd)
{
	json_object *report, *counters;
	const char *text;
	size_t len;
	int error;

	/* Only shared memory has seals to tell of. */
	if (fcntl(fd, F_GET_SEALS) < 0)
		return -EINVAL;
	report = json_object_new_object();
	if (!report)
		return -ENOMEM;
	json_object_object_add(report, "daemon", report_daemon(asker->server));
	json_object_object_add(report, "devices", report_devices());
	counters = json_object_new_object();
	control_counters_sum(counters, asker->server->departed);
	json_object_object_add(report, "processes", report_processes(asker, counters));
	report_own(asker->server, report, counters);
	json_object_object_add(report, "counters", counters);
	text = json_object_to_json_string_length(report, JSON_C_TO_STRING_PLAIN, &len);
	error = text ? write_all(fd, text, len) : -ENOMEM;
	json_object_put(report);
	return error;
}
