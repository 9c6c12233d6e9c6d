/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link-local addresses of two interfaces of one host, which a cable connects: the listener is bound
 * to the address of one interface, and the peer reaches it through the other.
 */
#include "cm_fixture.h"
#include "host.h"
#include "host_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 10000

static struct sockaddr_storage scoped(const char *text, const char *interface)
{
	struct sockaddr_storage addr = {.ss_family = AF_INET6};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;

	assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	in6->sin6_scope_id = if_nametoindex(interface);
	assert_int_not_equal(in6->sin6_scope_id, 0);
	return addr;
}

static struct sockaddr_storage through(const struct sockaddr_storage *addr, const char *interface)
{
	struct sockaddr_storage other = *addr;

	((struct sockaddr_in6 *)&other)->sin6_scope_id = if_nametoindex(interface);
	return other;
}

static int setup(void **state)
{
	(void)state;
	if (!getenv("USRDMA_TEST_IP"))
		return 0;
	host_ip("link add left0 type veth peer name right0");
	host_ip("link set left0 addrgenmode none up");
	host_ip("link set right0 addrgenmode none up");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (!getenv("USRDMA_TEST_IP"))
		return 0;
	host_ip("link del left0");
	return 0;
}

static void add_address(const char *text, const char *interface)
{
	struct sockaddr_storage addr = scoped(text, interface);
	char line[100];

	snprintf(line, sizeof(line), "addr add %s/64 dev %s nodad", text, interface);
	host_ip(line);
	host_wait_address(&addr);
}

static void send_one(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	char sent[8] = "message", received[8] = "";
	struct ibv_mr *source = rdma_reg_msgs(from, sent, sizeof(sent));
	struct ibv_mr *sink = rdma_reg_msgs(to, received, sizeof(received));
	struct ibv_wc wc;

	assert_non_null(source);
	assert_non_null(sink);
	assert_int_equal(rdma_post_recv(to, NULL, received, sizeof(received), sink), 0);
	assert_int_equal(rdma_post_send(from, NULL, sent, sizeof(sent), source, 0), 0);
	assert_int_equal(rdma_get_send_comp(from, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(to, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(received, "message");
	assert_int_equal(rdma_dereg_mr(source), 0);
	assert_int_equal(rdma_dereg_mr(sink), 0);
}

/*
 * Connects through the interface `by` to a listener on the interface `at`, and sends in both
 * directions.
 */
static void connect_through(const char *text, const char *at, const char *by)
{
	struct sockaddr_storage addr = scoped(text, at);
	struct ends ends;

	ends_listen(&ends, &addr, 4);
	ends.addr = through(&ends.addr, by);
	ends_resolve(&ends);
	assert_string_equal(ibv_get_device_name(ends.active->verbs->device), by);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	assert_string_equal(ibv_get_device_name(ends.passive->verbs->device), at);
	assert_int_equal(((struct sockaddr_in6 *)rdma_get_peer_addr(ends.passive))->sin6_scope_id,
			 if_nametoindex(at));
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	send_one(ends.active, ends.passive);
	send_one(ends.passive, ends.active);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	ends_close(&ends);
}

static void rdma_connect_link_local_address_through_second_interface_succeeds(void **state)
{
	(void)state;
	host_needed();
	add_address("fe80::a", "left0");
	add_address("fe80::b", "right0");
	connect_through("fe80::a", "left0", "right0");
	connect_through("fe80::b", "right0", "left0");
	connect_through("fe80::a", "left0", "left0");
}

/* Both interfaces have the address: each one reaches its own. */
static void rdma_connect_link_local_address_of_both_interfaces_reaches_own(void **state)
{
	struct sockaddr_storage addr;
	struct ends ends;

	(void)state;
	host_needed();
	add_address("fe80::c", "left0");
	add_address("fe80::c", "right0");
	connect_through("fe80::c", "left0", "left0");
	connect_through("fe80::c", "right0", "right0");
	addr = scoped("fe80::c", "left0");
	ends_listen(&ends, &addr, 4);
	ends.addr = through(&ends.addr, "right0");
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 8);
	ends_close(&ends);
}

static void rdma_connect_link_local_address_resolves_datagram_service(void **state)
{
	struct rdma_conn_param param = {.private_data = "ping", .private_data_len = 4};
	struct sockaddr_storage addr;
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	host_needed();
	add_address("fe80::a", "left0");
	add_address("fe80::b", "right0");
	addr = scoped("fe80::a", "left0");
	cm_ps = RDMA_PS_UDP;
	ends_listen(&ends, &addr, 4);
	ends.addr = through(&ends.addr, "right0");
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, &param);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, ends.passive->qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	ends_close(&ends);
	cm_ps = RDMA_PS_TCP;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			rdma_connect_link_local_address_through_second_interface_succeeds, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			rdma_connect_link_local_address_of_both_interfaces_reaches_own, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			rdma_connect_link_local_address_resolves_datagram_service, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
