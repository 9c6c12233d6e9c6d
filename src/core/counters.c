/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/counters.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/engine.h"
#include "ipc/segment.h"

uint64_t *counters_take(struct engine *engine, size_t count)
{
	struct segment_counters *table = engine->counters;
	uint32_t end;

	if (!table)
		return NULL;
	end = atomic_load_explicit(&table->end, memory_order_relaxed);
	if (count > SEGMENT_COUNTERS_MAX - end)
		return NULL;
	atomic_store_explicit(&table->end, end + (uint32_t)count, memory_order_relaxed);
	return table->values + end;
}

static bool is_in_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

void counters_name(struct engine *engine, const uint64_t *counter, const char *group,
		   const char *words)
{
	struct segment_counters *table = engine->counters;
	char *name = table->names[counter - table->values];
	size_t used = 0;

	for (; *group && used < SEGMENT_COUNTER_NAME_BYTES - 2; group++)
		name[used++] = *group;
	name[used++] = '.';
	for (bool is_gap = false; *words && used < SEGMENT_COUNTER_NAME_BYTES - 2; words++) {
		if (!is_in_word(*words)) {
			is_gap = true;
			continue;
		}
		if (is_gap)
			name[used++] = '_';
		is_gap = false;
		name[used++] = *words;
	}
	name[used] = '\0';
}
