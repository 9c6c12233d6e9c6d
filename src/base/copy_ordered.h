/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_COPY_ORDERED_H
#define USRDMA_BASE_COPY_ORDERED_H

#include <stdint.h>
#include <string.h>

/* The application owns the memory and may access it as any type. */
typedef uint16_t __attribute__((may_alias)) copy_ordered_u16;
typedef uint32_t __attribute__((may_alias)) copy_ordered_u32;
typedef uint64_t __attribute__((may_alias)) copy_ordered_u64;

/* The size of the last aligned word of the destination [end - bytes, end): 8, 4, 2 or 1 bytes. bytes is not 0. */
static inline size_t copy_ordered_last_bytes(uintptr_t end, size_t bytes)
{
	size_t word_bytes = sizeof(uint64_t);

	while (word_bytes > bytes || end % word_bytes)
		word_bytes /= 2;
	return word_bytes;
}

/*
 * Copies bytes; the ranges must not overlap. The last aligned word of the destination is stored last, by one store with
 * release order. A thread that reads the new value of that word therefore also reads all other bytes and the caller's
 * earlier copies. memcpy() gives no such guarantee: C libraries copy the end of a block before its middle.
 */
static inline void copy_ordered(void *to, const void *from, size_t bytes)
{
	uint8_t *end = (uint8_t *)to + bytes;
	size_t last_bytes, before_bytes;
	const uint8_t *source;
	copy_ordered_u64 word64;
	copy_ordered_u32 word32;
	copy_ordered_u16 word16;

	if (!bytes)
		return;
	last_bytes = copy_ordered_last_bytes((uintptr_t)end, bytes);
	before_bytes = bytes - last_bytes;
	source = (const uint8_t *)from + before_bytes;
	if (before_bytes)
		memcpy(to, from, before_bytes);
	end -= last_bytes;
	switch (last_bytes) {
	case sizeof(word64):
		memcpy(&word64, source, sizeof(word64));
		__atomic_store_n((copy_ordered_u64 *)(void *)end, word64, __ATOMIC_RELEASE);
		break;
	case sizeof(word32):
		memcpy(&word32, source, sizeof(word32));
		__atomic_store_n((copy_ordered_u32 *)(void *)end, word32, __ATOMIC_RELEASE);
		break;
	case sizeof(word16):
		memcpy(&word16, source, sizeof(word16));
		__atomic_store_n((copy_ordered_u16 *)(void *)end, word16, __ATOMIC_RELEASE);
		break;
	default:
		__atomic_store_n(end, *source, __ATOMIC_RELEASE);
		break;
	}
}

#endif
