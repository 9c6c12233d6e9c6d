/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/shard.h"

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/memory/domain.h"
#include "core/object/objects.h"

/* A thread that polls other shards only also polls shard 0 once in BASE_POLLS polls. */
#define BASE_POLLS 64

static _Thread_local uint32_t thread_shard; /* its number + 1; 0: not chosen yet */

/* Threads are given the shards in turn: the first thread that creates QPs has shard 0. */
static uint32_t shard_of_thread(void)
{
	static atomic_uint threads;

	if (!thread_shard)
		thread_shard = atomic_fetch_add(&threads, 1) % SHARDS + 1;
	return thread_shard - 1;
}

static bool shard_supports(const struct qp *qp)
{
	return (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC) && !qp->srq &&
	       !qp->send_cq->channel && !qp->recv_cq->channel;
}

uint32_t shard_choose(const struct qp *qp)
{
	if (!shard_supports(qp))
		return 0;
	return qp->pd->td ? td_shard(qp->pd->td) : shard_of_thread();
}

bool shards_open(struct engine *engine)
{
	engine_assert_all_locked(engine);
	if (engine->shards.are_open)
		return true;
	if (engine->shards.all_depth != 1)
		return false;
	for (uint32_t i = 1; i < SHARDS; i++) {
		biased_lock_init(&engine->shards.each[i].lock);
		/* engine_unlock() will release it. */
		biased_lock_acquire(&engine->shards.each[i].lock);
	}
	atomic_store_explicit(&engine->shards.are_open, true, memory_order_release);
	return true;
}

void shards_init_locks_in_child(struct engine *engine)
{
	engine->shards.all_depth = 0;
	for (uint32_t i = 1; engine->shards.are_open && i < SHARDS; i++)
		biased_lock_init(&engine->shards.each[i].lock);
}

void shards_lock(struct engine *engine)
{
	for (uint32_t i = 1; i < SHARDS; i++)
		biased_lock_acquire(&engine->shards.each[i].lock);
}

bool shards_try_lock(struct engine *engine)
{
	for (uint32_t i = 1; i < SHARDS; i++) {
		if (biased_lock_try(&engine->shards.each[i].lock))
			continue;
		while (--i)
			biased_lock_release(&engine->shards.each[i].lock);
		return false;
	}
	return true;
}

void shards_let_waiters(struct engine *engine)
{
	for (uint32_t i = 1; i < SHARDS; i++)
		biased_lock_let_waiters(&engine->shards.each[i].lock);
}

void shards_unlock(struct engine *engine)
{
	for (uint32_t i = SHARDS - 1; i; i--)
		biased_lock_release(&engine->shards.each[i].lock);
}

static void shard_run(struct engine *engine, uint32_t number)
{
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->run_shard)
			transports[i]->run_shard(engine, number);
	}
}

static void shard_poll(struct engine *engine, uint32_t number)
{
	struct shard *shard = &engine->shards.each[number];

	if (!biased_lock_try(&shard->lock))
		return;
	shard_used(shard);
	if (!engine->is_orphan && !engine->is_fatal) {
		shard->is_inline = engine_is_polled(engine);
		shard_run(engine, number);
		shard->is_inline = false;
	}
	biased_lock_release(&shard->lock);
}

/*
 * Whether a thread has polled shard 0 since the last call. To acquire its lock would withdraw the
 * bias of that thread (base/biased_lock.h).
 */
static bool is_base_polled(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polling.polls, memory_order_relaxed);

	return atomic_exchange_explicit(&engine->shards.polls_seen, polls, memory_order_relaxed) !=
	       polls;
}

bool shards_poll(struct engine *engine, uint32_t numbers)
{
	static _Thread_local unsigned int polls;

	if (!engine->shards.are_open)
		return false;
	for (uint32_t i = 1; i < SHARDS; i++) {
		if (numbers & 1u << i)
			shard_poll(engine, i);
	}
	if (numbers & 1)
		return false;
	return ++polls % BASE_POLLS || is_base_polled(engine);
}

void shards_run_idle(struct engine *engine)
{
	engine_assert_locked(engine);
	for (uint32_t i = 1; i < SHARDS; i++) {
		struct shard *shard = &engine->shards.each[i];
		unsigned int uses = atomic_load_explicit(&shard->uses, memory_order_relaxed);

		/*
		 * Its thread will run it; to acquire its lock would withdraw the bias
		 * (base/biased_lock.h).
		 */
		if (uses != engine->shards.uses_seen[i]) {
			engine->shards.uses_seen[i] = uses;
			continue;
		}
		/* Against the order of the locks, so that it must not wait. */
		if (!biased_lock_try(&shard->lock))
			continue;
		shard_run(engine, i);
		biased_lock_release(&shard->lock);
	}
}
