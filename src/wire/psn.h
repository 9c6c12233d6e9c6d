/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_PSN_H
#define USRDMA_WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

/*
 * Packet sequence numbers and the MSN of an AETH count modulo 2^24 (IBA 1.x §9.7.2). One number is
 * after another if it is ahead by less than 2^23; no window is larger.
 */
#define PSN_BITS 24
#define PSN_MASK MASK_24
#define PSN_HALF 0x800000u

/*
 * `steps` may be any value, also a negative one converted to uint32_t, because 2^32 is a multiple
 * of 2^24.
 */
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

/* The distance from `from` to `psn`, in [-2^23, 2^23). */
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

/* Whether psn is in [first, end), an interval of up to 2^24 - 1 numbers; false if it is empty. */
static inline bool psn_is_in(uint32_t psn, uint32_t first, uint32_t end)
{
	return psn_sub(psn, first) < psn_sub(end, first);
}

#endif
