/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_DUE_HEAP_H
#define TESTS_SIM_DUE_HEAP_H

#include <stdint.h>

/*
 * The next events of a fixed number of sources: a 4-ary heap with the time in its entries and the
 * position of each source in an array, so that a change of a time moves few entries. Events at the
 * same time come in the order of the sources' numbers. Each source has at most one event.
 */
struct due {
	uint64_t ns;
	uint32_t source;
};

struct due_heap {
	struct due *entries;
	uint32_t *places; /* [source]: its index in `entries`, or DUE_NOWHERE */
	uint32_t count;
};

#define DUE_NOWHERE UINT32_MAX

void due_heap_open(struct due_heap *heap, uint32_t sources);
void due_heap_close(struct due_heap *heap);
/* Sets the time of a source's event. TIMER_NEVER_NS removes the event. */
void due_heap_set(struct due_heap *heap, uint32_t source, uint64_t ns);
/* The time of a source's event, or TIMER_NEVER_NS. */
uint64_t due_heap_time(const struct due_heap *heap, uint32_t source);

#endif
