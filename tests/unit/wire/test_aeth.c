/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All 256 syndromes; both tables of the specification are compared with the rules that their
 * entries follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/aeth.h"

static void aeth_kind_every_syndrome_has_one_kind(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 256; s++) {
		enum aeth_kind kind = aeth_kind((uint8_t)s);

		assert_int_equal(aeth_code((uint8_t)s), s % 32);
		if (s >= 0x80 || (s >= 0x40 && s < 0x60))
			assert_int_equal(kind, AETH_KIND_RESERVED);
		else
			assert_int_equal(aeth_make(kind, s % 32), s);
	}
	assert_int_equal(aeth_kind(0x00), AETH_KIND_ACK);
	assert_int_equal(aeth_kind(0x1f), AETH_KIND_ACK);
	assert_int_equal(aeth_kind(0x20), AETH_KIND_RNR_NAK);
	assert_int_equal(aeth_kind(0x60), AETH_KIND_NAK);
	assert_int_equal(aeth_make(AETH_KIND_NAK, AETH_NAK_REMOTE_ACCESS), 0x62);
	/* A code that exceeds five bits does not change the kind. */
	assert_int_equal(aeth_make(AETH_KIND_ACK, 32 + 5), 5);
}

/*
 * Both tables grow by powers of two with one step half way between: from the listed first entries
 * on, each entry is twice the entry two before it.
 */
static void aeth_credit_codes_follow_specification(void **state)
{
	static const uint32_t start[] = {0, 1, 2, 3, 4, 6};

	(void)state;
	for (unsigned code = 0; code < AETH_CREDITS_UNLIMITED; code++) {
		if (code < 6)
			assert_int_equal(aeth_credits(code), start[code]);
		else
			assert_int_equal(aeth_credits(code), 2 * aeth_credits(code - 2));
	}
	assert_int_equal(aeth_credits(30), 32768);
	assert_int_equal(aeth_credits(AETH_CREDITS_UNLIMITED), UINT32_MAX);
}

static void aeth_credit_code_never_exceeds_receives(void **state)
{
	(void)state;
	for (uint32_t credits = 0; credits < 70000; credits++) {
		unsigned code = aeth_credit_code(credits);

		assert_in_range(code, 0, 30);
		assert_true(aeth_credits(code) <= credits);
		if (code < 30)
			assert_true(aeth_credits(code + 1) > credits);
	}
	assert_int_equal(aeth_credit_code(UINT32_MAX), 30);
}

static void aeth_rnr_timer_codes_follow_specification(void **state)
{
	static const uint64_t start_us[] = {655360, 10, 20, 30, 40, 60};

	(void)state;
	for (unsigned code = 0; code < AETH_CODES; code++) {
		if (code < 6)
			assert_int_equal(aeth_rnr_wait_ns(code), start_us[code] * 1000);
		else
			assert_int_equal(aeth_rnr_wait_ns(code), 2 * aeth_rnr_wait_ns(code - 2));
	}
	assert_int_equal(aeth_rnr_wait_ns(31), UINT64_C(491520000));
	/* The value of code 32, which wraps to code 0. */
	assert_int_equal(aeth_rnr_wait_ns(0), 2 * aeth_rnr_wait_ns(30));
}

static void aeth_nak_name_every_code_has_a_name(void **state)
{
	(void)state;
	for (unsigned code = 0; code < AETH_CODES; code++) {
		const char *name = aeth_nak_name(code);

		assert_non_null(name);
		assert_int_equal(strcmp(name, "reserved") == 0, code >= AETH_NAK_COUNT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aeth_kind_every_syndrome_has_one_kind),
		cmocka_unit_test(aeth_credit_codes_follow_specification),
		cmocka_unit_test(aeth_credit_code_never_exceeds_receives),
		cmocka_unit_test(aeth_rnr_timer_codes_follow_specification),
		cmocka_unit_test(aeth_nak_name_every_code_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
