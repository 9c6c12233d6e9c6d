/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses in a request must match the packet; objects of one user are not listed for others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "cma_desk.h"
#include "daemon/cma_ib.h"

static void set_address(struct sockaddr_in *addr, const char *text)
{
	*addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(DESK_PORT)};
	assert_int_equal(inet_pton(AF_INET, text, &addr->sin_addr), 1);
}

/*
 * Whether a request with these addresses in its private data, in a packet with those addresses,
 * finds its listener.
 */
static bool is_found(const char *named_from, const char *named_to, const char *from, const char *to)
{
	struct sockaddr_in src, dst;
	uint8_t data[CM_IP_HDR_BYTES];
	struct cma_cm *cm = cma_cms_find(&desk_cma->cms, &cma_ib_ops);
	struct cma_request request;
	struct cm_path path = {0};
	struct cm_ip_hdr ip;

	set_address(&src, named_from);
	set_address(&dst, named_to);
	assert_int_equal(
		cm_ip_hdr_from_addrs(&ip, (struct sockaddr *)&src, (struct sockaddr *)&dst), 0);
	cm_ip_hdr_build(&ip, data);
	set_address(&src, from);
	set_address(&dst, to);
	gid_from_ipv4(path.dgid, &src.sin_addr);
	gid_from_ipv4(path.sgid, &dst.sin_addr);
	cma_ib_request_init(&request, cma_ib_of(cm), NULL, &path,
			    cma_service_id(RDMA_PS_TCP, DESK_PORT), data);
	return cma_find_listener(&request) != NULL;
}

static void cma_incoming_foreign_source_address_is_rejected(void **state)
{
	(void)state;
	(void)desk_listener(&root, "0.0.0.0");
	assert_true(is_found("10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.1"));
	assert_false(is_found("10.0.0.8", "10.0.0.1", "10.0.0.9", "10.0.0.1"));
	assert_false(is_found("127.0.0.1", "10.0.0.1", "10.0.0.9", "10.0.0.1"));
	assert_int_equal(desk_cma->counters.misaddressed, 2);
}

static void cma_incoming_loopback_listener_is_not_found_from_outside(void **state)
{
	(void)state;
	(void)desk_listener(&root, "127.0.0.1");
	assert_true(is_found("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"));
	/* All addresses of 127.0.0.0/8 have one GID. */
	assert_true(is_found("127.0.0.2", "127.0.0.1", "127.0.0.1", "127.0.0.1"));
	assert_false(is_found("10.0.0.9", "127.0.0.1", "10.0.0.9", "10.0.0.1"));
	assert_int_equal(desk_cma->counters.misaddressed, 1);
}

static size_t listed(enum cma_listed what, uid_t asker, const char *key)
{
	uint32_t cursor = 0;
	json_object *some;
	size_t found = 0;

	while ((some = cma_report_ids(desk_cma, what, asker, &cursor))) {
		for (size_t i = 0; i < json_object_array_length(some); i++)
			found += json_object_object_get(json_object_array_get_idx(some, i), key) !=
				 NULL;
		json_object_put(some);
	}
	return found;
}

static void cma_report_other_user_sees_ports_only(void **state)
{
	struct ipc_cm_param param = {.qp_type = IBV_QPT_RC};
	uint32_t id;

	(void)state;
	(void)desk_listener(&root, "127.0.0.1");
	id = desk_resolved(&root, "127.0.0.1", DESK_PORT);
	assert_int_equal(desk_connect(&root, id, &param), 0);
	desk_run();
	assert_int_equal(listed(CMA_CONNECTIONS, 0, "qp"), 2);
	assert_int_equal(listed(CMA_CONNECTIONS, 4711, "qp"), 0);
	assert_int_equal(listed(CMA_LISTENERS, 0, "id"), 1);
	assert_int_equal(listed(CMA_LISTENERS, 0, "pid"), 1);
	assert_int_equal(listed(CMA_LISTENERS, 4711, "local"), 1);
	assert_int_equal(listed(CMA_LISTENERS, 4711, "id"), 0);
	assert_int_equal(listed(CMA_LISTENERS, 4711, "pid"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)

/* desk_connection() connects QPN 0x8002 of the user. */
#define USER_UID   1000
#define USER_SLOT  1
#define USER_RANGE 0x8000

static void cma_claim_qpns_ends_connections_of_former_user(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	cma_claim_qpns(desk_cma, USER_UID, USER_SLOT);
	cma_claim_qpns(desk_cma, 0, USER_SLOT + 3);
	desk_run();
	desk_expect_none(user.fd);
	desk_expect_none(root.fd);
	cma_claim_qpns(desk_cma, 0, USER_SLOT);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, passive);
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, passive), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, active);
}

static void cma_claim_qpns_withdraws_request_of_former_user(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t active, passive;

	(void)state;
	desk_listener(&root, "10.0.0.1");
	active = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	desk_param(&param, USER_RANGE | 2, "");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event.id;
	cma_claim_qpns(desk_cma, 0, USER_SLOT);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, -EPERM);
	desk_expect_none(root.fd);
	assert_int_equal(desk_accept(&root, passive, 1, &param), -EINVAL);
	assert_int_equal(desk_id_call(&user, IPC_CM_ESTABLISH, active), -EINVAL);
	assert_int_equal(desk_destroy(&user, active, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_incoming_foreign_source_address_is_rejected),
		TEST(cma_incoming_loopback_listener_is_not_found_from_outside),
		TEST(cma_report_other_user_sees_ports_only),
		TEST(cma_claim_qpns_ends_connections_of_former_user),
		TEST(cma_claim_qpns_withdraws_request_of_former_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
