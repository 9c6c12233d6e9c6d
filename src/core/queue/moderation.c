/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/moderation.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fault.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/queue/cq.h"

#define NS_PER_US UINT64_C(1000)

static bool is_off(const struct moderation *moderation)
{
	return !moderation->count && !moderation->period_us;
}

static bool moderation_is_full(const struct moderation *moderation)
{
	return moderation->count && moderation->pending >= moderation->count;
}

bool moderation_is_due(struct cq *cq)
{
	struct moderation *moderation = &cq->moderation;

	cq_assert_locked(cq);
	engine_assert_any_locked(cq->context->engine);
	/* No timer runs after the engine thread has ended. */
	if (is_off(moderation) || !cq->channel || cq->context->engine->is_fatal)
		return true;
	moderation->pending++;
	return moderation_is_full(moderation);
}

static void start_timer(struct cq *cq)
{
	struct engine *engine = cq->context->engine;

	if (!cq->moderation.period_us)
		return;
	timer_add(&engine->timers, &cq->moderation.timer,
		  clock_now_ns() + cq->moderation.period_us * NS_PER_US);
	engine_timer_added(engine);
}

void moderation_wait(struct cq *cq)
{
	engine_assert_any_locked(cq->context->engine);
	cq_assert_unlocked(cq);
	if (cq->moderation.pending == 1)
		start_timer(cq);
}

void moderation_end(struct cq *cq)
{
	engine_assert_locked(cq->context->engine);
	cq->moderation.pending = 0;
	if (cq->moderation.timer.is_pending)
		timer_cancel(&cq->context->engine->timers, &cq->moderation.timer);
}

static void time_is_over(struct timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	cq_report(container_of(timer, struct cq, moderation.timer));
}

void moderation_init(struct cq *cq)
{
	timer_init(&cq->moderation.timer, time_is_over);
}

void moderation_flush(struct engine *engine)
{
	struct cq *cq;

	engine_assert_locked(engine);
	list_for_each_entry(cq, &engine->tables.cqs, node) {
		if (cq->moderation.pending)
			cq_report(cq);
	}
}

/* The new limits also apply to pending completions; their time starts now. */
static void moderate(struct cq *cq, const struct ibv_moderate_cq *rule)
{
	struct moderation *moderation = &cq->moderation;

	moderation->count = rule->cq_count;
	moderation->period_us = rule->cq_period;
	if (!moderation->pending)
		return;
	timer_cancel(&cq->context->engine->timers, &moderation->timer);
	if (is_off(moderation) || moderation_is_full(moderation))
		cq_report(cq);
	else
		start_timer(cq);
}

int modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct cq *cq = to_cq(ibcq);
	struct engine *engine = cq->context->engine;

	if (fault_call_fails("ibv_modify_cq"))
		return errno;
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	if (engine->is_orphan)
		return EIO;
	engine_lock(engine);
	if (attr->attr_mask)
		moderate(cq, &attr->moderate);
	engine_unlock(engine);
	return 0;
}
