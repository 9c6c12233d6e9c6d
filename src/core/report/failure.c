/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/failure.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault_fired.h"
#include "base/util.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

#define SEND_RETRY_NS	   (10 * CLOCK_NS_PER_MS)
#define NO_EVENT	   UINT32_MAX
#define RNR_UNKNOWN	   255
#define FAILURE_NAME_BYTES 16

static uint64_t failure_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

void failure_open(struct failure_reports *reports)
{
	reports->last_id = failure_wall_ns();
	reports->tokens = FAILURE_BURST;
	reports->refill_ns = clock_now_ns();
	reports->is_open = true;
}

/* Token bucket: whether one more report may be sent now. */
static bool is_within_rate(struct failure_reports *reports)
{
	const uint64_t interval_ns = CLOCK_NS_PER_S / FAILURE_RATE_PER_S;
	uint64_t now_ns = clock_now_ns();
	uint64_t more = (now_ns - reports->refill_ns) / interval_ns;

	if (more) {
		reports->refill_ns += more * interval_ns;
		reports->tokens = more > FAILURE_BURST - reports->tokens ?
					  FAILURE_BURST :
					  reports->tokens + (uint32_t)more;
	}
	if (!reports->tokens)
		return false;
	reports->tokens--;
	return true;
}

/* Sends the pending reports. false: some are left. */
static bool failure_send_pending(struct engine *engine)
{
	struct failure_kept *kept = &engine->failures.kept;
	struct ipc_failure *next;

	while ((next = failure_kept_pending(kept))) {
		int error = engine_try_send_request(engine, next, sizeof(*next));

		if (error == -EAGAIN || error == -ENOMEM || error == -ENOBUFS)
			return false;
		failure_kept_sent(kept);
	}
	return true;
}

static void failure_arm(struct engine *engine, uint64_t now_ns)
{
	timer_add(&engine->timers, &engine->failures.timer, now_ns + SEND_RETRY_NS);
	engine_timer_added(engine);
}

static void failure_send_later(struct timer *timer, uint64_t now_ns)
{
	struct engine *engine = container_of(timer, struct engine, failures.timer);

	if (!failure_send_pending(engine))
		failure_arm(engine, now_ns);
}

/* Names the rule that may have caused the failure. */
static void name_fault(struct ipc_failure *failure)
{
	struct fault_fired fired;

	if (fault_fired_for_qp(failure->qpn, &fired))
		failure->fault_rule = fault_fired_code(&fired, &failure->fault_age_ms);
}

static void send_or_store(struct engine *engine, struct ipc_failure *failure)
{
	struct failure_reports *reports = &engine->failures;

	if (!is_within_rate(reports) || failure_kept_is_full(&reports->kept)) {
		reports->dropped++;
		return;
	}
	failure->hdr.type = IPC_FAILURE;
	failure->time_ns = failure_wall_ns();
	name_fault(failure);
	failure->dropped = reports->dropped;
	reports->dropped = 0;
	failure_kept_add(&reports->kept, failure);
	if (failure_send_pending(engine) || reports->timer.is_pending)
		return;
	if (!reports->has_timer)
		timer_init(&reports->timer, failure_send_later);
	reports->has_timer = true;
	failure_arm(engine, clock_now_ns());
}

void failure_send(struct engine *engine, struct ipc_failure *failure)
{
	engine_lock_base(engine);
	send_or_store(engine, failure);
	engine_unlock_base(engine);
}

static void failure_copy_name(char to[FAILURE_NAME_BYTES], const char *name)
{
	size_t bytes = strnlen(name, FAILURE_NAME_BYTES - 1);

	memcpy(to, name, bytes);
	to[bytes] = '\0';
}

static bool failure_can_report(const struct engine *engine)
{
	return engine && engine->failures.is_open && !engine->is_orphan && !engine->is_fatal;
}

/* The fields that every report has. */
static void failure_identify(struct ipc_failure *failure, const struct context *context)
{
	engine_lock_base(context->engine);
	failure->id = ++context->engine->failures.last_id;
	engine_unlock_base(context->engine);
	failure->event = NO_EVENT;
	failure->min_rnr_timer = RNR_UNKNOWN;
	failure_copy_name(failure->program, program_invocation_short_name);
	/*
	 * The internal context of an XRC executor (roce/xrc_forward_executor.c) has no public
	 * device.
	 */
	if (context->pub.context.device)
		failure_copy_name(failure->device, context->pub.context.device->name);
}

struct engine *failure_begin(const struct qp *qp, enum ipc_failure_kind kind,
			     struct ipc_failure *failure)
{
	struct engine *engine = qp->context ? qp->context->engine : NULL;

	qp_assert_locked(qp);
	if (!failure_can_report(engine))
		return NULL;
	*failure = (struct ipc_failure){
		.kind = kind,
		.qpn = qp->qpn,
		.qp_type = qp->type,
		.peer_qpn = qp->attr.dest_qp_num,
		.timeout = qp->attr.timeout,
		.retry_cnt = qp->attr.retry_cnt,
		.rnr_retry = qp->attr.rnr_retry,
		.qp_access = qp->attr.qp_access_flags,
	};
	if (qp->is_of_cm)
		failure->flags |= IPC_FAILURE_IS_OF_CM;
	memcpy(failure->peer_gid, &qp->attr.ah_attr.grh.dgid, sizeof(failure->peer_gid));
	failure_identify(failure, qp->context);
	return engine;
}

struct engine *failure_begin_context(const struct context *context, enum ipc_failure_kind kind,
				     struct ipc_failure *failure)
{
	if (!failure_can_report(context->engine))
		return NULL;
	failure->kind = kind;
	failure_identify(failure, context);
	return context->engine;
}

void failure_call(struct engine *engine, struct ipc_failure *failure, const char *call, int error)
{
	size_t bytes = strnlen(call, sizeof(failure->call) - 1);

	memcpy(failure->call, call, bytes);
	failure->error = -error;
	failure_send(engine, failure);
}

void failure_unreachable(struct ipc_failure *failure, const struct ipc_gid *source,
			 const union ibv_gid *dgid)
{
	failure->reason = IPC_REASON_UNREACHABLE;
	memcpy(failure->local_ip, source->raw, sizeof(failure->local_ip));
	memcpy(failure->remote_ip, dgid->raw, sizeof(failure->remote_ip));
}

static_assert(IPC_REASON_COUNT <= 8 * sizeof(((struct qp *)NULL)->reported_reasons),
	      "qp.reported_reasons has a bit for each reason");

/*
 * An application may repeat a post until the queue has space, so each reason is reported once for a
 * QP.
 */
bool failure_is_first(struct qp *qp, enum ipc_failure_reason reason)
{
	uint64_t *word = &qp->reported_reasons[reason / 64];
	uint64_t bit = UINT64_C(1) << (reason % 64);

	qp_assert_locked(qp);
	if (*word & bit)
		return false;
	*word |= bit;
	return true;
}
