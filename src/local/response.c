/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "base/user_copy.h"
#include "core/queue/comp_cntr.h"
#include "local/ack_wait.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/responder.h"
#include "local/ring.h"

/*
 * The responder's responses. Pending responses are stored in the QP: a full FIFO delays responses
 * but does not lose them, and several pending ACKs are coalesced into one.
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

static bool send_atomic_result(struct local_qp *lqp, const struct response_job *job)
{
	struct cell *cell = reserve(lqp->peer, CELL_ATOMIC_RESULT, lqp->qp->attr.dest_qp_num,
				    lqp->qp->qpn, job->ssn, 0, NULL);

	if (!cell)
		return false;
	cell->atomic.swap = job->original;
	commit(lqp->peer, cell);
	return true;
}

static bool send_done(struct local_qp *lqp, const struct response_job *job)
{
	struct cell *cell = reserve(lqp->peer, CELL_READ_DATA, lqp->qp->attr.dest_qp_num,
				    lqp->qp->qpn, job->ssn, 0, NULL);

	if (!cell)
		return false;
	commit(lqp->peer, cell);
	return true;
}

/*
 * Sends one fragment of a READ response. Each fragment is checked again because the MR can be
 * deregistered in between. false: the FIFO is full.
 */
static bool local_response_send_read_data(struct local_qp *lqp, struct response_job *job)
{
	uint32_t bytes = ring_fragment_bytes(job->remote_addr + job->done_bytes,
					     job->length_bytes - job->done_bytes);
	uint32_t far_bytes;
	const uint8_t *from;
	uint8_t *to = NULL;
	struct cell *cell;

	far_bytes = bytes > RING_CELL_DATA_BYTES ? bytes : 0;
	job->failure = execute_read(lqp->qp, job->remote_addr + job->done_bytes, job->rkey, bytes,
				    &from);
	if (job->failure != ACCESS_OK)
		return true;
	cell = reserve(lqp->peer, CELL_READ_DATA, lqp->qp->attr.dest_qp_num, lqp->qp->qpn, job->ssn,
		       far_bytes, &to);
	if (!cell)
		return false;
	if (far_bytes)
		cell->path_mtu = (uint8_t)lqp->qp->attr.path_mtu;
	else
		to = cell->data;
	/* The space that was reserved is reserved again by the next call. */
	if (!user_copy_from(to, from, bytes)) {
		job->failure = ACCESS_GONE;
		return true;
	}
	cell->bytes = (uint16_t)bytes;
	commit(lqp->peer, cell);
	job->done_bytes += bytes;
	job->is_started = true;
	return true;
}

static bool send_read(struct local_qp *lqp, struct response_job *job)
{
	while (job->failure == ACCESS_OK &&
	       (!job->is_started || job->done_bytes < job->length_bytes)) {
		if (!local_response_send_read_data(lqp, job))
			return false;
	}
	/*
	 * The region was deregistered, or a fault rule denies the access. The READ was accepted, so
	 * that the QP does not enter ERR.
	 */
	if (job->failure != ACCESS_OK && job->failure != ACCESS_GONE &&
	    !send_short(lqp, CELL_NAK, job->ssn, ACCESS_RKEY))
		return false;
	comp_cntr_count(lqp->qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
			job->failure == ACCESS_OK, job->length_bytes);
	return true;
}

static bool send_job(struct local_qp *lqp, struct response_job *job)
{
	switch (job->response) {
	case WR_RESPONSE_ATOMIC:
		return send_atomic_result(lqp, job);
	case WR_RESPONSE_EMPTY:
		return send_done(lqp, job);
	default:
		return send_read(lqp, job);
	}
}

static bool local_response_send_jobs(struct local_qp *lqp)
{
	while (lqp->rx.jobs_tail != lqp->rx.jobs_head) {
		struct response_job *job = local_job_at(lqp, lqp->rx.jobs_tail);

		if (!send_job(lqp, job))
			return false;
		if (job->failure == ACCESS_GONE) {
			responder_fail_read(lqp, job->ssn, job->failure);
			return true;
		}
		lqp->rx.jobs_tail++;
	}
	return true;
}

static bool send_ack(struct local_qp *lqp)
{
	bool had_sent = lqp->peer->has_sent;

	if (!send_short(lqp, CELL_ACK, lqp->rx.ssn - 1, 0))
		return false;
	if (!local_ack_may_wait(lqp))
		return true;
	local_ack_wait_begin(lqp);
	lqp->peer->has_sent = had_sent;
	return true;
}

/* Sends all pending responses of the QP; false: the FIFO is full. */
static bool local_response_send(struct local_qp *lqp)
{
	if (lqp->rx.ack_pending) {
		/*
		 * Acknowledges all messages before the next expected one; RNR or refused messages
		 * are not included.
		 */
		if (!send_ack(lqp))
			return false;
		lqp->rx.ack_pending = false;
	}
	if (!local_response_send_jobs(lqp))
		return false;
	if (lqp->rx.response != CELL_NONE) {
		if (!send_short(lqp, lqp->rx.response, lqp->rx.response_ssn, lqp->rx.response_code))
			return false;
		lqp->rx.response = CELL_NONE;
	}
	if (lqp->rx.ready_pending) {
		if (!send_short(lqp, CELL_READY, lqp->rx.ssn, 0))
			return false;
		lqp->rx.ready_pending = false;
	}
	return true;
}

static void response_refusals(struct peer *peer)
{
	while (peer->refusal_count) {
		const struct refusal *refusal = &peer->refusals[peer->refusal_count - 1];
		struct cell *cell = reserve(peer, CELL_NOT_READY, refusal->to_qpn,
					    refusal->from_qpn, refusal->ssn, 0, NULL);

		if (!cell)
			return;
		cell->imm_or_code = refusal->acknowledges ? CELL_ACKNOWLEDGES : 0;
		commit(peer, cell);
		peer->refusal_count--;
	}
}

void responder_respond_all(struct peer *peer)
{
	while (!list_is_empty(&peer->responding)) {
		struct local_qp *lqp = list_first_entry(&peer->responding, struct local_qp,
							response_node);

		if (!local_response_send(lqp))
			return;
		list_del(&lqp->response_node);
	}
	/*
	 * Refusals are sent last. The one of responder_unbind() acknowledges all preceding
	 * messages. Before the QP's own NAK it would acknowledge the message that moved the QP to
	 * ERR.
	 */
	response_refusals(peer);
}

/*
 * Only the refusal of the oldest message of a connection is stored, because the requester ignores
 * any other. The messages do not always arrive in the order of their ssn: the requester may have
 * repeated them. No message is older than that of a refusal which acknowledges.
 */
void responder_refuse_request(struct peer *peer, const struct refusal *refusal)
{
	for (uint32_t i = 0; i < peer->refusal_count; i++) {
		struct refusal *stored = &peer->refusals[i];

		if (stored->to_qpn != refusal->to_qpn || stored->from_qpn != refusal->from_qpn ||
		    !local_ssn_is_near(stored->ssn, refusal->ssn))
			continue;
		if (!stored->acknowledges && (int32_t)(refusal->ssn - stored->ssn) < 0)
			stored->ssn = refusal->ssn;
		return;
	}
	if (peer->refusal_count == PEER_REFUSALS)
		responder_respond_all(peer);
	if (peer->refusal_count == PEER_REFUSALS) {
		peer_count(peer, LOCAL_BAD_CELLS);
		return;
	}
	peer->refusals[peer->refusal_count++] = *refusal;
}

/*
 * Refuses a request for a QP that does not exist or cannot receive. Only the first cell of a
 * message gets a response: a QP that is closed while it receives a message refuses that message
 * itself (responder_abandon(), responder_unbind()). This refusal acknowledges nothing: the
 * preceding messages may have been refused, too.
 */
void responder_refuse(struct peer *peer, const struct cell *cell)
{
	if (!(cell->flags & CELL_FIRST))
		return;
	responder_refuse_request(peer, &(struct refusal){.to_qpn = cell->src_qpn,
							 .from_qpn = cell->dst_qpn,
							 .ssn = cell->ssn});
}
