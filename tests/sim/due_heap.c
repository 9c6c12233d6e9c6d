/* SPDX-License-Identifier: BSD-2-Clause */
#include "due_heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "sim_engine.h"

#define CHILDREN 4u

void due_heap_open(struct due_heap *heap, uint32_t sources)
{
	heap->entries = calloc(sources, sizeof(*heap->entries));
	heap->places = calloc(sources, sizeof(*heap->places));
	heap->count = 0;
	sim_must(heap->entries && heap->places);
	memset(heap->places, 0xff, sources * sizeof(*heap->places));
}

void due_heap_close(struct due_heap *heap)
{
	free(heap->entries);
	free(heap->places);
}

static bool due_is_before(const struct due *a, const struct due *b)
{
	return a->ns < b->ns || (a->ns == b->ns && a->source < b->source);
}

static void due_put(struct due_heap *heap, uint32_t at, const struct due *due)
{
	heap->entries[at] = *due;
	heap->places[due->source] = at;
}

static uint32_t due_rise(struct due_heap *heap, uint32_t at, const struct due *due)
{
	while (at) {
		uint32_t parent = (at - 1) / CHILDREN;

		if (!due_is_before(due, &heap->entries[parent]))
			break;
		due_put(heap, at, &heap->entries[parent]);
		at = parent;
	}
	return at;
}

static uint32_t due_sink(struct due_heap *heap, uint32_t at, const struct due *due)
{
	for (;;) {
		uint32_t first = at * CHILDREN + 1, best = first;

		for (uint32_t i = first + 1; i < first + CHILDREN && i < heap->count; i++) {
			if (due_is_before(&heap->entries[i], &heap->entries[best]))
				best = i;
		}
		if (first >= heap->count || !due_is_before(&heap->entries[best], due))
			return at;
		due_put(heap, at, &heap->entries[best]);
		at = best;
	}
}

static void due_place(struct due_heap *heap, uint32_t at, struct due due)
{
	at = due_sink(heap, due_rise(heap, at, &due), &due);
	due_put(heap, at, &due);
}

void due_heap_set(struct due_heap *heap, uint32_t source, uint64_t ns)
{
	uint32_t at = heap->places[source];

	if (ns != TIMER_NEVER_NS) {
		due_place(heap, at == DUE_NOWHERE ? heap->count++ : at, (struct due){ns, source});
	} else if (at != DUE_NOWHERE) {
		heap->places[source] = DUE_NOWHERE;
		if (--heap->count != at)
			due_place(heap, at, heap->entries[heap->count]);
	}
}

uint64_t due_heap_time(const struct due_heap *heap, uint32_t source)
{
	uint32_t at = heap->places[source];

	return at == DUE_NOWHERE ? TIMER_NEVER_NS : heap->entries[at].ns;
}
