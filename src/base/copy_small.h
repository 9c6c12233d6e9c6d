/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_COPY_SMALL_H
#define USRDMA_BASE_COPY_SMALL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * As memcpy(), without a function call for 4 to 32 bytes: copies the beginning and the end of the range, which overlap. The
 * compiler replaces a memcpy() of constant size by loads and stores.
 */
static inline void copy_small(void *to, const void *from, size_t bytes)
{
	uint8_t *at = to;
	const uint8_t *data = from;
	size_t last;

	if (bytes < 4 || bytes > 32) {
		memcpy(to, from, bytes);
	} else if (bytes < 8) {
		last = bytes - 4;
		memcpy(at, data, 4);
		memcpy(at + last, data + last, 4);
	} else if (bytes <= 16) {
		last = bytes - 8;
		memcpy(at, data, 8);
		memcpy(at + last, data + last, 8);
	} else {
		last = bytes - 16;
		memcpy(at, data, 16);
		memcpy(at + last, data + last, 16);
	}
}

#endif
