/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/datagram.h"

#include <assert.h>
#include <errno.h>

#include "base/util.h"
#include "core/device/ah.h"
#include "core/device/device.h"
#include "core/device/mcast.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "core/engine/transport.h"
#include "core/object/opcode.h"
#include "core/queue/execute.h"
#include "core/queue/failure_drop.h"
#include "core/queue/qp_error.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "core/report/fault_points.h"
#include "wire/gid.h"
#include "wire/psn.h"

/* Maximum number of datagrams that one QP sends before it releases the lock to others. */
#define TURN_DATAGRAMS 128

static const char *const result_names[] = {
	[DATAGRAM_DELIVERED] = "delivered",
	[DATAGRAM_UNKNOWN_QPN] = "unknown qpn",
	[DATAGRAM_NOT_UD] = "queue pair of another type",
	[DATAGRAM_QP_STATE] = "queue pair not ready",
	[DATAGRAM_QKEY] = "wrong q_key",
	[DATAGRAM_NO_RECV] = "no receive posted",
	[DATAGRAM_RECV_TOO_SHORT] = "longer than the receive",
	[DATAGRAM_BAD_RECV] = "bad receive work request",
};
static_assert(COUNT(result_names) == DATAGRAM_RESULT_COUNT, "every result has a name");

const char *datagram_result_name(enum datagram_result result)
{
	return (unsigned int)result < DATAGRAM_RESULT_COUNT ? result_names[result] : "unknown";
}

void datagrams_init(struct datagrams *datagrams)
{
	*datagrams = (struct datagrams){0};
	list_init(&datagrams->waiting);
	list_init(&datagrams->sent);
}

/* Ends a series of datagrams. Returns whether datagrams wait for the next series. */
static bool end_datagrams(struct engine *engine, bool may_wait)
{
	bool is_waiting = false;

	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->datagrams_end && transports[i]->datagrams_end(engine, may_wait))
			is_waiting = true;
	}
	return is_waiting;
}

/*
 * The application may reuse the QP's memory, and it may exit, when it has polled the completions:
 * no datagram waits any more.
 */
static void complete_sent(struct qp *qp)
{
	list_del(&qp->sent_node);
	while (qp->sq.una != qp->sq.nxt)
		sq_retire(qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	qp_check_drained(qp);
}

static unsigned int complete_all_sent(struct engine *engine)
{
	struct list_head *sent = &engine->datagrams.sent;
	unsigned int count = 0;

	for (; !list_is_empty(sent); count++)
		complete_sent(list_first_entry(sent, struct qp, sent_node));
	return count;
}

static void leave_turns(struct qp *qp)
{
	list_del(&qp->datagram_node);
	qp->is_datagram_held = false;
}

/* Before the QP's next WQEs complete with an error, those that were sent complete. */
static void settle_sent(struct qp *qp)
{
	if (!list_is_linked(&qp->sent_node))
		return;
	end_datagrams(qp->context->engine, false);
	complete_sent(qp);
}

void datagram_forget(struct qp *qp)
{
	engine_assert_locked(qp->context->engine);
	leave_turns(qp);
	settle_sent(qp);
}

static void wait_for_turn(struct qp *qp, bool is_held)
{
	qp->is_datagram_held = is_held;
	list_add_tail(&qp->datagram_node, &qp->context->engine->datagrams.waiting);
}

/* The next WQE fails, and the QP sends no more. */
static int fail_next(struct qp *qp, enum ibv_wc_status status, enum vendor_err vendor_err)
{
	settle_sent(qp);
	requester_fail(qp, status, vendor_err);
	return -EIO;
}

/* 0, -EAGAIN, or -EIO: the WQE failed and the QP sends no more. */
static int send_wqe(struct qp *qp, struct send_wqe *wqe)
{
	struct iovec iov[MAX_SGE];
	struct ah *ah = wqe->ah;
	struct datagram_tx datagram = {
		.dest_qpn = wqe->remote_qpn,
		.qkey = wqe->remote_qkey & DATAGRAM_QKEY_OF_QP ? qp->attr.qkey : wqe->remote_qkey,
		.psn = qp->attr.sq_psn,
		.has_imm = wqe_has_imm(wqe),
		.is_solicited = wqe->send_flags & IBV_SEND_SOLICITED,
		.imm_be = wqe->imm_data_be,
		.iov = iov,
		.bytes = wqe->length_bytes,
	};
	struct sge_iovs payload = {.iov = iov, .max = MAX_SGE};
	enum vendor_err err;
	int ret;

	if (__builtin_expect(wqe->injected_status, 0))
		return fail_next(qp, (enum ibv_wc_status)wqe->injected_status, VENDOR_ERR_INJECTED);
	if (wqe->length_bytes > mtu_code_bytes(device_active_mtu(qp->context->device)))
		return fail_next(qp, IBV_WC_LOC_LEN_ERR, VENDOR_ERR_DATAGRAM_LENGTH);
	if (ah->pd_id != qp->pd->id)
		return fail_next(qp, IBV_WC_LOC_QP_OP_ERR, VENDOR_ERR_AH_PD);
	err = sge_gather(qp, wqe, 0, wqe->length_bytes, false, &payload);
	if (err)
		return fail_next(qp, IBV_WC_LOC_PROT_ERR, err);
	datagram.iov_count = payload.count;
	ret = ah->transport->send_datagram(qp, ah, &datagram);
	return ret == -EFAULT ? fail_next(qp, IBV_WC_LOC_PROT_ERR, VENDOR_ERR_MEMORY_GONE) : ret;
}

/* One turn of a QP. Returns how many datagrams were sent. */
static unsigned int take_turn(struct qp *qp)
{
	struct send_queue *sq = &qp->sq;
	unsigned int sent = 0;

	leave_turns(qp);
	while (qp->state == IBV_QPS_RTS && sq->nxt != sq->head) {
		int ret;

		if (sent == TURN_DATAGRAMS) {
			wait_for_turn(qp, false);
			break;
		}
		ret = send_wqe(qp, sq_wqe(sq, sq->nxt));
		if (ret == -EAGAIN) {
			wait_for_turn(qp, true);
			break;
		}
		if (ret)
			break;
		qp->attr.sq_psn = psn_next(qp->attr.sq_psn);
		sq->begun = ++sq->nxt;
		if (!list_is_linked(&qp->sent_node))
			list_add_tail(&qp->sent_node, &qp->context->engine->datagrams.sent);
		sent++;
	}
	return sent;
}

void datagram_kick(struct qp *qp)
{
	struct engine *engine = qp->context->engine;

	engine_assert_locked(qp->context->engine);
	/* The QP waits for its turn already: its datagrams are sent in order. */
	if (list_is_linked(&qp->datagram_node))
		return;
	take_turn(qp);
	if (!end_datagrams(engine, true))
		complete_all_sent(engine);
	if (datagram_is_due(engine) && !engine_is_polled(engine))
		engine_wake(engine);
}

unsigned int datagram_resume(struct engine *engine)
{
	struct list_head due;
	unsigned int sent = 0;

	engine_assert_locked(engine);
	if (!datagram_has_pending(engine))
		return 0;
	list_init(&due);
	list_splice_tail(&engine->datagrams.waiting, &due);
	while (!list_is_empty(&due))
		sent += take_turn(list_first_entry(&due, struct qp, datagram_node));
	end_datagrams(engine, false);
	return sent + complete_all_sent(engine);
}

bool datagram_has_pending(const struct engine *engine)
{
	engine_assert_locked(engine);
	return !list_is_empty(&engine->datagrams.waiting) ||
	       !list_is_empty(&engine->datagrams.sent);
}

bool datagram_is_due(const struct engine *engine)
{
	const struct qp *qp;

	engine_assert_locked(engine);
	list_for_each_entry(qp, &engine->datagrams.waiting, datagram_node) {
		if (!qp->is_datagram_held)
			return true;
	}
	return false;
}

/*
 * The receive WQE is too short. In the QP's own queue it remains for a shorter datagram. An SRQ's
 * WQE is dequeued, so it completes with the error. The QP's state does not change (IBA 1.x §9.9.3,
 * classes D and E; Linux's rxe does the same).
 */
static enum datagram_result refuse_long(struct qp *qp, struct inbound *in)
{
	if (qp->srq && inbound_begin_recv(qp, in) == ACCESS_OK)
		inbound_fail(qp, in, ACCESS_LENGTH);
	return DATAGRAM_RECV_TOO_SHORT;
}

/*
 * A completion reports whether the header is IPv4's or IPv6's (IBA A17.4.5.1), but struct ibv_wc
 * has no field for it. NICs report it in the service level, which RoCE does not use, and UCX reads
 * it there.
 */
#define SL_ROCEV2 0x8
#define SL_IPV6	  0x1
#define SL_IPV4	  0x2

static enum datagram_result core_datagram_receive(struct qp *qp, const struct datagram_rx *rx)
{
	const struct inbound_end end = {
		.has_imm = rx->has_imm,
		.has_grh = true,
		.sl = SL_ROCEV2 | (gid_is_ipv4(rx->local_gid) ? SL_IPV4 : SL_IPV6),
		.is_solicited = rx->is_solicited,
		.imm_data_be = rx->imm_be,
		.src_qpn = rx->src_qpn,
	};
	struct inbound in = {.has_recv = false};
	enum access_result result;
	uint64_t room_bytes;

	if (!rq_peek(qp, &room_bytes) || fault_receive(qp))
		return DATAGRAM_NO_RECV;
	if (room_bytes < (uint64_t)GRH_BYTES + rx->bytes)
		return refuse_long(qp, &in);
	result = inbound_begin_recv(qp, &in);
	if (result == ACCESS_OK)
		result = inbound_data(qp, &in, rx->grh, GRH_BYTES);
	if (result == ACCESS_OK)
		result = inbound_data(qp, &in, rx->payload, rx->bytes);
	if (result == ACCESS_OK)
		result = inbound_end(qp, &in, &end);
	if (result == ACCESS_OK)
		return DATAGRAM_DELIVERED;
	inbound_fail(qp, &in, result);
	qp_enter_error(qp, QP_NO_EVENT);
	return DATAGRAM_BAD_RECV;
}

static enum datagram_result datagram_check_and_receive(struct qp *qp, const struct datagram_rx *rx)
{
	if (qp->type != IBV_QPT_UD)
		return DATAGRAM_NOT_UD;
	/* SQE, too: only sending has stopped (IBA 1.x §10.3.1.6). */
	if (qp->state < IBV_QPS_RTR || qp->state == IBV_QPS_ERR)
		return DATAGRAM_QP_STATE;
	if (rx->qkey != qp->attr.qkey) {
		qp->context->engine->datagrams.qkey_violations++;
		return DATAGRAM_QKEY;
	}
	return core_datagram_receive(qp, rx);
}

enum datagram_result datagram_deliver_to(struct qp *qp, const struct datagram_rx *rx)
{
	enum datagram_result result = datagram_check_and_receive(qp, rx);

	engine_assert_locked(qp->context->engine);
	if (__builtin_expect(result != DATAGRAM_DELIVERED, 0))
		failure_drop(qp, rx, result);
	return result;
}

/* State of the delivery of a multicast datagram to the members of its group. */
struct copies {
	const struct datagram_rx *rx;
	enum datagram_result result; /* DELIVERED if any copy was, else the last one's */
};

static void deliver_copy(struct qp *qp, void *arg)
{
	struct copies *copies = arg;
	enum datagram_result result = datagram_deliver_to(qp, copies->rx);

	if (copies->result != DATAGRAM_DELIVERED)
		copies->result = result;
}

static enum datagram_result core_datagram_deliver_to_group(struct engine *engine,
							   const struct datagram_rx *rx)
{
	const struct mcast_origin origin = {
		.group = rx->local_gid,
		.source = rx->remote_gid,
		.ifindex = rx->ifindex,
		.src_qpn = rx->src_qpn,
	};
	struct copies copies = {.rx = rx, .result = DATAGRAM_UNKNOWN_QPN};

	mcast_for_each(engine, &origin, deliver_copy, &copies);
	return copies.result;
}

/* A multicast address and the multicast QPN are only valid together (IBA 1.x §10.5.2). */
enum datagram_result datagram_deliver(struct engine *engine, const struct datagram_rx *rx)
{
	struct qp *qp;

	engine_assert_locked(engine);
	if (rx->dest_qpn == DATAGRAM_QPN_MULTICAST)
		return core_datagram_deliver_to_group(engine, rx);
	if (gid_is_multicast(rx->local_gid))
		return DATAGRAM_UNKNOWN_QPN;
	qp = qp_find(engine, rx->dest_qpn);
	return qp ? datagram_deliver_to(qp, rx) : DATAGRAM_UNKNOWN_QPN;
}
