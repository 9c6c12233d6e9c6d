/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/activation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* The first passed descriptor (sd_listen_fds(3)). */
#define FIRST_FD 3

/* Whether the variable is the decimal number. */
static bool is_number(const char *name, long number)
{
	const char *text = getenv(name);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	return strtol(text, &end, 10) == number && !*end && !errno;
}

int activation_socket(void)
{
	/*
	 * A program that is activated itself passes its environment to the daemon that it starts,
	 * with its own process ID.
	 */
	bool is_for_us = is_number("LISTEN_PID", getpid());
	bool is_one = is_number("LISTEN_FDS", 1);

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (!is_for_us)
		return -ENOENT;
	return is_one ? FIRST_FD : -EINVAL;
}
