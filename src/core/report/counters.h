/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_COUNTERS_H
#define USRDMA_CORE_REPORT_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

struct engine;

/*
 * Counters of this process, for `usrdma status`. A module registers its counters once and
 * increments them in place under engine.lock; there is no other writer. The shards have counters of
 * their own, which local_shards_count() adds. The counters are in the segment (ipc/segment.h),
 * where the daemon reads them on request.
 */

/*
 * Registers `count` adjacent counters, initially 0. names[i] is the name of counter i inside
 * `group`; characters other than letters and digits between the words become one underscore. NULL:
 * the counter has no name and is not shown.
 *
 * Returns the counters in the segment. If this engine has no segment, or the segment has no room
 * for `count` more counters, returns `unshown`, the caller's storage for `count` counters, after it
 * was set to 0. Missing room is logged. engine.lock held.
 */
uint64_t *counters_register(struct engine *engine, const char *group, const char *const *names,
			    size_t count, uint64_t *unshown) __attribute__((warn_unused_result));

#endif
