/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer_access.h"

#include "base/thread_id.h"
#include "core/object/opcode.h"
#include "core/object/qp_state.h"
#include "local/onesided.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/ring.h"

const struct segment_qp *peer_access_qp(const struct local_qp *lqp)
{
	return segment_qp_entry(lqp->peer->segment, lqp->qp->attr.dest_qp_num);
}

const struct segment_mr *peer_access_mr(const struct local_qp *lqp, uint32_t rkey)
{
	return segment_mr_entry(lqp->peer->segment, rkey);
}

bool peer_access_can_receive(const struct local_qp *lqp, const struct segment_qp *entry,
			     uint64_t word)
{
	enum ibv_qp_state state = segment_qp_state(word);

	return segment_qp_qpn(word) == lqp->qp->attr.dest_qp_num && entry->is_local &&
	       entry->remote_qpn == lqp->qp->qpn &&
	       (lqp->qp->type != IBV_QPT_RC || entry->rq_psn == lqp->qp->attr.sq_psn) &&
	       qp_state_receives(state);
}

/*
 * Checks [remote_addr, remote_addr + bytes) against the MR entry, in the order of the responder's
 * checks, and sets where the memory is.
 */
static enum access_result check_peer_mr(const struct segment_mr *mr, uint64_t word,
					const struct segment_qp *peer_qp,
					const struct send_wqe *wqe, uint64_t remote_addr,
					uint32_t bytes, struct access *found)
{
	unsigned int access = wqe_info(wqe)->remote_access;
	uint64_t offset = remote_addr - mr->iova;

	if (!wqe->rkey || segment_mr_rkey(word) != wqe->rkey)
		return ACCESS_RKEY;
	if (mr->pd != peer_qp->pd)
		return ACCESS_PD;
	if (!(mr->access & access))
		return ACCESS_RIGHTS;
	if (remote_addr < mr->iova || offset > mr->length_bytes ||
	    bytes > mr->length_bytes - offset)
		return ACCESS_BOUNDS;
	found->at = mr->addr + offset;
	found->range.share = atomic_load_explicit(&mr->share, memory_order_acquire);
	found->range.generation = mr->share_generation;
	if (__builtin_add_overflow(mr->share_offset, offset, &found->range.offset))
		found->range.offset = UINT64_MAX;
	found->range.bytes = bytes;
	return ACCESS_OK;
}

enum onesided_result peer_access_check(const struct local_qp *lqp, const struct send_wqe *wqe,
				       uint64_t remote_addr, uint32_t bytes, struct access *access,
				       enum access_result *result)
{
	for (int i = 0; i < PEER_ACCESS_ATTEMPTS; i++) {
		const struct segment_qp *peer_qp = peer_access_qp(lqp);
		const struct segment_mr *peer_mr = peer_access_mr(lqp, wqe->rkey);
		bool can_receive;

		access->qp = peer_qp;
		access->mr = peer_mr;
		access->qp_word = atomic_load(&peer_qp->word);
		access->mr_word = atomic_load(&peer_mr->word);
		can_receive = peer_access_can_receive(lqp, peer_qp, access->qp_word);
		*result = check_peer_mr(peer_mr, access->mr_word, peer_qp, wqe, remote_addr, bytes,
					access);
		/*
		 * The contents were read between the loads of the words. Pairs with the fence of
		 * segment_revoke_word() and with the stores that publish the entries.
		 */
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load(&peer_qp->word) != access->qp_word ||
		    atomic_load(&peer_mr->word) != access->mr_word)
			continue;
		if ((!can_receive || *result == ACCESS_RKEY) &&
		    (peer_access_qp(lqp) != peer_qp || peer_access_mr(lqp, wqe->rkey) != peer_mr))
			continue;
		return can_receive ? ONESIDED_DONE : ONESIDED_NOT_READY;
	}
	return ONESIDED_DECLINED;
}

void peer_access_guards(const struct local_qp *lqp, const struct access *access,
			struct guard guards[GUARDS])
{
	const struct peer *peer = lqp->peer;

	guards[0] = (struct guard){&peer->tx.shared->admitted, 1};
	guards[1] = (struct guard){&peer->segment->hdr.life.word, peer->life_word};
	guards[2] = (struct guard){&access->qp->word, access->qp_word};
	guards[3] = (struct guard){&access->mr->word, access->mr_word};
}

bool peer_access_is_admitted(const struct peer *peer)
{
	return atomic_load(&peer->tx.shared->admitted) == 1 &&
	       atomic_load(&peer->segment->hdr.life.word) == peer->life_word;
}

void peer_access_announce(const struct local_qp *lqp, const struct send_wqe *wqe)
{
	struct ring_shared *shared = lqp->peer->tx.shared;

	/*
	 * Release: an owner that reads this id finds the ends of the accesses of preceding threads,
	 * which had the lock before. Pairs with is_harmless().
	 */
	atomic_store_explicit(&shared->accessing_tid, (uint32_t)thread_id(), memory_order_release);
	atomic_store(&shared->accessing, ring_access(lqp->qp->attr.dest_qp_num, wqe->rkey));
	/*
	 * The restartable sequences read the words with plain loads: either these find the
	 * revocation, or the owner finds the announcement. Pairs with announcement() of revoke.c,
	 * and with the fence of notify_peers() of share.c.
	 */
	atomic_thread_fence(memory_order_seq_cst);
}
