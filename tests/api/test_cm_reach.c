/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreachable peers and peers that do not reply. ICMP errors of hosts without usrdma are tested in
 * tests/programs/reach.py.
 */
#include "cm_fixture.h"
#include "host.h"
#include "host_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OWN	     "10.77.0.1"
#define NEIGHBOUR    "10.77.0.77"
#define ROCE_PORT    4791
#define TIMEOUT_MS   10000
#define CM_TIMEOUT_S "1"

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage addr = cm_loopback(4711);

	assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&addr)->sin_addr), 1);
	return addr;
}

static struct rdma_cm_id *sync_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, ps), 0);
	return id;
}

static void a_local_route_over_roce_fails_too(void)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage near = address(OWN);
	struct rdma_cm_id *id = cm_id(channel);

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&near), TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	setenv("USRDMA_TRANSPORT", "roce", 1);
	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	cm_fail(channel, RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH);
	unsetenv("USRDMA_TRANSPORT");
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/*
 * Without UDP port 4791 no other host is reachable. Another socket must bind the port before the
 * daemon does.
 */
static void rdma_resolve_route_port_in_use_reports_route_error(void **state)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT)};
	struct ibv_path_data path = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {.mtu = IBV_MTU_256, .pkey = 0xffff},
	};
	struct sockaddr_storage far = address(NEIGHBOUR);
	int holder = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	(void)state;
	host_needed();
	assert_int_equal(bind(holder, (struct sockaddr *)&name, sizeof(name)), 0);
	host_ip("neigh replace " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	channel = cm_channel();
	id = cm_id(channel);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&far), TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	path.path.sgid = id->route.addr.addr.ibaddr.sgid;
	path.path.dgid = id->route.addr.addr.ibaddr.dgid;
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path,
					    sizeof(path)),
			    EHOSTUNREACH);
	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	cm_fail(channel, RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH);
	assert_minus1_errno(rdma_connect(id, &(struct rdma_conn_param){.retry_count = 1}), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);

	id = sync_id(RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&far), TIMEOUT_MS), 0);
	assert_minus1_errno(rdma_resolve_route(id, TIMEOUT_MS), EHOSTUNREACH);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
	a_local_route_over_roce_fails_too();
	close(holder);
	host_ip("neigh del " NEIGHBOUR " dev own0");
	/* The next daemon can bind the port. */
	host_kill_daemon();
}

#define ABSENT4		 "10.77.0.99"
#define ABSENT6		 "fd77::99"
#define SHORT_TIMEOUT_MS 200

/*
 * The failure is reported within the timeout of the call, and not only by the connection attempt.
 */
static void rdma_resolve_addr_absent_host_reports_addr_error(void **state)
{
	struct sockaddr_storage absent[2] = {address(ABSENT4), {.ss_family = AF_INET6}};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&absent[1];
	struct rdma_event_channel *channel = cm_channel();

	(void)state;
	host_needed();
	assert_int_equal(inet_pton(AF_INET6, ABSENT6, &in6->sin6_addr), 1);
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *id = cm_id(channel);
		struct rdma_cm_event *event;

		assert_int_equal(rdma_resolve_addr(id, NULL, sa(&absent[i]), SHORT_TIMEOUT_MS), 0);
		event = cm_get(channel, RDMA_CM_EVENT_ADDR_ERROR);
		assert_true(event->status == -ETIMEDOUT || event->status == -EHOSTUNREACH);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		assert_minus1_errno(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

#define ROUTED "10.99.0.5"

static void rdma_resolve_addr_synchronous_failure_sets_errno(void **state)
{
	struct sockaddr_storage absent = address("10.77.0.98"), unrouted = address("192.0.2.1");
	struct rdma_cm_id *id = sync_id(RDMA_PS_TCP);

	(void)state;
	host_needed();
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&unrouted), TIMEOUT_MS), ENETUNREACH);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&absent), 1), ETIMEDOUT);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	/* The kernel reports a failure after three solicitations, one each second. */
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&absent), TIMEOUT_MS), EHOSTUNREACH);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The next hop of a destination behind a gateway is the gateway. */
static void rdma_resolve_addr_host_behind_gateway_succeeds(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage routed = address(ROUTED);
	struct rdma_cm_id *id = cm_id(channel);
	struct rdma_cm_event *event;

	(void)state;
	host_needed();
	host_ip("route add 10.99.0.0/24 via " NEIGHBOUR);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&routed), SHORT_TIMEOUT_MS), 0);
	event = cm_get(channel, RDMA_CM_EVENT_ADDR_ERROR);
	assert_true(event->status == -ETIMEDOUT || event->status == -EHOSTUNREACH);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	host_ip("neigh replace " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	/* A timeout of 0 ms. */
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&routed), 0), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	host_ip("neigh del " NEIGHBOUR " dev own0");
	host_ip("route del 10.99.0.0/24");
	rdma_destroy_event_channel(channel);
}

/*
 * An id that waits for its neighbour entry is destroyed, once alone and once with the last
 * reference of its process.
 */
static void rdma_destroy_id_during_resolution_succeeds(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage absent = address(ABSENT4);
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	host_needed();
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&absent), TIMEOUT_MS), 0);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&absent), TIMEOUT_MS), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_false(cm_readable(channel, 0));
	rdma_destroy_event_channel(channel);
}

static void connect_fails(struct rdma_cm_id *id, struct sockaddr_storage *dst, int error)
{
	struct rdma_conn_param param = {.qp_num = 0};

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(dst), TIMEOUT_MS), 0);
	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	ends_create_qp(id);
	assert_minus1_errno(rdma_connect(id, &param), error);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(id->event->status, -error);
	rdma_destroy_ep(id);
}

/* The kernel still has a reachable neighbour entry for the host. */
static void rdma_connect_host_without_response_reports_unreachable(void **state)
{
	struct sockaddr_storage far = address(NEIGHBOUR);

	(void)state;
	host_needed();
	host_ip("neigh add " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	connect_fails(sync_id(RDMA_PS_TCP), &far, ETIMEDOUT);
	connect_fails(sync_id(RDMA_PS_UDP), &far, ETIMEDOUT);
	host_ip("neigh del " NEIGHBOUR " dev own0");
}

/* The address of both sides is removed, so the two sides can no longer reach each other. */
#define TEMPORARY "10.77.0.5"

static struct sockaddr_storage temporary_address_add(void)
{
	struct sockaddr_storage addr = address(TEMPORARY);

	host_ip("addr add " TEMPORARY "/24 dev own0");
	host_wait_address(&addr);
	cm_set_port(&addr, 0);
	return addr;
}

static void temporary_address_remove(void)
{
	struct sockaddr_storage addr = address(TEMPORARY);

	host_ip("addr del " TEMPORARY "/24 dev own0");
	host_wait_no_address(&addr);
}

static void rdma_accept_peer_gone_reports_unreachable(void **state)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct sockaddr_storage addr;
	struct ends ends;

	(void)state;
	host_needed();
	addr = temporary_address_add();
	ends_listen(&ends, &addr, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	temporary_address_remove();
	ends_create_qp(ends.passive);
	param.qp_num = ends.passive->qp->qp_num;
	rdma_destroy_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	cm_fail(ends.server, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	/*
	 * The active side receives no reply. It waits for a minute if it repeated its request while
	 * the address existed and received an MRA.
	 */
	ends_close(&ends);
}

static void rdma_disconnect_without_drep_reports_disconnected(void **state)
{
	struct sockaddr_storage addr;
	struct ends ends;

	(void)state;
	host_needed();
	addr = temporary_address_add();
	ends_open(&ends, &addr);
	temporary_address_remove();
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_resolve_route_port_in_use_reports_route_error),
		cmocka_unit_test(rdma_resolve_addr_absent_host_reports_addr_error),
		cmocka_unit_test(rdma_resolve_addr_synchronous_failure_sets_errno),
		cmocka_unit_test(rdma_resolve_addr_host_behind_gateway_succeeds),
		cmocka_unit_test(rdma_destroy_id_during_resolution_succeeds),
		cmocka_unit_test(rdma_connect_host_without_response_reports_unreachable),
		cmocka_unit_test(rdma_accept_peer_gone_reports_unreachable),
		cmocka_unit_test(rdma_disconnect_without_drep_reports_disconnected),
	};

	/* The library reads the variable once, in the first connect. */
	setenv("USRDMA_CM_TIMEOUT", CM_TIMEOUT_S, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
