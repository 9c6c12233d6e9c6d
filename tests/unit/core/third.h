/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_THIRD_H
#define USRDMA_TESTS_UNIT_CORE_THIRD_H

#include "core/engine/engine.h"
#include "core/engine/transport.h"

/*
 * A transport besides local and roce, which shows what the core requires of one: RC SENDs between
 * queue pairs of one process. A requester that has work is on third.sending; run() copies its
 * messages into the receives of its peer. A descriptor of the transport wakes the engine thread if
 * no thread polls. engine.lock guards all state.
 */
#define THIRD_TRANSPORT 2 /* its number, see core/engine/transport.h */

extern const struct transport third_transport;

enum third_counter {
	THIRD_MESSAGES,
	THIRD_RNR,   /* messages that found no receive */
	THIRD_WAKES, /* events of the descriptor that the engine thread processed */
	THIRD_COUNTER_COUNT
};

struct third {
	struct engine *engine;
	int wake_fd; /* eventfd */
	uint64_t watch;
	struct list_head sending; /* struct third_qp.node */
	uint64_t *counters;
	uint64_t unshown[THIRD_COUNTER_COUNT];
};

static inline struct third *third_of(const struct engine *engine)
{
	return engine->transport_state[THIRD_TRANSPORT];
}

#endif
