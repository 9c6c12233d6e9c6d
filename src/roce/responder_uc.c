/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/failure_drop.h"
#include "core/queue/qp_error.h"
#include "roce/qp.h"

/*
 * The responder of UC. It sends no replies: a message with an invalid packet is dropped up to the
 * first packet of the next message (IBA 1.x §9.8.2).
 */

static void drop_message(struct roce_qp *rqp)
{
	rqp->rx.is_inside = false;
	inbound_drop(rqp->rx.in);
}

/*
 * A UC packet up to this many PSNs before the expected one is late. With a greater distance the
 * sender has restarted.
 */
#define UNRELIABLE_LATE_PSNS 0x10000

/*
 * UC drops a message that lost a packet; the first packet of a message may have any PSN (IBA 1.x
 * §9.8.2.1). A UDP network may also duplicate and reorder packets, so late packets are dropped.
 */
static bool is_unreliable_in_turn(struct roce_qp *rqp, const struct packet *packet)
{
	int32_t ahead = psn_diff(packet->psn, rqp->rx.psn);

	if (ahead < 0 && ahead > -UNRELIABLE_LATE_PSNS && rqp->rx.has_begun)
		return false;
	if (ahead && rqp->rx.has_begun)
		failure_drop_packet(rqp->qp, IPC_REASON_DROP_SEQUENCE, packet->psn, rqp->rx.psn);
	if (opcode_starts_message(packet->info)) {
		drop_message(rqp);
		rqp->rx.has_begun = true;
		return true;
	}
	if (rqp->rx.is_inside && !ahead && packet->info->is_write == rqp->rx.is_inside_write)
		return true;
	drop_message(rqp);
	return false;
}

static enum roce_counter counter_of_access(enum access_result result)
{
	switch (result) {
	case ACCESS_RNR:
		return ROCE_DROPPED_NO_RECV;
	case ACCESS_LENGTH:
		return ROCE_DROPPED_SIZE;
	case ACCESS_LOCAL:
		return ROCE_DROPPED_BAD_RECV;
	default:
		return ROCE_DROPPED_ACCESS;
	}
}

void responder_take_unreliable(struct roce_qp *rqp, const struct packet *packet)
{
	enum access_result result;

	if (!is_unreliable_in_turn(rqp, packet)) {
		roce_count(rqp->roce, ROCE_DROPPED_SEQUENCE);
		return;
	}
	if (responder_check_size(rqp, packet) != DISPOSITION_ACCEPTED) {
		roce_count(rqp->roce, ROCE_DROPPED_SIZE);
		failure_drop_packet(rqp->qp, IPC_REASON_DROP_SIZE, packet->payload_bytes,
				    rqp->mtu_bytes);
		drop_message(rqp);
		return;
	}
	result = responder_execute_message(rqp, packet);
	if (result == ACCESS_OK)
		return;
	roce_count(rqp->roce, counter_of_access(result));
	/* Only an error of the receive WQE or of an invalidation moves a UC QP to ERROR. */
	if ((result != ACCESS_LENGTH && result != ACCESS_LOCAL && result != ACCESS_INVALIDATE) ||
	    !rqp->rx.in->has_recv) {
		failure_drop_refused(rqp->qp, result);
		drop_message(rqp);
		return;
	}
	inbound_fail(rqp->qp, rqp->rx.in, result);
	qp_enter_error(rqp->qp, QP_NO_EVENT);
}
