/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp/xrc_forward_msg.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/qp/qp.h"
#include "wire/grh.h"
#include "wire/psn.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* QPNs and PSNs have 24 bits. */
#define QPN_MAX PSN_MASK

static bool attach_is_legal(const struct xrc_forward_msg *msg)
{
	const struct xrc_forward_attach *attach = &msg->attach;

	return attach->domain_id && attach->remote_qpn <= QPN_MAX &&
	       attach->path_mtu >= IBV_MTU_256 && attach->path_mtu <= IBV_MTU_4096 &&
	       attach->max_dest_rd_atomic <= MAX_RD_ATOMIC &&
	       attach->min_rnr_timer <= RNR_TIMER_MAX && attach->flow_label <= GRH_FLOW_LABEL_MAX &&
	       !attach->reserved[0] && !attach->reserved[1];
}

static bool request_is_legal(const struct xrc_forward_msg *msg)
{
	const struct opcode_info *info = msg->request.packet.info;

	return msg->request.msn <= PSN_MASK && !msg->request.reserved &&
	       info->transport == OPCODE_TRANSPORT_XRC && info->is_request && info->has_xrceth;
}

static bool report_is_legal(const struct xrc_forward_msg *msg)
{
	const struct xrc_forward_report *report = &msg->report;

	return report->psn <= PSN_MASK && report->msn <= PSN_MASK && report->is_inside <= 1 &&
	       !report->reserved[0] && !report->reserved[1] && !report->reserved[2];
}

static bool open_is_legal(const struct xrc_forward_msg *msg)
{
	return msg->open.domain_id && !msg->open.reserved;
}

static bool result_is_legal(const struct xrc_forward_msg *msg)
{
	return msg->result.error <= INT16_MAX;
}

static bool event_is_legal(const struct xrc_forward_msg *msg)
{
	switch (msg->event.event) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

/*
 * The process that sends a message: the target QP process, or the other process, which sends to it.
 */
enum sender {
	SENDER_TARGET,
	SENDER_OTHER,
};

static const struct type_row {
	const char *name;
	enum sender sender;
	bool has_packet;
	uint32_t body_bytes;
	bool (*is_legal)(const struct xrc_forward_msg *msg); /* NULL: any value of its fields is */
} rows[] = {
	[XRC_FORWARD_ATTACH] = {"attach", SENDER_TARGET, false, sizeof(struct xrc_forward_attach),
				attach_is_legal},
	[XRC_FORWARD_REQUEST] = {"request", SENDER_TARGET, true,
				 offsetof(struct xrc_forward_request, packet), request_is_legal},
	[XRC_FORWARD_REPLAY] = {"replay", SENDER_TARGET, true,
				offsetof(struct xrc_forward_request, packet), request_is_legal},
	[XRC_FORWARD_DETACH] = {"detach", SENDER_TARGET, false, 0, NULL},
	[XRC_FORWARD_REPORT] = {"report", SENDER_OTHER, false, sizeof(struct xrc_forward_report),
				report_is_legal},
	[XRC_REMOTE_OPEN] = {"open", SENDER_OTHER, false, sizeof(struct xrc_remote_open),
			     open_is_legal},
	[XRC_REMOTE_CLOSE] = {"close", SENDER_OTHER, false, sizeof(struct xrc_remote_operation),
			      NULL},
	[XRC_REMOTE_QUERY] = {"query", SENDER_OTHER, false, sizeof(struct xrc_remote_operation),
			      NULL},
	[XRC_REMOTE_MODIFY] = {"modify", SENDER_OTHER, false, sizeof(struct xrc_remote_modify),
			       NULL},
	[XRC_REMOTE_RESULT] = {"result", SENDER_TARGET, false, sizeof(struct xrc_remote_result),
			       result_is_legal},
	[XRC_REMOTE_EVENT] = {"event", SENDER_TARGET, false, sizeof(struct xrc_remote_event),
			      event_is_legal},
};
static_assert(COUNT(rows) == XRC_FORWARD_TYPE_COUNT, "every type has a row");

/* All members of the union begin at the address of the first. */
#define BODY_OFFSET offsetof(struct xrc_forward_msg, attach)

void xrc_forward_encode(const struct xrc_forward_msg *msg, struct xrc_forward_frame *frame)
{
	const struct type_row *row = &rows[msg->type];
	const uint32_t hdr[] = {msg->type, msg->qpn};
	size_t len = sizeof(hdr) + row->body_bytes;
	const struct packet *packet;

	static_assert(sizeof(hdr) == XRC_FORWARD_HDR_BYTES, "the header is the type and the QPN");
	memcpy(frame->head, hdr, sizeof(hdr));
	memcpy(frame->head + sizeof(hdr), (const uint8_t *)msg + BODY_OFFSET, row->body_bytes);
	frame->count = 1;
	if (row->has_packet) {
		/*
		 * The packet is sent unchanged, except for the ICRC, which the sender has verified.
		 */
		packet = &msg->request.packet;
		len += packet_build_headers(packet, frame->head + len);
		frame->pieces[1] = (struct iovec){
			.iov_base = (void *)(uintptr_t)packet->payload,
			.iov_len = packet->payload_bytes,
		};
		frame->pieces[2] = (struct iovec){
			.iov_base = frame->trailer,
			.iov_len = packet_build_trailer(packet->payload_bytes, 0, frame->trailer),
		};
		frame->count = XRC_FORWARD_PIECES;
	}
	frame->pieces[0] = (struct iovec){.iov_base = frame->head, .iov_len = len};
}

int xrc_forward_decode(struct xrc_forward_msg *msg, const uint8_t *bytes, uint32_t len,
		       uint32_t from_slot, uint32_t to_slot)
{
	const struct type_row *row;
	uint32_t hdr[2], fixed;

	if (len < sizeof(hdr))
		return -EBADMSG;
	memcpy(hdr, bytes, sizeof(hdr));
	if (hdr[0] >= COUNT(rows) || !rows[hdr[0]].name || hdr[1] > QPN_MAX)
		return -EBADMSG;
	row = &rows[hdr[0]];
	fixed = (uint32_t)sizeof(hdr) + row->body_bytes;
	if (row->has_packet ? len <= fixed : len != fixed)
		return -EBADMSG;
	if (xrc_slot_of(hdr[1]) != (row->sender == SENDER_TARGET ? from_slot : to_slot))
		return -EBADMSG;
	msg->type = (enum xrc_forward_type)hdr[0];
	msg->qpn = hdr[1];
	memcpy((uint8_t *)msg + BODY_OFFSET, bytes + sizeof(hdr), row->body_bytes);
	if (row->has_packet &&
	    packet_parse(&msg->request.packet, bytes + fixed, len - fixed) != PACKET_OK)
		return -EBADMSG;
	return !row->is_legal || row->is_legal(msg) ? 0 : -EBADMSG;
}

const char *xrc_forward_type_name(enum xrc_forward_type type)
{
	return (unsigned int)type < COUNT(rows) && rows[type].name ? rows[type].name : "?";
}
