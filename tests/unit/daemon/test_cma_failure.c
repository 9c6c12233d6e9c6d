/* SPDX-License-Identifier: BSD-2-Clause */
/* The failures of clients of the communication manager that are stored for `usrdma why`. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cma_desk.h"
#include "daemon/cma_ib.h"

static struct ipc_failure last;
static int count;

static void store(void *ctx, const struct cma_peer *peer, const struct ipc_failure *failure)
{
	(void)ctx;
	(void)peer;
	last = *failure;
	count++;
}

static int failure_open(void **state)
{
	int ret = desk_open(state);

	count = 0;
	cma_set_failure_sink(desk_cma, store, NULL);
	return ret;
}

/* A further failure, of another client. */
static void fail_bind(void)
{
	uint32_t id;

	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "192.0.2.1", DESK_PORT, NULL), -EADDRNOTAVAIL);
}

static void expect_reason_is_gone(enum cm_event_type event, enum ipc_failure_reason reason)
{
	uint32_t active, passive, listener;
	struct cma_id *id;

	desk_connection(&user, &root, &active, &passive, &listener);
	id = id_table_get(&desk_cma->ids, passive);
	cma_ib_on_event(NULL, id->conn, id, event, NULL, 0);
	desk_run();
	assert_int_equal(count, 1);
	assert_int_equal(last.reason, reason);
	/* The end is reported once. */
	cma_ib_on_event(NULL, id->conn, id, event, NULL, 0);
	desk_run();
	assert_int_equal(count, 1);
	fail_bind();
	assert_int_equal(count, 2);
	assert_int_equal(last.reason, IPC_REASON_NONE);
}

static void cma_failed_call_after_second_dreq_has_no_reason(void **state)
{
	(void)state;
	expect_reason_is_gone(CM_EVENT_DREQ, IPC_REASON_CM_DREQ);
}

static void cma_failed_call_after_second_dreq_error_has_no_reason(void **state)
{
	(void)state;
	expect_reason_is_gone(CM_EVENT_DREQ_ERROR, IPC_REASON_CM_NO_DREP);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, failure_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(cma_failed_call_after_second_dreq_has_no_reason),
		CASE(cma_failed_call_after_second_dreq_error_has_no_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
