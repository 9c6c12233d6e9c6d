/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "local/local.h"

/*
 * The responder's answers. What a QP owes is kept in the QP, so a full ring delays answers and loses none, and acks
 * that pile up become one.
 */

static struct cell *reserve(struct peer *peer, enum cell_type type, uint32_t dst_qpn,
			    uint32_t src_qpn, uint32_t ssn, uint32_t far_bytes, uint8_t **far)
{
	struct cell *cell = far_bytes ? peer_reserve(peer, far_bytes, far) :
					ring_reserve(&peer->tx, 0, far);

	if (!cell)
		return NULL;
	cell->type = (uint8_t)type;
	cell->bytes = 0;
	cell->dst_qpn = dst_qpn;
	cell->src_qpn = src_qpn;
	cell->ssn = ssn;
	cell->length = 0;
	cell->imm_or_code = 0;
	return cell;
}

static void commit(struct peer *peer, struct cell *cell)
{
	ring_commit(&peer->tx, cell);
	peer->has_sent = true;
}

static bool send_short(struct local_qp *lqp, enum cell_type type, uint32_t ssn, uint32_t code)
{
	struct cell *cell = reserve(lqp->peer, type, lqp->qp->attr.dest_qp_num, lqp->qp->qpn, ssn,
				    0, NULL);

	if (!cell)
		return false;
	cell->imm_or_code = code;
	commit(lqp->peer, cell);
	return true;
}

static bool send_atomic_result(struct local_qp *lqp, const struct answer_job *job)
{
	struct cell *cell = reserve(lqp->peer, CELL_ATOMIC_RESULT, lqp->qp->attr.dest_qp_num,
				    lqp->qp->qpn, job->ssn, 0, NULL);

	if (!cell)
		return false;
	cell->atomic.swap = job->original;
	commit(lqp->peer, cell);
	return true;
}

static bool send_done(struct local_qp *lqp, const struct answer_job *job)
{
	struct cell *cell = reserve(lqp->peer, CELL_READ_DATA, lqp->qp->attr.dest_qp_num,
				    lqp->qp->qpn, job->ssn, 0, NULL);

	if (!cell)
		return false;
	commit(lqp->peer, cell);
	return true;
}

/* One fragment of a READ. Checked again each time: the region may be gone since. */
static bool send_read_data(struct local_qp *lqp, struct answer_job *job)
{
	uint32_t bytes = job->length_bytes - job->done_bytes;
	uint32_t far_bytes;
	const uint8_t *from;
	uint8_t *to = NULL;
	struct cell *cell;

	if (bytes > RING_FRAGMENT_BYTES)
		bytes = RING_FRAGMENT_BYTES;
	far_bytes = bytes > RING_CELL_DATA_BYTES ? bytes : 0;
	if (execute_read(lqp->qp, job->remote_addr + job->done_bytes, job->rkey, bytes, &from) !=
	    ACCESS_OK) {
		if (!send_short(lqp, CELL_NAK, job->ssn, ACCESS_RKEY))
			return false;
		job->done_bytes = job->length_bytes;
		job->is_started = true;
		return true;
	}
	cell = reserve(lqp->peer, CELL_READ_DATA, lqp->qp->attr.dest_qp_num, lqp->qp->qpn, job->ssn,
		       far_bytes, &to);
	if (!cell)
		return false;
	if (!far_bytes)
		to = cell->data;
	if (bytes)
		memcpy(to, from, bytes);
	cell->bytes = (uint16_t)bytes;
	commit(lqp->peer, cell);
	job->done_bytes += bytes;
	job->is_started = true;
	return true;
}

static bool send_read(struct local_qp *lqp, struct answer_job *job)
{
	while (!job->is_started || job->done_bytes < job->length_bytes) {
		if (!send_read_data(lqp, job))
			return false;
	}
	return true;
}

static bool send_job(struct local_qp *lqp, struct answer_job *job)
{
	switch (job->kind) {
	case ANSWER_ATOMIC:
		return send_atomic_result(lqp, job);
	case ANSWER_EMPTY:
		return send_done(lqp, job);
	default:
		return send_read(lqp, job);
	}
}

static bool send_jobs(struct local_qp *lqp)
{
	while (lqp->rx.jobs_tail != lqp->rx.jobs_head) {
		struct answer_job *job = &lqp->rx.jobs[lqp->rx.jobs_tail % lqp->rx.max_jobs];

		if (!send_job(lqp, job))
			return false;
		lqp->rx.jobs_tail++;
	}
	return true;
}

/* Everything this QP owes; false: the ring is full. */
static bool answer(struct local_qp *lqp)
{
	if (lqp->rx.owes_ack) {
		/* Of what is due next, all before it: a message turned away or refused is not among them. */
		if (!send_short(lqp, CELL_ACK, lqp->rx.ssn - 1, 0))
			return false;
		lqp->rx.owes_ack = false;
	}
	if (!send_jobs(lqp))
		return false;
	if (lqp->rx.owes != CELL_NONE) {
		if (!send_short(lqp, lqp->rx.owes, lqp->rx.owes_ssn, lqp->rx.owes_code))
			return false;
		lqp->rx.owes = CELL_NONE;
	}
	if (lqp->rx.owes_ready) {
		if (!send_short(lqp, CELL_READY, lqp->rx.ssn, 0))
			return false;
		lqp->rx.owes_ready = false;
	}
	return true;
}

static void answer_refusals(struct peer *peer)
{
	while (peer->refusal_count) {
		const struct refusal *refusal = &peer->refusals[peer->refusal_count - 1];
		struct cell *cell = reserve(peer, CELL_NOT_READY, refusal->to_qpn,
					    refusal->from_qpn, refusal->ssn, 0, NULL);

		if (!cell)
			return;
		commit(peer, cell);
		peer->refusal_count--;
	}
}

void responder_answer_all(struct peer *peer)
{
	while (!list_is_empty(&peer->answering)) {
		struct local_qp *lqp = list_first_entry(&peer->answering, struct local_qp,
							answer_node);

		if (!answer(lqp))
			return;
		list_del(&lqp->answer_node);
	}
	/* Last: that a later message found the QP in ERR would else say that the one which put it there was executed. */
	answer_refusals(peer);
}

/*
 * A request for a QP that is not there or cannot receive. Only the first cell of a message is worth an answer, and of
 * many for one QP the first: the requester stops there and comes again.
 */
void responder_refuse(struct peer *peer, const struct cell *cell)
{
	if (!(cell->flags & CELL_FIRST))
		return;
	for (uint32_t i = 0; i < peer->refusal_count; i++) {
		if (peer->refusals[i].to_qpn == cell->src_qpn &&
		    peer->refusals[i].from_qpn == cell->dst_qpn)
			return;
	}
	if (peer->refusal_count == PEER_REFUSALS)
		responder_answer_all(peer);
	if (peer->refusal_count == PEER_REFUSALS) {
		local_count(peer->engine, LOCAL_BAD_CELLS);
		return;
	}
	peer->refusals[peer->refusal_count++] = (struct refusal){
		.to_qpn = cell->src_qpn,
		.from_qpn = cell->dst_qpn,
		.ssn = cell->ssn,
	};
}
