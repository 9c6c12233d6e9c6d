/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/requester.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/object/opcode.h"
#include "core/object/qp_state.h"
#include "core/queue/failure_drop.h"
#include "core/queue/qp_error.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "core/report/failure_warn.h"
#include "local/channel_wake.h"
#include "local/fault.h"
#include "local/local.h"
#include "local/onesided.h"
#include "local/peer.h"
#include "local/peer_connect.h"
#include "local/peer_shard.h"
#include "local/probe.h"
#include "local/qp.h"
#include "local/request.h"
#include "local/ring.h"
#include "local/run.h"

/*
 * The requester. WQEs [una, nxt) are outstanding, WQEs [nxt, head) have not been sent. A message is
 * complete when the peer's response acknowledges it. One-sided operations are complete when the
 * bytes have been moved, UC messages when they have been sent. READs and atomics are marked
 * SEND_WQE_DONE by their response data, ATOMIC WRITEs and FLUSHes by a response without data. WQEs
 * complete in order.
 */

/* Bytes that one QP may move in one turn, before other QPs run. */
#define TURN_BYTES (8u * 1024 * 1024)

/*
 * Maximum time between the end of the peer's process and the failure of outstanding WQEs. No
 * response can arrive in this time. A program that ends normally may leave requests of the peer
 * unprocessed. The peer must be able to poll its successful completions before these requests fail,
 * as with a NIC, which reports the failure only after its retries.
 */
#define DEATH_WAIT_NS 100000000ull

/*
 * The path of a message (send_wqe.path), chosen when the WQE is first processed and kept until it
 * completes.
 */
enum path {
	PATH_OPEN,
	/* one-sided; a retransmission of the immediate must not move the bytes again */
	PATH_DIRECT,
	PATH_RING,
};

static void restart(struct send_wqe *wqe)
{
	/* A local operation is not executed again. */
	if (wqe_info(wqe)->kind == WR_KIND_LOCAL)
		return;
	wqe->state = SEND_WQE_POSTED;
	if (wqe->path == PATH_DIRECT)
		return;
	wqe->path = PATH_OPEN;
	wqe->done_bytes = 0;
}

/*
 * The completion status for a result of the responder's checks (IBA 1.x §9.9.2.3, table of
 * requester errors).
 */
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

void local_requester_fail_refused(struct local_qp *lqp, enum access_result result)
{
	qp_assert_locked(lqp->qp);
	requester_fail(lqp->qp, result_status(result), access_vendor_err(result));
}

static void block(struct local_qp *lqp)
{
	if (!list_is_linked(&lqp->blocked_node))
		list_add_tail(&lqp->blocked_node, &lqp->peer->blocked);
}

void local_requester_rewind(struct local_qp *lqp)
{
	struct send_queue *sq = &lqp->qp->sq;
	uint32_t index;

	qp_assert_locked(lqp->qp);
	for (index = sq->una; index != sq->nxt; index++) {
		struct send_wqe *wqe = sq_wqe(sq, index);

		if (index == sq->una)
			lqp->tx.ssn = wqe->message_seq;
		restart(wqe);
	}
	/* A message that was sent only in part is sent again from its beginning. */
	if (index != sq->head)
		restart(sq_wqe(sq, index));
	lqp->tx.has_passed = false;
	lqp->tx.reads = 0;
	sq->nxt = sq->una;
}

void local_requester_timer(struct timer *timer, uint64_t now_ns)
{
	struct local_qp *lqp = container_of(timer, struct local_qp, tx.timer);

	(void)now_ns;
	lqp->tx.wait = WAIT_NOTHING;
	local_requester_run(lqp);
	/* The caller of the timer rings no doorbell, and the peer may be asleep. */
	if (lqp->peer)
		local_finish_turn(lqp->peer);
}

void local_requester_succeed(struct local_qp *lqp)
{
	qp_assert_locked(lqp->qp);
	lqp->tx.rnr_left = lqp->qp->attr.rnr_retry;
	lqp->tx.rnr_until_ns = 0;
	lqp->tx.retries_left = lqp->qp->attr.retry_cnt;
	lqp->tx.has_waited_last = false;
	sq_retire(lqp->qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
}

/*
 * Reports a failed check of a one-sided operation to the peer, whose QP then enters ERR as if its
 * responder had checked.
 */
static void send_fault(struct local_qp *lqp, const struct send_wqe *wqe, enum access_result result)
{
	struct cell *cell = ring_reserve(&lqp->peer->tx, 0, NULL);

	/*
	 * If the FIFO is full, the report is lost. The peer's QP then stays up until the connection
	 * manager disconnects it.
	 */
	if (!cell)
		return;
	cell->type = CELL_FAULT;
	cell->bytes = 0;
	cell->dst_qpn = lqp->qp->attr.dest_qp_num;
	cell->src_qpn = lqp->qp->qpn;
	cell->imm_or_code = result;
	cell->remote_addr = wqe->remote_addr;
	cell->rkey = wqe->rkey;
	cell->length = wqe->length_bytes;
	cell->access = wqe_info(wqe)->remote_access;
	cell->ssn = lqp->tx.ssn;
	ring_commit(&lqp->peer->tx, cell);
	lqp->peer->has_sent = true;
}

enum step {
	STEP_NEXT,   /* the WQE at nxt was processed; continue with the next one */
	STEP_AGAIN,  /* process the WQE at nxt again */
	STEP_NOTIFY, /* the data of a WRITE with immediate is in place; send the immediate */
	STEP_STOP,   /* wait for a response, a timer, space in the FIFO or the next turn */
};

static enum step step_onesided(struct local_qp *lqp, struct send_wqe *wqe, uint32_t *budget_bytes)
{
	enum access_result result = ACCESS_OK;
	enum vendor_err vendor_err = VENDOR_ERR_NONE;
	bool is_refused;
	enum onesided_result moved = wqe_is_atomic(wqe) ? onesided_atomic(lqp, wqe, &vendor_err) :
							  onesided_move(lqp, wqe, budget_bytes,
									&result, &vendor_err);

	switch (moved) {
	case ONESIDED_MORE:
		block(lqp);
		return STEP_STOP;
	case ONESIDED_NOT_READY:
		if (!local_requester_is_reliable(lqp))
			break;
		local_requester_retry_not_ready(lqp);
		return STEP_STOP;
	case ONESIDED_CUT_OFF:
		/*
		 * The peer's memory is not accessible any more: from now on the peer's engine
		 * executes the operations.
		 */
		lqp->peer->can_reach_memory = false;
		wqe->path = PATH_OPEN;
		wqe->done_bytes = 0;
		return STEP_AGAIN;
	case ONESIDED_DECLINED:
		wqe->path = PATH_RING;
		wqe->done_bytes = 0;
		return STEP_AGAIN;
	case ONESIDED_LOCAL_FAULT:
		requester_fail(lqp->qp, IBV_WC_LOC_PROT_ERR, vendor_err);
		return STEP_STOP;
	case ONESIDED_DONE:
		if (!wqe_is_atomic(wqe))
			trace_one_sided(lqp, wqe, result);
		break;
	}
	/*
	 * UC does not report a refused message (IBA 1.x §9.8.3.2). It is lost with its immediate.
	 */
	is_refused = result != ACCESS_OK || moved == ONESIDED_NOT_READY;
	if (result != ACCESS_OK && local_requester_is_reliable(lqp)) {
		send_fault(lqp, wqe, result);
		local_requester_fail_refused(lqp, result);
		return STEP_STOP;
	}
	if (result != ACCESS_OK)
		failure_drop_own(lqp->qp, wqe, result);
	peer_count(lqp->peer, LOCAL_ONESIDED);
	/* The immediate of a WRITE is sent through the FIFO. */
	if (wqe_has_imm(wqe) && !is_refused)
		return STEP_NOTIFY;
	lqp->qp->sq.nxt++;
	lqp->tx.has_passed = false;
	local_requester_succeed(lqp);
	return STEP_NEXT;
}

static void fill_head(const struct local_qp *lqp, const struct send_wqe *wqe, struct cell *cell)
{
	cell->type = (uint8_t)request_cell_type(wqe);
	cell->dst_qpn = lqp->qp->attr.dest_qp_num;
	cell->src_qpn = lqp->qp->qpn;
	cell->ssn = wqe->message_seq;
	cell->length = wqe->length_bytes;
	cell->remote_addr = wqe->remote_addr;
	cell->rkey = wqe->rkey;
	cell->imm_or_code = wqe->imm_data_be;
}

/* Fills the fields of the last fragment. Returns its flags. */
static unsigned int fill_last(const struct send_wqe *wqe, struct cell *cell)
{
	unsigned int flags = CELL_LAST;

	if (wqe_has_imm(wqe))
		flags |= CELL_IMM;
	if (wqe_info(wqe)->extra == OPCODE_WITH_INV) {
		flags |= CELL_INVALIDATE;
		cell->rkey = wqe->imm_data_be;
	}
	if (wqe->send_flags & IBV_SEND_SOLICITED)
		flags |= CELL_SOLICITED;
	return flags;
}

/*
 * The WQE at nxt failed locally. If preceding WQEs are outstanding, the failure is reported after
 * they complete.
 */
static enum step fail_in_order(struct local_qp *lqp, enum ibv_wc_status status,
			       enum vendor_err vendor_err)
{
	if (requester_is_oldest(&lqp->qp->sq))
		requester_fail(lqp->qp, status, vendor_err);
	return STEP_STOP;
}

/* Sends a SEND or WRITE through the FIFO in fragments. */
static enum step step_message(struct local_qp *lqp, struct send_wqe *wqe, bool is_placed)
{
	struct peer *peer = lqp->peer;
	uint32_t at = is_placed ? 0 : wqe->done_bytes;
	uint32_t total = is_placed ? 0 : wqe->length_bytes;
	/* The address of a SEND is not known. */
	uint64_t begin = wqe_info(wqe)->is_onesided ? wqe->remote_addr : 0;

	do {
		uint32_t bytes = ring_fragment_bytes(begin + at, total - at);
		uint32_t far_bytes = bytes > RING_CELL_DATA_BYTES ? bytes : 0;
		uint8_t *payload = NULL;
		struct cell *cell = peer_reserve(peer, far_bytes, &payload);
		struct channel_wake *wake;
		unsigned int flags = is_placed ? CELL_PLACED : 0;
		enum vendor_err err;

		if (!cell) {
			block(lqp);
			return STEP_STOP;
		}
		if (!far_bytes)
			payload = cell->data;
		err = sge_copy_from(lqp->qp, wqe, at, payload, bytes);
		if (err) {
			/*
			 * The peer discards the fragments that it received when its QP is closed.
			 */
			return fail_in_order(lqp, IBV_WC_LOC_PROT_ERR, err);
		}
		fill_head(lqp, wqe, cell);
		cell->bytes = (uint16_t)bytes;
		if (far_bytes) {
			flags |= CELL_FAR;
			cell->path_mtu = (uint8_t)lqp->qp->attr.path_mtu;
		}
		if (at == 0)
			flags |= CELL_FIRST;
		if (at + bytes == total)
			flags |= fill_last(wqe, cell);
		wake = flags & CELL_LAST ? local_wake_choose(lqp, cell, &flags) : NULL;
		/* Not read from the cell: a load would wait for the cache line. */
		cell->flags = (uint8_t)flags;
		trace_request(&peer->tx, wqe);
		ring_commit(&peer->tx, cell);
		peer->has_sent = true;
		if (wake)
			local_wake_send(peer, wake, flags);
		at += bytes;
		if (!is_placed)
			wqe->done_bytes = at;
	} while (at < total);
	if (!is_placed)
		lqp->tx.cells_end = peer->tx.head;
	return STEP_NEXT;
}

static enum step step_responded(struct local_qp *lqp, struct send_wqe *wqe)
{
	enum vendor_err err;
	struct cell *cell;

	if (lqp->tx.reads >= requester_depth(lqp->qp))
		return STEP_STOP;
	cell = ring_reserve(&lqp->peer->tx, 0, NULL);
	if (!cell) {
		block(lqp);
		return STEP_STOP;
	}
	fill_head(lqp, wqe, cell);
	err = request_encode(lqp->qp, wqe, cell);
	if (err)
		return fail_in_order(lqp, IBV_WC_LOC_PROT_ERR, err);
	trace_request(&lqp->peer->tx, wqe);
	ring_commit(&lqp->peer->tx, cell);
	lqp->peer->has_sent = true;
	lqp->tx.reads++;
	return STEP_NEXT;
}

static enum path choose_path(const struct local_qp *lqp, const struct send_wqe *wqe)
{
	return onesided_is_permitted(lqp, wqe) ? PATH_DIRECT : PATH_RING;
}

/* A local operation was executed. It completes when all preceding WQEs are complete. */
static void executed(struct local_qp *lqp, struct send_wqe *wqe)
{
	wqe->message_seq = lqp->tx.ssn;
	if (lqp->qp->sq.una + 1 == lqp->qp->sq.nxt)
		local_requester_succeed(lqp);
}

/*
 * Whether the data of a WRITE with immediate has been written and only the immediate has to be
 * sent.
 */
static bool is_in_place(const struct send_wqe *wqe)
{
	return wqe_has_imm(wqe) && wqe->length_bytes && wqe->done_bytes == wqe->length_bytes;
}

PROBE_COLD static enum local_fault message_fault(struct local_qp *lqp, const struct send_wqe *wqe)
{
	enum local_fault fault;

	engine_lock_base(lqp->peer->engine);
	fault = local_fault_message(lqp, wqe);
	engine_unlock_base(lqp->peer->engine);
	return fault;
}

/* Sends the WQE at nxt. */
static enum step step_send(struct local_qp *lqp, struct send_wqe *wqe, uint32_t *budget_bytes)
{
	struct send_queue *sq = &lqp->qp->sq;
	enum step result;

	if (__builtin_expect(probe_is_on(PROBE_FAULT) || lqp->tx.is_held, 0)) {
		switch (message_fault(lqp, wqe)) {
		case LOCAL_FAULT_HOLD:
			return STEP_STOP;
		case LOCAL_FAULT_LOST:
			requester_begin(sq);
			lqp->tx.has_passed = false;
			sq->nxt++;
			local_requester_succeed(lqp);
			return STEP_NEXT;
		case LOCAL_FAULT_NONE:
			break;
		}
	}
	if (wqe->path == PATH_OPEN)
		wqe->path = (uint8_t)choose_path(lqp, wqe);
	requester_begin(sq);
	if (wqe->path == PATH_DIRECT && !is_in_place(wqe)) {
		result = step_onesided(lqp, wqe, budget_bytes);
		if (result != STEP_NOTIFY)
			return result;
	}
	wqe->message_seq = lqp->tx.ssn;
	result = wqe_is_request(wqe) ? step_responded(lqp, wqe) :
				       step_message(lqp, wqe, wqe->path == PATH_DIRECT);
	if (result == STEP_STOP)
		return result;
	wqe->state = SEND_WQE_SENT;
	lqp->tx.ssn++;
	lqp->tx.has_passed = false;
	sq->nxt++;
	peer_count(lqp->peer, LOCAL_MESSAGES_SENT);
	if (!local_requester_is_reliable(lqp))
		local_requester_succeed(lqp);
	return STEP_NEXT;
}

static enum step step(struct local_qp *lqp, uint32_t *budget_bytes)
{
	struct send_wqe *wqe = sq_wqe(&lqp->qp->sq, lqp->qp->sq.nxt);
	struct requester_error error;

	switch (requester_prepare(lqp->qp, lqp->tx.reads, &error)) {
	case REQUESTER_NEXT_SEND:
		return step_send(lqp, wqe, budget_bytes);
	case REQUESTER_NEXT_EXECUTED:
		executed(lqp, wqe);
		return STEP_NEXT;
	case REQUESTER_NEXT_FAIL:
		return fail_in_order(lqp, error.status, error.vendor_err);
	default:
		return STEP_STOP;
	}
}

/*
 * Once, before the first message: reports another path MTU of the peer also if no message is long
 * enough to be refused.
 */
static void compare_path_mtu(struct local_qp *lqp)
{
	uint32_t qpn = lqp->qp->attr.dest_qp_num, mtu = lqp->qp->attr.path_mtu, peers_mtu;
	const struct segment_qp *entry;
	uint64_t word;

	if (!lqp->peer->segment)
		return;
	lqp->tx.has_compared_mtu = true;
	entry = segment_qp_entry(lqp->peer->segment, qpn);
	word = atomic_load(&entry->word);
	peers_mtu = segment_path_mtu(atomic_load(&entry->onesided));
	if (segment_qp_qpn(word) == qpn && qp_state_receives(segment_qp_state(word)) &&
	    peers_mtu != mtu && peers_mtu <= IBV_MTU_4096)
		failure_warn_mtu(lqp->qp, mtu_code_bytes(mtu), mtu_code_bytes(peers_mtu));
}

/*
 * As peer_get(), for a QP whose remote QPN had no owner when the QP was bound. A process may have
 * acquired it since.
 */
static int local_requester_find_peer(struct local_qp *lqp)
{
	struct qp *qp = lqp->qp;
	struct peer *peer;
	int ret;

	if (lqp->peer)
		return lqp->peer->is_gone ? -ENOENT : 0;
	ret = peer_get(qp->context->engine, qp->attr.dest_qp_num >> IPC_SLOT_SHIFT, &peer);
	if (ret)
		return ret;
	if (!peer_may_be_late(peer))
		return -ENOENT;
	peer = peer_of_shards(peer, qp->shard, qpn_shard(qp->attr.dest_qp_num));
	if (!peer)
		return -ENOENT;
	local_join(lqp, peer);
	return 0;
}

/*
 * The peer's process has ended: outstanding WQEs fail after one ACK timeout, at most DEATH_WAIT_NS.
 */
static void run_with_dead_peer(struct local_qp *lqp)
{
	uint64_t wait_ns = requester_ack_timeout_ns(lqp->qp);
	uint64_t waited_ns = clock_now_ns() - lqp->peer->gone_ns;

	if (!wait_ns || wait_ns > DEATH_WAIT_NS)
		wait_ns = DEATH_WAIT_NS;
	if (waited_ns < wait_ns)
		local_requester_wait_for(lqp, WAIT_NOT_READY, wait_ns - waited_ns);
	else
		requester_fail(lqp->qp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_PEER_DEAD);
}

/* Without a peer, RC WQEs fail when the retries are exhausted. UC WQEs complete successfully. */
static void run_without_peer(struct local_qp *lqp)
{
	struct send_queue *sq = &lqp->qp->sq;

	if (lqp->peer && local_requester_is_reliable(lqp)) {
		run_with_dead_peer(lqp);
		return;
	}
	if (local_requester_is_reliable(lqp)) {
		local_requester_retry_not_ready(lqp);
		return;
	}
	if (sq->nxt != sq->head)
		failure_drop_packet(lqp->qp, IPC_REASON_DROP_NO_PEER, 0, 0);
	while (sq->nxt != sq->head) {
		sq->nxt++;
		local_requester_succeed(lqp);
	}
}

void local_requester_run(struct local_qp *lqp)
{
	struct qp *qp = lqp->qp;
	struct send_queue *sq = &qp->sq;
	uint32_t budget_bytes = TURN_BYTES;
	int ret;

	qp_assert_locked(lqp->qp);
	list_del(&lqp->blocked_node);
	while (sq->nxt != requester_sendable_end(qp) && lqp->tx.wait == WAIT_NOTHING) {
		ret = local_requester_find_peer(lqp);
		if (ret == -EAGAIN) {
			list_add_tail(&lqp->blocked_node, &local_of(qp->context->engine)->seeking);
			return;
		}
		if (ret) {
			run_without_peer(lqp);
			return;
		}
		if (__builtin_expect(!lqp->tx.has_compared_mtu, 0))
			compare_path_mtu(lqp);
		if (step(lqp, &budget_bytes) == STEP_STOP)
			break;
	}
	qp_check_drained(qp);
}

void local_requester_peer_gone(struct local_qp *lqp)
{
	struct qp *qp = lqp->qp;

	qp_assert_locked(qp);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	if (!local_requester_is_reliable(lqp) || qp->sq.una == qp->sq.head)
		return;
	timer_cancel(&qp->context->engine->timers, &lqp->tx.timer);
	lqp->tx.wait = WAIT_NOTHING;
	local_requester_rewind(lqp);
	local_requester_run(lqp);
}
