/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_CLOCK_H
#define USRDMA_BASE_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/*
 * The time of events as the processor counts it: a traced process reads the counter, which takes a
 * third of the time of clock_gettime(), and the reader of the events converts it to
 * CLOCK_MONOTONIC.
 */

/* The counter. It is not ordered with other instructions. Meaningful if trace_clock_is_usable(). */
static inline uint64_t trace_clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return clock_now_ns();
#endif
}

/*
 * The counter after all preceding loads, so that a received element has a later time than the same
 * element when it was sent.
 */
static inline uint64_t trace_clock_ticks_ordered(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
	return trace_clock_ticks();
}

/*
 * Whether the counter has a constant rate and the same value on all processors: on x86-64 if the
 * kernel uses it as its clock source. Reads a file.
 */
bool trace_clock_is_usable(void);

/*
 * A linear relation between the counter and CLOCK_MONOTONIC, which trace_clock_adjust() keeps
 * correct.
 */
struct trace_clock {
	uint64_t first_ticks; /* a pair of both times: the rate is that since this pair */
	uint64_t first_ns;
	uint64_t base_ticks; /* the relation: base_ns + (ticks - base_ticks) * ns_per_tick */
	uint64_t base_ns;
	double ns_per_tick;
};

/* Measures the rate of the counter during 2 ms. */
void trace_clock_init(struct trace_clock *clock);

/*
 * To be called regularly, at least once a second. Times that were converted before stay consistent
 * with later ones.
 */
void trace_clock_adjust(struct trace_clock *clock);

/*
 * The time in ns of a value of the counter. Any value is valid: at most a day from the last call of
 * trace_clock_adjust().
 */
uint64_t trace_clock_ns(const struct trace_clock *clock, uint64_t ticks);

#endif
