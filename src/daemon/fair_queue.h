/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAIR_QUEUE_H
#define USRDMA_DAEMON_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/*
 * Deficit round robin with priority for flows that become active (RFC 8290 §4.1 and §4.2, without
 * its queue management). A flow is a user of the daemon, and the unit is CPU time instead of bytes.
 * The time of a piece of work is known after the work, so the credit of a flow can become negative:
 * the flow is not served again before the rounds have made up for it.
 *
 * A flow that was idle is served before the flows that have been served since they became active.
 * So a single request of one user waits for at most one piece of work of each other user, however
 * many requests these have.
 */

/* The time that each flow with work gets in a round. */
#define FAIR_QUANTUM_NS 300000

/*
 * The largest debt. It limits how long one unusually long piece of work delays the next one of the
 * same user.
 */
#define FAIR_DEBT_MAX_NS (100 * (int64_t)FAIR_QUANTUM_NS)

/* Part of struct user; initialised by fair_flow_init(). */
struct fair_flow {
	struct list_head node; /* fair_queue.fresh or .served */
	int64_t credit_ns;
	bool is_fresh; /* in fair_queue.fresh */
	bool has_work;
};

struct fair_queue {
	struct list_head fresh;	 /* "new queues" of RFC 8290 */
	struct list_head served; /* "old queues" */
};

void fair_queue_init(struct fair_queue *queue);
void fair_flow_init(struct fair_flow *flow);

/* The flow has work. */
void fair_queue_add(struct fair_queue *queue, struct fair_flow *flow);

/* The flow whose work is next; NULL: no flow has work. */
struct fair_flow *fair_queue_next(struct fair_queue *queue);

/*
 * The flow is being served; work that is added from now on remains. fair_queue_charge() or
 * fair_queue_remove() follows.
 */
void fair_queue_begin(struct fair_flow *flow);

/* The flow was served for this time. has_more: whether work is left. */
void fair_queue_charge(struct fair_flow *flow, uint64_t used_ns, bool has_more);

/* The flow is about to be freed. */
void fair_queue_remove(struct fair_flow *flow);

#endif
