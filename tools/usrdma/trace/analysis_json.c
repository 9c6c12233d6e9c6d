/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "analysis.h"
#include "names.h"
#include "wire/line.h"

/* json-c reports missing memory by NULL; the members are then missing. */
static void json_count(json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void json_text(json_object *object, const char *key, const char *text)
{
	json_object_object_add(object, key, json_object_new_string(text));
}

static json_object *json_side(const struct model *model, const struct conn_side *side)
{
	json_object *object = json_object_new_object();
	char address[64] = "";
	struct line line = {.out = address, .room = sizeof(address)};

	if (side->host != MODEL_NONE)
		line_add_gid(&line, model->hosts[side->host].gid);
	json_text(object, "address", address);
	json_count(object, "qpn", side->qpn);
	if (side->process != MODEL_NONE) {
		json_count(object, "pid", model->processes[side->process].pid);
		json_text(object, "program", model->processes[side->process].program);
	}
	return object;
}

static json_object *json_naks(const struct conn_dir *dir)
{
	json_object *object = json_object_new_object();

	for (unsigned code = 0; code < AETH_CODES; code++) {
		if (dir->naks[code])
			json_count(object, aeth_nak_name(code), dir->naks[code]);
	}
	return object;
}

static void json_retransmissions(json_object *object, const struct conn_dir *dir)
{
	static const char *const times[] = {"retransmissions_after_timeout",
					    "retransmissions_after_nak",
					    "retransmissions_after_rnr_nak"};
	static const char *const waits[] = {"timeout_wait_ns", "nak_wait_ns", "rnr_nak_wait_ns"};

	for (int cause = 0; cause < RETRANSMISSION_CAUSES; cause++) {
		json_count(object, times[cause], dir->retransmissions[cause]);
		json_count(object, waits[cause], dir->retransmission_wait_ns[cause]);
	}
}

/* Requests of one side and their responses. */
static json_object *json_dir(const struct conn *conn, const struct conn_dir *dir)
{
	json_object *object = json_object_new_object();

	json_count(object, "packets", dir->packets);
	json_count(object, "messages", dir->messages);
	json_count(object, "sends", dir->sends);
	json_count(object, "writes", dir->writes);
	json_count(object, "reads", dir->reads);
	json_count(object, "atomics", dir->atomics);
	json_count(object, "payload_bytes", dir->bytes);
	json_count(object, "payload_bytes_per_second", analysis_bytes_per_s(conn, dir));
	json_count(object, "retransmitted_packets", dir->retransmitted_packets);
	json_count(object, "retransmitted_responses", dir->retransmitted_responses);
	json_retransmissions(object, dir);
	json_count(object, "gaps", dir->gaps);
	json_count(object, "missing_psns", dir->missing_packets);
	json_count(object, "out_of_order", dir->out_of_order_packets);
	json_count(object, "lost_packets", dir->lost_packets);
	json_count(object, "acks", dir->acks);
	json_count(object, "duplicate_acks", dir->duplicate_acks);
	json_count(object, "rnr_naks", dir->rnr_naks);
	json_count(object, "rnr_naks_in_sequence", dir->rnr_in_sequence_max);
	json_object_object_add(object, "naks", json_naks(dir));
	if (dir->first_nak_ns)
		json_count(object, "first_nak_after_ns", dir->first_nak_ns - conn->first_data_ns);
	if (dir->first_rnr_ns)
		json_count(object, "first_rnr_nak_after_ns",
			   dir->first_rnr_ns - conn->first_data_ns);
	json_count(object, "congestion_marks", dir->congestion_marks);
	json_count(object, "congestion_notifications", dir->notifications);
	if (dir->rtt_count) {
		json_count(object, "response_time_min_ns", dir->rtt_min_ns);
		json_count(object, "response_time_average_ns", dir->rtt_sum_ns / dir->rtt_count);
		json_count(object, "response_time_max_ns", dir->rtt_max_ns);
	}
	return object;
}

static void json_cm(json_object *object, const struct conn_cm *cm)
{
	json_object *member = json_object_new_object();

	json_count(member, "retransmitted_messages", cm->repeated);
	if (cm->rep_ns)
		json_count(member, "reply_after_ns", cm->rep_ns - cm->req_ns);
	if (cm->rtu_ns)
		json_count(member, "connected_after_ns", cm->rtu_ns - cm->req_ns);
	if (cm->rej_ns)
		json_count(member, "reject_reason", cm->reject_reason);
	if (cm->dreq_ns && cm->drep_ns)
		json_count(member, "disconnected_after_ns", cm->drep_ns - cm->dreq_ns);
	json_object_object_add(object, "cm", member);
}

static void json_finding(void *ctx, const char *sentence)
{
	json_object_array_add(ctx, json_object_new_string(sentence));
}

static json_object *json_conn(const struct model *model, const struct conn *conn)
{
	json_object *object = json_object_new_object();
	json_object *sides = json_object_new_array();
	json_object *requests = json_object_new_array();
	json_object *found = json_object_new_array();

	json_text(object, "transport", analysis_transport(conn));
	json_count(object, "mtu_bytes", conn->mtu_bytes);
	json_count(object, "packets", conn->packets);
	json_count(object, "duration_ns", conn->last_ns - conn->first_ns);
	for (int side = 0; side < 2; side++) {
		json_object_array_add(sides, json_side(model, &conn->side[side]));
		json_object_array_add(requests, json_dir(conn, &conn->dir[side]));
	}
	json_object_object_add(object, "sides", sides);
	json_object_object_add(object, "requests_of_side", requests);
	if (conn->cm.req_ns)
		json_cm(object, &conn->cm);
	if (conn->first_status)
		json_text(object, "first_failed_status", name_of_wc_status(conn->first_status));
	json_count(object, "failed_completions", conn->failed_completions);
	json_count(object, "injected_faults", conn->faults);
	analysis_find(model, conn, json_finding, found);
	json_object_object_add(object, "findings", found);
	return object;
}

static void json_file(json_object *object, const struct analysis *analysis)
{
	const struct trace_read_counts *counts = analysis->counts;

	json_text(object, "file", analysis->source);
	json_count(object, "packets", counts->packets);
	json_count(object, "roce_packets", counts->roce);
	json_count(object, "events", counts->events);
	json_count(object, "icrc_right", counts->icrc_right);
	json_count(object, "icrc_wrong", counts->icrc_wrong);
	json_count(object, "ip_fragments", counts->fragments);
	json_count(object, "headers_not_captured", counts->cut);
	json_object_object_add(object, "is_truncated",
			       json_object_new_boolean(counts->is_truncated));
}

int analysis_print_json(FILE *out, const struct analysis *analysis)
{
	const struct model *model = analysis->model;
	json_object *object = json_object_new_object();
	json_object *conns = json_object_new_array();
	const char *text;

	if (analysis->counts)
		json_file(object, analysis);
	json_count(object, "records_lost", model->records_lost);
	for (uint32_t i = 0; i < model->conn_count; i++) {
		if (analysis_wants(analysis, i))
			json_object_array_add(conns, json_conn(model, &model->conns[i]));
	}
	json_object_object_add(object, "connections", conns);
	text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY);
	if (text)
		fprintf(out, "%s\n", text);
	json_object_put(object);
	return text ? 0 : -ENOMEM;
}
