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

static json_object *report_processes(const struct session *asker)
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
		if (is_open && session->deposit.segment_fd >= 0)
			control_report_segment(process, session->deposit.segment_fd,
					       session->deposit.segment_bytes, session->slot);
		json_object_array_add(processes, process);
	}
	return processes;
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
	json_object *report;
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
	json_object_object_add(report, "processes", report_processes(asker));
	cma_report(asker->server->cma, report);
	text = json_object_to_json_string_length(report, JSON_C_TO_STRING_PLAIN, &len);
	error = text ? write_all(fd, text, len) : -ENOMEM;
	json_object_put(report);
	return error;
}
