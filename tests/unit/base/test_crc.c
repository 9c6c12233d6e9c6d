/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both implementations of CRC-32 against its definition, bit by bit, at every length and alignment
 * with a code path of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/crc.h"
#include "base/crc_plain.h"

#define LEN_MAX 4200

static uint8_t bytes[LEN_MAX + 64];

typedef uint32_t crc_fn(uint32_t crc, const void *at, size_t len);

static crc_fn *functions[] = {crc32_ethernet, crc32_plain};

static int fill(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 149 + i / 251);
	return 0;
}

static uint32_t by_definition(uint32_t crc, const uint8_t *at, size_t len)
{
	crc = ~crc;
	while (len--) {
		crc ^= *at++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

/* The standard check value of CRC-32: the CRC of "123456789". */
static void crc_of_check_string_is_standard_value(void **state)
{
	crc_fn *crc = *(crc_fn **)*state;

	assert_int_equal(crc(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc(0, "", 0), 0);
}

static void crc_of_every_length_equals_plain_crc(void **state)
{
	crc_fn *crc = *(crc_fn **)*state;
	uint32_t want = 0;

	for (size_t len = 0; len < LEN_MAX; len++) {
		assert_int_equal(crc(0, bytes, len), want);
		want = by_definition(want, bytes + len, 1);
	}
}

static void crc_of_every_alignment_equals_plain_crc(void **state)
{
	static const size_t lens[] = {1,  15,  16,  17,	 47,   48,   49,  63,
				      64, 255, 256, 257, 1020, 1024, 4096};
	crc_fn *crc = *(crc_fn **)*state;

	for (size_t offset = 0; offset < 64; offset++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
			assert_int_equal(crc(0x12345678, bytes + offset, lens[i]),
					 by_definition(0x12345678, bytes + offset, lens[i]));
	}
}

static void crc_of_pieces_equals_crc_of_whole(void **state)
{
	crc_fn *crc = *(crc_fn **)*state;
	uint32_t whole = crc(0, bytes, 1024);

	for (size_t cut = 0; cut <= 1024; cut++)
		assert_int_equal(crc(crc(0, bytes, cut), bytes + cut, 1024 - cut), whole);
}

#define both(test)                                      \
	cmocka_unit_test_prestate(test, &functions[0]), \
		cmocka_unit_test_prestate(test, &functions[1])

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(crc_of_check_string_is_standard_value),
		both(crc_of_every_length_equals_plain_crc),
		both(crc_of_every_alignment_equals_plain_crc),
		both(crc_of_pieces_equals_crc_of_whole),
	};

	return cmocka_run_group_tests(tests, fill, NULL);
}
