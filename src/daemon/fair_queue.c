/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fair_queue.h"

void fair_queue_init(struct fair_queue *queue)
{
	list_init(&queue->fresh);
	list_init(&queue->served);
}

void fair_flow_init(struct fair_flow *flow)
{
	*flow = (struct fair_flow){.credit_ns = FAIR_QUANTUM_NS};
	list_init(&flow->node);
}

void fair_queue_add(struct fair_queue *queue, struct fair_flow *flow)
{
	flow->has_work = true;
	if (list_is_linked(&flow->node))
		return;
	flow->is_fresh = true;
	flow->credit_ns = FAIR_QUANTUM_NS;
	list_add_tail(&flow->node, &queue->fresh);
}

/* The flow goes to the end of the flows that were served. */
static void fair_queue_defer(struct fair_queue *queue, struct fair_flow *flow)
{
	flow->is_fresh = false;
	list_move_tail(&flow->node, &queue->served);
}

struct fair_flow *fair_queue_next(struct fair_queue *queue)
{
	for (;;) {
		struct list_head *first = list_is_empty(&queue->fresh) ? &queue->served :
									 &queue->fresh;
		struct fair_flow *flow;

		if (list_is_empty(first))
			return NULL;
		flow = list_first_entry(first, struct fair_flow, node);
		if (flow->credit_ns <= 0) {
			flow->credit_ns += FAIR_QUANTUM_NS;
			fair_queue_defer(queue, flow);
		} else if (flow->has_work) {
			return flow;
		} else if (flow->is_fresh) {
			/*
			 * If it became idle for a moment only, it would be served before the others
			 * again (RFC 8290 §4.2).
			 */
			fair_queue_defer(queue, flow);
		} else {
			list_del(&flow->node);
		}
	}
}

void fair_queue_begin(struct fair_flow *flow)
{
	flow->has_work = false;
}

void fair_queue_charge(struct fair_flow *flow, uint64_t used_ns, bool has_more)
{
	flow->has_work |= has_more;
	flow->credit_ns -= used_ns > FAIR_DEBT_MAX_NS ? FAIR_DEBT_MAX_NS : (int64_t)used_ns;
	if (flow->credit_ns < -FAIR_DEBT_MAX_NS)
		flow->credit_ns = -FAIR_DEBT_MAX_NS;
}

void fair_queue_remove(struct fair_flow *flow)
{
	flow->has_work = false;
	list_del(&flow->node);
}
