/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "config.h"
#include "daemon/cma.h"
#include "daemon/control_counters.h"
#include "daemon/control_devices.h"
#include "daemon/control_segment.h"
#include "daemon/probes_user.h"

static void report_forward(json_object *report, struct server *server)
{
	struct forward_counters counters;

	roce_forward_counters(&server->forward, &counters);
	control_add_number(report, "roce_forwarded_processes", counters.processes);
	control_add_number(report, "roce_forwarded_datagrams", counters.datagrams);
	control_add_number(report, "roce_forward_ring_full", counters.ring_full);
	control_add_number(report, "roce_forward_dropped", counters.dropped);
}

/*
 * The users with fault rules: the asker and the daemon's user, whose rules apply to all; root's
 * report has all users.
 */
static json_object *report_fault_uids(const struct session *asker)
{
	const struct server *server = asker->server;
	json_object *uids = json_object_new_array();
	const struct probes_user *user;

	list_for_each_entry(user, &server->probes.users, node) {
		if (user->has_rules && (asker->cred.uid == 0 || user->uid == asker->cred.uid ||
					user->uid == server->uid))
			json_object_array_add(uids, json_object_new_uint64(user->uid));
	}
	return uids;
}

static json_object *report_daemon(struct server *server)
{
	const struct server_counters *counters = &server->counters;
	json_object *report = json_object_new_object();

	control_add_string(report, "version", USRDMA_VERSION);
	control_add_number(report, "pid", (uint64_t)getpid());
	control_add_number(report, "uid", server->uid);
	control_add_number(report, "idle_seconds", server->idle_ms / 1000);
	control_add_string(report, "roce_port",
			   server->port.error ? strerror(-server->port.error) : "open");
	control_add_number(report, "roce_forged", roce_port_forged(&server->port));
	control_add_number(report, "sessions", server->session_count);
	control_add_number(report, "sessions_accepted", counters->sessions);
	control_add_number(report, "sessions_refused", counters->refused);
	control_add_number(report, "sessions_malformed", counters->malformed);
	control_add_number(report, "sessions_unresponsive", counters->unresponsive);
	control_add_number(report, "requests", counters->requests);
	control_add_number(report, "introductions", counters->peer_connects);
	report_forward(report, server);
	return report;
}

/* A report that has not been read completely. Owned by the session that requested it. */
struct control_report {
	struct session *asker;
	char *text; /* the last section; [sent, end) has not been read yet */
	size_t sent;
	size_t end;
	size_t room;
	int error; /* first error while the report was written, or 0 */
	enum stage {
		STAGE_TOTALS,
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
	bool has_element;   /* the current list has an element */
	uint32_t list_room; /* number of QPs and MRs that may still be listed */
	uint32_t slot;	    /* slot of the last process that was reported */
	struct control_segment segment;
	uid_t segment_uid;    /* user of the process that owns the segment */
	json_object *process; /* members of the current process that are not written yet */
	uint32_t cursor;
	json_object *cm;
	json_object *counters; /* sum of all processes */
	struct device_sum sum;
};

static void append_bytes(struct control_report *report, const char *text, size_t len)
{
	if (report->error)
		return;
	if (len > report->room - report->end) {
		size_t room = 2 * (report->end + len);
		char *grown = realloc(report->text, room);

		if (!grown) {
			report->error = -ENOMEM;
			return;
		}
		report->text = grown;
		report->room = room;
	}
	memcpy(report->text + report->end, text, len);
	report->end += len;
}

static void control_append(struct control_report *report, const char *text)
{
	append_bytes(report, text, strlen(text));
}

static void append_json(struct control_report *report, json_object *value)
{
	size_t len;
	const char *text = json_object_to_json_string_length(value, JSON_C_TO_STRING_PLAIN, &len);

	if (text)
		append_bytes(report, text, len);
	else
		report->error = -ENOMEM;
}

/* Writes a member that is not the first of its object, and frees the value. */
static void append_member(struct control_report *report, const char *key, json_object *value)
{
	control_append(report, ",\"");
	control_append(report, key);
	control_append(report, "\":");
	append_json(report, value);
	json_object_put(value);
}

static void begin_list(struct control_report *report, const char *key)
{
	control_append(report, ",\"");
	control_append(report, key);
	control_append(report, "\":[");
	report->has_element = false;
}

static void append_element(struct control_report *report, json_object *value)
{
	if (report->has_element)
		control_append(report, ",");
	report->has_element = true;
	append_json(report, value);
}

/* Writes the next elements of a list and frees them; false: no elements are left. */
static bool append_elements(struct control_report *report, json_object *elements)
{
	size_t count;

	if (!elements)
		return false;
	count = json_object_array_length(elements);
	for (size_t i = 0; i < count; i++)
		append_element(report, json_object_array_get_idx(elements, i));
	json_object_put(elements);
	return true;
}

/*
 * Writes the daemon and the devices. The daemon's counters include those of the communication
 * manager and QP1.
 */
static enum stage append_head(struct control_report *report)
{
	struct server *server = report->asker->server;
	json_object *daemon = report_daemon(server);
	json_object *own = json_object_new_object();

	report->cm = cma_report_counters(server->cma, own);
	/*
	 * The daemon's own counters come first: processes choose the names of theirs and could fill
	 * the limited number of names.
	 */
	control_counters_sum(report->counters, own);
	control_counters_sum(report->counters, server->departed);
	json_object_object_add(daemon, "counters", own);
	control_append(report, "{\"daemon\":");
	append_json(report, daemon);
	json_object_put(daemon);
	append_member(report, "fault_rule_uids", report_fault_uids(report->asker));
	append_member(report, "devices", control_devices(report->asker, &report->sum));
	begin_list(report, "processes");
	return STAGE_PROCESSES;
}

static bool control_may_see(const struct session *asker, const struct session *session)
{
	return asker->cred.uid == 0 || asker->cred.uid == session->cred.uid;
}

/* The QPN range of a process shows where its QPs are, so it is not reported to other users. */
static json_object *describe_process(const struct session *asker, const struct session *session)
{
	json_object *process = json_object_new_object();

	control_add_number(process, "pid", (uint64_t)session->cred.pid);
	control_add_number(process, "uid", session->cred.uid);
	if (!control_may_see(asker, session))
		return process;
	control_add_number(process, "slot", session->slot);
	control_add_number(process, "peers", session->published.pair_count);
	return process;
}

/* Returns the next process after report->slot, or NULL. */
static const struct session *next_process(struct control_report *report)
{
	const struct slots *slots = &report->asker->server->slots;
	const struct session *session = NULL;

	while (!session && ++report->slot < IPC_SLOTS)
		session = slots_owner(slots, report->slot);
	return session;
}

/*
 * Reports the next process. Its counters are added to the sum. If the asker may see them, they are
 * written with its QPs and MRs.
 */
static enum stage append_process(struct control_report *report)
{
	const struct session *asker = report->asker, *session = next_process(report);
	const struct published *published;
	json_object *process, *own;

	if (!session) {
		control_append(report, "]");
		begin_list(report, "listeners");
		return STAGE_LISTENERS;
	}
	published = &session->published;
	process = describe_process(asker, session);
	own = json_object_new_object();
	if (published->segment_fd >= 0)
		control_counters_read(own, published->segment_fd, published->segment_bytes);
	control_counters_sum(report->counters, own);
	if (published->segment_fd < 0 || !control_may_see(asker, session)) {
		json_object_put(own);
		append_element(report, process);
		json_object_put(process);
		return STAGE_PROCESSES;
	}
	json_object_object_add(process, "counters", own);
	if (!control_segment_open(&report->segment, published->segment_fd, published->segment_bytes,
				  session->slot)) {
		append_element(report, process);
		json_object_put(process);
		return STAGE_PROCESSES;
	}
	report->segment_uid = session->cred.uid;
	report->segment.room = &report->list_room;
	control_append(report, report->has_element ? ",{\"qps\":[" : "{\"qps\":[");
	report->has_element = false;
	report->process = process;
	return STAGE_QPS;
}

/*
 * A closer thread closes the segment: if its process has ended, this close frees the segment's
 * memory.
 */
static void close_segment(struct control_report *report)
{
	closer_add(&report->asker->server->closer, report->segment_uid,
		   control_segment_release(&report->segment));
}

static enum stage append_qps(struct control_report *report)
{
	if (append_elements(report, control_segment_qps(&report->segment)))
		return STAGE_QPS;
	control_append(report, "]");
	control_add_number(report->process, "qp_count", report->segment.count);
	control_segment_rewind(&report->segment);
	begin_list(report, "mrs");
	return STAGE_MRS;
}

/* Writes MRs; after the last, the remaining members of the process. */
static enum stage append_mrs(struct control_report *report)
{
	if (append_elements(report, control_segment_mrs(&report->segment)))
		return STAGE_MRS;
	control_append(report, "]");
	control_add_number(report->process, "mr_count", report->segment.count);
	json_object_object_foreach(report->process, key, value)
	{
		append_member(report, key, json_object_get(value));
	}
	control_append(report, "}");
	json_object_put(report->process);
	report->process = NULL;
	close_segment(report);
	report->has_element = true;
	return STAGE_PROCESSES;
}

static enum stage append_ids(struct control_report *report)
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

	if (append_elements(report, cma_report_ids(cma, lists[report->stage].listed,
						   report->asker->cred.uid, &report->cursor)))
		return report->stage;
	control_append(report, "]");
	report->cursor = 0;
	if (lists[report->stage].next_key)
		begin_list(report, lists[report->stage].next_key);
	return report->stage + 1;
}

static enum stage append_tail(struct control_report *report)
{
	append_member(report, "cm", report->cm);
	report->cm = NULL;
	append_member(report, "counters", report->counters);
	report->counters = NULL;
	control_append(report, "}");
	return STAGE_DONE;
}

/* Before the list of devices, which contains the numbers, is written. */
static enum stage sum_devices(struct control_report *report)
{
	if (!device_sum_step(&report->sum))
		return STAGE_TOTALS;
	return STAGE_HEAD;
}

static enum stage (*const stages[])(struct control_report *report) = {
	[STAGE_TOTALS] = sum_devices,	    [STAGE_HEAD] = append_head,
	[STAGE_PROCESSES] = append_process, [STAGE_QPS] = append_qps,
	[STAGE_MRS] = append_mrs,	    [STAGE_LISTENERS] = append_ids,
	[STAGE_CONNECTIONS] = append_ids,   [STAGE_JOINS] = append_ids,
	[STAGE_TAIL] = append_tail,
};
static_assert(COUNT(stages) == STAGE_DONE, "every stage has its function");

void control_report_drop(struct session *asker)
{
	struct control_report *report = asker->report;

	if (!report)
		return;
	asker->report = NULL;
	close_segment(report);
	device_sum_end(&report->sum);
	json_object_put(report->process);
	json_object_put(report->cm);
	json_object_put(report->counters);
	free(report->text);
	free(report);
}

static bool may_report(const struct session *asker)
{
	const struct session *other;
	unsigned int reports = 0;

	list_for_each_entry(other, &asker->user->sessions, of_user)
		reports += other->report != NULL;
	return reports < CONTROL_REPORTS_UID_MAX;
}

static int report_begin(struct session *asker)
{
	struct control_report *report;

	if (!may_report(asker))
		return -EDQUOT;
	report = calloc(1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	report->asker = asker;
	report->segment.fd = -1;
	report->list_room = CONTROL_LISTED_ALL_MAX;
	report->counters = json_object_new_object();
	device_sum_begin(&report->sum, &asker->server->device_ended, &asker->server->slots);
	asker->report = report;
	return 0;
}

/* Copies the rest of the section to the reply, as far as the reply has room. */
static void report_take(struct control_report *report, struct ipc_status_reply *reply)
{
	size_t len = report->end - report->sent;

	if (len > sizeof(reply->text))
		len = sizeof(reply->text);
	if (len > 0)
		memcpy(reply->text, report->text + report->sent, len);
	reply->bytes = (uint32_t)len;
	report->sent += len;
	if (report->sent < report->end)
		return;
	/* The text is freed so that a session between requests uses no memory for it. */
	free(report->text);
	report->text = NULL;
	report->sent = report->end = report->room = 0;
}

int control_report_read(struct session *asker, struct ipc_status_reply *reply)
{
	struct control_report *report;
	int error = asker->report ? 0 : report_begin(asker);

	if (error)
		return error;
	report = asker->report;
	if (report->end == 0)
		report->stage = stages[report->stage](report);
	error = report->error;
	if (!error) {
		report_take(report, reply);
		reply->more = report->end > 0 || report->stage != STAGE_DONE;
	}
	if (error || !reply->more)
		control_report_drop(asker);
	return error;
}
