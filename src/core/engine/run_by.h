/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_RUN_BY_H
#define USRDMA_CORE_ENGINE_RUN_BY_H

#include <stdbool.h>

/*
 * The role of the thread that runs the transports of an engine now: what it does next. It decides
 * what transport.run() may leave for later. engine.lock guards it.
 */
enum run_by {
	RUN_BY_CALL,	/* any call of the application */
	RUN_BY_REPLIER, /* a thread that will poll again or reply soon */
	/* a thread that serves: it waits for the descriptors between its runs */
	RUN_BY_SERVER,
	RUN_BY_SERVER_REPLIER, /* such a thread before it returns to the application */
	RUN_BY_THREAD,	       /* a turn of the engine thread */
	RUN_BY_LATE_THREAD,    /* a turn that sends the acknowledgements that waited for a reply */
	RUN_BY_CATCH_UP,       /* engine_catch_up() */
};

/* Packets that only acknowledge, and doorbells for responses, may wait for the next run or call. */
static inline bool run_by_replier(enum run_by role)
{
	return role == RUN_BY_REPLIER || role == RUN_BY_SERVER_REPLIER;
}

static inline bool run_by_server(enum run_by role)
{
	return role == RUN_BY_SERVER || role == RUN_BY_SERVER_REPLIER;
}

static inline bool run_by_thread(enum run_by role)
{
	return role == RUN_BY_THREAD || role == RUN_BY_LATE_THREAD;
}

/* Nothing is left for the application's reply. */
static inline bool run_by_late(enum run_by role)
{
	return role == RUN_BY_LATE_THREAD || role == RUN_BY_CATCH_UP;
}

#endif
