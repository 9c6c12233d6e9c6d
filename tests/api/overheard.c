/* SPDX-License-Identifier: BSD-2-Clause */
#include "overheard.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 60000

void overheard_begin(struct overheard *overheard)
{
	int ends[2];

	memset(overheard, 0, sizeof(*overheard));
	assert_int_equal(pipe(ends), 0);
	overheard->saved = dup(STDERR_FILENO);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	overheard->read_fd = ends[0];
}

/* Whether further text arrived within this time. */
static bool hear(struct overheard *overheard, int timeout_ms)
{
	struct pollfd pollfd = {.fd = overheard->read_fd, .events = POLLIN};
	ssize_t len;

	if (poll(&pollfd, 1, timeout_ms) <= 0)
		return false;
	assert_true(overheard->len < OVERHEARD_BYTES - 1);
	len = read(overheard->read_fd, overheard->text + overheard->len,
		   OVERHEARD_BYTES - 1 - overheard->len);
	assert_true(len > 0);
	overheard->len += (size_t)len;
	return true;
}

void overheard_wait(struct overheard *overheard, const char *words)
{
	while (!strstr(overheard->text, words)) {
		if (!hear(overheard, PATIENCE_MS))
			fail_msg("never said: %s", words);
	}
}

bool overheard_has(struct overheard *overheard, const char *words)
{
	while (hear(overheard, 0))
		;
	return strstr(overheard->text, words) != NULL;
}

void overheard_end(struct overheard *overheard)
{
	assert_int_equal(dup2(overheard->saved, STDERR_FILENO), STDERR_FILENO);
	close(overheard->saved);
	close(overheard->read_fd);
}
