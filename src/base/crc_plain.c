/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc_plain.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

/*
 * CRC-32 for processors without a carry-less multiplication instruction, or with a slow one, such
 * as emulated processors.
 *
 * A CRC is the remainder of the message, as a polynomial, divided by the CRC's polynomial. Adding a
 * multiple of this polynomial to the message does not change the remainder. One multiple has five
 * terms and a wide gap after the first:
 *
 *     x^300 + x^155 + x^117 + x^89 + 1
 *
 * so a bit of the message can be removed if it is added 145, 183, 211 and 300 bits later in the
 * message. With words of 64 bits, each word is shifted and added to the second to fifth word after
 * it. All words except the last few are processed in this way, in registers. The rest of the
 * message is processed by bytes with a table.
 *
 * Bits are in the order of CRC-32: least significant first. (The multiple is the shortest with five
 * terms and a gap of at least 64 bits; it was found by exhaustive search.)
 */
#define POLYNOMIAL	0xedb88320u
#define WORD_BYTES	8u
#define FURTHEST_WORDS	5u
#define LAST_BYTES_MOST ((FURTHEST_WORDS + 1) * WORD_BYTES)

static uint32_t of_byte[256];

static void fill_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		of_byte[byte] = crc;
	}
}

/* `crc` is the internal state, without initial value and final XOR. */
static uint32_t by_bytes(uint32_t state, const uint8_t *at, size_t len)
{
	static pthread_once_t is_filled = PTHREAD_ONCE_INIT;

	pthread_once(&is_filled, fill_table);
	while (len--)
		state = of_byte[(state ^ *at++) & 0xff] ^ state >> 8;
	return state;
}

static uint64_t load(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

uint32_t crc32_plain(uint32_t crc, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	/* Values to be added to the next five words. */
	uint64_t first = (uint32_t)~crc, second = 0, third = 0, fourth = 0, fifth = 0;
	uint64_t last[FURTHEST_WORDS + 1];

	if (len < LAST_BYTES_MOST)
		return ~by_bytes(~crc, at, len);
	while (len >= LAST_BYTES_MOST) {
		uint64_t word = load(at) ^ first;

		first = second;
		second = third ^ word << 17 ^ word << 55;
		third = fourth ^ word >> 47 ^ word >> 9 ^ word << 19;
		fourth = fifth ^ word >> 45 ^ word << 44;
		fifth = word >> 20;
		at += WORD_BYTES;
		len -= WORD_BYTES;
	}
	memcpy(last, at, len);
	last[0] ^= htole64(first);
	last[1] ^= htole64(second);
	last[2] ^= htole64(third);
	last[3] ^= htole64(fourth);
	last[4] ^= htole64(fifth);
	return ~by_bytes(0, (const uint8_t *)last, len);
}
