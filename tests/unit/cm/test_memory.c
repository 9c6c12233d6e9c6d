/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every allocation of the communication manager fails once: the failure is returned to the caller,
 * or the peer's retransmission succeeds.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ends.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static int allocations_left = -1; /* -1: unlimited */

void *__wrap_calloc(size_t count, size_t size)
{
	if (allocations_left == 0)
		return NULL;
	if (allocations_left > 0)
		allocations_left--;
	return __real_calloc(count, size);
}

static void cm_new_no_memory_fails_without_leak(void **state)
{
	static const struct cm_callbacks callbacks;
	struct random random;
	struct cm *cm = NULL;
	int allowed = 0;

	(void)state;
	random_init_repeatable(&random, 0);
	while (!cm) {
		allocations_left = allowed++;
		cm = cm_new(&callbacks, NULL, &random);
		assert_true(allowed < 20);
	}
	allocations_left = -1;
	assert_int_equal(allowed, 11);
	cm_free(cm);
}

static void cm_conn_new_no_memory_fails(void **state)
{
	(void)state;
	allocations_left = 0;
	assert_int_equal(cm_listen(there->cm, 99), -ENOMEM);
	assert_null(cm_conn_new(here->cm, &active));
	assert_null(cm_sidr_new(here->cm, &active));
	allocations_left = -1;
	assert_int_equal(cm_conn_count(here->cm), 0);
}

static void *sidr_owner(struct net_node *node, struct cm_sidr *sidr, const struct cm_sidr_req *req,
			uint8_t *status)
{
	(void)node;
	(void)sidr;
	(void)req;
	(void)status;
	return &passive;
}

/* The first allocation is the half-open entry, the second the resolution. */
static void cm_receive_sidr_req_no_memory_is_dropped(void **state)
{
	struct cm_msg req = {
		.type = CM_MSG_SIDR_REQ,
		.sidr_req = {.request_id = 7, .service_id = NET_SERVICE},
	};

	(void)state;
	net.on_sidr_request = sidr_owner;
	for (int allowed = 0; allowed < 2; allowed++) {
		allocations_left = allowed;
		receive_by_hand(there, &req, here->gid[15]);
		allocations_left = -1;
		assert_int_equal(sent_count, 0);
		assert_int_equal(cm_sidr_count(there->cm), 0);
	}
	receive_by_hand(there, &req, here->gid[15]);
	assert_int_equal(cm_sidr_count(there->cm), 1);
}

static void cm_receive_req_no_memory_is_dropped(void **state)
{
	struct cm_msg req = {
		.type = CM_MSG_REQ,
		.req =
			{
				.local_comm_id = 7,
				.local_ca_guid = 8,
				.local_qpn = 9,
				.service_id = NET_SERVICE,
			},
	};

	(void)state;
	for (int allowed = 0; allowed < 2; allowed++) {
		allocations_left = allowed;
		receive_by_hand(there, &req, here->gid[15]);
		allocations_left = -1;
		assert_int_equal(sent_count, 0);
		assert_int_equal(cm_conn_count(there->cm), 0);
	}
	receive_by_hand(there, &req, here->gid[15]);
	assert_int_equal(cm_conn_count(there->cm), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_new_no_memory_fails_without_leak),
		TEST(cm_conn_new_no_memory_fails),
		TEST(cm_receive_req_no_memory_is_dropped),
		TEST(cm_receive_sidr_req_no_memory_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
