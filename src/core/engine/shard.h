/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_SHARD_H
#define USRDMA_CORE_ENGINE_SHARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/biased_lock.h"
#include "ipc/msg.h"

/*
 * Shards: parts of the engine with a lock of their own, so that threads which use different QPs and
 * CQs do not wait for each other (ADR 0054). A QPN names the shard of its QP: the last SHARD_QPNS
 * numbers of a slot are those of the last shard, and so on; all other numbers belong to shard 0,
 * whose lock is engine.lock. Until the first QP of another shard is created, a process has only
 * shard 0.
 *
 * The lock of a shard guards its QPs, their queues, and the FIFOs between them and their peers.
 * engine.lock guards everything else, also the QPs of shard 0. Locks are acquired in the order of
 * the shards, engine.lock last:
 *
 *   engine_lock()       all locks. Calls that create, change or destroy objects, timers, and the
 *                       engine thread.
 *   engine_lock_base()  engine.lock only. The data path of shard 0. In addition to the lock of a
 *                       shard: what rarely happens on its data path and concerns objects of the
 *                       process, as errors, timers, doorbells and memory windows.
 *   qp_lock()           what the data path of one QP needs (core/engine/qp_lock.h).
 */
#define SHARDS	   4u
#define SHARD_QPNS 1024u
#define SHARDS_ALL ((1u << SHARDS) - 1)

struct engine;
struct cq;
struct qp;

/* The shard of a QPN. */
static inline uint32_t qpn_shard(uint32_t qpn)
{
	uint32_t low = qpn % IPC_SLOT_QPNS;

	return low < IPC_SLOT_QPNS - (SHARDS - 1) * SHARD_QPNS ?
		       0 :
		       SHARDS - 1 - (IPC_SLOT_QPNS - 1 - low) / SHARD_QPNS;
}

/* A shard other than 0. */
struct shard {
	uint8_t unused
		[64]; /* the following fields are in other cache lines than those of other shards */
	struct biased_lock lock;
	atomic_uint uses; /* calls that used the shard; stored by the thread that holds the lock */
	bool is_inline;	  /* as run_by_replier(engine.run_by); lock */
};

struct shards {
	atomic_bool are_open; /* changes to true with engine.lock held, and does not change back */
	unsigned int
		all_depth; /* how often the holder of engine.lock holds the locks of all shards */
	struct shard each[SHARDS]; /* each[0] is not used */
	uint8_t unused[64];
	unsigned int uses_seen[SHARDS]; /* by shards_run_idle(); engine.lock */
	/* value of engine.polling.polls when a thread of another shard looked last */
	atomic_uint polls_seen;
};

/*
 * Opens the shards. false: not now, because the calling thread holds all locks more than once. All
 * locks held.
 */
bool shards_open(struct engine *engine);

/*
 * In the child of a fork(): initialises the locks of the shards, which the fork handler of the
 * parent has acquired.
 */
void shards_init_locks_in_child(struct engine *engine);

/*
 * The shard for a new QP: that of its thread domain, or else of the calling thread. 0 if another
 * shard does not support the QP: one with an SRQ or a completion channel, or of a type other than
 * RC and UC.
 */
uint32_t shard_choose(const struct qp *qp);

/*
 * Polls the shards of `numbers` (bits; struct cq) other than 0. Returns whether shard 0 need not be
 * polled now.
 */
bool shards_poll(struct engine *engine, uint32_t numbers);

/* Runs shards whose threads have not used them since the last call. engine.lock held. */
void shards_run_idle(struct engine *engine);

/* Acquires and releases the locks of all shards other than 0. */
void shards_lock(struct engine *engine);
bool shards_try_lock(struct engine *engine);
void shards_unlock(struct engine *engine);
/* See engine_unlock_in_turn(). */
void shards_let_waiters(struct engine *engine);

#endif
