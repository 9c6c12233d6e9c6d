/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log_limit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/util.h"

/* (uid_t)-1 is not a user. */
#define OTHER_USERS UINT32_MAX

/*
 * The lines of one cause and user. Freed after LOG_LIMIT_REPORT_NS without a line, when the bucket
 * is full again.
 */
struct log_bucket {
	struct log_limit *limit;
	struct hash_node node;
	struct list_head all;
	struct timer timer; /* the end of the present period of LOG_LIMIT_REPORT_NS */
	unsigned int cause;
	enum log_level level;
	uint32_t uid;
	uint32_t tokens;
	uint64_t refilled_ns;
	uint64_t left_out; /* lines of this period that were not logged */
	bool is_used;	   /* a line of this period was logged or left out */
};

static_assert(LOG_LIMIT_BURST * LOG_LIMIT_REFILL_NS <= LOG_LIMIT_REPORT_NS,
	      "a bucket that is freed is full");

int log_limit_init(struct log_limit *limit, const char *const *causes, uint64_t secret)
{
	*limit = (struct log_limit){.causes = causes, .secret = secret};
	list_init(&limit->buckets);
	timer_heap_init(&limit->timers);
	return hash_init(&limit->by_user);
}

static void bucket_report(struct log_bucket *bucket)
{
	const char *cause = bucket->limit->causes[bucket->cause];
	unsigned int seconds = (unsigned int)(LOG_LIMIT_REPORT_NS / CLOCK_NS_PER_S);

	if (bucket->left_out && bucket->uid == OTHER_USERS)
		log_at(bucket->level,
		       "other users: %s: %" PRIu64 " more messages within %u s are not logged",
		       cause, bucket->left_out, seconds);
	else if (bucket->left_out)
		log_at(bucket->level,
		       "uid %u: %s: %" PRIu64 " more messages within %u s are not logged",
		       (unsigned int)bucket->uid, cause, bucket->left_out, seconds);
	bucket->left_out = 0;
}

static void bucket_free(struct log_bucket *bucket)
{
	timer_cancel(&bucket->limit->timers, &bucket->timer);
	hash_del(&bucket->limit->by_user, &bucket->node);
	list_del(&bucket->all);
	free(bucket);
}

void log_limit_fini(struct log_limit *limit)
{
	while (!list_is_empty(&limit->buckets)) {
		struct log_bucket *bucket = list_first_entry(&limit->buckets, struct log_bucket,
							     all);

		bucket_report(bucket);
		bucket_free(bucket);
	}
	hash_fini(&limit->by_user);
}

static void bucket_on_timer(struct timer *timer, uint64_t now_ns)
{
	struct log_bucket *bucket = container_of(timer, struct log_bucket, timer);

	if (!bucket->is_used) {
		bucket_free(bucket);
		return;
	}
	bucket_report(bucket);
	bucket->is_used = false;
	timer_add(&bucket->limit->timers, timer, now_ns + LOG_LIMIT_REPORT_NS);
}

static uint64_t log_limit_hash(const struct log_limit *limit, unsigned int cause, uint32_t uid)
{
	return hash_mix(hash_mix(limit->secret, uid), cause);
}

static struct log_bucket *log_bucket_find(const struct log_limit *limit, unsigned int cause,
					  uint32_t uid)
{
	struct hash_node *node;

	hash_for_each(node, &limit->by_user, log_limit_hash(limit, cause, uid))
	{
		struct log_bucket *bucket = container_of(node, struct log_bucket, node);

		if (bucket->cause == cause && bucket->uid == uid)
			return bucket;
	}
	return NULL;
}

/* NULL: out of memory. */
static struct log_bucket *log_bucket_new(struct log_limit *limit, unsigned int cause, uint32_t uid,
					 uint64_t now_ns)
{
	struct log_bucket *bucket = calloc(1, sizeof(*bucket));

	if (!bucket)
		return NULL;
	bucket->limit = limit;
	bucket->cause = cause;
	bucket->uid = uid;
	bucket->tokens = LOG_LIMIT_BURST;
	bucket->refilled_ns = now_ns;
	hash_add(&limit->by_user, &bucket->node, log_limit_hash(limit, cause, uid));
	list_add_tail(&bucket->all, &limit->buckets);
	timer_init(&bucket->timer, bucket_on_timer);
	timer_add(&limit->timers, &bucket->timer, now_ns + LOG_LIMIT_REPORT_NS);
	return bucket;
}

static struct log_bucket *log_bucket_of(struct log_limit *limit, unsigned int cause, uint32_t uid,
					uint64_t now_ns)
{
	struct log_bucket *bucket = log_bucket_find(limit, cause, uid);

	if (!bucket && limit->by_user.count >= LOG_LIMIT_BUCKETS) {
		uid = OTHER_USERS;
		bucket = log_bucket_find(limit, cause, uid);
	}
	return bucket ? bucket : log_bucket_new(limit, cause, uid, now_ns);
}

static void bucket_refill(struct log_bucket *bucket, uint64_t now_ns)
{
	uint64_t added = (now_ns - bucket->refilled_ns) / LOG_LIMIT_REFILL_NS;

	bucket->refilled_ns += added * LOG_LIMIT_REFILL_NS;
	bucket->tokens = added < LOG_LIMIT_BURST - bucket->tokens ?
				 bucket->tokens + (uint32_t)added :
				 LOG_LIMIT_BURST;
}

bool log_limit_take(struct log_limit *limit, unsigned int cause, enum log_level level, uint32_t uid,
		    uint64_t now_ns)
{
	struct log_bucket *bucket = log_bucket_of(limit, cause, uid, now_ns);

	if (!bucket)
		return false;
	bucket_refill(bucket, now_ns);
	bucket->level = level;
	bucket->is_used = true;
	if (bucket->tokens == 0) {
		bucket->left_out++;
		return false;
	}
	bucket->tokens--;
	return true;
}

uint64_t log_limit_next(const struct log_limit *limit)
{
	return timer_next_deadline(&limit->timers);
}

void log_limit_run(struct log_limit *limit, uint64_t now_ns)
{
	timer_expire(&limit->timers, now_ns);
}
