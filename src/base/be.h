/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_BE_H
#define USRDMA_BASE_BE_H

#include <stdint.h>

/* Unaligned access to big-endian integers of protocol headers. */

static inline uint16_t be_load16(const void *at)
{
	const uint8_t *b = at;

	return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t be_load24(const void *at)
{
	const uint8_t *b = at;

	return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

static inline uint32_t be_load32(const void *at)
{
	const uint8_t *b = at;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline uint64_t be_load64(const void *at)
{
	const uint8_t *b = at;

	return (uint64_t)be_load32(b) << 32 | be_load32(b + 4);
}

static inline void be_store16(void *at, uint16_t value)
{
	uint8_t *b = at;

	b[0] = (uint8_t)(value >> 8);
	b[1] = (uint8_t)value;
}

static inline void be_store24(void *at, uint32_t value)
{
	uint8_t *b = at;

	b[0] = (uint8_t)(value >> 16);
	b[1] = (uint8_t)(value >> 8);
	b[2] = (uint8_t)value;
}

static inline void be_store32(void *at, uint32_t value)
{
	uint8_t *b = at;

	be_store16(b, (uint16_t)(value >> 16));
	be_store16(b + 2, (uint16_t)value);
}

static inline void be_store64(void *at, uint64_t value)
{
	uint8_t *b = at;

	be_store32(b, (uint32_t)(value >> 32));
	be_store32(b + 4, (uint32_t)value);
}

#endif
