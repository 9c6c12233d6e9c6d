/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_LIMITS_H
#define USRDMA_BASE_LIMITS_H

#include <stdbool.h>
#include <sys/resource.h>

/* Whether the soft limit of a resource (RLIMIT_*) of this process is set, or cannot be read. */
static inline bool limit_is_set(int resource)
{
	struct rlimit limit;

	return getrlimit((__rlimit_resource_t)resource, &limit) || limit.rlim_cur != RLIM_INFINITY;
}

#endif
