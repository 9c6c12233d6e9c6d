/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events that nobody asked for or hoped for: what cannot be resolved or connected, interfaces and addresses that change or
 * go. Those of a daemon that dies are in test_cm_threads.c, those of hosts that cannot be reached in test_cm_reach.c.
 */
#include "cm_fixture.h"
#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define OWN	   "10.77.0.1"
#define NEIGHBOUR  "10.77.0.77"
#define STRANGER   "203.0.113.1" /* TEST-NET-3 (RFC 5737) */
#define BRIEF	   "10.79.0.1"
#define TIMEOUT_MS 10000

/* REJ reasons (IBA 1.x §12.6.7.2). */
#define TIMED_OUT   4
#define STALE	    10
#define INVALID_MTU 26
#define CONSUMER    28

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage addr = cm_loopback(0);

	assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&addr)->sin_addr), 1);
	return addr;
}

/* An id of the channel, whose resolution of the address fails in this way. */
static void cannot_resolve(const char *text, int status)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = address(text);
	struct rdma_cm_id *id = cm_id(channel);

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&addr), TIMEOUT_MS), 0);
	cm_fail(channel, RDMA_CM_EVENT_ADDR_ERROR, status);
	assert_null(id->verbs);
	/* A route is still too early. */
	assert_minus1_errno(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&addr), TIMEOUT_MS), -status);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void an_address_error_says_why(void **state)
{
	(void)state;
	host_needed();
	cannot_resolve(STRANGER, -ENETUNREACH);
	host_ip("route add unreachable " STRANGER "/32");
	cannot_resolve(STRANGER, -EHOSTUNREACH);
	host_ip("route del unreachable " STRANGER "/32");
	/* Nobody connects to a group. */
	cannot_resolve("239.77.0.1", -ENETUNREACH);
}

/* The addresses of an interface without a carrier are still its own, but it leads nowhere. */
static void an_interface_that_is_down_resolves_nothing(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage own = address(OWN), far = address(NEIGHBOUR);
	struct rdma_cm_id *id;
	int status = 0;

	(void)state;
	host_needed();
	host_ip("link set far0 down");
	/* The daemon hears of it some time later than the kernel. */
	do {
		struct rdma_cm_event *event;

		id = cm_id(channel);
		assert_int_equal(rdma_bind_addr(id, sa(&own)), 0);
		assert_int_equal(rdma_resolve_addr(id, NULL, sa(&far), TIMEOUT_MS), 0);
		assert_true(cm_readable(channel, 10000));
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		if (event->event == RDMA_CM_EVENT_ADDR_ERROR)
			status = event->status;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	} while (!status);
	assert_int_equal(status, -ENETDOWN);
	host_ip("link set far0 up");
	rdma_destroy_event_channel(channel);
}

static void requested(struct ends *ends)
{
	ends_listen(ends, NULL, 4);
	ends_resolve(ends);
	ends_create_qp(ends->active);
	ends_request(ends, NULL);
	ends_create_qp(ends->passive);
}

/* The response finds a QP that can no longer be connected. The other side was accepted, and hears that it is over. */
static void a_connect_error_comes_of_the_own_qp(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ends ends;

	(void)state;
	requested(&ends);
	assert_int_equal(ibv_modify_qp(ends.active->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	cm_fail(ends.server, RDMA_CM_EVENT_REJECTED, CONSUMER);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	ends_close(&ends);
}

/* Whoever asked is gone before it was answered. */
static void a_request_is_withdrawn(void **state)
{
	struct ends ends;

	(void)state;
	requested(&ends);
	rdma_destroy_qp(ends.active);
	assert_int_equal(rdma_destroy_id(ends.active), 0);
	ends.active = NULL;
	cm_fail(ends.server, RDMA_CM_EVENT_REJECTED, TIMED_OUT);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	ends_close(&ends);
}

/* It says yes before it knows: the event is there already, unread, and tells it that this was in vain. */
static void a_withdrawn_request_is_accepted(void **state)
{
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends);
	rdma_destroy_qp(ends.active);
	assert_int_equal(rdma_destroy_id(ends.active), 0);
	ends.active = NULL;
	assert_true(cm_readable(ends.server, 10000));
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	event = cm_get(ends.server, RDMA_CM_EVENT_REJECTED);
	assert_ptr_equal(event->id, ends.passive);
	assert_int_equal(event->status, TIMED_OUT);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	assert_false(cm_readable(ends.server, 0));
	ends_close(&ends);
}

/* The active side may say no as well, as long as it has not said yes. */
static void a_response_is_rejected(void **state)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 4);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	param.qp_num = ends.active->qp->qp_num;
	rdma_destroy_qp(ends.active);
	ends_request(&ends, &param);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_reject(ends.active, "too late", 8), 0);
	event = cm_get(ends.server, RDMA_CM_EVENT_REJECTED);
	assert_ptr_equal(event->id, ends.passive);
	assert_int_equal(event->status, CONSUMER);
	assert_memory_equal(event->param.conn.private_data, "too late", 8);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	ends_close(&ends);
}

/* A QP number that the peer still has a connection with. It believes the newer one, and ends the older. */
static void a_stale_connection_is_rejected(void **state)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *second = cm_id(channel);
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	param.qp_num = ends.active->qp->qp_num;
	assert_int_equal(rdma_resolve_addr(second, NULL, sa(&ends.addr), TIMEOUT_MS), 0);
	cm_pass(channel, second, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(second, TIMEOUT_MS), 0);
	cm_pass(channel, second, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(second, &param), 0);
	cm_fail(channel, RDMA_CM_EVENT_REJECTED, STALE);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_destroy_id(second), 0);
	rdma_destroy_event_channel(channel);
	ends_close(&ends);
}

/* An interface of the test's own, so that nobody else's connections see it change. */
static void brief_interface(void)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = address(BRIEF);
	struct rdma_cm_id *id = cm_id(channel);

	host_ip("link add brief0 type veth peer name brief1");
	host_ip("link set brief1 up");
	host_ip("link set brief0 up");
	host_ip("addr add " BRIEF "/24 dev brief0");
	/* No event tells of an interface that is new. */
	while (rdma_bind_addr(id, sa(&addr))) {
		assert_true(errno == EADDRNOTAVAIL || errno == ENODEV);
		cm_readable(channel, 10);
	}
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* A wildcard is the whole machine's, and outlives each of its interfaces. */
static void whoever_is_on_an_interface_hears_of_its_end(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = address(BRIEF);
	struct sockaddr_storage any = address("0.0.0.0");
	struct rdma_cm_id *wildcard = cm_id(channel);
	struct ends ends;

	(void)state;
	host_needed();
	brief_interface();
	ends_open(&ends, &addr);
	assert_int_equal(rdma_bind_addr(wildcard, sa(&any)), 0);
	assert_int_equal(rdma_listen(wildcard, 1), 0);
	host_ip("link del brief0");
	cm_skip_to(ends.client, RDMA_CM_EVENT_DEVICE_REMOVAL);
	for (int i = 0; i < 2; i++)
		cm_skip_to(ends.server, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_false(cm_readable(channel, 0));
	assert_minus1_errno(rdma_disconnect(ends.passive), EINVAL);
	assert_minus1_errno(rdma_listen(ends.listener, 1), EINVAL);
	assert_int_equal(rdma_destroy_id(wildcard), 0);
	rdma_destroy_event_channel(channel);
	ends_close(&ends);
}

static void both_hear(struct ends *ends, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	cm_pass(ends->client, ends->active, type);
	for (int i = 0; i < 2; i++) {
		event = cm_get(ends->server, type);
		assert_true(event->id == ends->listener || event->id == ends->passive);
		assert_int_equal(event->status, 0);
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
}

/* The hardware address, as when a bond fails over, and the IP address. The connections stay. */
static void an_address_changes(void **state)
{
	struct sockaddr_storage addr = address(BRIEF);
	struct ends ends;

	(void)state;
	host_needed();
	brief_interface();
	ends_open(&ends, &addr);
	host_ip("link set brief0 address 02:00:00:00:07:01");
	both_hear(&ends, RDMA_CM_EVENT_ADDR_CHANGE);
	host_ip("link set brief0 address 02:00:00:00:07:02");
	both_hear(&ends, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_RTS);
	host_ip("addr add 10.79.1.1/24 dev brief0");
	host_ip("addr del " BRIEF "/24 dev brief0");
	both_hear(&ends, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	ends_close(&ends);
	host_ip("link del brief0");
}

/* The route was found while the interface took more than it does now. */
static void a_path_that_became_too_wide_is_rejected(void **state)
{
	struct sockaddr_storage addr = address(BRIEF);
	struct rdma_cm_id *early;
	struct ends ends;
	uint8_t mtu;

	(void)state;
	host_needed();
	brief_interface();
	ends_listen(&ends, &addr, 1);
	ends_resolve(&ends);
	early = ends.active;
	assert_int_equal(early->route.path_rec->mtu, IBV_MTU_1024);
	host_ip("link set brief0 mtu 700");
	/* The daemon hears of it some time later than the kernel. */
	do {
		ends_resolve(&ends);
		mtu = ends.active->route.path_rec->mtu;
		assert_int_equal(rdma_destroy_id(ends.active), 0);
	} while (mtu != IBV_MTU_512);
	ends.active = early;
	ends_create_qp(early);
	assert_int_equal(rdma_connect(early, NULL), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, INVALID_MTU);
	ends_close(&ends);
	host_ip("link del brief0");
}

static void a_multicast_error_says_why(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage own = address(OWN), group = address("239.77.0.2");
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int status;

	(void)state;
	host_needed();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, sa(&own)), 0);
	host_ip("link set far0 down");
	do {
		assert_int_equal(rdma_join_multicast(id, sa(&group), &status), 0);
		assert_true(cm_readable(channel, 10000));
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		status = event->status;
		assert_int_equal(event->event, status ? RDMA_CM_EVENT_MULTICAST_ERROR :
							RDMA_CM_EVENT_MULTICAST_JOIN);
		assert_ptr_equal(event->param.ud.private_data, &status);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		assert_int_equal(rdma_leave_multicast(id, sa(&group)), 0);
	} while (!status);
	assert_int_equal(status, -ENETDOWN);
	host_ip("link set far0 up");
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* A name that nobody has needs no name service to be wrong. */
static void names_that_are_none(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);
	struct rdma_addrinfo *info;

	(void)state;
	assert_int_equal(rdma_resolve_addrinfo(id, "nobody", NULL, &hints), 0);
	cm_fail(channel, RDMA_CM_EVENT_ADDRINFO_ERROR, -ENOENT);
	assert_minus1_errno(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_minus1_errno(rdma_resolve_addrinfo(id, "nobody", NULL, &hints), ENOENT);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDRINFO_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_error_says_why),
		cmocka_unit_test(an_interface_that_is_down_resolves_nothing),
		cmocka_unit_test(a_connect_error_comes_of_the_own_qp),
		cmocka_unit_test(a_request_is_withdrawn),
		cmocka_unit_test(a_withdrawn_request_is_accepted),
		cmocka_unit_test(a_response_is_rejected),
		cmocka_unit_test(a_stale_connection_is_rejected),
		cmocka_unit_test(whoever_is_on_an_interface_hears_of_its_end),
		cmocka_unit_test(an_address_changes),
		cmocka_unit_test(a_path_that_became_too_wide_is_rejected),
		cmocka_unit_test(a_multicast_error_says_why),
		cmocka_unit_test(names_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
