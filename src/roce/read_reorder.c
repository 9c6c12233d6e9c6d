/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/opcode.h"
#include "core/qp/qp.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "roce/qp.h"

/*
 * READ responses that arrive ahead of their turn (docs/adr/0062): their data is stored in its
 * place, and their PSNs are kept. As in reorder.c, they must come from the UDP source port of the
 * response before them, so that the PSN alone need not be guessed.
 */

static uint64_t *read_reorder_word(struct roce_qp *rqp, uint32_t psn)
{
	return &rqp->tx.read_reorder.psns[psn % REORDER_PSNS / 64];
}

static uint64_t read_reorder_bit(uint32_t psn)
{
	return UINT64_C(1) << psn % 64;
}

bool read_reorder_has(struct roce_qp *rqp, uint32_t psn)
{
	return rqp->tx.read_reorder.count && *read_reorder_word(rqp, psn) & read_reorder_bit(psn);
}

void read_reorder_forget(struct roce_qp *rqp, uint32_t first_psn, uint32_t end_psn)
{
	for (uint32_t psn = first_psn; psn != end_psn && rqp->tx.read_reorder.count;
	     psn = psn_next(psn)) {
		if (!read_reorder_has(rqp, psn))
			continue;
		*read_reorder_word(rqp, psn) &= ~read_reorder_bit(psn);
		rqp->tx.read_reorder.count--;
	}
}

/* The READ whose response has this PSN, which is in flight, or NULL. */
static struct send_wqe *read_reorder_wqe_of(struct roce_qp *rqp, uint32_t psn)
{
	const struct send_queue *sq = &rqp->qp->sq;
	uint32_t first = rqp->tx.read_reorder.last_wqe;

	/* Responses mostly arrive in the order of their WQEs. */
	if (first - sq->una >= sq->begun - sq->una ||
	    psn_is_before(psn, sq_wqe(sq, first)->first_psn))
		first = sq->una;
	for (uint32_t i = first; i != sq->begun; i++) {
		struct send_wqe *wqe = sq_wqe(sq, i);

		if (wqe_info(wqe)->response != WR_RESPONSE_READ || wqe->state != SEND_WQE_SENT ||
		    psn_sub(psn, wqe->first_psn) >= roce_requester_wqe_psns(rqp, wqe))
			continue;
		rqp->tx.read_reorder.last_wqe = i;
		return wqe;
	}
	return NULL;
}

void read_reorder_add(struct roce_qp *rqp, const struct packet *packet)
{
	struct send_wqe *wqe = read_reorder_wqe_of(rqp, packet->psn);
	uint32_t at = wqe ? psn_sub(packet->psn, wqe->first_psn) * rqp->mtu_bytes : 0;

	if (!wqe || !packet->info->is_read ||
	    !reorder_is_flow(rqp, rqp->tx.read_reorder.flow_port) ||
	    psn_sub(packet->psn, rqp->tx.una_psn) >= REORDER_PSNS ||
	    packet->payload_bytes != read_response_bytes(rqp, wqe, at) ||
	    read_reorder_has(rqp, packet->psn) ||
	    sge_copy_to(rqp->qp, wqe, at, packet->payload, (uint32_t)packet->payload_bytes)) {
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		return;
	}
	roce_count(rqp->roce, ROCE_RECEIVED_AHEAD);
	if (!rqp->tx.read_reorder.count ||
	    psn_is_after(psn_next(packet->psn), rqp->tx.read_reorder.end_psn))
		rqp->tx.read_reorder.end_psn = psn_next(packet->psn);
	*read_reorder_word(rqp, packet->psn) |= read_reorder_bit(packet->psn);
	rqp->tx.read_reorder.count++;
}
