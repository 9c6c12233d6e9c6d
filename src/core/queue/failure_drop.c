/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/failure_drop.h"

#include <string.h>

#include "base/clock.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/queue/failure_call.h"
#include "core/queue/failure_wr.h"
#include "core/report/failure.h"

static enum ipc_failure_reason drop_reason(enum datagram_result result)
{
	switch (result) {
	case DATAGRAM_QP_STATE:
		return IPC_REASON_DROP_STATE;
	case DATAGRAM_QKEY:
		return IPC_REASON_DROP_QKEY;
	case DATAGRAM_NO_RECV:
		return IPC_REASON_DROP_NO_RECV;
	case DATAGRAM_RECV_TOO_SHORT:
		return IPC_REASON_DROP_TOO_LONG;
	default:
		return IPC_REASON_NONE;
	}
}

void failure_drop(struct qp *qp, const struct datagram_rx *rx, enum datagram_result result)
{
	enum ipc_failure_reason reason = drop_reason(result);
	struct ipc_failure failure;
	struct engine *engine;

	qp_assert_locked(qp);
	if (reason == IPC_REASON_NONE || !failure_is_first(qp, reason))
		return;
	engine = failure_begin(qp, IPC_FAILURE_DROP, &failure);
	if (!engine)
		return;
	failure.reason = reason;
	failure.peer_qpn = rx->src_qpn;
	failure.numbers[0] = rx->qkey;
	failure.numbers[1] = qp->attr.qkey;
	failure.length = rx->bytes;
	failure_send(engine, &failure);
}

/* The sender of an RC packet repeats it. */
static bool is_sent_again(const struct qp *qp)
{
	return qp->type != IBV_QPT_UC;
}

void failure_drop_packet(struct qp *qp, enum ipc_failure_reason reason, uint64_t first,
			 uint64_t second)
{
	struct ipc_failure failure;
	struct engine *engine;

	qp_assert_locked(qp);
	if (!failure_is_first(qp, reason))
		return;
	engine = failure_begin(qp, IPC_FAILURE_DROP, &failure);
	if (!engine)
		return;
	if (is_sent_again(qp))
		failure.flags |= IPC_FAILURE_NOTE;
	failure.reason = reason;
	failure.numbers[0] = first;
	failure.numbers[1] = second;
	failure_send(engine, &failure);
}

void failure_drop_refused(struct qp *qp, enum access_result result)
{
	struct ipc_failure failure;
	struct engine *engine;

	qp_assert_locked(qp);
	if (result == ACCESS_RNR) {
		failure_drop_packet(qp, IPC_REASON_DROP_NO_RECV, 0, 0);
		return;
	}
	if (!failure_is_first(qp, IPC_REASON_DROP_ACCESS))
		return;
	engine = failure_begin(qp, IPC_FAILURE_DROP, &failure);
	if (!engine)
		return;
	engine_lock_base(engine);
	if (engine->failures.refusal.qpn == qp->qpn)
		failure_describe_refusal(&failure, engine);
	engine_unlock_base(engine);
	failure.vendor_err = access_vendor_err(result);
	failure.reason = IPC_REASON_DROP_ACCESS;
	failure_send(engine, &failure);
}

void failure_drop_own(struct qp *qp, const struct send_wqe *wqe, enum access_result result)
{
	struct ipc_failure failure;
	struct engine *engine;

	qp_assert_locked(qp);
	if (!failure_is_first(qp, IPC_REASON_DROP_ACCESS))
		return;
	engine = failure_begin(qp, IPC_FAILURE_DROP, &failure);
	if (!engine)
		return;
	failure.reason = IPC_REASON_DROP_ACCESS;
	failure.vendor_err = access_vendor_err(result);
	failure.flags |= IPC_FAILURE_HAS_REMOTE | IPC_FAILURE_IS_OWN;
	failure.wr_id = wqe->wr_id;
	failure.opcode = wqe->opcode;
	failure.length = send_wqe_reported_bytes(wqe);
	failure.remote_addr = wqe->remote_addr;
	failure.rkey = wqe->rkey;
	if (qp->transport_qp && qp->transport->describe)
		qp->transport->describe(qp, wqe, &failure);
	failure_send(engine, &failure);
}

void failure_unknown_qpn(struct engine *engine, uint32_t qpn, const uint8_t remote_gid[GID_BYTES])
{
	struct failure_reports *reports = &engine->failures;
	uint64_t now_ns = clock_now_ns();
	struct ipc_failure failure = {
		.qpn = qpn,
		.flags = IPC_FAILURE_NOTE,
		.reason = IPC_REASON_DROP_UNKNOWN_QPN,
	};
	const struct context *context;

	engine_assert_locked(engine);
	/* The sender may be any host of the network. */
	if (list_is_empty(&engine->tables.contexts) || qpn == reports->unknown_qpn ||
	    now_ns - reports->unknown_ns < CLOCK_NS_PER_S)
		return;
	context = list_first_entry(&engine->tables.contexts, struct context, node);
	if (!failure_begin_context(context, IPC_FAILURE_DROP, &failure))
		return;
	reports->unknown_qpn = qpn;
	reports->unknown_ns = now_ns;
	memcpy(failure.peer_gid, remote_gid, sizeof(failure.peer_gid));
	failure_send(engine, &failure);
}
