/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_LOG_H
#define USRDMA_BASE_LOG_H

#include <stdbool.h>

/*
 * Diagnostics on stderr, one line and one write(2) each. Silent unless the environment says
 * USRDMA_LOG=error|warn|info|debug|trace, because this code runs inside strangers' programs. The one
 * exception is LOG_LEVEL_USER: a line that tells the person in front of the program what to do, when
 * the program's own error message cannot. It is on unless USRDMA_LOG=off.
 *
 * Safe from any thread; errno is preserved, so %m works and callers need not save it.
 */
enum log_level {
	LOG_LEVEL_OFF,
	LOG_LEVEL_USER,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_TRACE,
	LOG_LEVEL_COUNT
};

bool log_is_on(enum log_level level);
void log_print(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Overrides the environment: the daemon's --foreground, and tests. */
void log_set_level(enum log_level level);

/* The level of that name, or -1. */
int log_level_by_name(const char *name);

#define log_at(level, ...)                             \
	do {                                           \
		if (log_is_on(level))                  \
			log_print(level, __VA_ARGS__); \
	} while (0)

#define log_user(...)  log_at(LOG_LEVEL_USER, __VA_ARGS__)
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_trace(...) log_at(LOG_LEVEL_TRACE, __VA_ARGS__)

#endif
