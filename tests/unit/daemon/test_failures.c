/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/failures.h"

static void add(struct failures *failures, uid_t uid, uint32_t flags, uint64_t id)
{
	struct ipc_failure failure = {.kind = IPC_FAILURE_WR, .flags = flags, .id = id};

	assert_int_equal(failures_add(failures, &failure, 1000 + (pid_t)uid, uid), 0);
}

/* The number of failures that this user may read; the flags of all of them are added to *flags. */
static unsigned int count(const struct failures *failures, uid_t reader, uint32_t *flags)
{
	struct ipc_failure_get_reply reply = {0};
	unsigned int found = 0;

	while (!failures_read(failures, reply.number + 1, reader, &reply)) {
		*flags |= reply.failure.flags;
		found++;
	}
	return found;
}

static void failures_add_user_floods_failures_of_others_remain(void **state)
{
	struct failures failures;
	uint32_t flags = 0;

	(void)state;
	failures_init(&failures);
	for (int i = 0; i < 3; i++)
		add(&failures, 7, 0, 0);
	for (int i = 0; i < 3 * FAILURES_MAX; i++)
		add(&failures, 8, 0, 0);
	assert_int_equal(count(&failures, 7, &flags), 3);
	assert_int_equal(count(&failures, 8, &flags), FAILURES_MAX - 3);
	assert_int_equal(count(&failures, 9, &flags), 0);
	assert_int_equal(count(&failures, 0, &flags), FAILURES_MAX);
	failures_free(&failures);
}

static void failures_add_two_users_flood_each_has_half(void **state)
{
	struct failures failures;
	uint32_t flags = 0;

	(void)state;
	failures_init(&failures);
	for (int i = 0; i < FAILURES_MAX; i++)
		add(&failures, 7, 0, 0);
	for (int i = 0; i < FAILURES_MAX; i++)
		add(&failures, 8, 0, 0);
	assert_int_equal(count(&failures, 7, &flags), FAILURES_MAX / 2);
	assert_int_equal(count(&failures, 8, &flags), FAILURES_MAX / 2);
	failures_free(&failures);
}

static void failures_add_notes_are_replaced_first(void **state)
{
	struct failures failures;
	uint32_t flags = 0;

	(void)state;
	failures_init(&failures);
	add(&failures, 7, IPC_FAILURE_HAS_LOCAL, 0);
	for (int i = 0; i < FAILURES_MAX; i++)
		add(&failures, 7, IPC_FAILURE_NOTE, 0);
	for (int i = 1; i < FAILURES_MAX; i++)
		add(&failures, 7, 0, 0);
	assert_int_equal(count(&failures, 7, &flags), FAILURES_MAX);
	assert_int_equal(flags, IPC_FAILURE_HAS_LOCAL);
	failures_free(&failures);
}

static void failures_add_same_id_of_process_replaces_in_place(void **state)
{
	struct ipc_failure_get_reply reply;
	struct failures failures;
	uint32_t flags = 0;

	(void)state;
	failures_init(&failures);
	add(&failures, 7, 0, 5);
	add(&failures, 7, 0, 6);
	add(&failures, 8, 0, 5);
	add(&failures, 7, IPC_FAILURE_UPDATES, 5);
	assert_int_equal(count(&failures, 0, &flags), 3);
	assert_int_equal(failures_read(&failures, 0, 7, &reply), 0);
	assert_int_equal(reply.number, 1);
	assert_int_equal(reply.failure.flags, IPC_FAILURE_UPDATES);
	failures_free(&failures);
}

static void failures_add_pid_and_uid_are_those_of_the_session(void **state)
{
	struct ipc_failure failure = {.kind = IPC_FAILURE_QP, .pid = 1, .uid = 0};
	struct ipc_failure_get_reply reply;
	struct failures failures;

	(void)state;
	failures_init(&failures);
	assert_int_equal(failures_add(&failures, &failure, 77, 7), 0);
	assert_int_equal(failures_read(&failures, 0, 7, &reply), 0);
	assert_int_equal(reply.failure.pid, 77);
	assert_int_equal(reply.failure.uid, 7);
	assert_int_equal(failures_read(&failures, 0, 8, &reply), -ENOENT);
	failures_free(&failures);
}

static void failures_add_invalid_values_return_einval(void **state)
{
	struct ipc_failure kinds[] = {{.kind = 0},
				      {.kind = IPC_FAILURE_KIND_COUNT},
				      {.kind = IPC_FAILURE_WR, .reason = IPC_REASON_COUNT}};
	struct failures failures;
	uint32_t flags = 0;

	(void)state;
	failures_init(&failures);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		assert_int_equal(failures_add(&failures, &kinds[i], 1, 1), -EINVAL);
	assert_int_equal(count(&failures, 0, &flags), 0);
	failures_free(&failures);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_add_user_floods_failures_of_others_remain),
		cmocka_unit_test(failures_add_two_users_flood_each_has_half),
		cmocka_unit_test(failures_add_notes_are_replaced_first),
		cmocka_unit_test(failures_add_same_id_of_process_replaces_in_place),
		cmocka_unit_test(failures_add_pid_and_uid_are_those_of_the_session),
		cmocka_unit_test(failures_add_invalid_values_return_einval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
