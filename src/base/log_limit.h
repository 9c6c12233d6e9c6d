/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_LOG_LIMIT_H
#define USRDMA_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/timer.h"

/*
 * Limits the log lines that users cause: a token bucket for each cause and user. A burst of
 * LOG_LIMIT_BURST lines is logged, then one line in LOG_LIMIT_REFILL_NS. The other lines are
 * counted; the count is logged once in LOG_LIMIT_REPORT_NS.
 *
 * At most LOG_LIMIT_BUCKETS buckets exist. If they are all in use, further users share one bucket
 * for each cause, which the report names "other users".
 *
 * Owned by the object that embeds it, whose thread makes all calls. Times are monotonic
 * nanoseconds.
 */
#define LOG_LIMIT_BURST	    10u
#define LOG_LIMIT_REFILL_NS 6000000000ull
#define LOG_LIMIT_REPORT_NS 60000000000ull
#define LOG_LIMIT_BUCKETS   256u

struct log_limit {
	const char *const *causes; /* texts for the report, by number */
	struct hash by_user;
	struct list_head buckets;
	struct timer_heap timers;
	uint64_t secret; /* key of the hash: users choose their uids */
};

/* `causes` must outlive the struct. -ENOMEM. */
int log_limit_init(struct log_limit *limit, const char *const *causes, uint64_t secret)
	__attribute__((warn_unused_result));

/* Logs the counts that were not reported yet, and frees all buckets. */
void log_limit_fini(struct log_limit *limit);

/* Whether a line of this cause may be logged now for this user. If not, it is counted. */
bool log_limit_take(struct log_limit *limit, unsigned int cause, enum log_level level, uint32_t uid,
		    uint64_t now_ns);

/* When to call log_limit_run() next; TIMER_NEVER_NS: no bucket exists. */
uint64_t log_limit_next(const struct log_limit *limit);
void log_limit_run(struct log_limit *limit, uint64_t now_ns);

#endif
