/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_CLOCK_H
#define USRDMA_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US 1000ull
#define CLOCK_NS_PER_MS 1000000ull
#define CLOCK_NS_PER_S	1000000000ull

/* The one clock: monotonic nanoseconds, never 0 once the machine runs. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
