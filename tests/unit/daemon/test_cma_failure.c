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
#include "wire/gid.h"

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

static void expect_addr_error(int error, const char *dst, uint16_t port)
{
	struct sockaddr_storage addr;
	uint8_t gid[GID_BYTES];

	desk_addr(&addr, dst, port);
	assert_true(gid_from_sockaddr(gid, (const struct sockaddr *)&addr));
	assert_int_equal(count, 1);
	assert_int_equal(last.event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(last.error, error);
	assert_memory_equal(last.remote_ip, gid, sizeof(gid));
	assert_int_equal(last.remote_port, port);
}

/* The resolution fails before the id has a route. */
static void cma_failed_resolution_without_route_has_destination(void **state)
{
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	/* A group cannot be the peer of a connection. */
	assert_int_equal(desk_resolve(&user, id, "224.0.1.99", 7777), 0);
	desk_run();
	expect_addr_error(-ENETUNREACH, "224.0.1.99", 7777);
	fail_bind();
	assert_int_equal(last.remote_port, 0);
}

/* The kernel reports the failure later, and the id gets its former route again. */
static void cma_failed_neighbour_has_destination(void **state)
{
	uint32_t id;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_resolve(&user, id, "10.0.0.77", 99), 0);
	fake_neigh_set(NEIGH_FAILED);
	desk_run();
	expect_addr_error(-EHOSTUNREACH, "10.0.0.77", 99);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, failure_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(cma_failed_call_after_second_dreq_has_no_reason),
		CASE(cma_failed_call_after_second_dreq_error_has_no_reason),
		CASE(cma_failed_resolution_without_route_has_destination),
		CASE(cma_failed_neighbour_has_destination),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
