/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_COUNTERS_H
#define USRDMA_CORE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

struct engine;

/*
 * What the transports of this process count, for `usrdma status`. A transport takes its counters once, in open(), names
 * them, and from then on adds to them in place with engine.lock held; nobody else writes them. They lie in the segment
 * (ipc/segment.h), where the daemon looks when it is asked: counting costs what adding costs.
 */

/* `count` of them, side by side and 0. NULL: this engine shows nothing, or no more. */
uint64_t *counters_take(struct engine *engine, size_t count);

/* Names one of them: "group.words_with_underscores", whatever else stands between the words. */
void counters_name(struct engine *engine, const uint64_t *counter, const char *group,
		   const char *words);

#endif
