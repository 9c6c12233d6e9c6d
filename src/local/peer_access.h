/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PEER_ACCESS_H
#define USRDMA_LOCAL_PEER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/queue/execute.h"
#include "local/onesided.h"
#include "local/peer_map.h"
#include "local/rseq_area.h"

struct local_qp;
struct peer;
struct segment_mr;
struct segment_qp;
struct send_wqe;

/*
 * The announcement and the checks of an access to a peer's memory: steps 1 and 2 of
 * docs/memory-safety.md.
 */

/*
 * Attempts of an access that is preempted or finds changed entries, before the peer's engine
 * executes the operation.
 */
#define PEER_ACCESS_ATTEMPTS 64

/*
 * An access: its address in the peer's memory, and the QP and MR entries and their words with which
 * it was checked.
 */
struct access {
	const struct segment_qp *qp;
	const struct segment_mr *mr;
	uint64_t qp_word;
	uint64_t mr_word;
	uint64_t at;
	struct peer_range range;
};

/* The entries of the peer's QP and of the rkey. */
const struct segment_qp *peer_access_qp(const struct local_qp *lqp);
const struct segment_mr *peer_access_mr(const struct local_qp *lqp, uint32_t rkey);

/*
 * Whether the peer's QP can receive from ours, according to the entry and its word. The PSNs of an
 * RC connection match: a peer that was reset and connected again is not accessed by way of the
 * earlier connection.
 */
bool peer_access_can_receive(const struct local_qp *lqp, const struct segment_qp *entry,
			     uint64_t word);

/*
 * Checks one access against the peer's tables. If the word of an entry changes while the entry is
 * read, or an entry does not match and the object has another entry now, both entries are read
 * again, so that the result is based on consistent entries. ONESIDED_DONE: *result is the result of
 * the checks.
 */
enum onesided_result peer_access_check(const struct local_qp *lqp, const struct send_wqe *wqe,
				       uint64_t remote_addr, uint32_t bytes, struct access *access,
				       enum access_result *result);

/* The words that must be unchanged when the bytes move. */
void peer_access_guards(const struct local_qp *lqp, const struct access *access,
			struct guard guards[GUARDS]);

/* Whether the peer admits accesses to its memory and its engine thread runs. */
bool peer_access_is_admitted(const struct peer *peer);

/*
 * Announce, then check; the owner's half is in revoke.c. The thread id is stored before the
 * announcement. The fence precedes all loads of the check and of the guards.
 */
void peer_access_announce(const struct local_qp *lqp, const struct send_wqe *wqe);

#endif
