/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"

static void counting_key(uint8_t key[RANDOM_KEY_BYTES])
{
	for (uint8_t i = 0; i < RANDOM_KEY_BYTES; i++)
		key[i] = i;
}

/* RFC 8439 §2.3.2 */
static void random_chacha20_block_matches_rfc_8439_example(void **state)
{
	static const uint8_t nonce[RANDOM_NONCE_BYTES] = {0, 0, 0, 9, 0, 0, 0, 0x4a};
	static const uint8_t expected[RANDOM_BLOCK_BYTES] = {
		0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3,
		0x20, 0x71, 0xc4, 0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22,
		0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e, 0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa,
		0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12, 0x9c, 0xd1,
		0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e};
	uint8_t key[RANDOM_KEY_BYTES], block[RANDOM_BLOCK_BYTES];

	(void)state;
	counting_key(key);
	random_chacha20_block(key, 1, nonce, block);
	assert_memory_equal(block, expected, sizeof(block));
}

/* RFC 8439 appendix A.1, test vectors 1 and 2: key and nonce zero */
static void random_chacha20_block_zero_key_matches_rfc_8439_vectors(void **state)
{
	static const uint8_t zero[RANDOM_KEY_BYTES];
	static const uint8_t first[] = {0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90};
	static const uint8_t second[] = {0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a};
	uint8_t block[RANDOM_BLOCK_BYTES];

	(void)state;
	random_chacha20_block(zero, 0, zero, block);
	assert_memory_equal(block, first, sizeof(first));
	random_chacha20_block(zero, 1, zero, block);
	assert_memory_equal(block, second, sizeof(second));
}

static void random_init_same_key_gives_same_numbers(void **state)
{
	struct random one, other;
	uint8_t key[RANDOM_KEY_BYTES];

	(void)state;
	counting_key(key);
	random_init(&one, key);
	random_init(&other, key);
	for (int i = 0; i < 1000; i++)
		assert_true(random_u32(&one) == random_u32(&other));
	key[0]++;
	random_init(&other, key);
	assert_false(random_u64(&one) == random_u64(&other));
}

static void random_u32_refill_replaces_key(void **state)
{
	struct random random;
	uint8_t key[RANDOM_KEY_BYTES], block[RANDOM_BLOCK_BYTES];
	static const uint8_t nonce[RANDOM_NONCE_BYTES];
	uint32_t number, expected;

	(void)state;
	counting_key(key);
	random_init(&random, key);
	number = random_u32(&random);
	random_chacha20_block(key, 0, nonce, block);
	assert_memory_equal(random.key, block, RANDOM_KEY_BYTES);
	memcpy(&expected, block + RANDOM_KEY_BYTES, sizeof(expected));
	assert_int_equal(number, expected);
}

static void random_u32_erases_returned_numbers(void **state)
{
	static const uint8_t zero[sizeof(((struct random *)NULL)->buffer)];
	struct random random;

	(void)state;
	random_init_repeatable(&random, 1);
	do {
		(void)random_u32(&random);
	} while (random.left);
	assert_memory_equal(random.buffer, zero, sizeof(zero));
}

static void random_open_two_generators_differ(void **state)
{
	struct random one, other;

	(void)state;
	assert_int_equal(random_open(&one), 0);
	assert_int_equal(random_open(&other), 0);
	assert_false(random_u64(&one) == random_u64(&other));
}

static void random_below_reaches_every_value_below_limit(void **state)
{
	unsigned int seen[7] = {0};
	struct random random;

	(void)state;
	random_init_repeatable(&random, 7);
	assert_int_equal(random_below(&random, 1), 0);
	for (int i = 0; i < 7000; i++)
		seen[random_below(&random, 7)]++;
	for (int i = 0; i < 7; i++)
		assert_in_range(seen[i], 800, 1200);
	for (int i = 0; i < 1000; i++)
		assert_true(random_below(&random, UINT32_MAX) < UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_chacha20_block_matches_rfc_8439_example),
		cmocka_unit_test(random_chacha20_block_zero_key_matches_rfc_8439_vectors),
		cmocka_unit_test(random_init_same_key_gives_same_numbers),
		cmocka_unit_test(random_u32_refill_replaces_key),
		cmocka_unit_test(random_u32_erases_returned_numbers),
		cmocka_unit_test(random_open_two_generators_differ),
		cmocka_unit_test(random_below_reaches_every_value_below_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
