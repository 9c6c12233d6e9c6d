/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/user_log.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log_limit.h"
#include "base/random.h"
#include "base/util.h"

static const char *const causes[] = {
	[USER_LOG_REFUSED] = "users that are not served",
	[USER_LOG_VERSION] = "other protocol versions",
	[USER_LOG_INVALID] = "invalid messages",
	[USER_LOG_UNREAD] = "unread events",
	[USER_LOG_ROCE] = "processes without RoCE",
	[USER_LOG_TRACE] = "traces",
	[USER_LOG_RULES] = "fault rules",
	[USER_LOG_DEVICE_RULE] = "device rules",
	[USER_LOG_CONNECTION_RULE] = "connection rules",
	[USER_LOG_MEMORY] = "out of memory",
};
static_assert(COUNT(causes) == USER_LOG_COUNT, "every cause has a text");

static struct log_limit limit;
static uv_timer_t report_timer;
static bool is_open;

static void user_log_timer_update(void);

static void user_log_on_timer(uv_timer_t *timer)
{
	(void)timer;
	log_limit_run(&limit, clock_now_ns());
	user_log_timer_update();
}

static void user_log_timer_update(void)
{
	uint64_t next_ns = log_limit_next(&limit), now_ns = clock_now_ns();

	if (next_ns == TIMER_NEVER_NS)
		uv_timer_stop(&report_timer);
	else
		uv_timer_start(&report_timer, user_log_on_timer,
			       next_ns > now_ns ? (next_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 0, 0);
}

int user_log_open(uv_loop_t *loop)
{
	struct random random;
	int error = random_open(&random);

	if (!error)
		error = log_limit_init(&limit, causes, random_u64(&random));
	if (error)
		return error;
	uv_timer_init(loop, &report_timer);
	is_open = true;
	return 0;
}

void user_log_close(void)
{
	if (!is_open)
		return;
	is_open = false;
	log_limit_fini(&limit);
	uv_close((uv_handle_t *)&report_timer, NULL);
}

bool user_log_take(enum user_log_cause cause, enum log_level level, uid_t uid)
{
	bool may_log;

	if (!is_open)
		return true;
	may_log = log_limit_take(&limit, cause, level, uid, clock_now_ns());
	if (!uv_is_active((uv_handle_t *)&report_timer))
		user_log_timer_update();
	return may_log;
}
