/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/describe.h"

#include "core/engine/lock_check.h"
#include "ipc/msg_failure.h"
#include "local/peer.h"
#include "local/qp.h"

/*
 * Adds the region that the rkey denotes in the peer's tables, which only a process of the same user
 * can read.
 */
static void describe_peer_mr(const struct peer *peer, uint32_t rkey, struct ipc_failure *failure)
{
	const struct segment_mr *mr = segment_mr_entry(peer->segment, rkey);
	uint64_t word = atomic_load(&mr->word);

	if (!rkey || segment_mr_rkey(word) != rkey)
		return;
	failure->region_start = mr->iova;
	failure->region_length = mr->length_bytes;
	failure->region_access = mr->access;
	failure->region_pid = peer->pid;
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load(&mr->word) == word)
		failure->flags |= IPC_FAILURE_HAS_REGION;
}

static void describe_peer_qp(const struct local_qp *lqp, struct ipc_failure *failure)
{
	uint32_t qpn = lqp->qp->attr.dest_qp_num;
	const struct segment_qp *qp = segment_qp_entry(lqp->peer->segment, qpn);

	if (segment_qp_qpn(atomic_load(&qp->word)) == qpn)
		failure->qp_access = atomic_load(&qp->access);
}

/* Why the peer's process does not receive. */
static void describe_no_response(const struct local_qp *lqp, struct ipc_failure *failure)
{
	uint32_t qpn = lqp->qp->attr.dest_qp_num;
	uint64_t word = atomic_load(&segment_qp_entry(lqp->peer->segment, qpn)->word);
	uint32_t state = segment_qp_state(word);

	if (!qpn || segment_qp_qpn(word) != qpn) {
		failure->reason = IPC_REASON_PEER_UNKNOWN_QPN;
	} else if (state < IBV_QPS_RTR || state == IBV_QPS_ERR) {
		failure->reason = IPC_REASON_PEER_STATE;
		failure->numbers[0] = state;
	}
}

void local_describe(const struct qp *qp, const struct send_wqe *wqe, struct ipc_failure *failure)
{
	const struct local_qp *lqp = qp->transport_qp;
	const struct peer *peer = lqp->peer;

	qp_assert_locked(qp);
	failure->flags |= IPC_FAILURE_SAME_HOST;
	if (lqp->tx.rnr_code != RNR_CODE_NONE)
		failure->min_rnr_timer = lqp->tx.rnr_code;
	if (!peer)
		return;
	failure->peer_pid = peer->pid;
	if (!wqe || !peer->segment)
		return;
	if (failure->vendor_err == VENDOR_ERR_NO_RESPONSE)
		describe_no_response(lqp, failure);
	if (failure->vendor_err == VENDOR_ERR_QP_ACCESS)
		describe_peer_qp(lqp, failure);
	if ((failure->flags & IPC_FAILURE_HAS_REMOTE) && !(failure->flags & IPC_FAILURE_HAS_LOCAL))
		describe_peer_mr(peer, wqe->rkey, failure);
}
