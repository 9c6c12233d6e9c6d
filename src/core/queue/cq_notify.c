/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/cq.h"

#include <errno.h>

#include "base/fault.h"
#include "base/util.h"
#include "core/engine/armed_spin.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

/* ibv_req_notify_cq(). */

/*
 * Whether the CQ holds a completion that arrived since the last event and that ibv_req_notify_cq()
 * asks for. cq.lock held.
 */
static bool cq_has_missed(const struct cq *cq, int solicited_only)
{
	uint32_t missed = min_u32(cq->head - cq->reported, cq->head - cq->tail);

	cq_assert_locked(cq);
	return solicited_only ? cq->head - cq->solicited < missed : missed > 0;
}

/* Returns whether a completion for which there was no event is there already. */
static bool cq_arm(struct cq *cq, int solicited_only)
{
	bool *is_armed = solicited_only ? &cq->is_armed_solicited : &cq->is_armed;
	bool has_missed;

	biased_lock_acquire(&cq->lock);
	/*
	 * If it was armed before, completions that moderation holds back are no reason for an early
	 * event.
	 */
	has_missed = cq->channel && !*is_armed && cq_has_missed(cq, solicited_only) &&
		     profile_value(cq->context->device->profile, PROFILE_EVENT_FOR_UNPOLLED, true);
	if (!solicited_only && !cq->is_armed)
		direct_wake_offer(cq);
	armed_spin_cq_armed(cq);
	*is_armed = true;
	biased_lock_release(&cq->lock);
	return has_missed;
}

static void report_missed(struct cq *cq)
{
	struct engine *engine = cq->context->engine;

	engine_lock(engine);
	/* Not if a completion that arrived after cq_arm() has reported the event. */
	if (cq->is_armed || cq->is_armed_solicited)
		cq_report(cq);
	engine_unlock(engine);
}

/*
 * A completion that arrived after the application's last poll, but before this call, is reported at
 * once. UCX sleeps after the call without another poll, so it would wait forever.
 */
int req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct cq *cq = to_cq(ibcq);
	struct engine *engine = cq->context->engine;

	if (fault_call_fails("ibv_req_notify_cq"))
		return errno;
	if (engine->is_orphan)
		return EIO;
	if (cq_arm(cq, solicited_only))
		report_missed(cq);
	if (cq->channel)
		engine_will_block(engine);
	return 0;
}
