/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PSN_H
#define USRDMA_WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Packet sequence numbers count modulo 2^24 (IBA 1.x §9.7.2), and so does the MSN of an AETH. Of two of them the later
 * is the one reached by going forward less than half way round: a window never holds more than that.
 */
#define PSN_BITS 24
#define PSN_MASK 0xffffffu
#define PSN_HALF 0x800000u

/* `steps` may be anything, also negative as a uint32_t: 2^32 is a multiple of 2^24. */
static inline uint32_t psn_add(uint32_t psn, uint32_t steps)
{
	return (psn + steps) & PSN_MASK;
}

static inline uint32_t psn_sub(uint32_t psn, uint32_t steps)
{
	return (psn - steps) & PSN_MASK;
}

static inline uint32_t psn_next(uint32_t psn)
{
	return psn_add(psn, 1);
}

static inline uint32_t psn_prev(uint32_t psn)
{
	return psn_sub(psn, 1);
}

/* How far `psn` is ahead of `from`, in [-2^23, 2^23). */
static inline int32_t psn_diff(uint32_t psn, uint32_t from)
{
	return (int32_t)(psn_sub(psn, from) ^ PSN_HALF) - (int32_t)PSN_HALF;
}

static inline bool psn_is_before(uint32_t psn, uint32_t other)
{
	return psn_diff(psn, other) < 0;
}

static inline bool psn_is_after(uint32_t psn, uint32_t other)
{
	return psn_diff(psn, other) > 0;
}

/* In [first, end), of whatever length up to 2^24 - 1; nothing is in an empty one. */
static inline bool psn_is_in(uint32_t psn, uint32_t first, uint32_t end)
{
	return psn_sub(psn, first) < psn_sub(end, first);
}

#endif
