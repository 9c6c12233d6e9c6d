/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/uio.h>

#include "core/memory.h"
#include "core/sge.h"
#include "local/local.h"

/* One access announced and done at a time: ibv_dereg_mr at the peer waits at most for this much. */
#define CHUNK_BYTES (1024u * 1024)
#define CHUNK_IOVS  8

/*
 * READ and WRITE carried out by the initiator, which is what RDMA means: the target's CPU is not asked. The peer's tables
 * (ipc/segment.h) say what is permitted; a peer that lies there only lets us write to itself.
 */

static bool peer_can_receive(const struct local_qp *lqp, const struct segment_qp *entry)
{
	uint32_t state = atomic_load(&entry->state);

	return atomic_load(&entry->qpn) == lqp->qp->attr.dest_qp_num && entry->is_local &&
	       entry->remote_qpn == lqp->qp->qpn &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD);
}

/* The region that [addr, addr + bytes) is in; *at is where it lies in the peer's memory. In the responder's order. */
static enum access_result check_peer_mr(const struct segment *segment,
					const struct segment_qp *peer_qp, uint32_t rkey,
					uint64_t remote_addr, uint32_t bytes, unsigned int access,
					uint64_t *at)
{
	const struct segment_mr *mr = &segment->mrs[rkey % SEGMENT_MRS];
	uint64_t offset = remote_addr - mr->iova;

	if (!rkey || atomic_load(&mr->rkey) != rkey)
		return ACCESS_RKEY;
	if (mr->pd != peer_qp->pd)
		return ACCESS_PD;
	if (!(mr->access & access))
		return ACCESS_RIGHTS;
	if (remote_addr < mr->iova || offset > mr->length_bytes ||
	    bytes > mr->length_bytes - offset)
		return ACCESS_BOUNDS;
	*at = mr->addr + offset;
	return ACCESS_OK;
}

/* Moves all of the iovec. 0, -EFAULT: a page of one side is not there any more, or why the peer cannot be reached. */
static int move_bytes(pid_t pid, struct iovec *iov, int n, uint64_t at, uint32_t bytes,
		      bool is_read)
{
	while (bytes) {
		struct iovec there = {.iov_base = (void *)(uintptr_t)at, .iov_len = bytes};
		ssize_t moved = is_read ?
					process_vm_readv(pid, iov, (unsigned long)n, &there, 1, 0) :
					process_vm_writev(pid, iov, (unsigned long)n, &there, 1, 0);

		if (moved <= 0)
			return moved ? -errno : -EFAULT;
		bytes -= (uint32_t)moved;
		at += (uint64_t)moved;
		while (n && (size_t)moved >= iov->iov_len) {
			moved -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (uint8_t *)iov->iov_base + moved;
			iov->iov_len -= (size_t)moved;
		}
	}
	return 0;
}

/* Whether our own side of a chunk that could not be moved is what is missing. */
static bool is_ours_gone(struct local_qp *lqp, struct send_wqe *wqe, uint32_t bytes, bool is_read)
{
	struct iovec iov[CHUNK_IOVS];
	uint32_t covered;
	int n = sge_gather(lqp->qp, wqe, wqe->done_bytes, bytes, is_read, iov, CHUNK_IOVS,
			   &covered);

	for (int i = 0; i < n; i++) {
		if (memory_check(iov[i].iov_base, iov[i].iov_len, is_read))
			return true;
	}
	return false;
}

static enum onesided_result move_chunk(struct peer *peer, const struct segment_qp *peer_qp,
				       const struct send_wqe *wqe, struct iovec *iov, int n,
				       uint32_t bytes, bool is_read, enum access_result *result)
{
	unsigned int access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	uint64_t at;
	int ret = 0;

	/* Announce, then look: the other half of segment_revoke_mr(). */
	atomic_store(&peer->tx.shared->accessing, wqe->rkey);
	*result = check_peer_mr(peer->segment, peer_qp, wqe->rkey,
				wqe->remote_addr + wqe->done_bytes, bytes, access, &at);
	if (*result == ACCESS_OK)
		ret = move_bytes(peer->pid, iov, n, at, bytes, is_read);
	atomic_store_explicit(&peer->tx.shared->accessing, 0, memory_order_release);
	if (ret == -EFAULT)
		*result = ACCESS_GONE;
	return !ret || ret == -EFAULT ? ONESIDED_DONE : ONESIDED_CUT_OFF;
}

/* The whole range is checked before the first byte moves, as a responder does with the RETH (IBA 1.x §9.7.4.1.5). */
static enum access_result check_whole(struct peer *peer, const struct segment_qp *peer_qp,
				      const struct send_wqe *wqe, bool is_read)
{
	unsigned int access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	uint64_t at;

	if (!(atomic_load(&peer_qp->access) & access))
		return ACCESS_QP_RIGHTS;
	if (!wqe->length_bytes)
		return ACCESS_OK;
	return check_peer_mr(peer->segment, peer_qp, wqe->rkey, wqe->remote_addr, wqe->length_bytes,
			     access, &at);
}

enum onesided_result onesided_move(struct local_qp *lqp, struct send_wqe *wqe,
				   uint32_t *budget_bytes, enum access_result *result,
				   enum vendor_err *vendor_err)
{
	struct peer *peer = lqp->peer;
	const struct segment_qp *peer_qp =
		&peer->segment->qps[lqp->qp->attr.dest_qp_num % SEGMENT_QPS];
	bool is_read = wqe->opcode == IBV_WR_RDMA_READ;

	if (!peer_can_receive(lqp, peer_qp))
		return ONESIDED_NOT_READY;
	*result = wqe->done_bytes ? ACCESS_OK : check_whole(peer, peer_qp, wqe, is_read);
	while (*result == ACCESS_OK && wqe->done_bytes < wqe->length_bytes) {
		uint32_t left = wqe->length_bytes - wqe->done_bytes;
		struct iovec iov[CHUNK_IOVS];
		uint32_t covered;
		int n;

		if (!*budget_bytes)
			return ONESIDED_MORE;
		n = sge_gather(lqp->qp, wqe, wqe->done_bytes,
			       left < CHUNK_BYTES ? left : CHUNK_BYTES, is_read, iov, CHUNK_IOVS,
			       &covered);
		if (n < 0) {
			*vendor_err = (enum vendor_err) - n;
			return ONESIDED_LOCAL_FAULT;
		}
		if (move_chunk(peer, peer_qp, wqe, iov, n, covered, is_read, result) ==
		    ONESIDED_CUT_OFF)
			return ONESIDED_CUT_OFF;
		if (*result == ACCESS_GONE && is_ours_gone(lqp, wqe, covered, is_read)) {
			*vendor_err = VENDOR_ERR_MEMORY_GONE;
			return ONESIDED_LOCAL_FAULT;
		}
		if (*result == ACCESS_OK)
			wqe->done_bytes += covered;
		*budget_bytes -= covered < *budget_bytes ? covered : *budget_bytes;
	}
	return ONESIDED_DONE;
}
