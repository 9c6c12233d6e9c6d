/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/onesided.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/kernel_copy.h"
#include "base/probe.h"
#include "base/util.h"
#include "core/memory/memory.h"
#include "core/object/opcode.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "local/mapped_copy.h"
#include "local/peer.h"
#include "local/peer_access.h"
#include "local/peer_map.h"
#include "local/pieces.h"
#include "local/qp.h"
#include "local/ring.h"

/*
 * Maximum bytes of one announcement and one system call. A revoking call of the peer waits for the
 * end of one chunk.
 */
#define CHUNK_BYTES (1024u * 1024)
#define CHUNK_IOVS  8
/* Maximum bytes of a chunk in a buffer on the stack. */
#define BOUNCE_BYTES 8192u

/*
 * READ, WRITE and atomics executed by the initiator, without the target's CPU. The peer's tables
 * (ipc/segment.h) define the permitted accesses; a peer with false entries only exposes its own
 * memory. This is the initiator's half of the protocol of docs/memory-safety.md: announce the
 * access, check it, and move the bytes only if the checked words are unchanged: with loads and
 * stores if the memory is mapped (peer_map.h), otherwise with a system call.
 */

/* Whether this process can access the peer's memory region of this rkey. */
static bool is_key_reachable(const struct peer *peer, uint32_t rkey)
{
	return peer->can_reach_memory && atomic_load(&peer->tx.shared->admitted) &&
	       !(rkey & SEGMENT_WINDOW_KEY) &&
	       !segment_mr_entry(peer->segment, rkey)->is_unreachable;
}

/*
 * Whether this process may execute the operation. With fault rules, the peer executes all
 * operations, so that they pass the points of its process. A trace shows atomics as the FIFO
 * elements that contain their operands and result.
 */
static bool is_direct(const struct send_wqe *wqe)
{
	if (wqe_is_atomic(wqe))
		return !probe_is_on(PROBE_FAULT | PROBE_TRACE);
	return wqe_info(wqe)->is_onesided && !probe_is_on(PROBE_FAULT);
}

/* Whether the peer has stored the data of all preceding messages. UC messages complete before. */
static bool has_peer_caught_up(const struct local_qp *lqp)
{
	return requester_is_oldest(&lqp->qp->sq) &&
	       (lqp->qp->type == IBV_QPT_RC || ring_has_passed(&lqp->peer->tx, lqp->tx.cells_end));
}

/*
 * Requests are executed in order (IBA 1.x §9.5). If preceding requests are not executed yet, a READ
 * or WRITE is therefore sent through the FIFO, too.
 */
bool onesided_is_permitted(const struct local_qp *lqp, const struct send_wqe *wqe)
{
	return is_direct(wqe) && is_key_reachable(lqp->peer, wqe->rkey) && has_peer_caught_up(lqp);
}

/* To be called after the word of the entry was read: the peer may just enter RTR. */
static bool is_left_to_owner(const struct local_qp *lqp, const struct send_wqe *wqe)
{
	const struct qp *qp = lqp->qp;
	uint32_t reads = wqe_is_request(wqe) ? requester_depth(qp) : 0;

	return !segment_permits_onesided(atomic_load(&peer_access_qp(lqp)->onesided),
					 qp->attr.path_mtu, reads);
}

/*
 * The bytes of one announcement: their memory in this process, and their address in the peer's, at
 * least modulo 8.
 */
struct chunk {
	struct iovec *iov;
	int count;
	uint32_t bytes;
	uint64_t at;
};

/* Removes the first `moved` bytes from the iovec. */
static void advance(struct iovec **iov, int *n, size_t moved)
{
	while (*n && moved >= (*iov)->iov_len) {
		moved -= (*iov)->iov_len;
		++*iov;
		--*n;
	}
	if (*n) {
		(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + moved;
		(*iov)->iov_len -= moved;
	}
}

/*
 * The address of the checked range in this process, or NULL: the bytes can only be moved with a
 * system call.
 */
static uint8_t *find_mapped(const struct local_qp *lqp, const struct send_wqe *wqe,
			    const struct access *access)
{
	if (!access->range.share)
		peer_map_request(lqp->peer, wqe->rkey);
	return peer_map_at(lqp->peer, &access->range);
}

/*
 * The bytes of the next sequence. If it does not move the whole element, it ends at a multiple of 8
 * in the mapped memory.
 */
static size_t sequence_bytes(const uint8_t *there, const struct iovec *iov)
{
	return iov->iov_len <= MAPPED_COPY_BYTES ? iov->iov_len :
						   MAPPED_COPY_BYTES - (uintptr_t)there % 8;
}

/*
 * Moves all bytes of the iovec to or from mapped memory. Returns 0; -EAGAIN: a checked word has
 * changed; -EBUSY: the thread was preempted in each attempt; -EFAULT: the mapped object has no page
 * for a byte; -EACCES: a page of the iovec cannot be accessed.
 */
static int move_mapped(const struct guard guards[GUARDS], uint8_t *there, struct iovec *iov, int n,
		       bool is_read)
{
	int attempts = 0;

	while (n) {
		size_t bytes = sequence_bytes(there, iov);
		enum guarded_outcome outcome =
			is_read ? mapped_read(guards, iov->iov_base, there, bytes) :
				  mapped_write(guards, there, iov->iov_base, bytes);

		if (outcome == GUARDED_CHANGED)
			return -EAGAIN;
		if (outcome == GUARDED_FAULTED)
			return -EFAULT;
		if (outcome == GUARDED_FAULTED_OURS)
			return -EACCES;
		if (outcome == GUARDED_PREEMPTED) {
			if (++attempts >= PEER_ACCESS_ATTEMPTS)
				return -EBUSY;
			continue;
		}
		there += bytes;
		advance(&iov, &n, bytes);
		attempts = 0;
	}
	return 0;
}

/*
 * Whether the chunk ends with the last word of a WRITE. The word is an element of its own, which
 * the kernel copies after all others. The remote iovec is not divided, because the kernel looks up
 * the pages of each remote element separately.
 */
static bool ends_write(const struct send_wqe *wqe, uint32_t bytes)
{
	return !wqe_scatters(wqe) && wqe->done_bytes + bytes == wqe->length_bytes;
}

/*
 * Moves all bytes of the chunk; a partial system call is continued. Returns 0. -EFAULT: a page of
 * one side is not mapped; -EAGAIN: a checked word has changed; -EBUSY: the thread was preempted in
 * each attempt; other -errno: the peer cannot be reached.
 */
static int move_bytes(const struct local_qp *lqp, const struct send_wqe *wqe,
		      const struct access *access, const struct chunk *chunk)
{
	bool is_read = wqe_scatters(wqe);
	uint64_t at = access->at;
	uint32_t bytes = chunk->bytes;
	struct iovec pieces[CHUNK_IOVS + PIECES_EXTRA], *iov = pieces;
	int n = pieces_split(chunk->iov, chunk->count, at, ends_write(wqe, bytes), pieces);
	struct iovec there;
	struct guarded_call call = {
		.is_read = is_read,
		.tid = lqp->peer->engine_tid,
		.remote = &there,
		.remote_count = 1,
	};

	peer_access_guards(lqp, access, call.guards);
	for (int attempts = 0; bytes; attempts++) {
		ssize_t moved = 0;

		there = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = bytes};
		call.local = iov;
		call.local_count = (unsigned long)n;
		switch (guarded_copy(&call, &moved)) {
		case GUARDED_CHANGED:
			return -EAGAIN;
		case GUARDED_PREEMPTED:
			if (attempts >= PEER_ACCESS_ATTEMPTS)
				return -EBUSY;
			continue;
		case GUARDED_CALLED:
		case GUARDED_FAULTED:
		case GUARDED_FAULTED_OURS:
			break;
		}
		if (moved <= 0)
			return moved ? (int)moved : -EFAULT;
		at += (uint64_t)moved;
		bytes -= (uint32_t)moved;
		advance(&iov, &n, (size_t)moved);
		attempts = 0;
	}
	return 0;
}

/* Whether the local memory of a chunk is not accessible, after the chunk could not be moved. */
static bool is_ours_gone(struct local_qp *lqp, struct send_wqe *wqe, uint32_t bytes, bool is_read)
{
	struct iovec iov[CHUNK_IOVS];
	struct sge_iovs ours = {.iov = iov, .max = CHUNK_IOVS};

	if (sge_gather(lqp->qp, wqe, wqe->done_bytes, bytes, is_read, &ours))
		return false;
	for (int i = 0; i < ours.count; i++) {
		if (memory_check(iov[i].iov_base, iov[i].iov_len, is_read))
			return true;
	}
	return false;
}

/*
 * The object of the access does not have the page any more. The access is repeated with a system
 * call, which reports whether the owner has the page.
 */
static enum onesided_result drop_faulted(const struct local_qp *lqp, const struct access *access)
{
	peer_count(lqp->peer, LOCAL_MAPPED_FAULTS);
	peer_map_drop(lqp->peer, access->range.share);
	return ONESIDED_MORE;
}

/*
 * Whether the system call could divide an aligned word of the message. The peer's engine then
 * executes the operation.
 */
static bool divides_word(const struct send_wqe *wqe, const struct access *access)
{
	switch (kernel_copy_words()) {
	case KERNEL_WORDS_ALL:
		return false;
	case KERNEL_WORDS_LONG:
		return pieces_have_short_word(access->at - wqe->done_bytes, wqe->length_bytes);
	case KERNEL_WORDS_NONE:
		break;
	}
	return wqe->length_bytes > 1;
}

static enum onesided_result move_announced(struct local_qp *lqp, const struct send_wqe *wqe,
					   const struct chunk *chunk, enum access_result *result)
{
	struct guard guards[GUARDS];
	struct access access;
	enum onesided_result checked;
	uint8_t *mapped;
	int ret;

	if (!peer_access_is_admitted(lqp->peer))
		return ONESIDED_CUT_OFF;
	checked = peer_access_check(lqp, wqe, wqe->remote_addr + wqe->done_bytes, chunk->bytes,
				    &access, result);
	if (checked != ONESIDED_DONE || *result != ACCESS_OK)
		return checked;
	if ((access.at ^ chunk->at) % sizeof(uint64_t))
		return ONESIDED_MORE;
	mapped = find_mapped(lqp, wqe, &access);
	if (!mapped && divides_word(wqe, &access))
		return ONESIDED_DECLINED;
	if (mapped) {
		peer_access_guards(lqp, &access, guards);
		ret = move_mapped(guards, mapped, chunk->iov, chunk->count, wqe_scatters(wqe));
		if (ret == -EFAULT)
			return drop_faulted(lqp, &access);
		if (ret == -EACCES)
			return ONESIDED_LOCAL_FAULT;
		peer_count(lqp->peer, LOCAL_MAPPED);
	} else {
		ret = move_bytes(lqp, wqe, &access, chunk);
	}
	if (ret == -EAGAIN)
		return ONESIDED_MORE;
	if (ret == -EBUSY)
		return ONESIDED_DECLINED;
	if (ret == -EFAULT)
		*result = ACCESS_GONE;
	return !ret || ret == -EFAULT ? ONESIDED_DONE : ONESIDED_CUT_OFF;
}

/* Moves one chunk. ONESIDED_MORE: the peer's tables changed; the chunk has to be moved again. */
static enum onesided_result move_chunk(struct local_qp *lqp, const struct send_wqe *wqe,
				       const struct chunk *chunk, enum access_result *result)
{
	struct ring_shared *shared = lqp->peer->tx.shared;
	enum onesided_result moved;

	peer_access_announce(lqp, wqe);
	moved = move_announced(lqp, wqe, chunk, result);
	/* Release: all bytes were moved before. Pairs with announcement() of revoke.c. */
	atomic_store_explicit(&shared->accessing, 0, memory_order_release);
	return moved;
}

/*
 * Checks the whole range before the first byte moves, as a responder checks the RETH (IBA 1.x
 * §9.7.4.1.5).
 */
static enum onesided_result check_whole(const struct local_qp *lqp, const struct send_wqe *wqe,
					enum access_result *result)
{
	unsigned int right = wqe_info(wqe)->remote_access;
	const struct segment_qp *peer_qp = peer_access_qp(lqp);
	struct access access;

	if (!peer_access_can_receive(lqp, peer_qp, atomic_load(&peer_qp->word)))
		return ONESIDED_NOT_READY;
	*result = atomic_load(&peer_qp->access) & right ? ACCESS_OK : ACCESS_QP_RIGHTS;
	if (*result != ACCESS_OK || !wqe->length_bytes)
		return ONESIDED_DONE;
	return peer_access_check(lqp, wqe, wqe->remote_addr, wqe->length_bytes, &access, result);
}

/*
 * Checks the SGEs of a WRITE that the peer would not take. A requester reads its own memory before
 * it sends, so its own error comes first. Those of a READ are written to after the peer's response.
 */
static enum vendor_err check_own(struct local_qp *lqp, struct send_wqe *wqe)
{
	struct iovec iov[CHUNK_IOVS];
	uint32_t at = 0;

	while (at < wqe->length_bytes) {
		struct sge_iovs part = {.iov = iov, .max = CHUNK_IOVS};
		enum vendor_err err = sge_gather(lqp->qp, wqe, at, wqe->length_bytes - at, false,
						 &part);

		if (err)
			return err;
		if (!part.count)
			return VENDOR_ERR_LKEY_BOUNDS;
		at += part.bytes;
	}
	return VENDOR_ERR_NONE;
}

/*
 * The address of the next byte in the peer's memory, as the MR entry specifies it now. It
 * determines the words. The check of the access finds out if it has changed.
 */
static uint64_t next_address(const struct local_qp *lqp, const struct send_wqe *wqe)
{
	const struct segment_mr *mr = peer_access_mr(lqp, wqe->rkey);

	return mr->addr + (wqe->remote_addr - mr->iova) + wqe->done_bytes;
}

/*
 * Moves the bytes that follow by way of a buffer. The buffer has the alignment of the peer's
 * memory, and contains words that consist of bytes of several SGEs. Both copies therefore keep
 * words whole.
 */
static enum onesided_result move_bounced(struct local_qp *lqp, struct send_wqe *wqe, uint64_t at,
					 uint32_t *bytes, enum access_result *result,
					 enum vendor_err *vendor_err)
	__attribute__((noinline)); /* the buffer is not on the stack of other operations */

static enum onesided_result move_bounced(struct local_qp *lqp, struct send_wqe *wqe, uint64_t at,
					 uint32_t *bytes, enum access_result *result,
					 enum vendor_err *vendor_err)
{
	_Alignas(8) uint8_t bounce[BOUNCE_BYTES + sizeof(uint64_t)];
	uint32_t left = wqe->length_bytes - wqe->done_bytes;
	struct iovec iov = {.iov_base = bounce + at % sizeof(uint64_t)};
	struct chunk chunk = {.iov = &iov, .count = 1, .at = at};
	enum onesided_result moved;

	chunk.bytes = min_u32(left, BOUNCE_BYTES);
	if (chunk.bytes < left)
		chunk.bytes -= (at + chunk.bytes) % sizeof(uint64_t);
	iov.iov_len = chunk.bytes;
	*bytes = chunk.bytes;
	if (!wqe_scatters(wqe)) {
		*vendor_err = sge_copy_from(lqp->qp, wqe, wqe->done_bytes, iov.iov_base, *bytes);
		return *vendor_err ? ONESIDED_LOCAL_FAULT : move_chunk(lqp, wqe, &chunk, result);
	}
	moved = move_chunk(lqp, wqe, &chunk, result);
	if (moved != ONESIDED_DONE || *result != ACCESS_OK)
		return moved;
	*vendor_err = sge_copy_to(lqp->qp, wqe, wqe->done_bytes, bounce + at % sizeof(uint64_t),
				  *bytes);
	return *vendor_err ? ONESIDED_LOCAL_FAULT : ONESIDED_DONE;
}

/*
 * Moves as many of the next bytes as one announcement permits. ONESIDED_DONE with ACCESS_OK: *bytes
 * were moved.
 */
static enum onesided_result move_next(struct local_qp *lqp, struct send_wqe *wqe, uint32_t *bytes,
				      enum access_result *result, enum vendor_err *vendor_err)
{
	bool is_read = wqe_scatters(wqe);
	uint32_t left = wqe->length_bytes - wqe->done_bytes;
	struct iovec iov[CHUNK_IOVS];
	struct sge_iovs ours = {.iov = iov, .max = CHUNK_IOVS};
	struct chunk chunk = {.iov = iov, .at = next_address(lqp, wqe)};
	enum onesided_result moved;

	*vendor_err = sge_gather(lqp->qp, wqe, wqe->done_bytes, min_u32(left, CHUNK_BYTES), is_read,
				 &ours);
	if (*vendor_err)
		return ONESIDED_LOCAL_FAULT;
	chunk.bytes = pieces_fitting(iov, ours.count, chunk.at, left,
				     is_read || !GUARDED_COPY_ALIGNS_STORES);
	if (!chunk.bytes)
		return move_bounced(lqp, wqe, chunk.at, bytes, result, vendor_err);
	chunk.count = pieces_cut(iov, ours.count, chunk.bytes);
	*bytes = chunk.bytes;
	moved = move_chunk(lqp, wqe, &chunk, result);
	if (moved == ONESIDED_DONE && *result == ACCESS_GONE &&
	    is_ours_gone(lqp, wqe, chunk.bytes, is_read))
		moved = ONESIDED_LOCAL_FAULT;
	if (moved == ONESIDED_LOCAL_FAULT)
		*vendor_err = VENDOR_ERR_MEMORY_GONE;
	return moved;
}

enum onesided_result onesided_move(struct local_qp *lqp, struct send_wqe *wqe,
				   uint32_t *budget_bytes, enum access_result *result,
				   enum vendor_err *vendor_err)
{
	bool is_read = wqe_scatters(wqe);
	enum onesided_result moved = ONESIDED_DONE;
	int changes = 0;

	*result = ACCESS_OK;
	if (!wqe->done_bytes)
		moved = check_whole(lqp, wqe, result);
	if (moved == ONESIDED_DONE && is_left_to_owner(lqp, wqe))
		return ONESIDED_DECLINED;
	if ((moved == ONESIDED_NOT_READY || *result != ACCESS_OK) && !is_read) {
		*vendor_err = check_own(lqp, wqe);
		if (*vendor_err)
			return ONESIDED_LOCAL_FAULT;
	}
	while (moved == ONESIDED_DONE && *result == ACCESS_OK &&
	       wqe->done_bytes < wqe->length_bytes) {
		uint32_t bytes = 0;

		if (!*budget_bytes)
			return ONESIDED_MORE;
		moved = move_next(lqp, wqe, &bytes, result, vendor_err);
		if (moved == ONESIDED_MORE) {
			moved = ++changes < PEER_ACCESS_ATTEMPTS ? ONESIDED_DONE :
								   ONESIDED_DECLINED;
			continue;
		}
		if (moved != ONESIDED_DONE)
			break;
		if (*result == ACCESS_OK)
			wqe->done_bytes += bytes;
		*budget_bytes -= min_u32(bytes, *budget_bytes);
	}
	return moved;
}

/*
 * The word of an atomic operation in mapped memory; NULL: the peer's engine executes the operation.
 */
static uint64_t *find_word(const struct local_qp *lqp, const struct send_wqe *wqe,
			   const struct access *access)
{
	uint8_t *at = find_mapped(lqp, wqe, access);

	/*
	 * The responder refuses unaligned addresses, also aligned ones of a region whose iova is
	 * not aligned like its memory.
	 */
	if (wqe->remote_addr % sizeof(uint64_t) || (uintptr_t)at % sizeof(uint64_t))
		return NULL;
	return (uint64_t *)(void *)at;
}

/*
 * The part of onesided_atomic() between announcement and its end. *original is set with
 * ONESIDED_DONE and ACCESS_OK.
 */
static enum onesided_result execute_announced(const struct local_qp *lqp,
					      const struct send_wqe *wqe,
					      enum access_result *result, uint64_t *original)
{
	bool is_cas = wqe_info(wqe)->has_compare;
	struct guard guards[GUARDS];
	struct access access;

	if (!peer_access_is_admitted(lqp->peer))
		return ONESIDED_CUT_OFF;
	for (int i = 0; i < PEER_ACCESS_ATTEMPTS; i++) {
		enum onesided_result checked = peer_access_check(
			lqp, wqe, wqe->remote_addr, sizeof(*original), &access, result);
		enum guarded_outcome outcome;
		uint64_t *word;

		/*
		 * The responder examines the alignment first, and reports failures to both sides.
		 */
		if (checked != ONESIDED_DONE || *result != ACCESS_OK)
			return ONESIDED_DECLINED;
		word = find_word(lqp, wqe, &access);
		if (!word)
			return ONESIDED_DECLINED;
		peer_access_guards(lqp, &access, guards);
		outcome = is_cas ? mapped_compare_swap(guards, word, wqe->compare_add, wqe->swap,
						       original) :
				   mapped_fetch_add(guards, word, wqe->compare_add, original);
		if (outcome == GUARDED_CALLED)
			return ONESIDED_DONE;
		if (outcome == GUARDED_FAULTED)
			drop_faulted(lqp, &access);
	}
	return ONESIDED_DECLINED;
}

enum onesided_result onesided_atomic(struct local_qp *lqp, struct send_wqe *wqe,
				     enum vendor_err *vendor_err)
{
	struct ring_shared *shared = lqp->peer->tx.shared;
	struct iovec iov[CHUNK_IOVS];
	struct sge_iovs ours = {.iov = iov, .max = CHUNK_IOVS};
	enum access_result result = ACCESS_OK;
	enum onesided_result executed;
	uint64_t original = 0;

	if (!peer_access_can_receive(lqp, peer_access_qp(lqp),
				     atomic_load(&peer_access_qp(lqp)->word)) ||
	    is_left_to_owner(lqp, wqe) ||
	    !(atomic_load(&peer_access_qp(lqp)->access) & wqe_info(wqe)->remote_access))
		return ONESIDED_DECLINED;
	*vendor_err = sge_gather(lqp->qp, wqe, 0, sizeof(original), true, &ours);
	if (*vendor_err)
		return ONESIDED_LOCAL_FAULT;
	peer_access_announce(lqp, wqe);
	executed = execute_announced(lqp, wqe, &result, &original);
	/* As in move_chunk(). */
	atomic_store_explicit(&shared->accessing, 0, memory_order_release);
	if (executed != ONESIDED_DONE)
		return executed;
	peer_count(lqp->peer, LOCAL_MAPPED);
	*vendor_err = sge_copy_to(lqp->qp, wqe, 0, &original, sizeof(original));
	return *vendor_err ? ONESIDED_LOCAL_FAULT : ONESIDED_DONE;
}
