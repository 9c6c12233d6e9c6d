/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/*
 * Of a report that is being written. Owned by its asker's session until it has ended or was dropped, then by the loop, which
 * has yet to let go of its handle.
 */
struct control_report {
	uv_idle_t turns;
	struct session *asker;
	int fd;
	off_t written;
	int error; /* the first that writing it had: nothing is written any more */
	enum stage {
		STAGE_HEAD,
		STAGE_PROCESSES,
		STAGE_QPS,
		STAGE_MRS,
		STAGE_LISTENERS,
		STAGE_CONNECTIONS,
		STAGE_JOINS,
		STAGE_TAIL,
		STAGE_DONE,
	} stage;
	bool has_element; /* of the list that is being written */
	uint32_t room;	  /* QPs and MRs that can still be listed */
	uint32_t slot;	  /* of the last process that was looked at */
	struct control_segment segment;
	json_object *process; /* what is still to be said of it */
	uint32_t cursor;
	json_object *cm;
	json_object *counters; /* of all together */
};

static void say_bytes(struct control_report *report, const char *text, size_t len)
{
	for (size_t done = 0; done < len && !report->error;) {
		ssize_t written = pwrite(report->fd, text + done, len - done, report->written);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			report->error = written < 0 ? -errno : -EIO;
			return;
		}
		done += (size_t)written;
		report->written += written;
	}
}

static void say(struct control_report *report, const char *text)
{
	say_bytes(report, text, strlen(text));
}

static void say_json(struct control_report *report, json_object *value)
{
	size_t len;
	const char *text = json_object_to_json_string_length(value, JSON_C_TO_STRING_PLAIN, &len);

	if (text)
		say_bytes(report, text, len);
	else
		report->error = -ENOMEM;
}

/* The value, which goes with it, of a key that is not its object's first. */
static void say_member(struct control_report *report, const char *key, json_object *value)
{
	say(report, ",\"");
	say(report, key);
	say(report, "\":");
	say_json(report, value);
	json_object_put(value);
}

static void begin_list(struct control_report *report, const char *key)
{
	say(report, ",\"");
	say(report, key);
	say(report, "\":[");
	report->has_element = false;
}

static void say_element(struct control_report *report, json_object *value)
{
	if (report->has_element)
		say(report, ",");
	report->has_element = true;
	say_json(report, value);
}

/* Some more of a list, which go with it; false: there were none. */
static bool say_elements(struct control_report *report, json_object *elements)
{
	size_t count;

	if (!elements)
		return false;
	count = json_object_array_length(elements);
	for (size_t i = 0; i < count; i++)
		say_element(report, json_object_array_get_idx(elements, i));
	json_object_put(elements);
	return true;
}

/* The daemon itself and the devices; what the communication manager and QP1 count is among what it counts. */
static enum stage say_head(struct control_report *report)
{
	const struct server *server = report->asker->server;
	json_object *daemon = report_daemon(server);
	json_object *own = json_object_new_object();

	report->cm = cma_report_counters(server->cma, own);
	/* First: what others count, who name it themselves, may leave no room for more names. */
	control_counters_sum(report->counters, own);
	control_counters_sum(report->counters, server->departed);
	json_object_object_add(daemon, "counters", own);
	say(report, "{\"daemon\":");
	say_json(report, daemon);
	json_object_put(daemon);
	say_member(report, "devices", report_devices());
	begin_list(report, "processes");
	return STAGE_PROCESSES;
}

static json_object *describe_process(const struct session *session)
{
	json_object *process = json_object_new_object();

	add_u64(process, "pid", (uint64_t)session->cred.pid);
	add_u64(process, "uid", session->cred.uid);
	add_u64(process, "slot", session->slot);
	add_u64(process, "peers", session->deposit.pair_count);
	return process;
}

/* The next process after report->slot, or NULL. */
static const struct session *next_process(struct control_report *report)
{
	const struct slots *slots = &report->asker->server->slots;
	const struct session *session = NULL;

	while (!session && ++report->slot < IPC_SLOTS)
		session = slots_owner(slots, report->slot);
	return session;
}

/* One process: what it counts is summed up, and shown of each, with its QPs and MRs, what its user may see. */
static enum stage say_process(struct control_report *report)
{
	const struct session *asker = report->asker, *session = next_process(report);
	const struct deposit *deposit;
	json_object *process, *own;

	if (!session) {
		say(report, "]");
		begin_list(report, "listeners");
		return STAGE_LISTENERS;
	}
	deposit = &session->deposit;
	process = describe_process(session);
	own = json_object_new_object();
	if (deposit->segment_fd >= 0)
		control_counters_read(own, deposit->segment_fd, deposit->segment_bytes);
	control_counters_sum(report->counters, own);
	if (deposit->segment_fd < 0 ||
	    (asker->cred.uid != 0 && asker->cred.uid != session->cred.uid)) {
		json_object_put(own);
		say_element(report, process);
		json_object_put(process);
		return STAGE_PROCESSES;
	}
	json_object_object_add(process, "counters", own);
	if (!control_segment_open(&report->segment, deposit->segment_fd, deposit->segment_bytes,
				  session->slot)) {
		say_element(report, process);
		json_object_put(process);
		return STAGE_PROCESSES;
	}
	report->segment.room = &report->room;
	say(report, report->has_element ? ",{\"qps\":[" : "{\"qps\":[");
	report->has_element = false;
	report->process = process;
	return STAGE_QPS;
}

static enum stage say_qps(struct control_report *report)
{
	if (say_elements(report, control_segment_qps(&report->segment)))
		return STAGE_QPS;
	say(report, "]");
	add_u64(report->process, "qp_count", report->segment.count);
	control_segment_rewind(&report->segment);
	begin_list(report, "mrs");
	return STAGE_MRS;
}

/* With the last of them, all that is left to say of the process. */
static enum stage say_mrs(struct control_report *report)
{
	if (say_elements(report, control_segment_mrs(&report->segment)))
		return STAGE_MRS;
	say(report, "]");
	add_u64(report->process, "mr_count", report->segment.count);
	json_object_object_foreach(report->process, key, value)
	{
		say_member(report, key, json_object_get(value));
	}
	say(report, "}");
	json_object_put(report->process);
	report->process = NULL;
	control_segment_close(&report->segment);
	report->has_element = true;
	return STAGE_PROCESSES;
}

static enum stage say_ids(struct control_report *report)
{
	static const struct {
		enum cma_listed listed;
		const char *next_key;
	} lists[] = {
		[STAGE_LISTENERS] = {CMA_LISTENERS, "connections"},
		[STAGE_CONNECTIONS] = {CMA_CONNECTIONS, "multicast_joins"},
		[STAGE_JOINS] = {CMA_JOINS, NULL},
	};
	const struct cma *cma = report->asker->server->cma;

	if (say_elements(report, cma_report_ids(cma, lists[report->stage].listed, &report->cursor)))
		return report->stage;
	say(report, "]");
	report->cursor = 0;
	if (lists[report->stage].next_key)
		begin_list(report, lists[report->stage].next_key);
	return report->stage + 1;
}

static enum stage say_tail(struct control_report *report)
{
	say_member(report, "cm", report->cm);
	report->cm = NULL;
	say_member(report, "counters", report->counters);
	report->counters = NULL;
	say(report, "}");
	return STAGE_DONE;
}

static enum stage (*const stages[])(struct control_report *report) = {
	[STAGE_HEAD] = say_head, [STAGE_PROCESSES] = say_process, [STAGE_QPS] = say_qps,
	[STAGE_MRS] = say_mrs,	 [STAGE_LISTENERS] = say_ids,	  [STAGE_CONNECTIONS] = say_ids,
	[STAGE_JOINS] = say_ids, [STAGE_TAIL] = say_tail,
};
static_assert(sizeof(stages) / sizeof(stages[0]) == STAGE_DONE, "every stage has its function");

static void on_closed(uv_handle_t *handle)
{
	free(container_of(handle, struct control_report, turns));
}

void control_report_drop(struct control_report *report)
{
	control_segment_close(&report->segment);
	json_object_put(report->process);
	json_object_put(report->cm);
	json_object_put(report->counters);
	close(report->fd);
	uv_close((uv_handle_t *)&report->turns, on_closed);
}

static void on_turn(uv_idle_t *turns)
{
	struct control_report *report = container_of(turns, struct control_report, turns);
	struct session *asker = report->asker;
	int error;

	report->stage = stages[report->stage](report);
	error = report->error;
	if (!error && report->stage != STAGE_DONE)
		return;
	control_report_drop(report);
	session_report_ends(asker, error);
}

int control_report_begin(struct session *asker, int fd, struct control_report **begun)
{
	struct control_report *report;

	/* Only shared memory has seals to tell of. */
	if (fcntl(fd, F_GET_SEALS) < 0)
		return -EINVAL;
	report = calloc(1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	report->asker = asker;
	report->fd = fd;
	report->segment.fd = -1;
	report->room = CONTROL_LISTED_ALL_MAX;
	report->counters = json_object_new_object();
	/* Neither can fail. */
	uv_idle_init(asker->server->loop, &report->turns);
	uv_idle_start(&report->turns, on_turn);
	*begun = report;
	return 0;
}
