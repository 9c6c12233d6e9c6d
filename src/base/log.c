/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"
#include "base/printable.h"
#include "base/syscalls.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024

static const char *const level_names[] = {
	[LOG_LEVEL_OFF] = "off",     [LOG_LEVEL_USER] = "user", [LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARN] = "warn",   [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug",
	[LOG_LEVEL_TRACE] = "trace",
};
static_assert(COUNT(level_names) == LOG_LEVEL_COUNT, "every level has a name");

/*
 * -1 until the environment was read. Two threads may read it at the same time: the result is the
 * same.
 */
static atomic_int current_level = -1;
static atomic_flag has_complained = ATOMIC_FLAG_INIT;

int log_level_by_name(const char *name)
{
	for (int level = 0; level < LOG_LEVEL_COUNT; level++) {
		if (strcmp(name, level_names[level]) == 0)
			return level;
	}
	return -1;
}

static int level_from_environment(void)
{
	const char *name = secure_getenv("USRDMA_LOG");
	int level = name && *name ? log_level_by_name(name) : LOG_LEVEL_USER;

	if (level >= 0)
		return level;
	if (!atomic_flag_test_and_set(&has_complained))
		log_print(
			LOG_LEVEL_USER,
			"invalid USRDMA_LOG '%s' (off, error, warn, info, debug or trace); ignored",
			name);
	return LOG_LEVEL_USER;
}

bool log_is_on(enum log_level level)
{
	int limit = atomic_load_explicit(&current_level, memory_order_relaxed);

	if (limit < 0) {
		limit = level_from_environment();
		atomic_store_explicit(&current_level, limit, memory_order_relaxed);
	}
	return (int)level <= limit;
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

/*
 * The length of the text in a buffer of LINE_BYTES, from the return value of snprintf(), which may
 * be greater.
 */
static size_t line_clip(int printed)
{
	if (printed < 0)
		return 0;
	return (size_t)printed < LINE_BYTES - 1 ? (size_t)printed : LINE_BYTES - 1;
}

void log_print(enum log_level level, const char *format, ...)
{
	int saved_errno = errno;
	char line[LINE_BYTES];
	size_t len;
	va_list args;

	if (level == LOG_LEVEL_USER)
		len = line_clip(snprintf(line, sizeof(line), "usrdma: "));
	else
		len = line_clip(snprintf(line, sizeof(line), "usrdma: %ld %s: ", (long)gettid(),
					 level_names[level]));
	errno = saved_errno;
	va_start(args, format);
	len = line_clip((int)len + vsnprintf(line + len, sizeof(line) - len, format, args));
	va_end(args);
	printable_replace(line, len);
	line[len++] = '\n';

	/* A failure of write() cannot be reported. */
	ssize_t written = sys_write(STDERR_FILENO, line, len);

	(void)written;
	errno = saved_errno;
}
