/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/util.h"
#include "core/device/async.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/engine/armed_spin.h"
#include "core/engine/channel.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/object/cq_turns.h"
#include "core/object/vendor_err.h"
#include "core/queue/fault_completion.h"
#include "core/queue/moderation.h"
#include "core/queue/qp_error.h"
#include "core/report/call_failed.h"
#include "core/report/failure_warn.h"
#include "core/report/probe.h"
#include "core/report/usage.h"

#define WC_TIMESTAMPS \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

/*
 * Maps a ring for more than cqe entries, as other providers do. Work queues are rounded up to a
 * power of two: the CQ holds the completions of a queue for which the application requested the
 * same size, also if it posts as many WRs as the queue accepts.
 */
static int ring_map(uint32_t cqe, struct cqe **ring, uint32_t *mask, size_t *bytes)
{
	uint32_t slots = 2;
	void *map;

	while (slots < cqe + 1)
		slots *= 2;
	*mask = slots - 1;
	*bytes = (size_t)slots * sizeof(struct cqe);
	map = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	*ring = map;
	return 0;
}

static void cq_set_head(struct cq *cq, uint32_t head)
{
	/* Pairs with cq_looks_empty(), which threads call without the lock. */
	__atomic_store_n(&cq->head, head, __ATOMIC_RELEASE);
	cq->usage->pending = head - cq->tail;
}

static void cq_set_tail(struct cq *cq, uint32_t tail)
{
	__atomic_store_n(&cq->tail, tail, __ATOMIC_RELAXED);
	cq->usage->pending = cq->head - tail;
}

static void cqe_stamp(const struct cq *cq, struct cqe *cqe)
{
	struct timespec now;

	if (!(cq->wc_flags & WC_TIMESTAMPS))
		return;
	cqe->timestamp_ns = clock_now_ns();
	clock_gettime(CLOCK_REALTIME, &now);
	cqe->wallclock_ns = (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The application reads only what ibv_poll_cq(3) promises of an error completion. */
static void cqe_hide_details(struct cqe *cqe)
{
	cqe->wc.opcode = IBV_WC_SEND; /* 0 */
	cqe->wc.byte_len = 0;
	cqe->wc.vendor_err = 0;
}

/*
 * Whether the ring has room; discards the oldest completion if overrun is to be ignored. cq.lock
 * held.
 */
static bool cq_has_room(struct cq *cq)
{
	cq_assert_locked(cq);
	if (cq->head - cq->tail < cq->capacity)
		return true;
	if (!cq->ignores_overrun)
		return false;
	cq_set_tail(cq, cq->tail + 1);
	return true;
}

/*
 * Whether ibv_req_notify_cq() requested an event for a completion. A failed completion is solicited
 * unless the profile has event_for_error=no. cq.lock held.
 */
static bool cq_is_armed_for(const struct cq *cq, bool is_solicited)
{
	cq_assert_locked(cq);
	return cq->is_armed || (cq->is_armed_solicited && is_solicited);
}

/* cq.lock held. */
static void cq_disarm(struct cq *cq)
{
	cq_assert_locked(cq);
	cq->is_armed = false;
	cq->is_armed_solicited = false;
	direct_wake_withdraw(cq);
	cq->reported = cq->head;
}

static bool cq_behaves(const struct cq *cq, enum profile_value value)
{
	return profile_value(cq->context->device->profile, value, true);
}

/* A CQ of a shard other than 0 has no channel (shard_choose()), and its moderation never waits. */
static void cq_post_event(struct cq *cq)
{
	if (!cq->channel)
		return;
	moderation_end(cq);
	channel_post(cq->channel, cq);
}

void cq_report(struct cq *cq)
{
	engine_assert_locked(cq->context->engine);
	biased_lock_acquire(&cq->lock);
	cq_disarm(cq);
	biased_lock_release(&cq->lock);
	cq_post_event(cq);
}

/* Whether a fault takes the place of the completion. */
PROBE_COLD static bool push_with_faults(struct cq *cq, const struct ibv_wc *wc, bool is_solicited)
{
	struct engine *engine = cq->context->engine;
	bool is_taken;

	engine_lock_base(engine);
	is_taken = fault_completion(cq, wc, is_solicited);
	engine_unlock_base(engine);
	return is_taken;
}

void cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited)
{
	engine_assert_any_locked(cq->context->engine);
	/*
	 * Delayed completions remain when the rules are cleared, and must not be overtaken by those
	 * of the same QP.
	 */
	if ((probe_is_on(PROBE_FAULT) || __builtin_expect(!list_is_empty(&cq->delayed), 0)) &&
	    push_with_faults(cq, wc, is_solicited))
		return;
	cq_deliver(cq, wc, is_solicited);
}

/* Programs with a smaller CQ usually post one WR at a time. */
#define WARN_CAPACITY_MIN 8

/*
 * The application does not poll as fast as completions arrive, and the QPs can generate more
 * completions than the CQ has entries: at 7/8 of its size a warning precedes the overrun. cq.lock
 * held.
 */
static void cq_set_warn_level(struct cq *cq)
{
	bool is_too_small = cq->demand > cq->capacity && cq->capacity >= WARN_CAPACITY_MIN &&
			    !cq->ignores_overrun;

	cq_assert_locked(cq);
	cq->warn_level = is_too_small && !cq->was_nearly_full ? cq->capacity - cq->capacity / 8 :
								UINT32_MAX;
}

void cq_demand(struct cq *cq, int64_t wrs)
{
	engine_assert_locked(cq->context->engine);
	biased_lock_acquire(&cq->lock);
	cq->demand += (uint64_t)wrs;
	cq_set_warn_level(cq);
	biased_lock_release(&cq->lock);
}

/* Reports a CQ that is nearly full, or that has lost a completion. */
static void report_fullness(struct cq *cq, const struct ibv_wc *wc, bool is_nearly_full,
			    bool has_overflowed, bool is_lost)
{
	struct engine *engine = cq->context->engine;

	engine_lock_base(engine);
	if (is_nearly_full)
		failure_warn_cq(cq);
	if (has_overflowed)
		async_cq_event(cq, IBV_EVENT_CQ_ERR);
	if (is_lost)
		qp_lost_completion(engine, wc->qp_num);
	engine_unlock_base(engine);
}

void cq_deliver(struct cq *cq, const struct ibv_wc *wc, bool is_solicited)
{
	bool has_overflowed = false;
	bool is_lost = false, is_nearly_full = false;
	bool is_awaited = false, is_due = false;
	struct cqe *cqe;

	engine_assert_any_locked(cq->context->engine);
	if (wc->status != IBV_WC_SUCCESS) {
		vendor_err_log(wc);
		is_solicited = cq_behaves(cq, PROFILE_EVENT_FOR_ERROR);
	}
	trace_cqe(wc);
	biased_lock_acquire(&cq->lock);
	if (!cq->has_overflowed && cq_has_room(cq)) {
		cqe = &cq->ring[cq->head & cq->mask];
		cqe->wc = *wc;
		if (wc->status != IBV_WC_SUCCESS && !cq_behaves(cq, PROFILE_ERROR_DETAILS))
			cqe_hide_details(cqe);
		cqe_stamp(cq, cqe);
		cq_set_head(cq, cq->head + 1);
		is_nearly_full = cq->head - cq->tail >= cq->warn_level;
		if (is_solicited)
			cq->solicited = cq->head;
		is_awaited = cq_is_armed_for(cq, is_solicited);
		is_due = is_awaited && moderation_is_due(cq);
		if (is_due)
			cq_disarm(cq);
	} else {
		is_lost = true;
		has_overflowed = !cq->has_overflowed;
		cq->has_overflowed = true;
	}
	if (__builtin_expect(is_nearly_full, 0)) {
		cq->was_nearly_full = true;
		cq_set_warn_level(cq);
	}
	biased_lock_release(&cq->lock);
	if (__builtin_expect(is_nearly_full || is_lost, 0))
		report_fullness(cq, wc, is_nearly_full, has_overflowed, is_lost);
	if (is_due)
		cq_post_event(cq);
	else if (is_awaited)
		moderation_wait(cq);
}

static void cqe_count_purged(const struct cqe *cqe, struct cq_purged *purged)
{
	if (cqe->wc.status != IBV_WC_SUCCESS)
		return;
	if (cqe->wc.opcode & IBV_WC_RECV)
		purged->receives++;
	else
		purged->sends++;
}

void cq_purge_qp(struct cq *cq, uint32_t qpn, struct cq_purged *purged)
{
	uint32_t from, to;

	engine_assert_locked(cq->context->engine);
	if (__builtin_expect(!list_is_empty(&cq->delayed), 0))
		fault_completion_purge(cq, qpn);
	biased_lock_acquire(&cq->lock);
	/* Compacts from the newest entry to the oldest, so that head does not change. */
	to = cq->head;
	for (from = cq->head; from != cq->tail; from--) {
		const struct cqe *cqe = &cq->ring[(from - 1) & cq->mask];

		if (cqe->wc.qp_num == qpn) {
			cqe_count_purged(cqe, purged);
			continue;
		}
		to--;
		if (to != from - 1)
			cq->ring[to & cq->mask] = *cqe;
	}
	cq_set_tail(cq, to);
	biased_lock_release(&cq->lock);
}

static bool cq_take(struct cq *cq, struct cqe *cqe)
{
	bool is_taken = false;

	biased_lock_acquire(&cq->lock);
	if (cq->head != cq->tail) {
		*cqe = cq->ring[cq->tail & cq->mask];
		cq_set_tail(cq, cq->tail + 1);
		is_taken = true;
	}
	biased_lock_release(&cq->lock);
	return is_taken;
}

/* If the CQ is empty, runs the engine. Returns whether there is a completion then. */
static inline bool cq_fill(struct cq *cq)
{
	if (!cq_looks_empty(cq))
		return true;
	cq_turn_ends(&cq->turns);
	engine_poll(cq->context->engine, cq->shards);
	if (__builtin_expect(atomic_load_explicit(&cq->may_spin, memory_order_relaxed), 0) &&
	    cq_looks_empty(cq))
		armed_spin_run(cq);
	return !cq_looks_empty(cq);
}

bool cq_pop(struct cq *cq, struct cqe *cqe)
{
	return cq_fill(cq) && cq_take(cq, cqe);
}

int poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct cq *cq = to_cq(ibcq);
	int count = 0;

	if (num_entries <= 0 || !cq_fill(cq))
		return 0;
	biased_lock_acquire(&cq->lock);
	for (; count < num_entries && cq->head != cq->tail; count++) {
		wc[count] = cq->ring[cq->tail & cq->mask].wc;
		cq_set_tail(cq, cq->tail + 1);
	}
	biased_lock_release(&cq->lock);
	return count;
}

static int cq_add(struct engine *engine, struct cq *cq)
{
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (engine->tables.cq_count >= MAX_CQS)
		return -ENOMEM;
	ret = device_count_add(cq->context->engine, cq->context->device, DEVICE_CQ);
	if (ret)
		return ret;
	engine->tables.cq_count++;
	list_add_tail(&cq->node, &engine->tables.cqs);
	context_get(cq->context);
	if (cq->channel)
		cq->channel->pub.refcnt++;
	return 0;
}

static void cq_free(struct cq *cq)
{
	munmap(cq->ring, cq->ring_bytes);
	biased_lock_fini(&cq->lock);
	pthread_mutex_destroy(&cq->poll_lock);
	pthread_mutex_destroy(&cq->pub.mutex);
	pthread_cond_destroy(&cq->pub.cond);
	free(cq);
}

static void cq_init(struct cq *cq, struct context *context, const struct ibv_cq_init_attr_ex *attr)
{
	cq->context = context;
	cq->usage = &usage_unread_cq;
	cq->channel = attr->channel ? to_channel(attr->channel) : NULL;
	cq->wc_flags = attr->wc_flags;
	list_init(&cq->node);
	list_init(&cq->channel_node);
	moderation_init(cq);
	fault_completion_init(cq);
	biased_lock_init(&cq->lock);
	pthread_mutex_init(&cq->poll_lock, NULL);
	pthread_mutex_init(&cq->pub.mutex, NULL);
	pthread_cond_init(&cq->pub.cond, NULL);
	cq->pub.context = &context->pub.context;
	cq->pub.channel = attr->channel;
	cq->pub.cq_context = attr->cq_context;
	if (!(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS))
		return;
	cq->is_single_threaded = attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq->ignores_overrun = attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
}

static uint32_t max_cqe(const struct context *context)
{
	return (uint32_t)profile_limit(context->device->profile, PROFILE_MAX_CQE, MAX_CQE);
}

int cq_create(struct context *context, const struct ibv_cq_init_attr_ex *attr, struct cq **made)
{
	struct cq *cq;
	int ret;

	if (!attr->cqe || attr->cqe > max_cqe(context) || attr->comp_vector >= NUM_COMP_VECTORS)
		return -EINVAL;
	if (attr->channel && attr->channel->context != &context->pub.context)
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	ret = ring_map(attr->cqe, &cq->ring, &cq->mask, &cq->ring_bytes);
	if (ret) {
		free(cq);
		return ret;
	}
	cq_init(cq, context, attr);
	cq->capacity = min_u32(cq->mask + 1, max_cqe(context));
	cq->pub.cqe = (int)cq->capacity;
	cq->warn_level = UINT32_MAX;
	engine_lock(context->engine);
	ret = cq_add(context->engine, cq);
	engine_unlock(context->engine);
	if (ret) {
		cq_free(cq);
		return ret;
	}
	*made = cq;
	return 0;
}

void cq_create_failed(const struct context *context, const char *call, uint32_t entries, int ret)
{
	if (ret == -EINVAL && (!entries || entries > max_cqe(context)))
		call_failed_because(context, call, ret, IPC_REASON_CAP_CQE, entries,
				    max_cqe(context));
	else
		call_failed(context, call, ret);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe > 0 ? (uint32_t)cqe : 0,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = comp_vector >= 0 ? (uint32_t)comp_vector : UINT32_MAX,
	};
	struct cq *cq = NULL;
	int ret = fault_call("ibv_create_cq");

	if (!ret)
		ret = cq_create(to_context(context), &attr, &cq);

	if (!ret)
		return &cq->pub;
	cq_create_failed(to_context(context), "ibv_create_cq", attr.cqe, ret);
	errno = -ret;
	return NULL;
}

/* Moves the completions to a ring of another size. cq.lock held. */
static int cq_move(struct cq *cq, struct cqe **ring, uint32_t *mask, size_t *bytes)
{
	struct cqe *old_ring = cq->ring;
	uint32_t old_mask = cq->mask;
	size_t old_bytes = cq->ring_bytes;
	uint32_t capacity = min_u32(*mask + 1, max_cqe(cq->context));

	cq_assert_locked(cq);
	if (cq->head - cq->tail > capacity)
		return -EINVAL;
	for (uint32_t i = cq->tail; i != cq->head; i++)
		(*ring)[i & *mask] = old_ring[i & old_mask];
	cq->ring = *ring;
	cq->mask = *mask;
	cq->ring_bytes = *bytes;
	cq->capacity = capacity;
	cq->pub.cqe = (int)cq->capacity;
	cq_set_warn_level(cq);
	*ring = old_ring;
	*mask = old_mask;
	*bytes = old_bytes;
	return 0;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct cq *cq = to_cq(ibcq);
	struct cqe *ring;
	uint32_t mask;
	size_t bytes;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	if (cqe <= 0 || (unsigned int)cqe > max_cqe(cq->context))
		return call_result(cq->context, __func__, -EINVAL);
	if (cq->context->engine->is_orphan)
		return EIO;
	if (ring_map((uint32_t)cqe, &ring, &mask, &bytes))
		return call_result(cq->context, __func__, -ENOMEM);
	biased_lock_acquire(&cq->lock);
	ret = cq_move(cq, &ring, &mask, &bytes);
	biased_lock_release(&cq->lock);
	munmap(ring, bytes);
	return call_result(cq->context, __func__, ret);
}

/*
 * The CQ is in no list any more: waits for the acknowledgements that ibv_get_cq_event(3) requires.
 */
static void cq_wait_unused(struct cq *cq)
{
	if (cq->channel)
		channel_forget(cq->channel, cq);
	async_forget(cq->context, cq);
	async_wait_acks(cq->context, &cq->pub.mutex, &cq->pub.cond, &cq->pub.async_events_completed,
			cq->async_events_fetched,
			"ibv_destroy_cq() waits for ibv_ack_async_event()");
	async_wait_acks(cq->context, &cq->pub.mutex, &cq->pub.cond, &cq->pub.comp_events_completed,
			cq->comp_events_fetched, "ibv_destroy_cq() waits for ibv_ack_cq_events()");
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct cq *cq = to_cq(ibcq);
	struct engine *engine = cq->context->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	if (cq->users) {
		engine_unlock(engine);
		return call_failed_busy(cq->context, __func__, cq->users);
	}
	list_del(&cq->node);
	usage_hide_cq(engine, cq);
	engine->tables.cq_count--;
	device_count_drop(cq->context->engine, cq->context->device, DEVICE_CQ);
	if (!engine->is_orphan)
		moderation_end(cq);
	fault_completion_fini(cq);
	engine_unlock(engine);
	/* In a fork()ed child the parent owns the events and their descriptors. */
	if (!engine->is_orphan)
		cq_wait_unused(cq);
	engine_lock(engine);
	if (cq->channel)
		cq->channel->pub.refcnt--;
	context_put(cq->context);
	engine_unlock(engine);
	cq_free(cq);
	return 0;
}
