/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/cq.h"
#include "core/mw.h"
#include "core/qp.h"
#include "core/sge.h"
#include "core/wq.h"
#include "roce/qp.h"

/*
 * The sending half of a QP. A WQE gets its PSNs when its first packet leaves and keeps them (send_wqe.ssn is the first): a
 * packet is found again from its PSN alone, so going back is setting next_psn. WQEs [una, nxt) are out whole, the one
 * at nxt perhaps in part. They are done strictly in order.
 *
 * A long READ is asked for in pieces. Its responses have the PSNs that they would have had anyway, and no more come at once
 * than the network between was found to carry. Where pieces end never changes: a responder need not answer what is
 * asked for again if it was not asked for so before (IBA 1.x §9.7.5.1.4).
 */

/* Packets that one QP may send before it lets others have their turn. */
#define TURN_PKTS (2u * ROCE_BATCH)
/* An ACK is asked for at the end of each message, and so often inside one. */
#define ACK_REQUEST_PKTS 30u
#define READ_PIECE_PSNS	 30u

enum step {
	STEP_NEXT, /* something left */
	STEP_STOP, /* nothing can, until an answer, a timer or the link's next chance comes */
};

uint32_t roce_requester_wqe_psns(const struct roce_qp *rqp, const struct send_wqe *wqe)
{
	return opcode_is_of_a_word(wqe->opcode) ? 1 : psns_of_bytes(rqp, wqe->length_bytes);
}

void roce_requester_succeed(struct roce_qp *rqp)
{
	struct send_queue *sq = &rqp->qp->sq;

	sq_retire(rqp->qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	/* What needed no answer itself was done long ago, also if its elders are going out again. */
	while (sq->una != sq->head && sq_wqe(sq, sq->una)->state == SEND_WQE_DONE)
		sq_retire(rqp->qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
}

void roce_requester_fail(struct roce_qp *rqp, enum ibv_wc_status status, enum vendor_err vendor_err)
{
	sq_retire(rqp->qp, status, vendor_err);
	qp_enter_send_error(rqp->qp);
}

void roce_requester_go_back(struct roce_qp *rqp)
{
	rqp->tx.next_psn = rqp->tx.una_psn;
	rqp->qp->sq.nxt = rqp->qp->sq.una;
	rqp->tx.reads_tail = rqp->tx.reads_head;
	rqp->tx.unasked_pkts = 0;
	rqp->tx.skips = false;
}

void roce_requester_skip_after(struct roce_qp *rqp, uint32_t psn)
{
	rqp->tx.skips = true;
	rqp->tx.skip_psn = psn;
}

/* The WQE that max_psn lies in or, where it lies between two, the later. */
static uint32_t index_of_max(const struct roce_qp *rqp)
{
	const struct send_queue *sq = &rqp->qp->sq;
	const struct send_wqe *last = sq_wqe(sq, sq->begun - 1);

	if (sq->begun == sq->una ||
	    psn_add(last->ssn, roce_requester_wqe_psns(rqp, last)) == rqp->tx.max_psn)
		return sq->begun;
	return sq->begun - 1;
}

static void skip(struct roce_qp *rqp)
{
	if (!rqp->tx.skips || psn_is_before(rqp->tx.next_psn, rqp->tx.skip_psn))
		return;
	rqp->tx.skips = false;
	rqp->tx.next_psn = rqp->tx.max_psn;
	rqp->qp->sq.nxt = index_of_max(rqp);
}

void roce_requester_moved_on(struct roce_qp *rqp)
{
	/* What was to go again has arrived after all. */
	if (psn_is_before(rqp->tx.next_psn, rqp->tx.una_psn))
		rqp->tx.next_psn = rqp->tx.una_psn;
	skip(rqp);
	/* Long gone, it would some day look like one to come. */
	if (!roce_requester_has_reads_out(rqp))
		rqp->tx.reads_end_psn = rqp->tx.una_psn;
	while (rqp->tx.reads_tail != rqp->tx.reads_head &&
	       !psn_is_after(rqp->tx.read_ends[rqp->tx.reads_tail % MAX_RD_ATOMIC],
			     rqp->tx.una_psn))
		rqp->tx.reads_tail++;
}

static uint32_t reads_out(const struct roce_qp *rqp)
{
	return rqp->tx.reads_head - rqp->tx.reads_tail;
}

/* Also of those that were out and are to go again. */
bool roce_requester_has_reads_out(const struct roce_qp *rqp)
{
	return psn_is_after(rqp->tx.reads_end_psn, rqp->tx.una_psn);
}

/* UC is done with what the link has, or what was copied for it: only then may the application have its memory back. */
static void retire_unreliable(struct roce_qp *rqp)
{
	struct send_queue *sq = &rqp->qp->sq;

	batch_flush(rqp->roce);
	while (sq->una != sq->nxt)
		roce_requester_succeed(rqp);
	rqp->tx.una_psn = rqp->tx.next_psn;
}

/* A WQE that is not the oldest failed by itself: its elders are with the peer still. It waits until they are answered. */
static enum step fail_in_turn(struct roce_qp *rqp, enum ibv_wc_status status,
			      enum vendor_err vendor_err)
{
	if (!is_reliable(rqp))
		retire_unreliable(rqp);
	if (rqp->qp->sq.una == rqp->qp->sq.nxt)
		roce_requester_fail(rqp, status, vendor_err);
	return STEP_STOP;
}

/* The packets [next_psn, next_psn + psns) are on their way. */
static void sent(struct roce_qp *rqp, const struct send_wqe *wqe, uint32_t psns, bool wants_ack)
{
	uint32_t psn = rqp->tx.next_psn;
	uint32_t end_psn = psn_add(wqe->ssn, roce_requester_wqe_psns(rqp, wqe));
	bool is_new = !psn_is_before(psn, rqp->tx.max_psn);

	rqp->tx.next_psn = psn_add(psn, psns);
	if (is_new)
		batch_note(rqp, psn);
	else
		roce_count(rqp->roce, ROCE_PACKETS_RESENT);
	if (psn_is_after(rqp->tx.next_psn, rqp->tx.max_psn))
		rqp->tx.max_psn = rqp->tx.next_psn;
	rqp->tx.unasked_pkts = wants_ack ? 0 : rqp->tx.unasked_pkts + 1;
	if (rqp->tx.next_psn == end_psn)
		rqp->qp->sq.nxt++;
	if (is_reliable(rqp))
		retry_sent(rqp, psn, wants_ack && is_new);
	skip(rqp);
}

static void fill_message(const struct send_wqe *wqe, bool starts, bool ends,
			 enum opcode_transport transport, struct packet *packet)
{
	switch (wqe->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		packet->opcode = opcode_of_write(transport, starts, ends,
						 wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
		packet->va = wqe->remote_addr;
		packet->rkey = wqe->rkey;
		packet->dma_length_bytes = wqe->length_bytes;
		break;
	case IBV_WR_SEND_WITH_IMM:
		packet->opcode = opcode_of_send(transport, starts, ends, OPCODE_WITH_IMM);
		break;
	case IBV_WR_SEND_WITH_INV:
		packet->opcode = opcode_of_send(transport, starts, ends, OPCODE_WITH_INV);
		packet->inv_rkey = wqe->imm_data_be;
		break;
	default:
		packet->opcode = opcode_of_send(transport, starts, ends, OPCODE_PLAIN);
		break;
	}
	packet->imm_be = wqe->imm_data_be;
	packet->is_solicited = ends && (wqe->send_flags & IBV_SEND_SOLICITED);
}

/* The next packet of a SEND or WRITE. */
static enum step step_message(struct roce_qp *rqp, struct send_wqe *wqe, struct roce_slot *slot)
{
	uint32_t at = psn_sub(rqp->tx.next_psn, wqe->ssn) * rqp->mtu_bytes;
	uint32_t left = wqe->length_bytes - at;
	uint32_t bytes = left < rqp->mtu_bytes ? left : rqp->mtu_bytes;
	struct packet packet = {.psn = rqp->tx.next_psn, .xrc_srqn = wqe->remote_srqn};
	bool ends = bytes == left;
	uint32_t covered;
	int iovs = bytes ? sge_gather(rqp->qp, wqe, at, bytes, false, slot->iov, MAX_SGE,
				      &covered) :
			   0;

	if (iovs < 0)
		return fail_in_turn(rqp, IBV_WC_LOC_PROT_ERR, (enum vendor_err) - iovs);
	fill_message(wqe, at == 0, ends, service_of(rqp), &packet);
	packet.wants_ack = is_reliable(rqp) &&
			   (ends || rqp->tx.unasked_pkts + 1 >= ACK_REQUEST_PKTS ||
			    retry_room(rqp) == 1 ||
			    (rqp->tx.skips && psn_next(packet.psn) == rqp->tx.skip_psn));
	batch_commit(rqp, &packet, iovs);
	sent(rqp, wqe, 1, packet.wants_ack);
	return STEP_NEXT;
}

static void note_read(struct roce_qp *rqp, uint32_t end_psn)
{
	rqp->tx.read_ends[rqp->tx.reads_head++ % MAX_RD_ATOMIC] = end_psn;
	if (psn_is_after(end_psn, rqp->tx.reads_end_psn))
		rqp->tx.reads_end_psn = end_psn;
}

/* Asks for the next piece of a READ, or, if its responses were lost, for what is missing. */
static enum step step_read(struct roce_qp *rqp, struct send_wqe *wqe)
{
	uint32_t done_psns = psn_sub(rqp->tx.next_psn, wqe->ssn);
	uint32_t at = done_psns * rqp->mtu_bytes;
	uint32_t psns = roce_requester_wqe_psns(rqp, wqe) - done_psns;
	uint32_t piece_psns = READ_PIECE_PSNS - done_psns % READ_PIECE_PSNS;
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp), OPCODE_READ_REQUEST),
		.psn = rqp->tx.next_psn,
		.xrc_srqn = wqe->remote_srqn,
		.wants_ack = true,
		.va = wqe->remote_addr + at,
		.rkey = wqe->rkey,
		.dma_length_bytes = wqe->length_bytes - at,
	};

	if (piece_psns < psns) {
		psns = piece_psns;
		packet.dma_length_bytes = psns * rqp->mtu_bytes;
	}
	/* Rather a whole piece a little later than a sliver now. */
	if (psns > retry_room(rqp) && rqp->tx.next_psn != rqp->tx.una_psn)
		return STEP_STOP;
	batch_commit(rqp, &packet, 0);
	note_read(rqp, psn_add(rqp->tx.next_psn, psns));
	sent(rqp, wqe, psns, true);
	return STEP_NEXT;
}

/* A request of one packet that has an answer of its own. */
static enum step commit_one(struct roce_qp *rqp, const struct send_wqe *wqe, struct packet *packet,
			    int iovs)
{
	batch_commit(rqp, packet, iovs);
	note_read(rqp, psn_next(rqp->tx.next_psn));
	sent(rqp, wqe, 1, true);
	return STEP_NEXT;
}

static enum step step_atomic(struct roce_qp *rqp, struct send_wqe *wqe)
{
	bool is_cas = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp),
				      is_cas ? OPCODE_COMPARE_SWAP : OPCODE_FETCH_ADD),
		.psn = rqp->tx.next_psn,
		.xrc_srqn = wqe->remote_srqn,
		.wants_ack = true,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.swap_or_add = is_cas ? wqe->swap : wqe->compare_add,
		.compare = is_cas ? wqe->compare_add : 0,
	};

	return commit_one(rqp, wqe, &packet, 0);
}

static enum step step_atomic_write(struct roce_qp *rqp, struct send_wqe *wqe,
				   struct roce_slot *slot)
{
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp), OPCODE_ATOMIC_WRITE),
		.psn = rqp->tx.next_psn,
		.wants_ack = true,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.dma_length_bytes = wqe->length_bytes,
	};
	uint32_t covered;
	int iovs = sge_gather(rqp->qp, wqe, 0, wqe->length_bytes, false, slot->iov, MAX_SGE,
			      &covered);

	if (iovs < 0)
		return fail_in_turn(rqp, IBV_WC_LOC_PROT_ERR, (enum vendor_err) - iovs);
	return commit_one(rqp, wqe, &packet, iovs);
}

static enum step step_flush(struct roce_qp *rqp, struct send_wqe *wqe)
{
	struct packet packet = {
		.opcode = opcode_make(service_of(rqp), OPCODE_FLUSH),
		.psn = rqp->tx.next_psn,
		.wants_ack = true,
		.flush_types = wqe->flush_types,
		.flush_level = wqe->flush_level,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.dma_length_bytes = (uint32_t)wqe->flush_length_bytes,
	};

	return commit_one(rqp, wqe, &packet, 0);
}

/* The WQE's own faults, found before anything leaves. */
static enum ibv_wc_status check_wqe(const struct send_wqe *wqe, enum vendor_err *vendor_err)
{
	if (wqe->length_bytes > MAX_MSG_BYTES ||
	    (opcode_is_of_a_word(wqe->opcode) && wqe->length_bytes != sizeof(uint64_t))) {
		*vendor_err = VENDOR_ERR_MSG_LENGTH;
		return IBV_WC_LOC_LEN_ERR;
	}
	return IBV_WC_SUCCESS;
}

static void begin(struct roce_qp *rqp, struct send_wqe *wqe)
{
	struct send_queue *sq = &rqp->qp->sq;

	if (wqe->state == SEND_WQE_POSTED) {
		wqe->ssn = rqp->tx.next_psn;
		wqe->state = SEND_WQE_SENT;
	}
	if ((int32_t)(sq->begun - sq->nxt) <= 0)
		sq->begun = sq->nxt + 1;
}

/* Takes effect when its turn comes, once, and is done when its elders are. It has no PSN. */
static enum step step_local(struct roce_qp *rqp, struct send_wqe *wqe)
{
	struct send_queue *sq = &rqp->qp->sq;
	enum vendor_err vendor_err = VENDOR_ERR_NONE;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	if (wqe->state != SEND_WQE_DONE)
		status = mw_execute(rqp->qp, wqe, &vendor_err);
	if (status != IBV_WC_SUCCESS)
		return fail_in_turn(rqp, status, vendor_err);
	wqe->state = SEND_WQE_DONE;
	sq->nxt++;
	/* A queue that is drained meanwhile stops here, and not behind what nobody posted. */
	if ((int32_t)(sq->begun - sq->nxt) < 0)
		sq->begun = sq->nxt;
	if (is_reliable(rqp) && sq->una + 1 == sq->nxt)
		roce_requester_succeed(rqp);
	return STEP_NEXT;
}

static enum step step(struct roce_qp *rqp, struct send_wqe *wqe)
{
	enum vendor_err vendor_err = VENDOR_ERR_NONE;
	enum ibv_wc_status status;
	struct roce_slot *slot;

	if ((wqe->send_flags & IBV_SEND_FENCE) && wqe->state == SEND_WQE_POSTED && reads_out(rqp))
		return STEP_STOP;
	status = check_wqe(wqe, &vendor_err);
	if (status != IBV_WC_SUCCESS)
		return fail_in_turn(rqp, status, vendor_err);
	if (opcode_is_local(wqe->opcode))
		return step_local(rqp, wqe);
	if (is_reliable(rqp) && !retry_room(rqp))
		return STEP_STOP;
	if (opcode_is_answered(wqe->opcode) && reads_out(rqp) >= answered_in_flight_max(rqp->qp))
		return STEP_STOP;
	slot = batch_reserve(rqp->roce);
	if (!slot) {
		roce_send_later(rqp);
		return STEP_STOP;
	}
	begin(rqp, wqe);
	switch (wqe->opcode) {
	case IBV_WR_RDMA_READ:
		return step_read(rqp, wqe);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return step_atomic(rqp, wqe);
	case IBV_WR_ATOMIC_WRITE:
		return step_atomic_write(rqp, wqe, slot);
	case IBV_WR_FLUSH:
		return step_flush(rqp, wqe);
	default:
		return step_message(rqp, wqe, slot);
	}
}

/* Up to where WQEs may be sent: a queue that is being drained only ends what was begun (IBA 1.x §10.3.1.5). */
static uint32_t sendable_end(const struct qp *qp)
{
	if (qp->state == IBV_QPS_RTS)
		return qp->sq.head;
	return qp->state == IBV_QPS_SQD ? qp->sq.begun : qp->sq.nxt;
}

void roce_requester_run(struct roce_qp *rqp)
{
	struct qp *qp = rqp->qp;
	struct send_queue *sq = &qp->sq;
	uint32_t budget = TURN_PKTS;

	list_del(&rqp->send_node);
	while (sq->nxt != sendable_end(qp) && !rqp->tx.is_waiting_rnr) {
		if (!budget--) {
			roce_send_later(rqp);
			break;
		}
		if (step(rqp, sq_wqe(sq, sq->nxt)) == STEP_STOP)
			break;
	}
	if (!is_reliable(rqp) && (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD))
		retire_unreliable(rqp);
	qp_check_drained(qp);
}
