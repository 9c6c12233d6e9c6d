/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_LOG_H
#define USRDMA_BASE_LOG_H

#include <stdbool.h>

/*
 * Diagnostics on stderr: one line with one write(2) for each message. They are off unless the
 * environment has USRDMA_LOG=error|warn|info|debug|trace, because the code runs inside other
 * programs. The exception is LOG_LEVEL_USER: messages that the user must act on and that the
 * program's own error messages do not contain. They are on unless USRDMA_LOG=off.
 *
 * Bytes that are not printable (base/printable.h) are written as '?': a message may contain text of
 * another process.
 *
 * Safe from any thread. errno is preserved, so %m works and callers need not save errno.
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

/* Overrides the environment. Used by the daemon's option --foreground and by tests. */
void log_set_level(enum log_level level);

/* The level with this name, or -1. */
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
