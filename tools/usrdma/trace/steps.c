/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "wire/cm_msg.h"
#include "wire/packet.h"
#include "wire/psn.h"

/*
 * Steps of messages whose packets still come, and of waits: one of requests and one of responses
 * for each side.
 */
struct building {
	struct steps *steps;
	uint32_t open[2][2];   /* side; 0: requests, 1: responses */
	uint32_t wait_from[2]; /* item after which a side waits */
	bool is_connected, is_disconnecting;
	int error;
};

static struct step *step_add(struct building *building, enum step_kind kind, enum step_style style,
			     const struct item *item)
{
	struct steps *steps = building->steps;
	struct step *step;

	if (steps->count == steps->size) {
		uint32_t size = steps->size ? steps->size * 2 : 256;
		struct step *list = realloc(steps->list, size * sizeof(*list));

		if (!list) {
			building->error = -ENOMEM;
			return NULL;
		}
		steps->list = list;
		steps->size = size;
	}
	step = &steps->list[steps->count++];
	*step = (struct step){
		.time_ns = item->time_ns,
		.end_ns = item->arrival_ns ? item->arrival_ns : item->time_ns,
		.item = (uint32_t)(item - steps->model->items),
		.packets = 1,
		.wait_item = MODEL_NONE,
		.kind = (uint8_t)kind,
		.style = (uint8_t)style,
		.side = item->side,
		.is_complete = true,
	};
	return step;
}

static void step_sign(struct step *step, uint64_t a, uint64_t b)
{
	uint64_t hash = hash_mix(1, (uint64_t)step->kind << 24 | (uint64_t)step->style << 16 |
					    (uint64_t)step->side << 8 | step->is_lost);

	step->signature = hash_mix(hash_mix(hash_mix(hash, a), b), step->bytes);
}

/*
 * Messages of the same operation and length have one signature, whatever the position of their
 * packets.
 */
static void sign_packet(const struct steps *steps, struct step *step)
{
	const struct item_packet *packet = &steps->model->items[step->item].packet;
	const struct opcode_info *info = opcode_info(packet->opcode);
	uint64_t operation = (uint64_t)info->is_send | (uint64_t)info->is_write << 1 |
			     (uint64_t)info->is_read << 2 | (uint64_t)info->is_atomic << 3 |
			     (uint64_t)info->is_ack << 4 | (uint64_t)info->is_request << 5 |
			     (uint64_t)info->has_imm << 6 | (uint64_t)info->transport << 8;

	step_sign(step, operation, info->is_ack && info->has_aeth ? packet->syndrome >> 5 : 0);
}

static enum step_style style_of_packet(const struct item *item, const struct opcode_info *info)
{
	enum aeth_kind kind = info->has_aeth ? aeth_kind(item->packet.syndrome) : AETH_KIND_ACK;

	if (item->flags & ITEM_LOST)
		return STYLE_LOST;
	if (item->flags & ITEM_RETRANSMISSION)
		return STYLE_AGAIN;
	if (info->transport == OPCODE_TRANSPORT_CNP)
		return STYLE_RNR;
	if (info->is_ack && kind == AETH_KIND_NAK)
		return STYLE_ERROR;
	if (info->is_ack && kind == AETH_KIND_RNR_NAK)
		return STYLE_RNR;
	if (info->is_read || info->is_atomic)
		return STYLE_READ;
	return info->is_ack ? STYLE_ACK : STYLE_MESSAGE;
}

/* Whether the packet is a further packet of the message of `step`. */
static bool step_continues(const struct steps *steps, const struct step *step,
			   const struct item *item, const struct opcode_info *info)
{
	const struct item *first = &steps->model->items[step->item];
	bool is_read_request = info->is_request && info->is_read;

	/* The PSNs after a READ request are those of its response. */
	return !step->is_complete &&
	       (info->is_middle || info->is_last || item->flags & ITEM_CONTINUED) &&
	       (is_read_request || item->packet.psn == psn_next(step->last_psn)) &&
	       item->packet.dst_qpn == first->packet.dst_qpn &&
	       style_of_packet(item, info) == (enum step_style)step->style &&
	       !(item->flags & (ITEM_RETRANSMISSION_FIRST | ITEM_AFTER_GAP));
}

static void build_packet(struct building *building, const struct item *item)
{
	const struct opcode_info *info = opcode_info(item->packet.opcode);
	uint32_t *open = &building->open[item->side][!info->is_request];
	struct steps *steps = building->steps;
	struct step *step = *open == MODEL_NONE ? NULL : &steps->list[*open];

	if (step && step_continues(steps, step, item, info)) {
		step->packets++;
		step->end_ns = item->arrival_ns ? item->arrival_ns : item->time_ns;
	} else {
		step = step_add(building, STEP_ARROW, style_of_packet(item, info), item);
		if (!step)
			return;
		*open = steps->count - 1;
	}
	step->bytes += info->is_request && info->is_read ? item->packet.dma_bytes :
							   item->packet.payload_bytes;
	step->last_psn = item->packet.psn;
	step->is_complete = !info->is_first && !info->is_middle && !(item->flags & ITEM_HAS_NEXT);
	step->is_lost = item->flags & ITEM_LOST;
	step->is_notable |= step->style == STYLE_AGAIN || step->style == STYLE_RNR ||
			    step->style == STYLE_ERROR || step->style == STYLE_LOST ||
			    (item->flags & ITEM_AFTER_GAP) != 0;
	sign_packet(steps, step);
	if (item->flags & ITEM_RETRANSMISSION_FIRST && step->packets == 1)
		step->wait_item = building->wait_from[item->side];
	if (info->is_request)
		building->wait_from[item->side] = step->item;
	else if (step->style == STYLE_RNR || step->style == STYLE_ERROR)
		building->wait_from[!item->side] = step->item;
}

static void build_phase(struct building *building, const struct item *item, enum step_phase phase)
{
	struct step *step = step_add(building, STEP_PHASE, STYLE_CM, item);

	if (!step)
		return;
	step->phase = (uint8_t)phase;
	step_sign(step, 1000, phase);
}

static void build_cm(struct building *building, const struct item *item)
{
	bool is_retransmission = item->flags & ITEM_CM_RETRANSMISSION;
	enum step_style style = STYLE_CM;
	struct step *step;

	if (item->cm.type == CM_MSG_DREQ && !building->is_disconnecting) {
		building->is_disconnecting = true;
		build_phase(building, item, PHASE_DISCONNECT);
	}
	if (item->cm.type == CM_MSG_REJ ||
	    (item->cm.type == CM_MSG_SIDR_REP && item->cm.reason != CM_SIDR_VALID))
		style = STYLE_ERROR;
	else if (is_retransmission)
		style = STYLE_AGAIN;
	step = step_add(building, STEP_ARROW, style, item);
	if (!step)
		return;
	step->is_notable = true;
	step_sign(step, 2000u + item->cm.type, item->cm.reason);
	if (item->cm.type == CM_MSG_RTU && !building->is_connected) {
		building->is_connected = true;
		build_phase(building, item, PHASE_CONNECTED);
	}
}

static enum step_style style_of_note(const struct conn *conn, const struct item *item)
{
	/* A disconnected QP moves to ERR and flushes its WRs. */
	bool is_normal = conn_ends_normally(conn);

	switch (item->kind) {
	case ITEM_COMPLETION:
		if (item->note.status == IBV_WC_WR_FLUSH_ERR && is_normal)
			return STYLE_INFO;
		return item->note.status ? STYLE_ERROR : STYLE_DONE;
	case ITEM_QP_STATE:
		return item->note.status == IBV_QPS_ERR && !is_normal ? STYLE_ERROR : STYLE_INFO;
	case ITEM_CM_EVENT:
		return item->note.error ? STYLE_ERROR : STYLE_INFO;
	case ITEM_CALL_FAILED:
	case ITEM_DROP:
		return STYLE_ERROR;
	case ITEM_FAULT:
		return STYLE_FAULT;
	default:
		return STYLE_INFO;
	}
}

static void build_note(struct building *building, const struct item *item)
{
	struct step *step;

	if (item->kind == ITEM_PATH)
		return;
	step = step_add(building, STEP_NOTE, style_of_note(building->steps->conn, item), item);
	if (!step)
		return;
	step->is_notable = step->style == STYLE_ERROR || step->style == STYLE_FAULT ||
			   item->kind == ITEM_QP_STATE || item->kind == ITEM_CM_EVENT ||
			   item->kind == ITEM_ASYNC_EVENT;
	if (item->kind == ITEM_POST)
		step->bytes = item->note.bytes;
	step_sign(step, 3000u + item->kind, (uint64_t)item->note.opcode << 32 | item->note.status);
}

int steps_open(struct steps *steps, const struct model *model, uint32_t conn_index,
	       uint32_t rows_max)
{
	struct building building = {
		.steps = steps,
		.open = {{MODEL_NONE, MODEL_NONE}, {MODEL_NONE, MODEL_NONE}},
		.wait_from = {MODEL_NONE, MODEL_NONE},
	};

	*steps = (struct steps){
		.model = model, .conn = &model->conns[conn_index], .conn_index = conn_index};
	for (uint32_t i = 0; i < model->item_count && !building.error; i++) {
		const struct item *item = &model->items[i];

		if (item->conn != conn_index)
			continue;
		if (item->kind == ITEM_PACKET)
			build_packet(&building, item);
		else if (item->kind == ITEM_CM)
			build_cm(&building, item);
		else
			build_note(&building, item);
	}
	if (building.error)
		return building.error;
	steps_fold(steps);
	steps_hide(steps, rows_max);
	return 0;
}

void steps_close(struct steps *steps)
{
	free(steps->list);
	steps->list = NULL;
}
