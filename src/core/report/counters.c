/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/counters.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "ipc/segment.h"

static bool is_in_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Writes "group.words_with_underscores". */
static void counters_write_name(char name[SEGMENT_COUNTER_NAME_BYTES], const char *group,
				const char *words)
{
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

uint64_t *counters_register(struct engine *engine, const char *group, const char *const *names,
			    size_t count, uint64_t *unshown)
{
	struct segment_counters *table = engine->segment.counters;
	uint32_t end = 0;

	engine_assert_locked(engine);
	if (table)
		end = atomic_load_explicit(&table->end, memory_order_relaxed);
	if (!table || count > SEGMENT_COUNTERS_MAX - end) {
		if (table)
			log_warn(
				"counters of %s are not shown: %zu do not fit in the table (%u of %d in use)",
				group, count, end, SEGMENT_COUNTERS_MAX);
		memset(unshown, 0, count * sizeof(*unshown));
		return unshown;
	}
	for (size_t i = 0; i < count; i++) {
		if (names[i])
			counters_write_name(table->names[end + i], group, names[i]);
	}
	atomic_store_explicit(&table->end, end + (uint32_t)count, memory_order_relaxed);
	return table->values + end;
}
