/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/slots.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static struct slots slots;
static int owners[IPC_SLOTS];

static void test_all_but_the_daemons_own(void **state)
{
	bool seen[IPC_SLOTS] = {false};

	(void)state;
	slots_init(&slots, 4711);
	for (int i = 0; i < IPC_SLOTS - 1; i++) {
		int slot = slots_lend(&slots, &owners[i]);

		assert_in_range(slot, 1, IPC_SLOTS - 1);
		assert_false(seen[slot]);
		seen[slot] = true;
		assert_ptr_equal(slots_owner(&slots, (uint32_t)slot), &owners[i]);
	}
	assert_int_equal(slots_lend(&slots, &owners[0]), -ENOSPC);
	assert_null(slots_owner(&slots, 0));
}

static void test_oldest_first(void **state)
{
	int first, slot;

	(void)state;
	slots_init(&slots, 4711);
	first = slots_lend(&slots, &owners[0]);
	slots_return(&slots, (uint32_t)first);
	for (int i = 0; i < IPC_SLOTS - 2; i++) {
		slot = slots_lend(&slots, &owners[0]);
		assert_int_not_equal(slot, first);
		slots_return(&slots, (uint32_t)slot);
	}
	assert_int_equal(slots_lend(&slots, &owners[0]), first);
}

/* A daemon that follows another does not begin with the QPNs that its peers know from that. */
static void test_a_new_daemon_begins_elsewhere(void **state)
{
	bool seen[IPC_SLOTS] = {false};

	(void)state;
	for (uint64_t seed = 0; seed < (uint64_t)IPC_SLOTS * 3; seed++) {
		int slot;

		slots_init(&slots, seed);
		slot = slots_lend(&slots, &owners[0]);
		assert_in_range(slot, 1, IPC_SLOTS - 1);
		seen[slot] = true;
	}
	for (int slot = 1; slot < IPC_SLOTS; slot++)
		assert_true(seen[slot]);
}

static void test_any_number_may_be_asked(void **state)
{
	static const uint32_t numbers[] = {0, 1, IPC_SLOTS - 1, IPC_SLOTS, UINT32_MAX};

	(void)state;
	slots_init(&slots, 4711);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_null(slots_owner(&slots, numbers[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_but_the_daemons_own),
		cmocka_unit_test(test_oldest_first),
		cmocka_unit_test(test_a_new_daemon_begins_elsewhere),
		cmocka_unit_test(test_any_number_may_be_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
