/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_REPLY_WAIT_H
#define USRDMA_CORE_QUEUE_REPLY_WAIT_H

#include <stdbool.h>

#include "core/engine/engine.h"
#include "core/object/cq_turns.h"

/*
 * Whether the acknowledgement of a message waits for the reply of an application that waits for
 * completion events (docs/adr/0063). A thread of the peer is then woken once instead of twice.
 */

/*
 * The longest time that an acknowledgement waits: a quarter of the shortest RTO of requesters of
 * this project (roce/rtt.c).
 */
#define REPLY_WAIT_NS 500000u

/* Of one QP; its transport guards it. Zeroes: nothing waits. */
struct reply_wait {
	/*
	 * The turn of the application (cq_turns()) in which the last message arrived that was the
	 * first of a turn.
	 */
	unsigned int turn;
	bool has_turn;
	bool is_expected; /* nothing else has arrived in this turn */
};

/*
 * A request was executed. `cq`: where its QP's receive completions go. completes_recv: it was the
 * end of a message that has one.
 */
static inline void reply_wait_on_request(struct reply_wait *wait, const struct cq *cq,
					 bool completes_recv)
{
	unsigned int turn;

	if (!cq->channel)
		return;
	turn = cq_turns(cq);
	if (wait->has_turn && wait->turn == turn) {
		/* The peer goes on without a reply. */
		wait->is_expected = false;
	} else if (completes_recv) {
		wait->has_turn = true;
		wait->turn = turn;
		wait->is_expected = true;
	}
}

/* Whether a message has arrived, nothing after it, and the application has not processed it yet. */
static inline bool reply_is_awaited(const struct reply_wait *wait, const struct cq *cq)
{
	return wait->is_expected && !run_by_late(cq->context->engine->run_by) &&
	       wait->turn == cq_turns(cq);
}

/* The acknowledgement does not wait any longer. */
static inline void reply_wait_end(struct reply_wait *wait)
{
	wait->is_expected = false;
}

#endif
