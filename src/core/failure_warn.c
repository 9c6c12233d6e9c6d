/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/failure_warn.h"

#include <string.h>

#include "base/clock.h"
#include "core/engine.h"
#include "core/failure.h"

/* One RNR NAK with timer code 0 causes a wait of 655 ms, which is reported. */
#define RNR_WARNING_NS (CLOCK_NS_PER_S / 2)

void failure_warn_rnr(struct qp *qp, uint32_t naks, uint64_t waited_ns, unsigned int timer_code)
{
	struct ipc_failure failure;
	struct engine *engine;

	if (waited_ns < RNR_WARNING_NS || !failure_is_first(qp, IPC_REASON_RNR_WAIT))
		return;
	engine = failure_begin(qp, IPC_FAILURE_WARNING, &failure);
	if (!engine)
		return;
	failure.reason = IPC_REASON_RNR_WAIT;
	failure.numbers[0] = naks;
	failure.numbers[1] = waited_ns;
	failure.min_rnr_timer = (uint8_t)timer_code;
	failure_send(engine, &failure);
}

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
