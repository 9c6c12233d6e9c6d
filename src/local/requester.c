/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "core/cq.h"
#include "core/mw.h"
#include "core/qp.h"
#include "core/sge.h"
#include "core/wq.h"
#include "local/requester.h"
#include "wire/aeth.h"

/*
 * The sending half of a QP: WQEs [una, nxt) are with the peer, [nxt, head) wait. A message is done when the peer's answer
 * says so, except what the initiator carries out itself and what UC sends, which is done when it has left. Answers retire
 * in order; READs and atomics are marked DONE by their data, atomic WRITEs and FLUSHes by an answer of their own, and
 * retire when their elders have.
 */

/* Bytes that one QP may move before it lets others have the lock. */
#define TURN_BYTES  (8u * 1024 * 1024)
#define GATHER_IOVS 8

/*
 * How long after a peer's death its answers are still waited for, at most. They cannot come; but a program that ended in
 * good order had often been sent more than it cared to take, and a sender that has all it wants itself must find its own
 * last completions before the failure of what was too much, as it would before a NIC's retries are over.
 */
#define DEATH_WAIT_NS 100000000ull

static bool is_write(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* How a message travels, decided when it is its turn and kept until it is over: send_wqe.path. */
enum path {
	PATH_OPEN,
	PATH_DIRECT, /* the initiator moves the bytes; a resend of the immediate must not move them again */
	PATH_RING,
	PATH_LOCAL, /* the peer has no part in it, and it is done: a resend of its elders must not do it again */
};

static void restart(struct send_wqe *wqe)
{
	wqe->state = SEND_WQE_POSTED;
	if (wqe->path == PATH_DIRECT || wqe->path == PATH_LOCAL)
		return;
	wqe->path = PATH_OPEN;
	wqe->done_bytes = 0;
}

static bool has_imm(uint32_t opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* What the requester's completion says for a responder's verdict (IBA 1.x §9.9.2.3, table of requester errors). */
static enum ibv_wc_status result_status(enum access_result result)
{
	switch (result) {
	case ACCESS_OK:
		return IBV_WC_SUCCESS;
	case ACCESS_RNR:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case ACCESS_LOCAL:
	case ACCESS_GONE:
		return IBV_WC_REM_OP_ERR;
	case ACCESS_RKEY:
	case ACCESS_PD:
	case ACCESS_BOUNDS:
	case ACCESS_RIGHTS:
	case ACCESS_INVALIDATE:
		return IBV_WC_REM_ACCESS_ERR;
	default:
		return IBV_WC_REM_INV_REQ_ERR;
	}
}

void requester_fail(struct local_qp *lqp, enum ibv_wc_status status, enum vendor_err vendor_err)
{
	sq_retire(lqp->qp, status, vendor_err);
	qp_enter_send_error(lqp->qp);
}

void requester_fail_refused(struct local_qp *lqp, enum access_result result)
{
	requester_fail(lqp, result_status(result), access_vendor_err(result));
}

/* A WQE that is not the oldest failed by itself: its elders are with the peer still. It waits until they are answered. */
static bool is_oldest(const struct local_qp *lqp)
{
	return lqp->qp->sq.una == lqp->qp->sq.nxt;
}

static void block(struct local_qp *lqp)
{
	if (!list_is_linked(&lqp->blocked_node))
		list_add_tail(&lqp->blocked_node, &lqp->peer->blocked);
}

static uint64_t ack_timeout_ns(const struct qp *qp)
{
	/* 4.096 us * 2^timeout; 0 is for ever (IBA 1.x §9.9.2.1.1). */
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : 0;
}

static void wait_for(struct local_qp *lqp, enum local_wait wait, uint64_t timeout_ns)
{
	struct engine *engine = lqp->qp->context->engine;

	lqp->tx.wait = wait;
	list_del(&lqp->blocked_node);
	if (!timeout_ns)
		return;
	timer_add(&engine->timers, &lqp->tx.timer, clock_now_ns() + timeout_ns);
	engine_timer_added(engine);
}

void requester_rewind(struct local_qp *lqp)
{
	struct send_queue *sq = &lqp->qp->sq;
	uint32_t index;

	for (index = sq->una; index != sq->nxt; index++) {
		struct send_wqe *wqe = sq_wqe(sq, index);

		if (index == sq->una)
			lqp->tx.ssn = wqe->ssn;
		restart(wqe);
	}
	/* A message that was on its way out starts over as well. */
	if (index != sq->head)
		restart(sq_wqe(sq, index));
	lqp->tx.reads = 0;
	sq->nxt = sq->una;
}

void requester_retry_not_ready(struct local_qp *lqp)
{
	if (!requester_is_reliable(lqp))
		return;
	if (!lqp->tx.retries_left) {
		requester_fail(lqp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_ANSWER);
		return;
	}
	lqp->tx.retries_left--;
	local_count(lqp->qp->context->engine, LOCAL_RETRIES);
	wait_for(lqp, WAIT_NOT_READY, ack_timeout_ns(lqp->qp));
}

void requester_retry_rnr(struct local_qp *lqp, uint32_t timer_code)
{
	/* 7 is for ever (IBA 1.x §9.7.5.2.8). */
	if (lqp->qp->attr.rnr_retry != 7) {
		if (!lqp->tx.rnr_left) {
			requester_fail(lqp, IBV_WC_RNR_RETRY_EXC_ERR, VENDOR_ERR_RNR);
			return;
		}
		lqp->tx.rnr_left--;
	}
	wait_for(lqp, WAIT_RNR, aeth_rnr_wait_ns(timer_code));
}

void requester_timer(struct timer *timer, uint64_t now_ns)
{
	struct local_qp *lqp = container_of(timer, struct local_qp, tx.timer);

	(void)now_ns;
	lqp->tx.wait = WAIT_NOTHING;
	requester_run(lqp);
	/* Nobody else rings for what a timer sent, and the peer may have gone to sleep meanwhile. */
	if (lqp->peer)
		local_finish_turn(lqp->peer);
}

void requester_succeed(struct local_qp *lqp)
{
	lqp->tx.rnr_left = lqp->qp->attr.rnr_retry;
	lqp->tx.retries_left = lqp->qp->attr.retry_cnt;
	sq_retire(lqp->qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
}

/* Tells the peer that a one-sided operation broke its rules: its QP errs too, as if its own responder had seen it. */
static void send_fault(struct local_qp *lqp, enum access_result result)
{
	struct cell *cell = ring_reserve(&lqp->peer->tx, 0, NULL);

	/* A full ring loses the notice: the peer's QP then learns of the end from the connection manager. */
	if (!cell)
		return;
	cell->type = CELL_FAULT;
	cell->bytes = 0;
	cell->dst_qpn = lqp->qp->attr.dest_qp_num;
	cell->src_qpn = lqp->qp->qpn;
	cell->imm_or_code = result;
	ring_commit(&lqp->peer->tx, cell);
	lqp->peer->has_sent = true;
}

enum step {
	STEP_NEXT,  /* the WQE at nxt is handled */
	STEP_AGAIN, /* it is to be looked at anew */
	STEP_STOP,  /* wait for an answer, a timer or the next turn */
};

static enum step step_onesided(struct local_qp *lqp, struct send_wqe *wqe, uint32_t *budget_bytes)
{
	enum access_result result = ACCESS_OK;
	enum vendor_err vendor_err = VENDOR_ERR_NONE;

	switch (onesided_move(lqp, wqe, budget_bytes, &result, &vendor_err)) {
	case ONESIDED_MORE:
		block(lqp);
		return STEP_STOP;
	case ONESIDED_NOT_READY:
		if (!requester_is_reliable(lqp))
			break;
		requester_retry_not_ready(lqp);
		return STEP_STOP;
	case ONESIDED_CUT_OFF:
		/* Its memory cannot be reached any more, or not by us: from here on its own engine moves the bytes. */
		lqp->peer->can_reach_memory = false;
		wqe->path = PATH_OPEN;
		wqe->done_bytes = 0;
		return STEP_AGAIN;
	case ONESIDED_LOCAL_FAULT:
		requester_fail(lqp, IBV_WC_LOC_PROT_ERR, vendor_err);
		return STEP_STOP;
	case ONESIDED_DONE:
		break;
	}
	/* UC tells nobody of a refusal (IBA 1.x §9.8.3.2). */
	if (result != ACCESS_OK && requester_is_reliable(lqp)) {
		send_fault(lqp, result);
		requester_fail_refused(lqp, result);
		return STEP_STOP;
	}
	local_count(lqp->qp->context->engine, LOCAL_ONESIDED);
	if (wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return STEP_NEXT;
	lqp->qp->sq.nxt++;
	requester_succeed(lqp);
	return STEP_NEXT;
}

static uint8_t request_type(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return CELL_WRITE;
	case IBV_WR_RDMA_READ:
		return CELL_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return CELL_COMPARE_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return CELL_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE:
		return CELL_ATOMIC_WRITE;
	case IBV_WR_FLUSH:
		return CELL_FLUSH;
	default:
		return CELL_SEND;
	}
}

static void fill_head(const struct local_qp *lqp, const struct send_wqe *wqe, struct cell *cell)
{
	cell->type = request_type(wqe->opcode);
	cell->dst_qpn = lqp->qp->attr.dest_qp_num;
	cell->src_qpn = lqp->qp->qpn;
	cell->ssn = wqe->ssn;
	cell->length = wqe->length_bytes;
	cell->remote_addr = wqe->remote_addr;
	cell->rkey = wqe->rkey;
	cell->imm_or_code = wqe->imm_data_be;
}

static void fill_last_flags(const struct send_wqe *wqe, struct cell *cell)
{
	cell->flags |= CELL_LAST;
	if (has_imm(wqe->opcode))
		cell->flags |= CELL_IMM;
	if (wqe->opcode == IBV_WR_SEND_WITH_INV) {
		cell->flags |= CELL_INVALIDATE;
		cell->rkey = wqe->imm_data_be;
	}
	if (wqe->send_flags & IBV_SEND_SOLICITED)
		cell->flags |= CELL_SOLICITED;
}

static enum step fail_in_turn(struct local_qp *lqp, enum ibv_wc_status status,
			      enum vendor_err vendor_err)
{
	if (is_oldest(lqp))
		requester_fail(lqp, status, vendor_err);
	return STEP_STOP;
}

/* Copies the WQE's next bytes. 0, or the vendor_err of the SGE that is wrong. */
static enum vendor_err copy_payload(struct local_qp *lqp, struct send_wqe *wqe, uint8_t *to,
				    uint32_t bytes)
{
	uint32_t copied = 0;

	while (copied < bytes) {
		struct iovec iov[GATHER_IOVS];
		uint32_t covered;
		int n = sge_gather(lqp->qp, wqe, wqe->done_bytes + copied, bytes - copied, false,
				   iov, GATHER_IOVS, &covered);

		if (n < 0)
			return (enum vendor_err) - n;
		for (int i = 0; i < n; i++) {
			memcpy(to + copied, iov[i].iov_base, iov[i].iov_len);
			copied += (uint32_t)iov[i].iov_len;
		}
	}
	return VENDOR_ERR_NONE;
}

/* SEND or WRITE through the ring, fragment by fragment. */
static enum step step_message(struct local_qp *lqp, struct send_wqe *wqe, bool is_placed)
{
	struct peer *peer = lqp->peer;
	uint32_t at = is_placed ? 0 : wqe->done_bytes;
	uint32_t total = is_placed ? 0 : wqe->length_bytes;

	do {
		uint32_t bytes = total - at < RING_FRAGMENT_BYTES ? total - at :
								    RING_FRAGMENT_BYTES;
		uint32_t far_bytes = bytes > RING_CELL_DATA_BYTES ? bytes : 0;
		uint8_t *payload = NULL;
		struct cell *cell = peer_reserve(peer, far_bytes, &payload);
		enum vendor_err err;

		if (!cell) {
			block(lqp);
			return STEP_STOP;
		}
		if (!far_bytes)
			payload = cell->data;
		err = bytes ? copy_payload(lqp, wqe, payload, bytes) : VENDOR_ERR_NONE;
		if (err) {
			/* Whatever of it is at the peer already is forgotten there when the QPs part. */
			return fail_in_turn(lqp, IBV_WC_LOC_PROT_ERR, err);
		}
		fill_head(lqp, wqe, cell);
		cell->bytes = (uint16_t)bytes;
		if (at == 0)
			cell->flags |= CELL_FIRST;
		if (is_placed)
			cell->flags |= CELL_PLACED;
		if (at + bytes == total)
			fill_last_flags(wqe, cell);
		ring_commit(&peer->tx, cell);
		peer->has_sent = true;
		at += bytes;
		if (!is_placed)
			wqe->done_bytes = at;
	} while (at < total);
	return STEP_NEXT;
}

/* What a request that is answered by itself carries besides its head. */
static enum vendor_err fill_answered(struct local_qp *lqp, struct send_wqe *wqe, struct cell *cell)
{
	cell->bytes = 0;
	cell->flags = CELL_FIRST | CELL_LAST;
	switch (wqe->opcode) {
	case IBV_WR_ATOMIC_WRITE:
		return copy_payload(lqp, wqe, cell->data, wqe->length_bytes);
	case IBV_WR_FLUSH:
		cell->length = (uint32_t)wqe->flush_length_bytes;
		cell->imm_or_code = cell_flush(wqe->flush_types, wqe->flush_level);
		return VENDOR_ERR_NONE;
	default:
		cell->atomic.compare_add = wqe->compare_add;
		cell->atomic.swap = wqe->swap;
		return VENDOR_ERR_NONE;
	}
}

static enum step step_answered(struct local_qp *lqp, struct send_wqe *wqe)
{
	enum vendor_err err;
	struct cell *cell;

	if (lqp->tx.reads >= answered_in_flight_max(lqp->qp))
		return STEP_STOP;
	cell = ring_reserve(&lqp->peer->tx, 0, NULL);
	if (!cell) {
		block(lqp);
		return STEP_STOP;
	}
	fill_head(lqp, wqe, cell);
	err = fill_answered(lqp, wqe, cell);
	if (err)
		return fail_in_turn(lqp, IBV_WC_LOC_PROT_ERR, err);
	ring_commit(&lqp->peer->tx, cell);
	lqp->peer->has_sent = true;
	lqp->tx.reads++;
	return STEP_NEXT;
}

/* The WQE's own faults, found before anything leaves. */
static enum ibv_wc_status check_wqe(const struct send_wqe *wqe, enum vendor_err *vendor_err)
{
	if (wqe->length_bytes > MAX_MSG_BYTES) {
		*vendor_err = VENDOR_ERR_MSG_LENGTH;
		return IBV_WC_LOC_LEN_ERR;
	}
	if (opcode_is_of_a_word(wqe->opcode) && wqe->length_bytes != sizeof(uint64_t)) {
		*vendor_err = VENDOR_ERR_MSG_LENGTH;
		return IBV_WC_LOC_LEN_ERR;
	}
	return IBV_WC_SUCCESS;
}

/* Whether the peer's memory behind this key can be looked into. */
static bool is_key_reachable(const struct peer *peer, uint32_t rkey)
{
	return peer->can_reach_memory && !(rkey & SEGMENT_WINDOW_KEY) &&
	       !peer->segment->mrs[rkey % SEGMENT_MRS].is_unreachable;
}

/* Requests take effect in order (IBA 1.x §9.5): behind what the peer's engine has yet to execute, a one-sided operation
 * goes through the ring as well. */
static enum path choose_path(const struct local_qp *lqp, const struct send_wqe *wqe)
{
	bool is_onesided = is_write(wqe->opcode) || wqe->opcode == IBV_WR_RDMA_READ;

	return is_onesided && is_key_reachable(lqp->peer, wqe->rkey) && is_oldest(lqp) ?
		       PATH_DIRECT :
		       PATH_RING;
}

/* Takes effect when its turn comes, and is done when its elders are. */
static enum step step_local(struct local_qp *lqp, struct send_wqe *wqe)
{
	enum vendor_err vendor_err = VENDOR_ERR_NONE;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	if (wqe->path != PATH_LOCAL)
		status = mw_execute(lqp->qp, wqe, &vendor_err);
	if (status != IBV_WC_SUCCESS)
		return fail_in_turn(lqp, status, vendor_err);
	wqe->path = PATH_LOCAL;
	wqe->ssn = lqp->tx.ssn;
	wqe->state = SEND_WQE_DONE;
	lqp->qp->sq.nxt++;
	if (lqp->qp->sq.una + 1 == lqp->qp->sq.nxt)
		requester_succeed(lqp);
	return STEP_NEXT;
}

/* The bytes of a WRITE with immediate are where they belong, and only the immediate is left to send. */
static bool is_in_place(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && wqe->length_bytes &&
	       wqe->done_bytes == wqe->length_bytes;
}

static enum step step(struct local_qp *lqp, struct send_wqe *wqe, uint32_t *budget_bytes)
{
	struct send_queue *sq = &lqp->qp->sq;
	enum vendor_err vendor_err = VENDOR_ERR_NONE;
	enum ibv_wc_status status;
	enum step result;

	if ((wqe->send_flags & IBV_SEND_FENCE) && lqp->tx.reads)
		return STEP_STOP;
	status = check_wqe(wqe, &vendor_err);
	if (status != IBV_WC_SUCCESS)
		return fail_in_turn(lqp, status, vendor_err);
	if (opcode_is_local(wqe->opcode))
		return step_local(lqp, wqe);
	if (wqe->path == PATH_OPEN)
		wqe->path = (uint8_t)choose_path(lqp, wqe);
	if ((int32_t)(sq->begun - sq->nxt) <= 0)
		sq->begun = sq->nxt + 1;
	if (wqe->path == PATH_DIRECT && !is_in_place(wqe)) {
		result = step_onesided(lqp, wqe, budget_bytes);
		if (result != STEP_NEXT || wqe->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
			return result;
	}
	wqe->ssn = lqp->tx.ssn;
	result = opcode_is_answered(wqe->opcode) ? step_answered(lqp, wqe) :
						   step_message(lqp, wqe, wqe->path == PATH_DIRECT);
	if (result == STEP_STOP)
		return result;
	wqe->state = SEND_WQE_SENT;
	lqp->tx.ssn++;
	sq->nxt++;
	local_count(lqp->qp->context->engine, LOCAL_MESSAGES_SENT);
	if (!requester_is_reliable(lqp))
		requester_succeed(lqp);
	return STEP_NEXT;
}

/* Nobody has the peer's QPN: perhaps by now. */
static bool find_peer(struct local_qp *lqp)
{
	struct qp *qp = lqp->qp;

	if (lqp->peer)
		return !lqp->peer->is_gone;
	lqp->peer = peer_get(qp->context->engine, qp->attr.dest_qp_num >> IPC_SLOT_SHIFT);
	if (!lqp->peer)
		return false;
	list_add_tail(&lqp->node, &lqp->peer->qps);
	return true;
}

/* The peer is dead: one ACK timeout after that, or sooner, whatever waits for it fails. */
static void run_with_dead_peer(struct local_qp *lqp)
{
	uint64_t wait_ns = ack_timeout_ns(lqp->qp);
	uint64_t waited_ns = clock_now_ns() - lqp->peer->gone_ns;

	if (!wait_ns || wait_ns > DEATH_WAIT_NS)
		wait_ns = DEATH_WAIT_NS;
	if (waited_ns < wait_ns)
		wait_for(lqp, WAIT_NOT_READY, wait_ns - waited_ns);
	else
		requester_fail(lqp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_PEER_DEAD);
}

/* Without a peer RC fails when its retries are used up and UC speaks to the wall. */
static void run_without_peer(struct local_qp *lqp)
{
	struct send_queue *sq = &lqp->qp->sq;

	if (lqp->peer && requester_is_reliable(lqp)) {
		run_with_dead_peer(lqp);
		return;
	}
	if (requester_is_reliable(lqp)) {
		requester_retry_not_ready(lqp);
		return;
	}
	while (sq->nxt != sq->head) {
		sq->nxt++;
		requester_succeed(lqp);
	}
}

/* Up to where WQEs may be sent: a queue that is being drained only ends what was begun (IBA 1.x §10.3.1.5). */
static uint32_t sendable_end(const struct qp *qp)
{
	if (qp->state == IBV_QPS_RTS)
		return qp->sq.head;
	return qp->state == IBV_QPS_SQD ? qp->sq.begun : qp->sq.nxt;
}

void requester_run(struct local_qp *lqp)
{
	struct qp *qp = lqp->qp;
	struct send_queue *sq = &qp->sq;
	uint32_t budget_bytes = TURN_BYTES;

	list_del(&lqp->blocked_node);
	while (sq->nxt != sendable_end(qp) && lqp->tx.wait == WAIT_NOTHING) {
		if (!find_peer(lqp)) {
			run_without_peer(lqp);
			return;
		}
		if (step(lqp, sq_wqe(sq, sq->nxt), &budget_bytes) == STEP_STOP)
			break;
	}
	qp_check_drained(qp);
}

void requester_peer_gone(struct local_qp *lqp)
{
	struct qp *qp = lqp->qp;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	if (!requester_is_reliable(lqp) || qp->sq.una == qp->sq.head)
		return;
	timer_cancel(&qp->context->engine->timers, &lqp->tx.timer);
	lqp->tx.wait = WAIT_NOTHING;
	requester_rewind(lqp);
	requester_run(lqp);
}
