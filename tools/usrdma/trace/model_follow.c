/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Follows the PSNs of each direction of a connection: which packets are retransmissions, what is
 * missing, which NAK or RNR NAK they follow, and how long a response took. A direction is the
 * requests of one side and the responses to them.
 */
#include "model.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/util.h"
#include "model_arrival.h"
#include "model_message.h"
#include "wire/cm_msg.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define SENT_SLOTS	 4096u /* power of 2: PSNs whose time of sending is stored */
#define READ_MTU_UNKNOWN 1024u
#define READ_PSNS_MAX	 0x200000u

struct sent_psn {
	uint64_t time_ns; /* 0: empty */
	uint32_t psn;
	bool is_retransmission; /* its response gives no round trip (Karn's algorithm) */
};

/* The state of one direction. Owned by model_follow(). */
struct follow_dir {
	bool has_requests, has_responses, has_acks;
	uint32_t next_psn;     /* of a new request */
	uint32_t last_end_psn; /* after the last request packet, new or not */
	/* that precede packets sent ahead of them, and are not in the trace yet */
	uint32_t awaited_psns;
	uint32_t awaited_responses;
	uint32_t nak_psn;	/* of the last sequence NAK */
	uint32_t next_response; /* PSN of the next new response with data */
	uint32_t acked_psn;
	uint64_t last_ns;		 /* of a request, or of a NAK */
	enum retransmission_cause cause; /* if a retransmission follows */
	uint64_t rnr_in_sequence;
	struct message_part part, retransmitted_part; /* of new and of retransmitted requests */
	struct sent_psn *sent;
};

struct follow {
	struct conn *conn;
	struct follow_dir dir[2];
	uint32_t cm_seen[2]; /* bits: enum cm_msg_type */
	struct arrivals arrivals;
};

static uint32_t psns_of_request(const struct conn *conn, const struct item_packet *packet,
				const struct opcode_info *info)
{
	uint32_t mtu_bytes = conn->mtu_bytes ? conn->mtu_bytes : READ_MTU_UNKNOWN;
	uint32_t psns;

	if (!info->is_read || !packet->dma_bytes)
		return 1;
	psns = packet->dma_bytes / mtu_bytes + (packet->dma_bytes % mtu_bytes != 0);
	return min_u32(psns, READ_PSNS_MAX);
}

static struct sent_psn *sent_slot(struct follow_dir *state, uint32_t psn)
{
	return &state->sent[psn & (SENT_SLOTS - 1)];
}

static bool was_sent(struct follow_dir *state, uint32_t psn)
{
	struct sent_psn *slot = sent_slot(state, psn);

	return slot->time_ns && slot->psn == psn;
}

static void store_sent(struct follow_dir *state, uint32_t psn, uint32_t psns, uint64_t time_ns,
		       bool is_retransmission)
{
	for (uint32_t i = 0; i < psns && i < SENT_SLOTS; i++)
		*sent_slot(state, psn_add(psn, i)) = (struct sent_psn){time_ns, psn_add(psn, i),
								       is_retransmission};
}

/* A request packet with a PSN that precedes the next new one. */
static void follow_retransmission(struct follow_dir *state, struct conn_dir *dir, struct item *item)
{
	uint32_t psn = item->packet.psn;
	bool is_unseen = !was_sent(state, psn) &&
			 psn_diff(state->next_psn, psn) < (int32_t)SENT_SLOTS;
	bool is_missing = state->cause == RETRANSMISSION_NAK && psn == state->nak_psn;

	if (is_unseen && state->awaited_psns) {
		state->awaited_psns--;
		dir->missing_packets += is_missing;
		dir->gaps += is_missing;
		if (!is_missing)
			return;
	}
	if (is_unseen && state->cause == RETRANSMISSION_TIMEOUT && dir->missing_packets) {
		item->flags |= ITEM_OUT_OF_ORDER;
		dir->out_of_order_packets++;
		return;
	}
	item->flags |= ITEM_RETRANSMISSION;
	dir->retransmitted_packets++;
	if (psn == state->last_end_psn && state->cause == RETRANSMISSION_TIMEOUT &&
	    dir->retransmitted_packets > 1)
		return;
	item->flags |= ITEM_RETRANSMISSION_FIRST;
	item->cause = (uint8_t)state->cause;
	dir->retransmissions[state->cause]++;
	if (item->time_ns > state->last_ns)
		dir->retransmission_wait_ns[state->cause] += item->time_ns - state->last_ns;
	state->cause = RETRANSMISSION_TIMEOUT;
}

static void follow_request(struct follow *follow, struct item *item, const struct opcode_info *info)
{
	struct conn_dir *dir = &follow->conn->dir[item->side];
	struct follow_dir *state = &follow->dir[item->side];
	struct item_packet *packet = &item->packet;
	uint32_t psns = psns_of_request(follow->conn, packet, info);
	int32_t ahead;

	if (!state->has_requests)
		state->next_psn = packet->psn;
	state->has_requests = true;
	ahead = psn_diff(packet->psn, state->next_psn);
	if (ahead < 0) {
		follow_retransmission(state, dir, item);
	} else {
		if (ahead > 0 && packet->is_ahead) {
			state->awaited_psns += (uint32_t)ahead;
		} else if (ahead > 0) {
			item->flags |= ITEM_AFTER_GAP;
			packet->missing = (uint32_t)ahead;
			dir->gaps++;
			dir->missing_packets += (uint32_t)ahead;
		}
		state->cause = RETRANSMISSION_TIMEOUT;
	}
	if (item->flags & ITEM_RETRANSMISSION) {
		message_part_follow(&state->retransmitted_part, item, info);
	} else {
		dir->packets++;
		message_part_follow(&state->part, item, info);
		message_count(dir, item, info);
	}
	store_sent(state, packet->psn, psns, item->time_ns, item->flags & ITEM_RETRANSMISSION);
	state->last_end_psn = psn_add(packet->psn, psns);
	if (psn_is_after(state->last_end_psn, state->next_psn))
		state->next_psn = state->last_end_psn;
	state->last_ns = item->time_ns;
}

static void follow_rtt(struct follow_dir *state, struct conn_dir *dir, struct item *item)
{
	struct sent_psn *slot = sent_slot(state, item->packet.psn);
	uint64_t end_ns = item->arrival_ns ? item->arrival_ns : item->time_ns;
	uint64_t rtt_ns;

	if (!was_sent(state, item->packet.psn) || slot->is_retransmission || end_ns < slot->time_ns)
		return;
	rtt_ns = end_ns - slot->time_ns;
	slot->time_ns = 0;
	/* The packets of a one-sided operation have one time. */
	if (!rtt_ns)
		return;
	item->rtt_ns = rtt_ns;
	if (!dir->rtt_count || rtt_ns < dir->rtt_min_ns)
		dir->rtt_min_ns = rtt_ns;
	if (rtt_ns > dir->rtt_max_ns)
		dir->rtt_max_ns = rtt_ns;
	dir->rtt_count++;
	dir->rtt_sum_ns += rtt_ns;
}

static void follow_ack(struct follow_dir *state, struct conn_dir *dir, struct item *item)
{
	uint32_t psn = item->packet.psn;

	dir->acks++;
	if (state->has_acks && !psn_is_after(psn, state->acked_psn)) {
		item->flags |= ITEM_DUPLICATE_ACK;
		dir->duplicate_acks++;
		return;
	}
	state->has_acks = true;
	state->acked_psn = psn;
	state->rnr_in_sequence = 0;
	follow_rtt(state, dir, item);
}

static void follow_nak(struct follow_dir *state, struct conn_dir *dir, const struct item *item)
{
	unsigned code = aeth_code(item->packet.syndrome);

	state->last_ns = item->time_ns;
	if (aeth_kind(item->packet.syndrome) == AETH_KIND_NAK) {
		dir->naks[code]++;
		if (!dir->first_nak_ns)
			dir->first_nak_ns = item->time_ns;
		state->cause = RETRANSMISSION_NAK;
		state->nak_psn = item->packet.psn;
		return;
	}
	dir->rnr_naks++;
	if (!dir->first_rnr_ns)
		dir->first_rnr_ns = item->time_ns;
	dir->rnr_wait_ns += aeth_rnr_wait_ns(code);
	state->cause = RETRANSMISSION_RNR;
	if (++state->rnr_in_sequence > dir->rnr_in_sequence_max)
		dir->rnr_in_sequence_max = state->rnr_in_sequence;
}

/* A response with data: READ response or atomic response. Returns whether it is new. */
static bool follow_data(struct follow_dir *state, struct conn_dir *dir, struct item *item,
			const struct opcode_info *info)
{
	uint32_t psn = item->packet.psn;

	if (state->has_responses && psn_is_before(psn, state->next_response) &&
	    state->awaited_responses) {
		state->awaited_responses--;
		dir->bytes += item->packet.payload_bytes;
		return true;
	}
	if (state->has_responses && psn_is_before(psn, state->next_response)) {
		item->flags |= ITEM_RETRANSMISSION;
		dir->retransmitted_responses++;
		return false;
	}
	/* The response to the next READ may begin at any later PSN. */
	if (item->packet.is_ahead && state->has_responses)
		state->awaited_responses += psn_sub(psn, state->next_response);
	else if (state->has_responses && (info->is_middle || info->is_last) &&
		 psn_is_after(psn, state->next_response)) {
		item->flags |= ITEM_AFTER_GAP;
		item->packet.missing = psn_sub(psn, state->next_response);
		dir->gaps++;
		dir->missing_packets += item->packet.missing;
	}
	state->has_responses = true;
	state->next_response = psn_next(psn);
	dir->bytes += item->packet.payload_bytes;
	return true;
}

static void follow_response(struct follow *follow, struct item *item,
			    const struct opcode_info *info)
{
	/* The response belongs to the requests of the other side. */
	struct conn_dir *dir = &follow->conn->dir[!item->side];
	struct follow_dir *state = &follow->dir[!item->side];
	enum aeth_kind kind = info->has_aeth ? aeth_kind(item->packet.syndrome) : AETH_KIND_ACK;

	follow->conn->dir[item->side].packets++;
	if (info->is_ack && (kind == AETH_KIND_NAK || kind == AETH_KIND_RNR_NAK)) {
		follow_nak(state, dir, item);
		return;
	}
	if (info->is_ack && !info->is_atomic) {
		follow_ack(state, dir, item);
		return;
	}
	if (!follow_data(state, dir, item, info))
		return;
	if (!state->has_acks || psn_is_after(item->packet.psn, state->acked_psn)) {
		state->has_acks = true;
		state->acked_psn = item->packet.psn;
		state->rnr_in_sequence = 0;
	}
	follow_rtt(state, dir, item);
}

static void follow_packet(struct follow *follow, struct item *item)
{
	const struct opcode_info *info = opcode_info(item->packet.opcode);
	struct conn *conn = follow->conn;
	struct conn_dir *dir = &conn->dir[item->side];

	conn->packets++;
	if (!conn->has_data)
		conn->first_data_ns = item->time_ns;
	conn->has_data = true;
	conn->last_data_ns = item->time_ns;
	if (item->is_sent && !item->is_received && conn->side[!item->side].has_receives) {
		item->flags |= ITEM_LOST;
		dir->lost_packets++;
	}
	if (info->transport == OPCODE_TRANSPORT_CNP) {
		dir->notifications++;
		return;
	}
	dir->congestion_marks += item->packet.is_congested;
	if (info->transport == OPCODE_TRANSPORT_UD) {
		dir->packets++;
		message_count(dir, item, info);
	} else if (info->is_request) {
		follow_request(follow, item, info);
	} else {
		follow_response(follow, item, info);
	}
}

static void follow_cm(struct follow *follow, struct item *item)
{
	struct conn_cm *cm = &follow->conn->cm;
	uint32_t bit = 1u << item->cm.type;
	uint64_t *time_ns = NULL;

	if (follow->cm_seen[item->side] & bit) {
		item->flags |= ITEM_CM_RETRANSMISSION;
		cm->repeated++;
		return;
	}
	follow->cm_seen[item->side] |= bit;
	switch (item->cm.type) {
	case CM_MSG_REQ:
	case CM_MSG_SIDR_REQ:
		time_ns = &cm->req_ns;
		break;
	case CM_MSG_REP:
	case CM_MSG_SIDR_REP:
		time_ns = &cm->rep_ns;
		break;
	case CM_MSG_RTU:
		time_ns = &cm->rtu_ns;
		break;
	case CM_MSG_REJ:
		time_ns = &cm->rej_ns;
		cm->reject_reason = item->cm.reason;
		cm->rejecter = item->side;
		break;
	case CM_MSG_DREQ:
		time_ns = &cm->dreq_ns;
		break;
	case CM_MSG_DREP:
		time_ns = &cm->drep_ns;
		break;
	default:
		return;
	}
	if (!*time_ns)
		*time_ns = item->time_ns;
}

static void follow_fault(struct follow *follow, const struct item *item)
{
	struct item *packet;

	follow->conn->faults++;
	if (!arrivals_is_drop(item))
		return;
	packet = arrivals_dropped(&follow->arrivals, item);
	if (!packet || packet->flags & ITEM_LOST)
		return;
	packet->flags |= ITEM_LOST;
	follow->conn->dir[!item->side].lost_packets++;
}

static void follow_note(struct follow *follow, const struct item *item)
{
	const struct item_note *note = &item->note;
	struct conn *conn = follow->conn;

	switch (item->kind) {
	case ITEM_COMPLETION:
		conn->completions++;
		if (!note->status)
			return;
		conn->failed_completions++;
		if (note->status == IBV_WC_WR_FLUSH_ERR) {
			conn->flushed_completions++;
			return;
		}
		if (conn->first_status)
			return;
		conn->first_status = note->status;
		conn->first_status_vendor_err = note->vendor_err;
		conn->first_status_side = item->side;
		return;
	case ITEM_DROP:
		conn->drops++;
		return;
	case ITEM_FAULT:
		follow_fault(follow, item);
		return;
	case ITEM_CALL_FAILED:
		conn->failed_calls++;
		return;
	case ITEM_ASYNC_EVENT:
		conn->async_events++;
		return;
	default:
		return;
	}
}

/* The largest payload of a packet that is not the last of its message is the path MTU. */
static void find_mtus(struct model *model)
{
	for (uint32_t i = 0; i < model->item_count; i++) {
		const struct item *item = &model->items[i];
		const struct opcode_info *info;
		struct conn *conn;

		if (item->kind != ITEM_PACKET || item->conn == MODEL_NONE)
			continue;
		info = opcode_info(item->packet.opcode);
		conn = &model->conns[item->conn];
		if ((info->is_first || info->is_middle) &&
		    item->packet.payload_bytes > conn->mtu_bytes)
			conn->mtu_bytes = item->packet.payload_bytes;
	}
}

static void follow_item(struct follow *follow, struct item *item)
{
	if (item->kind == ITEM_PACKET)
		follow_packet(follow, item);
	else if (item->kind == ITEM_CM)
		follow_cm(follow, item);
	else
		follow_note(follow, item);
}

/* The packets before those that were sent ahead did not follow. */
static void follow_end(struct follow *follow)
{
	for (int side = 0; side < 2; side++) {
		struct conn_dir *dir = &follow->conn->dir[side];

		uint32_t awaited = follow->dir[side].awaited_psns +
				   follow->dir[side].awaited_responses;

		dir->gaps += awaited != 0;
		dir->missing_packets += awaited;
	}
}

/*
 * The indexes of the items with a connection, those of each connection in sequence; NULL: no
 * memory.
 */
static uint32_t *sort_by_conn(const struct model *model, uint32_t *starts)
{
	uint32_t *order = malloc(((size_t)model->item_count + 1) * sizeof(*order));
	uint32_t sum = 0;

	if (!order)
		return NULL;
	for (uint32_t i = 0; i < model->conn_count; i++) {
		starts[i] = sum;
		sum += (uint32_t)model->conns[i].item_count;
	}
	for (uint32_t i = 0; i < model->item_count; i++) {
		uint32_t conn = model->items[i].conn;

		if (conn != MODEL_NONE)
			order[starts[conn]++] = i;
	}
	return order;
}

/* Counts the items again, because events were assigned after describe_conns(). */
static void count_items(struct model *model)
{
	for (uint32_t i = 0; i < model->conn_count; i++)
		model->conns[i].item_count = 0;
	for (uint32_t i = 0; i < model->item_count; i++) {
		const struct item *item = &model->items[i];
		struct conn *conn;

		if (item->conn == MODEL_NONE)
			continue;
		conn = &model->conns[item->conn];
		conn->item_count++;
		if (item->time_ns < conn->first_ns)
			conn->first_ns = item->time_ns;
		if (item->time_ns > conn->last_ns)
			conn->last_ns = item->time_ns;
	}
}

/* `order`: the items of the connection, as `count` indices. `sent`: room for both directions. */
static int follow_conn(struct model *model, struct conn *conn, struct sent_psn *sent,
		       const uint32_t *order, uint32_t count)
{
	struct follow follow = {.conn = conn};
	int ret = arrivals_open(&follow.arrivals, model->items, order, count);

	if (ret)
		return ret;
	follow.dir[0].sent = sent;
	follow.dir[1].sent = sent + SENT_SLOTS;
	memset(sent, 0, sizeof(*sent) * SENT_SLOTS * 2);
	for (uint32_t i = 0; i < count; i++)
		follow_item(&follow, &model->items[order[i]]);
	follow_end(&follow);
	arrivals_close(&follow.arrivals);
	return 0;
}

int model_follow(struct model *model)
{
	uint32_t *starts = calloc((size_t)model->conn_count + 1, sizeof(*starts));
	struct sent_psn *sent = calloc(SENT_SLOTS * 2, sizeof(*sent));
	uint32_t *order = NULL, at = 0;
	int ret;

	find_mtus(model);
	count_items(model);
	if (starts)
		order = sort_by_conn(model, starts);
	ret = order && sent ? 0 : -ENOMEM;
	for (uint32_t i = 0; !ret && i < model->conn_count; i++) {
		ret = follow_conn(model, &model->conns[i], sent, order + at, starts[i] - at);
		at = starts[i];
	}
	free(starts);
	free(sent);
	free(order);
	return ret;
}

bool conn_ends_normally(const struct conn *conn)
{
	return conn->cm.dreq_ns && !conn->first_status;
}

bool conn_has_trouble(const struct conn *conn)
{
	for (int side = 0; side < 2; side++) {
		const struct conn_dir *dir = &conn->dir[side];

		if (dir->retransmitted_packets || dir->retransmitted_responses || dir->rnr_naks ||
		    dir->lost_packets || dir->first_nak_ns)
			return true;
	}
	return conn->cm.rej_ns || conn->cm.repeated || conn->failed_completions || conn->drops ||
	       conn->faults || conn->failed_calls;
}
