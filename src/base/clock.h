/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_CLOCK_H
#define USRDMA_BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US 1000ull
#define CLOCK_NS_PER_MS 1000000ull
#define CLOCK_NS_PER_S	1000000000ull

/* The clock of the whole project: CLOCK_MONOTONIC in nanoseconds, never 0. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/*
 * Milliseconds until the deadline for poll(2), rounded up and limited to INT_MAX; 0: the deadline
 * has passed.
 */
static inline int clock_left_ms(uint64_t now_ns, uint64_t deadline_ns)
{
	uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	uint64_t left_ms = left_ns / CLOCK_NS_PER_MS + (left_ns % CLOCK_NS_PER_MS ? 1 : 0);

	return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

#endif
