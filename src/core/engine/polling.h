/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_POLLING_H
#define USRDMA_CORE_ENGINE_POLLING_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * How often the application polls. Part of struct engine. The counters are read without a lock;
 * threads that poll at the same time may not all be counted.
 */
struct engine_polling {
	atomic_uint polls;	/* number of polls that found an empty CQ */
	atomic_uint streak;	/* the same since the last call that may block */
	atomic_uint spin_shift; /* see SPIN_POLLS; written by the engine thread */
	/* Used by the engine thread only: */
	unsigned int polls_seen; /* value of `polls` at its last tick */
	uint64_t polled_ns;	 /* time for which the application has polled, in whole ticks */
};

#endif
