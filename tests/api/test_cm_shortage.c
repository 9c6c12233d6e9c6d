/* SPDX-License-Identifier: BSD-2-Clause */

/* Allocations of memory and descriptors fail, one after the other, in each call of the rdma_cm. */

#include "child.h"
#include "cm_fixture.h"
#include "shortage.h"

#include <netdb.h>

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

/* In a child, which has no connection to the daemon and no devices yet. */
static bool makes_channels_in_the_end(void *arg)
{
	(void)arg;
	starve_null(rdma_create_event_channel(), rdma_destroy_event_channel, ENFILE);
	return true;
}

static bool has_memory_in_the_end(void *arg)
{
	(void)arg;
	starve_null(rdma_create_event_channel(), rdma_destroy_event_channel, ENOMEM);
	starve_null(rdma_get_devices(NULL), rdma_free_devices, ENOMEM);
	return true;
}

static void rdma_create_event_channel_no_memory_fails_without_leak(void **state)
{
	(void)state;
	shortage_needed();
	child_agrees(makes_channels_in_the_end, NULL);
	child_agrees(has_memory_in_the_end, NULL);
}

static void rdma_create_id_no_memory_fails_without_leak(void **state)
{
	struct rdma_event_channel *channel;
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST}, *res;
	struct rdma_cm_id *id;

	(void)state;
	shortage_needed();
	channel = cm_channel();
	starve_minus1(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), ENOMEM);
	assert_int_equal(rdma_destroy_id(id), 0);
	starve_minus1(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), ENOMEM);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	starve_minus1(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), ENOMEM);
	assert_int_equal(rdma_destroy_id(id), 0);
	shortage_of(ENOMEM, 1);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_MEMORY);
}

static void rdma_join_multicast_no_memory_fails_without_leak(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0), group = cm_loopback(0);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	(void)state;
	shortage_needed();
	channel = cm_channel();
	((struct sockaddr_in *)&group)->sin_addr.s_addr = htonl(0xef4e0501u);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, sa(&addr)), 0);
	starve_minus1(rdma_join_multicast(id, sa(&group), NULL), ENOMEM);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* The steps of a connection that allocate memory, each repeated until it succeeds. */
static void rdma_connect_no_memory_fails_without_leak(void **state)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	static char bytes[64];
	struct ibv_mr *mr;
	struct ends ends;

	(void)state;
	shortage_needed();
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	starve_minus1(rdma_create_qp(ends.active, NULL, &attr), ENOMEM);
	starve_minus1(rdma_create_srq(ends.active, NULL, &srq), ENOMEM);
	rdma_destroy_srq(ends.active);
#define DEREG(made) assert_int_equal(rdma_dereg_mr(made), 0)
	starve_null(rdma_reg_msgs(ends.active, bytes, sizeof(bytes)), DEREG, ENOMEM);
	starve_null(rdma_reg_read(ends.active, bytes, sizeof(bytes)), DEREG, ENOMEM);
	starve_null(rdma_reg_write(ends.active, bytes, sizeof(bytes)), DEREG, ENOMEM);
	mr = rdma_reg_msgs(ends.active, bytes, sizeof(bytes));
	assert_non_null(mr);
	ends_request(&ends, NULL);
	starve_minus1(rdma_create_qp(ends.passive, NULL, &attr), ENOMEM);
	/*
	 * If the queue pair cannot be modified, rdma_accept() fails, but the request can be
	 * rejected.
	 */
	shortage_of(ENOMEM, 1);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), ENOMEM);
	assert_true(shortage_was_felt());
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	assert_int_equal(rdma_reject(ends.passive, NULL, 0), 0);
	cm_skip_to(ends.client, RDMA_CM_EVENT_REJECTED);
	DEREG(mr);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_event_channel_no_memory_fails_without_leak),
		cmocka_unit_test(rdma_create_id_no_memory_fails_without_leak),
		cmocka_unit_test(rdma_join_multicast_no_memory_fails_without_leak),
		cmocka_unit_test(rdma_connect_no_memory_fails_without_leak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
