/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_CQ_TURNS_H
#define USRDMA_CORE_OBJECT_CQ_TURNS_H

#include "core/object/objects.h"

/*
 * Changes whenever the application has processed all completions, as far as the library can know:
 * it found the CQ empty, or waits for an event of the channel. If two threads use the CQ, one of
 * their turns may not be counted.
 */
static inline unsigned int cq_turns(const struct cq *cq)
{
	unsigned int turns = atomic_load_explicit(&cq->turns, memory_order_relaxed);

	return cq->channel ?
		       turns + atomic_load_explicit(&cq->channel->turns, memory_order_relaxed) :
		       turns;
}

/* A turn of the CQ or of the channel ends. */
static inline void cq_turn_ends(atomic_uint *turns)
{
	atomic_store_explicit(turns, atomic_load_explicit(turns, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

#endif
