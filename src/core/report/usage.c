/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/usage.h"

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/object/objects.h"

struct segment_qp_usage usage_unread_qp;
struct segment_cq usage_unread_cq;

/* Takes an unused entry. NULL: the process has more CQs than the table has entries. */
static struct segment_cq *take_cq_entry(struct engine *engine)
{
	struct segment_cqs *table = engine->segment.cqs;
	uint32_t end = atomic_load_explicit(&table->end, memory_order_relaxed);
	struct segment_cq *entry;

	if (engine->segment.unused_cq) {
		entry = &table->entries[engine->segment.unused_cq - 1];
		engine->segment.unused_cq = entry->pending;
		return entry;
	}
	if (end == SEGMENT_CQS)
		return NULL;
	atomic_store_explicit(&table->end, end + 1, memory_order_relaxed);
	return &table->entries[end];
}

static void show_cq(struct engine *engine, struct cq *cq)
{
	struct segment_cq *entry;

	if (!cq || cq->usage != &usage_unread_cq || !engine->segment.cqs)
		return;
	entry = take_cq_entry(engine);
	if (!entry)
		return;
	biased_lock_acquire(&cq->lock);
	entry->pending = cq->head - cq->tail;
	entry->capacity = cq->capacity;
	cq->usage = entry;
	biased_lock_release(&cq->lock);
}

void usage_show_cqs(struct engine *engine, struct qp *qp)
{
	engine_assert_locked(engine);
	show_cq(engine, qp->send_cq);
	show_cq(engine, qp->recv_cq);
}

uint32_t usage_place(const struct engine *engine, const struct cq *cq)
{
	engine_assert_locked(engine);
	if (!cq || cq->usage == &usage_unread_cq)
		return 0;
	return (uint32_t)(cq->usage - engine->segment.cqs->entries) + 1;
}

void usage_hide_cq(struct engine *engine, struct cq *cq)
{
	struct segment_cq *entry = cq->usage;

	engine_assert_locked(engine);
	if (entry == &usage_unread_cq)
		return;
	cq->usage = &usage_unread_cq;
	/* Before the channel's descriptor is closed: a peer may be copying it. */
	atomic_store(&entry->wake, 0);
	entry->capacity = 0;
	entry->pending = engine->segment.unused_cq;
	engine->segment.unused_cq = (uint32_t)(entry - engine->segment.cqs->entries) + 1;
}

void usage_hide_cqs_in_child(struct engine *engine)
{
	struct cq *cq;

	list_for_each_entry(cq, &engine->tables.cqs, node)
		cq->usage = &usage_unread_cq;
}
