/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/failure_kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void add(struct failure_kept *kept, uint64_t id, uint32_t flags, uint32_t sends)
{
	const struct ipc_failure report = {.id = id, .flags = flags, .flushed_sends = sends};

	failure_kept_add(kept, &report);
}

static void send_all(struct failure_kept *kept)
{
	while (failure_kept_pending(kept))
		failure_kept_sent(kept);
}

static void failure_kept_pending_returns_reports_in_order(void **state)
{
	struct failure_kept kept = {0};

	(void)state;
	assert_null(failure_kept_pending(&kept));
	add(&kept, 1, 0, 0);
	add(&kept, 2, 0, 0);
	assert_int_equal(failure_kept_pending(&kept)->id, 1);
	failure_kept_sent(&kept);
	assert_int_equal(failure_kept_pending(&kept)->id, 2);
	add(&kept, 3, 0, 0);
	assert_int_equal(failure_kept_pending(&kept)->id, 2);
	send_all(&kept);
	assert_int_equal(kept.count, 3);
}

static void failure_kept_add_replaces_oldest_sent_report(void **state)
{
	struct failure_kept kept = {0};

	(void)state;
	for (uint64_t id = 1; id <= FAILURE_KEPT; id++)
		add(&kept, id, 0, 0);
	assert_true(failure_kept_is_full(&kept));
	failure_kept_sent(&kept);
	assert_false(failure_kept_is_full(&kept));
	add(&kept, FAILURE_KEPT + 1, 0, 0);
	assert_true(failure_kept_is_full(&kept));
	assert_int_equal(failure_kept_pending(&kept)->id, 2);
	assert_int_equal(kept.count, FAILURE_KEPT);
	assert_int_equal(kept.reports[0].id, 2);
	assert_int_equal(kept.reports[FAILURE_KEPT - 1].id, FAILURE_KEPT + 1);
}

static void failure_kept_add_replaces_sent_report_that_is_updated(void **state)
{
	struct failure_kept kept = {0};

	(void)state;
	for (uint64_t id = 1; id <= FAILURE_KEPT; id++)
		add(&kept, id, 0, 1);
	send_all(&kept);
	add(&kept, 5, IPC_FAILURE_UPDATES, 2);
	assert_int_equal(kept.count, FAILURE_KEPT);
	assert_int_equal(kept.reports[0].id, 1);
	assert_int_equal(kept.reports[4].id, 6);
	assert_int_equal(failure_kept_pending(&kept)->id, 5);
	assert_int_equal(failure_kept_pending(&kept)->flushed_sends, 2);
	assert_int_equal(kept.pending_count, 1);
}

/* The daemon joins both: the second one replaces the first. */
static void failure_kept_add_keeps_pending_report_that_is_updated(void **state)
{
	struct failure_kept kept = {0};

	(void)state;
	add(&kept, 1, 0, 1);
	add(&kept, 1, IPC_FAILURE_UPDATES, 2);
	assert_int_equal(kept.pending_count, 2);
	assert_int_equal(failure_kept_pending(&kept)->flushed_sends, 1);
	failure_kept_sent(&kept);
	assert_int_equal(failure_kept_pending(&kept)->flushed_sends, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failure_kept_pending_returns_reports_in_order),
		cmocka_unit_test(failure_kept_add_replaces_oldest_sent_report),
		cmocka_unit_test(failure_kept_add_replaces_sent_report_that_is_updated),
		cmocka_unit_test(failure_kept_add_keeps_pending_report_that_is_updated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
