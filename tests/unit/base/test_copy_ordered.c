/* SPDX-License-Identifier: BSD-2-Clause */

/* The copy that stores the last word last: every alignment and length, and the order that a polling thread sees. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/copy_ordered.h"

#define LENGTH_MAX 40u
#define GUARD	   16u
#define AREA_BYTES (GUARD + 8 + LENGTH_MAX + GUARD)

static void copy_ordered_any_length_writes_exactly_its_bytes(void **state)
{
	_Alignas(8) uint8_t to[AREA_BYTES];
	_Alignas(8) uint8_t from[AREA_BYTES];
	uint8_t expected[AREA_BYTES];

	(void)state;
	for (uint32_t i = 0; i < AREA_BYTES; i++)
		from[i] = (uint8_t)(i + 1);
	for (uint32_t to_at = 0; to_at < 8; to_at++) {
		for (uint32_t from_at = 0; from_at < 8; from_at++) {
			for (uint32_t bytes = 0; bytes <= LENGTH_MAX; bytes++) {
				memset(to, 0xee, sizeof(to));
				memset(expected, 0xee, sizeof(expected));
				memcpy(expected + GUARD + to_at, from + from_at, bytes);
				copy_ordered(to + GUARD + to_at, from + from_at, bytes);
				assert_memory_equal(to, expected, sizeof(to));
			}
		}
	}
}

static void copy_ordered_last_word_is_aligned_and_largest(void **state)
{
	(void)state;
	for (uintptr_t end = 64; end < 72; end++) {
		for (size_t bytes = 1; bytes <= LENGTH_MAX; bytes++) {
			size_t word_bytes = copy_ordered_last_bytes(end, bytes);

			assert_true(word_bytes <= bytes && end % word_bytes == 0);
			assert_true(word_bytes == 8 || word_bytes * 2 > bytes ||
				    end % (word_bytes * 2));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_ordered_any_length_writes_exactly_its_bytes),
		cmocka_unit_test(copy_ordered_last_word_is_aligned_and_largest),
	};

	return cmocka_run_group_tests_name("copy_ordered", tests, NULL, NULL);
}
