/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/object/opcode.h"
#include "names.h"
#include "wire/cm_msg.h"
#include "wire/line.h"
#include "wire/packet.h"

#define NS_PER_US 1000.0
#define NS_PER_MS 1000000.0
#define NS_PER_S  1000000000.0
#define DOT	  " \302\267 " /* U+00B7 with spaces */

const char *text_of_count(char out[NUMBER_BYTES], uint64_t count)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	int to = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[to++] = ',';
		out[to++] = digits[i];
	}
	out[to] = '\0';
	return out;
}

const char *text_of_time(char out[NUMBER_BYTES], uint64_t time_ns)
{
	double ns = (double)time_ns;

	if (ns < NS_PER_US)
		snprintf(out, NUMBER_BYTES, "%.0f ns", ns);
	else if (ns < NS_PER_MS)
		snprintf(out, NUMBER_BYTES, "%.*f \302\265s", ns < 100 * NS_PER_US ? 1 : 0,
			 ns / NS_PER_US);
	else if (ns < NS_PER_S)
		snprintf(out, NUMBER_BYTES, "%.*f ms", ns < 10 * NS_PER_MS ? 2 : 1, ns / NS_PER_MS);
	else
		snprintf(out, NUMBER_BYTES, "%.*f s", ns < 100 * NS_PER_S ? 2 : 0, ns / NS_PER_S);
	return out;
}

const char *text_of_moment(char out[NUMBER_BYTES], uint64_t time_ns)
{
	double ns = (double)time_ns;

	if (!time_ns)
		strcpy(out, "0");
	else if (ns < NS_PER_MS)
		snprintf(out, NUMBER_BYTES, "%.1f \302\265s", ns / NS_PER_US);
	else if (ns < NS_PER_S)
		snprintf(out, NUMBER_BYTES, "%.3f ms", ns / NS_PER_MS);
	else
		snprintf(out, NUMBER_BYTES, "%.4f s", ns / NS_PER_S);
	return out;
}

const char *text_of_bytes(char out[NUMBER_BYTES], uint64_t bytes)
{
	double value = (double)bytes;

	if (bytes < 100000) {
		char count[NUMBER_BYTES];

		snprintf(out, NUMBER_BYTES, "%.20s bytes", text_of_count(count, bytes));
	} else if (value < 1e6) {
		snprintf(out, NUMBER_BYTES, "%.1f kB", value / 1e3);
	} else if (value < 1e9) {
		snprintf(out, NUMBER_BYTES, "%.1f MB", value / 1e6);
	} else {
		snprintf(out, NUMBER_BYTES, "%.1f GB", value / 1e9);
	}
	return out;
}

static const struct item *item_of(const struct steps *steps, const struct step *step)
{
	return &steps->model->items[step->item];
}

/* The name of a request or response, without its length. */
static const char *operation_name(const struct opcode_info *info, uint8_t opcode)
{
	int request = info->is_request ? wr_opcode_of_operation(opcode_operation_of(opcode)) : -1;

	if (info->transport == OPCODE_TRANSPORT_CNP)
		return "congestion notification";
	if (request >= 0)
		return wr_title((unsigned int)request);
	if (info->is_atomic)
		return "ATOMIC response";
	if (info->is_read)
		return "READ response";
	if (info->is_write)
		return "RDMA WRITE";
	if (info->is_send)
		return info->transport == OPCODE_TRANSPORT_UD ? "UD SEND" : "SEND";
	return "ACK";
}

static void add_ack(struct line *line, const struct item_packet *packet)
{
	unsigned code = aeth_code(packet->syndrome);
	char wait[NUMBER_BYTES];

	switch (aeth_kind(packet->syndrome)) {
	case AETH_KIND_RNR_NAK:
		line_add(line, "RNR NAK: wait %s", text_of_time(wait, aeth_rnr_wait_ns(code)));
		return;
	case AETH_KIND_NAK:
		line_add(line, "NAK: %s", aeth_nak_name(code));
		return;
	case AETH_KIND_ACK:
		line_add(line, "ACK");
		return;
	case AETH_KIND_RESERVED:
		line_add(line, "ACK with reserved syndrome");
		return;
	}
}

static void add_packet_label(struct line *line, const struct item *item, const struct step *step)
{
	const struct opcode_info *info = opcode_info(item->packet.opcode);
	char bytes[NUMBER_BYTES];

	if (info->is_ack && !info->is_atomic) {
		add_ack(line, &item->packet);
		return;
	}
	line_add(line, "%s", operation_name(info, item->packet.opcode));
	if (info->transport == OPCODE_TRANSPORT_CNP || info->is_atomic)
		return;
	line_add(line, " %s", text_of_bytes(bytes, step->bytes));
	if ((!info->is_only && (info->is_middle || info->is_last)) || item->flags & ITEM_CONTINUED)
		line_add(line, " (continued)");
	else if (!step->is_complete)
		line_add(line, " (first part)");
}

static void add_service(struct line *line, uint64_t service_id)
{
	/* IBA A11 §1: the service IDs of rdma_cm contain the protocol and the port. */
	if (service_id >> 24 == 1)
		line_add(line, DOT "port %u", (unsigned)(service_id & 0xffff));
	else
		line_add(line, DOT "service ID 0x%" PRIx64, service_id);
}

static void add_cm_label(struct line *line, const struct item_cm *cm)
{
	const char *reason;

	line_add(line, "CM %s", cm_msg_name((enum cm_msg_type)cm->type));
	if (cm->type == CM_MSG_SIDR_REP && cm->reason != CM_SIDR_VALID) {
		line_add(line, ": status %u", cm->reason);
	} else if (cm->type == CM_MSG_REJ) {
		reason = cm_rej_reason_name(cm->reason);
		line_add(line, ": ");
		if (reason)
			line_add_words(line, reason);
		else
			line_add(line, "reason %u", cm->reason);
	}
}

static void add_cm_detail(struct line *line, const struct item_cm *cm)
{
	switch (cm->type) {
	case CM_MSG_REQ:
		line_add(line, "QPN 0x%x" DOT "PSN %u", cm->qpn, cm->psn);
		add_service(line, cm->service_id);
		return;
	case CM_MSG_SIDR_REQ:
		line_add(line, "request %u", cm->local_comm_id);
		add_service(line, cm->service_id);
		return;
	case CM_MSG_REP:
		line_add(line, "QPN 0x%x" DOT "PSN %u", cm->qpn, cm->psn);
		return;
	case CM_MSG_SIDR_REP:
		if (cm->qpn)
			line_add(line, "QPN 0x%x", cm->qpn);
		return;
	case CM_MSG_REJ:
		line_add(line, "reason %u", cm->reason);
		return;
	default:
		return;
	}
}

static void add_packet_detail(struct line *line, const struct item *item, const struct step *step)
{
	const struct item_packet *packet = &item->packet;
	const struct opcode_info *info = opcode_info(packet->opcode);
	char rtt[NUMBER_BYTES];

	if (info->transport == OPCODE_TRANSPORT_CNP)
		return;
	line_add(line, "PSN %u", packet->psn);
	if (step->packets > 1)
		line_add(line, " to %u" DOT "%u packets", step->last_psn, step->packets);
	if (info->has_reth || info->has_atomic_eth)
		line_add(line, DOT "rkey 0x%x", packet->rkey);
	if (info->has_imm)
		line_add(line, DOT "immediate 0x%x", packet->imm);
	if (item->rtt_ns && info->is_ack)
		line_add(line, DOT "after %s", text_of_time(rtt, item->rtt_ns));
	if (item->flags & ITEM_DUPLICATE_ACK)
		line_add(line, DOT "repeated");
	if (item->flags & ITEM_AFTER_GAP)
		line_add(line, DOT "after a gap of %u PSN%s", packet->missing,
			 packet->missing == 1 ? "" : "s");
	if (item->flags & ITEM_OUT_OF_ORDER)
		line_add(line, DOT "out of order");
	if (packet->is_ahead)
		line_add(line, DOT "sent ahead");
	if (item->flags & ITEM_LOST)
		line_add(line, DOT "did not arrive");
}

static void add_note_label(const struct steps *steps, struct line *line, const struct item *item)
{
	const struct item_note *note = &item->note;

	switch (item->kind) {
	case ITEM_POST:
		line_add(line, "post %s", wr_title(note->opcode));
		return;
	case ITEM_COMPLETION:
		if (note->status)
			line_add(line, "%s", name_of_wc_status(note->status));
		else
			line_add(line, "%s complete",
				 wr_title_of_wc((enum ibv_wc_opcode)note->opcode));
		return;
	case ITEM_QP_STATE:
		line_add(line, "QP %s", name_of_qp_state(note->status));
		return;
	case ITEM_CM_EVENT:
		line_add(line, "%s", name_of_cm_event(note->status));
		return;
	case ITEM_ASYNC_EVENT:
		line_add(line, "event: %s", name_of_async_event(note->status));
		return;
	case ITEM_CALL_FAILED:
		line_add(line, "%.32s: %s", model_text(steps->model, note->text),
			 name_of_errno(note->error));
		return;
	case ITEM_DROP:
		line_add(line, "dropped: %.48s", model_text(steps->model, note->text));
		return;
	case ITEM_FAULT:
		line_add(line, "injected fault: %s", name_of_fault_action(note->opcode));
		return;
	default:
		return;
	}
}

static void add_note_detail(struct line *line, const struct item *item)
{
	const struct item_note *note = &item->note;
	char text[NUMBER_BYTES];

	switch (item->kind) {
	case ITEM_POST:
		line_add(line, "WR %" PRIu64, note->wr_id);
		return;
	case ITEM_COMPLETION:
		line_add(line, "WR %" PRIu64, note->wr_id);
		if (note->bytes && !note->status)
			line_add(line, DOT "%s", text_of_bytes(text, note->bytes));
		if (note->vendor_err)
			line_add(line, DOT "vendor error %u", note->vendor_err);
		return;
	case ITEM_QP_STATE:
		line_add(line, "from %s", name_of_qp_state(note->opcode));
		return;
	case ITEM_CM_EVENT:
		if (note->error)
			line_add(line, "status %d", note->error);
		return;
	case ITEM_DROP:
		line_add(line, "PSN %u", note->psn);
		return;
	case ITEM_FAULT:
		line_add(line, "%s", name_of_fault_point(note->status));
		return;
	default:
		return;
	}
}

void step_label(const struct steps *steps, const struct step *step, char out[STEP_TEXT_BYTES])
{
	struct line line = {.out = out, .room = STEP_TEXT_BYTES};
	const struct item *item = item_of(steps, step);

	out[0] = '\0';
	if (item->kind == ITEM_PACKET)
		add_packet_label(&line, item, step);
	else if (item->kind == ITEM_CM)
		add_cm_label(&line, &item->cm);
	else
		add_note_label(steps, &line, item);
}

void step_detail(const struct steps *steps, const struct step *step, char out[STEP_TEXT_BYTES])
{
	struct line line = {.out = out, .room = STEP_TEXT_BYTES};
	const struct item *item = item_of(steps, step);

	out[0] = '\0';
	if (item->kind == ITEM_PACKET)
		add_packet_detail(&line, item, step);
	else if (item->kind == ITEM_CM)
		add_cm_detail(&line, &item->cm);
	else
		add_note_detail(&line, item);
}

void step_fold_label(const struct steps *steps, uint32_t index, char out[STEP_TEXT_BYTES])
{
	struct line line = {.out = out, .room = STEP_TEXT_BYTES};
	const struct step *fold = &steps->list[index];
	char label[STEP_TEXT_BYTES], count[NUMBER_BYTES];

	out[0] = '\0';
	if (fold->hidden) {
		line_add(&line, "%s rows are not shown", text_of_count(count, fold->hidden));
		return;
	}
	line_add(&line, "%s more times ", text_of_count(count, fold->repeats));
	for (uint32_t i = index - fold->period, shown = 0; i < index; i++) {
		if (steps->list[i].kind != STEP_ARROW && fold->period > 2)
			continue;
		if (shown == 3) {
			line_add(&line, ", \342\200\246");
			break;
		}
		step_label(steps, &steps->list[i], label);
		line_add(&line, "%s%s%s", shown++ ? ", " : "",
			 steps->list[i].kind != STEP_ARROW ? "" :
			 steps->list[i].side		   ? "\342\206\220 " :
							     "\342\206\222 ",
			 label);
	}
}

const char *step_style_name(enum step_style style)
{
	static const char *const names[STYLE_COUNT] = {
		[STYLE_CM] = "connection",	  [STYLE_MESSAGE] = "SEND, WRITE",
		[STYLE_READ] = "READ, atomic",	  [STYLE_ACK] = "ACK",
		[STYLE_AGAIN] = "retransmission", [STYLE_RNR] = "RNR NAK",
		[STYLE_ERROR] = "error",	  [STYLE_LOST] = "lost",
		[STYLE_DONE] = "completion",	  [STYLE_INFO] = "event",
		[STYLE_FAULT] = "injected fault",
	};

	return names[style];
}
