/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CAPTURE_BYTES 8192

static void say_one_of_each(void)
{
	log_user("do this");
	log_error("broken: %m");
	log_debug("detail %d", 7);
}

static void say_too_much(void)
{
	char text[4000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_user("%s", text);
}

static void say_foreign_text(void)
{
	log_user("rules '%s' of J\xc3\xbcrgen", "\x1b[2J\x1b[H\r\nusrdma: \xe2\x80\xae+\x9b");
}

/* Captures the stderr output of `say` in a process with USRDMA_LOG set to `level` (NULL: unset). */
static void capture(const char *level, void (*say)(void), char *out)
{
	int ends[2];
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		if (level)
			setenv("USRDMA_LOG", level, 1);
		else
			unsetenv("USRDMA_LOG");
		errno = ENOENT;
		say();
		_exit(errno == ENOENT ? 0 : 1);
	}
	close(ends[1]);
	while ((got = read(ends[0], out + len, CAPTURE_BYTES - 1 - len)) > 0)
		len += (size_t)got;
	out[len] = '\0';
	close(ends[0]);

	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void log_default_level_prints_nothing(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	capture(NULL, say_one_of_each, out);
	assert_string_equal(out, "usrdma: do this\n");
	capture("", say_one_of_each, out);
	assert_string_equal(out, "usrdma: do this\n");
	capture("nonsense", say_one_of_each, out);
	assert_string_equal(
		out,
		"usrdma: invalid USRDMA_LOG 'nonsense' (off, error, warn, info, debug or trace); "
		"ignored\nusrdma: do this\n");
	capture("off", say_one_of_each, out);
	assert_string_equal(out, "");
}

static void log_level_selects_messages(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	capture("error", say_one_of_each, out);
	assert_non_null(strstr(out, "error: broken: No such file or directory\n"));
	assert_null(strstr(out, "detail"));
	capture("trace", say_one_of_each, out);
	assert_non_null(strstr(out, "debug: detail 7\n"));
}

static void log_long_line_is_cut(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	capture(NULL, say_too_much, out);
	assert_int_equal(strlen(out), 1024);
	assert_ptr_equal(strchr(out, '\n'), out + 1023);
}

/*
 * A message may contain text that another user chose: it is one line and has no escape sequences.
 */
static void log_unprintable_bytes_are_replaced(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	capture(NULL, say_foreign_text, out);
	assert_string_equal(out, "usrdma: rules '?[2J?[H??usrdma: ???+?' of J\xc3\xbcrgen\n");
}

static void log_level_by_name_returns_level(void **state)
{
	(void)state;
	assert_int_equal(log_level_by_name("off"), LOG_LEVEL_OFF);
	assert_int_equal(log_level_by_name("trace"), LOG_LEVEL_TRACE);
	assert_int_equal(log_level_by_name("TRACE"), -1);
	assert_int_equal(log_level_by_name(""), -1);
	log_set_level(LOG_LEVEL_WARN);
	assert_true(log_is_on(LOG_LEVEL_WARN));
	assert_false(log_is_on(LOG_LEVEL_INFO));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_default_level_prints_nothing),
		cmocka_unit_test(log_level_selects_messages),
		cmocka_unit_test(log_long_line_is_cut),
		cmocka_unit_test(log_unprintable_bytes_are_replaced),
		cmocka_unit_test(log_level_by_name_returns_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
