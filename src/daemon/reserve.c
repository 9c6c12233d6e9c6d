/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/reserve.h"

#include <limits.h>
#include <sys/resource.h>

static int first_reserved = INT_MAX;

void reserve_init(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > INT_MAX)
		return;
	first_reserved = (int)limit.rlim_cur;
	first_reserved -= first_reserved < RESERVE_LIMIT_LEAST ? first_reserved / 8 :
								 RESERVE_NUMBERS;
}

bool reserve_holds(int fd)
{
	return fd >= first_reserved;
}

int reserve_first(void)
{
	return first_reserved;
}
