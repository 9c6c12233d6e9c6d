/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/direct_wake.h"

#include "base/clock.h"
#include "core/engine/channel.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/progress_limits.h"
#include "core/object/cq_turns.h"
#include "core/queue/cq.h"
#include "core/report/usage.h"

static bool is_on(const struct engine *engine)
{
	return progress_has_wakes(progress_state(&engine->progress));
}

void direct_wake_init(struct engine *engine)
{
	list_init(&engine->direct_wake.unchecked);
}

void direct_wake_set_external(struct engine *engine, struct comp_channel *channel, bool is_external)
{
	engine_assert_locked(engine);
	if (!channel->number)
		channel->number = ++engine->direct_wake.channels;
	atomic_store_explicit(&channel->wake_number, is_external ? channel->number : 0,
			      memory_order_relaxed);
}

void direct_wake_forget(struct comp_channel *channel)
{
	engine_assert_locked(to_context(channel->pub.context)->engine);
	list_del(&channel->promise_node);
}

static unsigned int wake_number(const struct comp_channel *channel)
{
	return atomic_load_explicit(&channel->wake_number, memory_order_relaxed);
}

/* With moderation, a completion does not generate an event at once. */
void direct_wake_offer(struct cq *cq)
{
	struct comp_channel *channel = cq->channel;
	unsigned int request;

	cq_assert_locked(cq);
	if (!channel || !wake_number(channel) || cq->moderation.count || cq->moderation.period_us ||
	    cq->usage == &usage_unread_cq)
		return;
	request = atomic_load_explicit(&channel->wake_requests, memory_order_relaxed) + 1;
	atomic_store_explicit(&channel->wake_requests, request, memory_order_relaxed);
	atomic_store_explicit(&cq->usage->wake, segment_cq_wake(wake_number(channel), request),
			      memory_order_release);
}

void direct_wake_withdraw(struct cq *cq)
{
	cq_assert_locked(cq);
	if (cq->usage != &usage_unread_cq)
		atomic_store_explicit(&cq->usage->wake, 0, memory_order_relaxed);
}

bool direct_wake_is_possible(const struct cq *cq)
{
	return cq->channel && wake_number(cq->channel);
}

void direct_wake_note_message(struct engine *engine, const struct cq *cq)
{
	engine_assert_locked(engine);
	engine->direct_wake.messages += direct_wake_is_possible(cq);
}

void promise_begin(struct engine *engine, struct cq *cq)
{
	engine_assert_locked(engine);
	engine->direct_wake.promised = cq->channel;
}

/*
 * The message has generated no event, because a preceding completion had, or because it failed. If
 * an event of the CQ has no unit yet, it gets that of the promise.
 */
void promise_end(struct engine *engine, struct cq *cq)
{
	engine_assert_locked(engine);
	if (!engine->direct_wake.promised)
		return;
	if (channel_absorb_promise(cq->channel, cq))
		promise_keeps(engine, cq->channel);
	else
		cq_report(cq);
}

bool promise_keeps(struct engine *engine, struct comp_channel *channel)
{
	struct direct_wake *wake = &engine->direct_wake;

	engine_assert_locked(engine);
	if (wake->promised != channel)
		return false;
	wake->promised = NULL;
	engine_progress_do(engine, progress_unit_promised(&engine->progress));
	if (!list_is_linked(&channel->promise_node))
		list_add_tail(&channel->promise_node, &wake->unchecked);
	return true;
}

/* A peer that is killed or stopped between its message and the unit has not kept its promise. */
static void check_promises(struct direct_wake *wake, bool at_once)
{
	struct comp_channel *channel, *tmp;

	list_for_each_entry_safe(channel, tmp, &wake->unchecked, promise_node) {
		if (channel_check_promise(channel, at_once))
			list_del(&channel->promise_node);
	}
}

bool direct_wake_run(struct engine *engine, struct comp_channel *channel, bool *has_unit)
{
	struct direct_wake *wake = &engine->direct_wake;
	bool may_run;

	*has_unit = false;
	if (!wake_number(channel))
		return false;
	cq_turn_ends(&channel->turns);
	engine_will_block(engine);
	engine_lock(engine);
	may_run = is_on(engine) && engine_may_serve(engine);
	if (may_run) {
		atomic_fetch_add_explicit(&wake->turns, 1, memory_order_relaxed);
		if (engine_turn(engine))
			engine_wake_late(engine);
		*has_unit = channel_take_due(channel);
	}
	engine_unlock(engine);
	return may_run;
}

bool direct_wake_has_turned(struct engine *engine)
{
	struct direct_wake *wake = &engine->direct_wake;
	unsigned int turns = atomic_load_explicit(&wake->turns, memory_order_relaxed);
	bool has_turned = turns != wake->turns_seen;

	wake->turns_seen = turns;
	return has_turned;
}

/*
 * The store is sequentially consistent: peers see it, or the caller finds their messages when it
 * examines the FIFOs next.
 */
static void tell_peers(struct engine *engine)
{
	const struct direct_wake *wake = &engine->direct_wake;

	if (engine->segment.cqs)
		atomic_store(&engine->segment.cqs->takes_wakes, is_on(engine) && !wake->pauses);
}

void direct_wake_pause(struct engine *engine)
{
	engine_assert_locked(engine);
	if (!engine->direct_wake.pauses++)
		tell_peers(engine);
}

void direct_wake_resume(struct engine *engine)
{
	engine_assert_locked(engine);
	if (!--engine->direct_wake.pauses)
		tell_peers(engine);
}

enum progress_input direct_wake_look(struct engine *engine)
{
	struct direct_wake *wake = &engine->direct_wake;
	bool is_new = wake->messages != wake->messages_seen;
	uint64_t now_ns;

	engine_assert_locked(engine);
	/* Peers may have promised units of messages that were executed afterwards. */
	if (!is_new && !is_on(engine) && list_is_empty(&wake->unchecked))
		return PROGRESS_IN_WAKES_OVER;
	now_ns = clock_now_ns();
	if (now_ns - wake->check_ns >= REST_NS) {
		wake->check_ns = now_ns;
		check_promises(wake, false);
	}
	wake->messages_seen = wake->messages;
	if (is_new) {
		wake->message_ns = now_ns;
		return PROGRESS_IN_WAKES_NEW;
	}
	if (now_ns - wake->message_ns >= REST_NS && list_is_empty(&wake->unchecked))
		return PROGRESS_IN_WAKES_OVER;
	return PROGRESS_IN_WAKES_PENDING;
}

enum progress_input direct_wake_check(const struct engine *engine)
{
	engine_assert_locked(engine);
	return list_is_empty(&engine->direct_wake.unchecked) ? PROGRESS_IN_WAKES_OVER :
							       PROGRESS_IN_WAKES_PENDING;
}

void direct_wake_begin(struct engine *engine)
{
	engine_assert_locked(engine);
	tell_peers(engine);
}

void direct_wake_end(struct engine *engine)
{
	engine_assert_locked(engine);
	tell_peers(engine);
	check_promises(&engine->direct_wake, true);
}
