/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_UTIL_H
#define USRDMA_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

/* The number of elements of an array, not of a pointer. */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The values of QPNs, PSNs, MSNs and XRC SRQ numbers are 24 bits wide. */
#define MASK_24 0xffffffu

static inline uint8_t min_u8(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * The smallest power of two that is at least n; n is at most 2^31. A ring that is indexed by a
 * free-running counter needs such a size: the remainder of the counter is otherwise not continuous
 * when the counter wraps.
 */
static inline uint32_t round_up_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/*
 * The path MTU in bytes of a code of IBA 1.x §9.5 (enum ibv_mtu: 1 is 256 bytes, 5 is 4096 bytes).
 */
static inline uint32_t mtu_code_bytes(unsigned int mtu_code)
{
	return 128u << mtu_code;
}

#endif
