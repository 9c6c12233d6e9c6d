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

static void slots_lend_never_returns_slot_of_daemon(void **state)
{
	bool seen[IPC_SLOTS] = {false};

	(void)state;
	slots_init(&slots, 4711);
	for (int i = 0; i < IPC_SLOTS - 1; i++) {
		int slot = slots_assign(&slots, &owners[i]);

		assert_in_range(slot, 1, IPC_SLOTS - 1);
		assert_false(seen[slot]);
		seen[slot] = true;
		assert_ptr_equal(slots_owner(&slots, (uint32_t)slot), &owners[i]);
	}
	assert_int_equal(slots_assign(&slots, &owners[0]), -ENOSPC);
	assert_null(slots_owner(&slots, 0));
}

static void slots_return_slot_is_reused_last(void **state)
{
	int first, slot;

	(void)state;
	slots_init(&slots, 4711);
	first = slots_assign(&slots, &owners[0]);
	slots_return(&slots, (uint32_t)first);
	for (int i = 0; i < IPC_SLOTS - 2; i++) {
		slot = slots_assign(&slots, &owners[0]);
		assert_int_not_equal(slot, first);
		slots_return(&slots, (uint32_t)slot);
	}
	assert_int_equal(slots_assign(&slots, &owners[0]), first);
}

/* A new daemon does not assign the QPNs that peers know from the preceding daemon. */
static void slots_init_starts_at_random_slot(void **state)
{
	bool seen[IPC_SLOTS] = {false};

	(void)state;
	for (uint64_t seed = 0; seed < (uint64_t)IPC_SLOTS * 3; seed++) {
		int slot;

		slots_init(&slots, seed);
		slot = slots_assign(&slots, &owners[0]);
		assert_in_range(slot, 1, IPC_SLOTS - 1);
		seen[slot] = true;
	}
	for (int slot = 1; slot < IPC_SLOTS; slot++)
		assert_true(seen[slot]);
}

static void slots_owner_unused_number_returns_null(void **state)
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
		cmocka_unit_test(slots_lend_never_returns_slot_of_daemon),
		cmocka_unit_test(slots_return_slot_is_reused_last),
		cmocka_unit_test(slots_init_starts_at_random_slot),
		cmocka_unit_test(slots_owner_unused_number_returns_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
