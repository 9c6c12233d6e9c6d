/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "profile/profile.h"

static int set(struct profile *profile, const char *setting)
{
	return profile_set(profile, setting, strlen(setting));
}

static void profile_by_name_default_changes_nothing(void **state)
{
	struct profile profile;

	(void)state;
	assert_int_equal(profile_by_name("usrdma", 6, &profile), 0);
	for (int i = 0; i < PROFILE_VALUES; i++)
		assert_int_equal(profile.values[i], PROFILE_UNSET);
	assert_null(profile.fw_ver);
	assert_int_equal(profile_value(&profile, PROFILE_MAX_QP, 17), 17);
	assert_int_equal(profile_value(NULL, PROFILE_MAX_QP, 17), 17);
	assert_int_equal(profile_gid_layout(&profile), GID_LAYOUT_USRDMA);
	assert_int_equal(profile_gid_layout(NULL), GID_LAYOUT_USRDMA);
}

static void profile_by_name_finds_whole_names_only(void **state)
{
	struct profile profile;

	(void)state;
	for (size_t i = 0; profile_name(i); i++) {
		assert_int_equal(
			profile_by_name(profile_name(i), strlen(profile_name(i)), &profile), 0);
		assert_string_equal(profile.name, profile_name(i));
	}
	assert_int_equal(profile_by_name("connectx-6", 9, &profile), -ENOENT);
	assert_int_equal(profile_by_name("rxe2", 4, &profile), -ENOENT);
	assert_int_equal(profile_by_name("", 0, &profile), -ENOENT);
}

/*
 * A built-in value outside the range of a setting could not be reported in the field of the public
 * struct.
 */
static void profile_by_name_values_are_valid_settings(void **state)
{
	struct profile profile, copy;
	char setting[64];

	(void)state;
	for (size_t i = 0; profile_name(i); i++) {
		assert_int_equal(
			profile_by_name(profile_name(i), strlen(profile_name(i)), &profile), 0);
		copy = profile;
		for (int at = 0; at < PROFILE_VALUES; at++) {
			if (profile.values[at] == PROFILE_UNSET)
				continue;
			snprintf(setting, sizeof(setting), "%s=%llu",
				 profile_value_name((enum profile_value)at),
				 (unsigned long long)profile.values[at]);
			copy.values[at] = PROFILE_UNSET;
			assert_int_equal(set(&copy, setting), 0);
			assert_int_equal(copy.values[at], profile.values[at]);
		}
	}
}

static void profile_limit_is_the_smaller_one(void **state)
{
	struct profile profile;

	(void)state;
	assert_int_equal(profile_by_name("connectx-6", 10, &profile), 0);
	assert_int_equal(profile_limit(&profile, PROFILE_MAX_SGE, 32), 30);
	assert_int_equal(profile_limit(&profile, PROFILE_MAX_SGE, 16), 16);
	assert_int_equal(profile_limit(&profile, PROFILE_MAX_INLINE_DATA, 1024), 1024);
}

static void profile_set_parses_numbers_and_words(void **state)
{
	struct profile profile;

	(void)state;
	assert_int_equal(profile_by_name("usrdma", 6, &profile), 0);
	assert_int_equal(set(&profile, "max_qp=4"), 0);
	assert_int_equal(set(&profile, "vendor_id=0x02c9"), 0);
	assert_int_equal(set(&profile, "gpu=yes"), 0);
	assert_int_equal(profile_value(&profile, PROFILE_GPU, 0), 1);
	assert_int_equal(set(&profile, "gpu=no"), 0);
	assert_int_equal(profile_value(&profile, PROFILE_GPU, 1), 0);
	assert_int_equal(set(&profile, "gpu=maybe"), -EINVAL);
	assert_int_equal(set(&profile, "gid_layout=pairs"), 0);
	assert_int_equal(set(&profile, "atomic_cap=none"), 0);
	assert_int_equal(set(&profile, "max_srq=0"), 0);
	assert_int_equal(profile.values[PROFILE_MAX_QP], 4);
	assert_int_equal(profile.values[PROFILE_VENDOR_ID], 0x2c9);
	assert_int_equal(profile.values[PROFILE_GID_LAYOUT], GID_LAYOUT_PAIRS);
	assert_int_equal(profile.values[PROFILE_ATOMIC_CAP], 0);
	assert_int_equal(profile.values[PROFILE_MAX_SRQ], 0);
	assert_int_equal(profile_set(&profile, "max_qp=123", 8), 0);
	assert_int_equal(profile.values[PROFILE_MAX_QP], 1);
}

static void profile_set_rejects_invalid_settings(void **state)
{
	static const struct {
		const char *setting;
		int error;
	} rows[] = {
		{"max_qp", -ENOENT},
		{"", -ENOENT},
		{"max=1", -ENOENT},
		{"=1", -ENOENT},
		{"max_qp=", -EINVAL},
		{"max_qp=-1", -EINVAL},
		{"max_qp=+1", -EINVAL},
		{"max_qp= 1", -EINVAL},
		{"max_qp=1k", -EINVAL},
		{"max_qp=2147483648", -EINVAL},
		{"max_qp=0x", -EINVAL},
		{"gid_layout=3", -EINVAL},
		{"gid_layout=pai", -EINVAL},
		{"gid_layout=", -EINVAL},
		{"lanes=3", -EINVAL},
		{"rate=0", -EINVAL},
		{"error_details=2", -EINVAL},
		{"event_for_error=on", -EINVAL},
		{"min_ack_timeout=32", -EINVAL},
		{"max_mr_size=18446744073709551615", -EINVAL},
		{"max_mr_size=99999999999999999999", -EINVAL},
		{"max_mr_size=00000000000000000000000000000000000000000000000000000000000000001",
		 -EINVAL},
	};
	struct profile profile, before;

	(void)state;
	assert_int_equal(profile_by_name("rxe", 3, &profile), 0);
	before = profile;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(set(&profile, rows[i].setting), rows[i].error);
		assert_memory_equal(&profile, &before, sizeof(profile));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profile_by_name_default_changes_nothing),
		cmocka_unit_test(profile_by_name_finds_whole_names_only),
		cmocka_unit_test(profile_by_name_values_are_valid_settings),
		cmocka_unit_test(profile_limit_is_the_smaller_one),
		cmocka_unit_test(profile_set_parses_numbers_and_words),
		cmocka_unit_test(profile_set_rejects_invalid_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
