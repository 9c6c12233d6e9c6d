/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_USER_LOG_H
#define USRDMA_DAEMON_USER_LOG_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/log.h"

/*
 * The log lines of the daemon that a client can cause. Each user has a limit for each cause
 * (base/log_limit.h), so that one user cannot fill the log of the daemon's user. Used by the thread
 * of the event loop.
 */
enum user_log_cause {
	USER_LOG_REFUSED,
	USER_LOG_VERSION,
	USER_LOG_INVALID,
	USER_LOG_UNREAD,
	USER_LOG_ROCE,
	USER_LOG_TRACE,
	USER_LOG_RULES,
	USER_LOG_DEVICE_RULE,
	USER_LOG_CONNECTION_RULE,
	USER_LOG_MEMORY,
	USER_LOG_COUNT
};

/* 0 or -errno. Before this call and after user_log_close(), lines are not limited. */
int user_log_open(uv_loop_t *loop) __attribute__((warn_unused_result));
void user_log_close(void);

/* Whether a line of this cause may be logged now. */
bool user_log_take(enum user_log_cause cause, enum log_level level, uid_t uid);

#define user_log(cause, level, uid, ...)                                      \
	do {                                                                  \
		if (log_is_on(level) && user_log_take((cause), (level), uid)) \
			log_print(level, __VA_ARGS__);                        \
	} while (0)

#endif
