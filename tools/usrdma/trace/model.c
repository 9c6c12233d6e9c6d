/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/util.h"
#include "wire/cm_msg.h"
#include "wire/packet.h"

#define HOSTS_MAX      4096u
#define PROCESSES_MAX  65536u
#define TEXTS_MAX      256u
#define RECENT_SLOTS   16384u /* power of 2 */
#define ECN_CE	       3
#define SENT_CHAIN_MAX 8

/* Makes room for one more element. */
static int model_grow(void *array_at, uint32_t count, uint32_t *size, size_t element_bytes)
{
	uint32_t more = *size ? *size * 2 : 64;
	void *old, *grown;

	if (count < *size)
		return 0;
	memcpy(&old, array_at, sizeof(old));
	grown = realloc(old, more * element_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(array_at, &grown, sizeof(grown));
	*size = more;
	return 0;
}

int model_open(struct model *model)
{
	*model = (struct model){0};
	model->recent = calloc(RECENT_SLOTS, sizeof(*model->recent));
	return model->recent ? 0 : -ENOMEM;
}

void model_close(struct model *model)
{
	for (uint32_t i = 0; i < model->text_count; i++)
		free(model->texts[i]);
	free(model->texts);
	free(model->recent);
	free(model->items);
	free(model->hosts);
	free(model->processes);
	free(model->conns);
	*model = (struct model){0};
}

const char *model_text(const struct model *model, uint32_t index)
{
	return index < model->text_count ? model->texts[index] : "";
}

/* The index of a GID; MODEL_NONE if there is no memory or too many hosts. */
static uint32_t intern_host(struct model *model, const uint8_t gid[GID_BYTES])
{
	for (uint32_t i = 0; i < model->host_count; i++) {
		if (memcmp(model->hosts[i].gid, gid, GID_BYTES) == 0)
			return i;
	}
	if (model->host_count == HOSTS_MAX ||
	    model_grow(&model->hosts, model->host_count, &model->host_size, sizeof(*model->hosts)))
		return MODEL_NONE;
	memcpy(model->hosts[model->host_count].gid, gid, GID_BYTES);
	return model->host_count++;
}

/* The process of an event. The program of the record is that of the emitting process. */
static uint32_t intern_process(struct model *model, const struct trace_record *record)
{
	uint32_t pid = record->event.pid ? record->event.pid : record->pid;
	const char *program = pid == record->pid ? record->program : "";
	uint32_t i;

	if (!pid)
		return MODEL_NONE;
	for (i = model->process_count; i > 0 && model->processes[i - 1].pid != pid; i--)
		;
	if (!i) {
		if (model->process_count == PROCESSES_MAX ||
		    model_grow(&model->processes, model->process_count, &model->process_size,
			       sizeof(*model->processes)))
			return MODEL_NONE;
		model->processes[model->process_count++] = (struct model_process){.pid = pid};
		i = model->process_count;
	}
	if (*program) {
		snprintf(model->processes[i - 1].program, MODEL_NAME_BYTES, "%s", program);
		printable_string(model->processes[i - 1].program);
	}
	return i - 1;
}

static uint32_t intern_text(struct model *model, const char *text, size_t bytes)
{
	for (uint32_t i = 0; i < model->text_count; i++) {
		if (strncmp(model->texts[i], text, bytes) == 0)
			return i;
	}
	if (model->text_count == TEXTS_MAX ||
	    model_grow(&model->texts, model->text_count, &model->text_size, sizeof(*model->texts)))
		return MODEL_NONE;
	model->texts[model->text_count] = strndup(text, bytes);
	return model->texts[model->text_count] ? model->text_count++ : MODEL_NONE;
}

/* A zeroed item at the end of the model; NULL: no memory, or the limit is reached. */
static struct item *add_item(struct model *model, enum item_kind kind, uint64_t time_ns, int *error)
{
	struct item *item;

	*error = 0;
	if (model->item_count == MODEL_ITEMS_MAX) {
		model->items_left_out++;
		return NULL;
	}
	*error = model_grow(&model->items, model->item_count, &model->item_size,
			    sizeof(*model->items));
	if (*error)
		return NULL;
	item = &model->items[model->item_count++];
	*item = (struct item){
		.time_ns = time_ns,
		.kind = (uint8_t)kind,
		.src_host = MODEL_NONE,
		.dst_host = MODEL_NONE,
		.src_process = MODEL_NONE,
		.dst_process = MODEL_NONE,
		.conn = MODEL_NONE,
	};
	return item;
}

static void read_cm(struct item_cm *cm, const struct cm_msg *msg)
{
	*cm = (struct item_cm){.type = (uint8_t)msg->type};
	switch (msg->type) {
	case CM_MSG_REQ:
		cm->local_comm_id = msg->req.local_comm_id;
		cm->qpn = msg->req.local_qpn;
		cm->psn = msg->req.starting_psn;
		cm->service_id = msg->req.service_id;
		cm->mtu_code = msg->req.path_mtu;
		cm->transport = msg->req.transport_type;
		cm->ack_timeout = msg->req.primary.local_ack_timeout;
		cm->retry_count = msg->req.retry_count;
		cm->rnr_retry = msg->req.rnr_retry_count;
		return;
	case CM_MSG_REP:
		cm->local_comm_id = msg->rep.local_comm_id;
		cm->remote_comm_id = msg->rep.remote_comm_id;
		cm->qpn = msg->rep.local_qpn ? msg->rep.local_qpn : msg->rep.local_eecn;
		cm->psn = msg->rep.starting_psn;
		cm->rnr_retry = msg->rep.rnr_retry_count;
		return;
	case CM_MSG_REJ:
		cm->local_comm_id = msg->rej.local_comm_id;
		cm->remote_comm_id = msg->rej.remote_comm_id;
		cm->reason = msg->rej.reason;
		cm->about = msg->rej.about;
		return;
	case CM_MSG_MRA:
		cm->about = msg->mra.about;
		break;
	case CM_MSG_SIDR_REQ:
		cm->local_comm_id = msg->sidr_req.request_id;
		cm->service_id = msg->sidr_req.service_id;
		return;
	case CM_MSG_SIDR_REP:
		cm->remote_comm_id = msg->sidr_rep.request_id;
		cm->qpn = msg->sidr_rep.qpn;
		cm->reason = msg->sidr_rep.status;
		return;
	default:
		break;
	}
	/* Each of the other messages begins with both communication IDs. */
	cm->local_comm_id = msg->rtu.local_comm_id;
	cm->remote_comm_id = msg->rtu.remote_comm_id;
}

/* Decodes a MAD into item->cm; false: not a message of the communication manager. */
static bool decode_mad(struct item *item, const void *mad, size_t len)
{
	struct cm_msg msg;

	if (cm_msg_parse(&msg, mad, len) != CM_FAULT_NONE)
		return false;
	item->kind = ITEM_CM;
	read_cm(&item->cm, &msg);
	return true;
}

/* Decodes a packet into item->packet or item->cm; false: invalid, or headers were not captured. */
static bool decode_packet(struct item *item, const struct trace_packet *from)
{
	size_t captured = from->captured_bytes;
	const struct opcode_info *info;
	struct packet packet;

	if (captured < BTH_BYTES || captured > sizeof(from->bytes))
		return false;
	info = opcode_info(from->bytes[0]);
	if (!info || captured < packet_hdr_bytes(info) ||
	    packet_parse(&packet, from->bytes, from->wire_bytes) != PACKET_OK)
		return false;
	if (packet.dest_qpn == MAD_QPN)
		return captured >= packet_hdr_bytes(info) + packet.payload_bytes &&
		       decode_mad(item, packet.payload, packet.payload_bytes);
	item->kind = ITEM_PACKET;
	item->packet = (struct item_packet){
		.va = packet.va,
		.dst_qpn = packet.dest_qpn,
		.src_qpn = packet.src_qpn,
		.psn = packet.psn,
		.rkey = packet.rkey,
		.dma_bytes = packet.dma_length_bytes,
		.payload_bytes = (uint32_t)packet.payload_bytes,
		.imm = be32toh(packet.imm_be),
		.opcode = packet.opcode,
		.syndrome = packet.syndrome,
		.wants_ack = packet.wants_ack,
		.is_solicited = packet.is_solicited,
		.is_ahead = packet.is_ahead && (info->is_request || info->is_read),
		.is_congested = (from->traffic_class & ECN_CE) == ECN_CE || packet.is_fecn,
	};
	return true;
}

static bool is_same_cm(const struct item_cm *a, const struct item_cm *b)
{
	return a->type == b->type && a->local_comm_id == b->local_comm_id &&
	       a->remote_comm_id == b->remote_comm_id;
}

static bool is_same_packet(const struct item *a, const struct item *b)
{
	if (a->kind != b->kind || a->src_host != b->src_host || a->dst_host != b->dst_host)
		return false;
	if (a->kind == ITEM_CM)
		return is_same_cm(&a->cm, &b->cm);
	return a->packet.psn == b->packet.psn && a->packet.dst_qpn == b->packet.dst_qpn &&
	       a->packet.opcode == b->packet.opcode && a->packet.syndrome == b->packet.syndrome &&
	       a->packet.payload_bytes == b->packet.payload_bytes;
}

static uint32_t recent_slot(const struct item *item)
{
	uint64_t hash = hash_mix((uint64_t)item->src_host << 32 | item->dst_host, item->kind);

	if (item->kind == ITEM_CM)
		hash = hash_mix(hash,
				(uint64_t)item->cm.local_comm_id << 32 | item->cm.remote_comm_id);
	else
		hash = hash_mix(hash, (uint64_t)item->packet.dst_qpn << 32 | item->packet.psn);
	return (uint32_t)hash & (RECENT_SLOTS - 1);
}

/*
 * The sender's record of the packet that `item` received: the newest without a record of the
 * receiver. NULL: none. A packet that was sent several times has a chain of records.
 */
static struct item *find_sent(struct model *model, const struct item *item, uint32_t slot)
{
	for (int i = 0; slot && i < SENT_CHAIN_MAX; i++) {
		struct item *sent = &model->items[slot - 1];

		if (!is_same_packet(sent, item))
			return NULL;
		if (!sent->is_received)
			return sent;
		slot = sent->sent_before;
	}
	return NULL;
}

/*
 * Joins the records of sender and receiver for one packet. If `item`, the last one, is the
 * receiver's record of a packet whose sender's record precedes it, the item is removed and the
 * arrival is stored in the sender's item.
 */
static void join_sides(struct model *model, struct item *item)
{
	uint32_t *slot = &model->recent[recent_slot(item)];
	struct item *sent = item->is_received ? find_sent(model, item, *slot) : NULL;

	if (sent) {
		sent->arrival_ns = item->time_ns;
		sent->is_received = true;
		sent->dst_process = item->dst_process;
		model->item_count--;
		return;
	}
	if (item->is_received)
		return;
	item->sent_before = *slot;
	*slot = model->item_count;
}

static int put_packet_item(struct model *model, const struct trace_record *record)
{
	const struct trace_packet *packet = &record->event.packet;
	bool is_mad = record->event.type == TRACE_MAD_SENT ||
		      record->event.type == TRACE_MAD_RECEIVED;
	bool is_sent = record->event.type == TRACE_PACKET_SENT ||
		       record->event.type == TRACE_MAD_SENT;
	uint32_t process = intern_process(model, record);
	struct item *item;
	bool is_valid;
	int error;

	item = add_item(model, ITEM_PACKET, record->time_ns, &error);
	if (!item)
		return error;
	if (is_mad)
		is_valid = packet->captured_bytes <= sizeof(packet->bytes) &&
			   decode_mad(item, packet->bytes, packet->captured_bytes);
	else
		is_valid = decode_packet(item, packet);
	if (!is_valid) {
		model->item_count--;
		return 0;
	}
	item->src_host = intern_host(model, is_sent ? packet->local_gid : packet->remote_gid);
	item->dst_host = intern_host(model, is_sent ? packet->remote_gid : packet->local_gid);
	*(is_sent ? &item->src_process : &item->dst_process) = process;
	item->is_sent = is_sent;
	item->is_received = !is_sent;
	if (item->src_host == MODEL_NONE || item->dst_host == MODEL_NONE)
		model->item_count--;
	else
		join_sides(model, item);
	return 0;
}

/* The numbers of a note; false: the type is not part of the model. */
static bool fill_note(struct model *model, struct item *item, const struct trace_event *event)
{
	struct item_note *note = &item->note;

	*note = (struct item_note){.qpn = event->qpn, .psn = event->psn, .text = MODEL_NONE};
	switch (event->type) {
	case TRACE_WR_POSTED:
		item->kind = ITEM_POST;
		note->wr_id = event->wr.wr_id;
		note->opcode = event->wr.opcode;
		note->bytes = event->wr.length_bytes;
		return true;
	case TRACE_CQE:
		item->kind = ITEM_COMPLETION;
		note->wr_id = event->cqe.wr_id;
		note->status = event->cqe.status;
		note->opcode = event->cqe.opcode;
		note->vendor_err = event->cqe.vendor_err;
		note->bytes = event->cqe.byte_len;
		note->peer_qpn = event->cqe.remote_qpn;
		return true;
	case TRACE_QP_STATE:
		item->kind = ITEM_QP_STATE;
		note->opcode = event->state.from;
		note->status = event->state.to;
		return true;
	case TRACE_CM_EVENT:
		item->kind = ITEM_CM_EVENT;
		note->status = event->cm_event.event;
		note->error = event->cm_event.status;
		note->peer_qpn = event->cm_event.remote_qpn;
		item->src_host = intern_host(model, event->cm_event.local_gid);
		item->dst_host = intern_host(model, event->cm_event.remote_gid);
		return true;
	case TRACE_ASYNC_EVENT:
		item->kind = ITEM_ASYNC_EVENT;
		note->status = event->async_event.event;
		return true;
	case TRACE_CALL_FAILED:
		item->kind = ITEM_CALL_FAILED;
		note->error = event->call_failed.error;
		note->text = intern_text(model, event->call_failed.name,
					 sizeof(event->call_failed.name));
		return true;
	case TRACE_DROP:
		item->kind = ITEM_DROP;
		note->peer_qpn = event->drop.src_qpn;
		note->bytes = event->drop.bytes;
		note->text = intern_text(model, event->drop.cause, sizeof(event->drop.cause));
		return true;
	case TRACE_FAULT:
		item->kind = ITEM_FAULT;
		note->status = event->fault.point;
		note->opcode = event->fault.action;
		note->error = event->fault.code;
		return true;
	case TRACE_QP_PATH:
		item->kind = ITEM_PATH;
		note->peer_qpn = event->qp_path.remote_qpn;
		note->bytes = event->qp_path.mtu_bytes;
		note->opcode = event->qp_path.qp_type;
		note->psn = event->qp_path.sq_psn;
		item->src_host = intern_host(model, event->qp_path.local_gid);
		item->dst_host = intern_host(model, event->qp_path.remote_gid);
		return true;
	default:
		return false;
	}
}

static int put_note(struct model *model, const struct trace_record *record)
{
	uint32_t process = intern_process(model, record);
	struct item *item;
	int error;

	item = add_item(model, ITEM_POST, record->time_ns, &error);
	if (!item)
		return error;
	item->src_process = process;
	if (!fill_note(model, item, &record->event))
		model->item_count--;
	return 0;
}

int model_put(struct model *model, const struct trace_record *record)
{
	model->records_lost += record->lost;
	switch (record->event.type) {
	case TRACE_PACKET_SENT:
	case TRACE_PACKET_RECEIVED:
	case TRACE_MAD_SENT:
	case TRACE_MAD_RECEIVED:
		return put_packet_item(model, record);
	default:
		return put_note(model, record);
	}
}

static int by_time(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

#define SORT_MOVES_MAX UINT64_C(50000000)

/*
 * Insertion sort, which is fast because few records are out of order; qsort() if that is not the
 * case.
 */
static void sort_items(struct model *model)
{
	uint64_t moves = 0;

	for (uint32_t i = 1; i < model->item_count; i++) {
		struct item item = model->items[i];
		uint32_t at = i;

		while (at > 0 && model->items[at - 1].time_ns > item.time_ns &&
		       moves < SORT_MOVES_MAX) {
			model->items[at] = model->items[at - 1];
			at--;
			moves++;
		}
		model->items[at] = item;
	}
	if (moves >= SORT_MOVES_MAX)
		qsort(model->items, model->item_count, sizeof(*model->items), by_time);
}

int model_end(struct model *model)
{
	int error;

	sort_items(model);
	error = model_pair(model);
	if (!error)
		error = model_assign_notes(model);
	return error ? error : model_follow(model);
}
