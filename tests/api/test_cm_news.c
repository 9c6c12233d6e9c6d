/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events about failures and external changes: unresolvable and unreachable addresses, interfaces
 * and addresses that change or disappear. The end of the daemon is tested in test_cm_threads.c,
 * unreachable hosts in test_cm_reach.c.
 */
#include "cm_fixture.h"
#include "host.h"
#include "host_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define OWN	   "10.77.0.1"
#define NEIGHBOUR  "10.77.0.77"
#define UNROUTED   "203.0.113.1" /* TEST-NET-3 (RFC 5737) */
#define BRIEF	   "10.79.0.1"
#define TIMEOUT_MS 10000

/* REJ reasons (IBA 1.x §12.6.7.2). */
#define TIMED_OUT 4
#define STALE	  10
#define CONSUMER  28

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

/* Asserts that the resolution of the address fails with this status. */
static void check_unresolvable(const char *text, int status)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = address(text);
	struct rdma_cm_id *id = cm_id(channel);

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&addr), TIMEOUT_MS), 0);
	cm_fail(channel, RDMA_CM_EVENT_ADDR_ERROR, status);
	assert_null(id->verbs);
	/* A route cannot be resolved yet. */
	assert_minus1_errno(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_minus1_errno(rdma_resolve_addr(id, NULL, sa(&addr), TIMEOUT_MS), -status);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void rdma_get_cm_event_addr_error_has_status(void **state)
{
	(void)state;
	host_needed();
	check_unresolvable(UNROUTED, -ENETUNREACH);
	host_ip("route add unreachable " UNROUTED "/32");
	check_unresolvable(UNROUTED, -EHOSTUNREACH);
	host_ip("route del unreachable " UNROUTED "/32");
	/* A connection to a group address fails. */
	check_unresolvable("239.77.0.1", -ENETUNREACH);
}

/*
 * The addresses of an interface without a carrier are still local, but no destination is reachable
 * through it.
 */
static void rdma_resolve_addr_interface_down_reports_addr_error(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage own = address(OWN), far = address(NEIGHBOUR);
	struct rdma_cm_id *id;
	int status = 0;

	(void)state;
	host_needed();
	host_ip("link set far0 down");
	/* The daemon is notified later than the kernel changes the interface. */
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

static void open_to_request(struct ends *ends)
{
	ends_listen(ends, NULL, 4);
	ends_resolve(ends);
	ends_create_qp(ends->active);
	ends_request(ends, NULL);
	ends_create_qp(ends->passive);
}

/*
 * The REP arrives when the QP can no longer be connected. The passive side was accepted, and gets
 * an event for the end.
 */
static void rdma_get_cm_event_failing_qp_reports_connect_error(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ends ends;

	(void)state;
	open_to_request(&ends);
	assert_int_equal(ibv_modify_qp(ends.active->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	cm_fail(ends.server, RDMA_CM_EVENT_REJECTED, CONSUMER);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	ends_close(&ends);
}

/*
 * The active side is destroyed before the request is answered. A second request follows the REJ of
 * the first one: when its CONNECT_REQUEST is returned, the daemon has processed the REJ, and has
 * sent no event for it.
 */
static void rdma_accept_canceled_request_reports_rejected_afterwards(void **state)
{
	struct rdma_cm_event *event, *request;
	struct rdma_cm_id *canceled;
	struct ends ends;

	(void)state;
	open_to_request(&ends);
	rdma_destroy_qp(ends.active);
	assert_int_equal(rdma_destroy_id(ends.active), 0);
	canceled = ends.passive;
	request = ends.request;
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	assert_ptr_not_equal(ends.passive, canceled);
	assert_int_equal(rdma_accept(canceled, NULL), 0);
	event = cm_get(ends.server, RDMA_CM_EVENT_REJECTED);
	assert_ptr_equal(event->id, canceled);
	assert_int_equal(event->status, TIMED_OUT);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(cm_qp_state(canceled), IBV_QPS_ERR);
	assert_minus1_errno(rdma_accept(canceled, NULL), EINVAL);
	assert_false(cm_readable(ends.server, 0));
	rdma_destroy_qp(canceled);
	assert_int_equal(rdma_ack_cm_event(request), 0);
	assert_int_equal(rdma_destroy_id(canceled), 0);
	ends_close(&ends);
}

/* The active side may also reject, until it has accepted the response. */
static void rdma_reject_response_is_reported_to_passive_side(void **state)
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

/* A request with a QPN that has another connection at the peer: that connection is unchanged. */
static void rdma_connect_qpn_in_use_reports_stale_connection(void **state)
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
	assert_int_equal(rdma_destroy_id(second), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	ends_close(&ends);
}

/* Creates an interface for this test only, so that no other connection is affected. */
static void add_brief_interface(void)
{
	struct sockaddr_storage addr = address(BRIEF);

	host_ip("link add brief0 type veth peer name brief1");
	host_ip("link set brief0 addrgenmode none");
	host_ip("link set brief1 up");
	host_ip("link set brief0 up");
	host_ip("addr add " BRIEF "/24 dev brief0");
	host_wait_address(&addr);
}

/*
 * A wildcard listener belongs to the whole host and is not affected by the removal of an interface.
 */
static void rdma_get_cm_event_removed_interface_reports_device_removal(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = address(BRIEF);
	struct sockaddr_storage any = address("0.0.0.0");
	struct rdma_cm_id *wildcard = cm_id(channel);
	struct ends ends;

	(void)state;
	host_needed();
	add_brief_interface();
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

static void get_gid_change(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&event);
}

/* Asserts that the channel has no event: the next one is that of a later request. */
static void check_no_event(struct rdma_event_channel *channel)
{
	struct sockaddr_storage own = address(OWN);
	struct rdma_cm_id *id = cm_id(channel);

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&own), TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/*
 * The hardware address of an interface changes, and its IP address is removed. Only a bond's new
 * hardware address has an event of the rdma_cm. The connections stay established.
 */
static void rdma_get_cm_event_changed_address_reports_only_gid_change(void **state)
{
	static const char *const changes[] = {
		"link set brief0 address 02:00:00:00:07:01",
		"link set brief0 address 02:00:00:00:07:02",
		"addr add 10.79.1.1/24 dev brief0",
		"addr del " BRIEF "/24 dev brief0",
	};
	struct sockaddr_storage addr = address(BRIEF);
	struct ends ends;

	(void)state;
	host_needed();
	add_brief_interface();
	ends_open(&ends, &addr);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		host_ip(changes[i]);
		get_gid_change(ends.active->verbs);
		check_no_event(ends.client);
		check_no_event(ends.server);
	}
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_RTS);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	ends_close(&ends);
	host_ip("link del brief0");
}

/*
 * The route was resolved when the interface had a larger MTU. The request arrives; its QP cannot
 * use the path.
 */
static void accept_fails_if_the_path_mtu_exceeds_that_of_the_interface(void **state)
{
	struct sockaddr_storage addr = address(BRIEF);
	struct rdma_cm_id *early;
	struct ends ends;
	uint8_t mtu;

	(void)state;
	host_needed();
	add_brief_interface();
	ends_listen(&ends, &addr, 1);
	ends_resolve(&ends);
	early = ends.active;
	assert_int_equal(early->route.path_rec->mtu, IBV_MTU_1024);
	host_ip("link set brief0 mtu 700");
	/* The daemon is notified later than the kernel changes the interface. */
	do {
		ends_resolve(&ends);
		mtu = ends.active->route.path_rec->mtu;
		assert_int_equal(rdma_destroy_id(ends.active), 0);
	} while (mtu != IBV_MTU_512);
	ends.active = early;
	ends_create_qp(early);
	ends_request(&ends, NULL);
	assert_int_equal(ends.passive->route.path_rec->mtu, IBV_MTU_1024);
	ends_create_qp(ends.passive);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	assert_int_equal(rdma_reject(ends.passive, NULL, 0), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, CONSUMER);
	ends_close(&ends);
	host_ip("link del brief0");
}

static void rdma_get_cm_event_multicast_error_has_status(void **state)
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

/* The interface of a joined group goes down. */
static void rdma_get_cm_event_interface_down_reports_multicast_error(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage own = address(OWN), group = address("239.77.0.3");
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int context;

	(void)state;
	host_needed();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, sa(&own)), 0);
	/* The link of the preceding case may still be coming up. */
	do {
		assert_int_equal(rdma_join_multicast(id, sa(&group), &context), 0);
		assert_true(cm_readable(channel, 10000));
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		context = event->status;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		if (context)
			assert_int_equal(rdma_leave_multicast(id, sa(&group)), 0);
	} while (context);
	host_ip("link set far0 down");
	event = cm_get(channel, RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_int_equal(event->status, -ENETDOWN);
	assert_ptr_equal(event->id, id);
	assert_ptr_equal(event->param.ud.private_data, &context);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	host_ip("link set far0 up");
	assert_int_equal(rdma_leave_multicast(id, sa(&group)), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* Invalid names fail without a name service. */
static void rdma_resolve_addrinfo_invalid_name_fails(void **state)
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
		cmocka_unit_test(rdma_get_cm_event_addr_error_has_status),
		cmocka_unit_test(rdma_resolve_addr_interface_down_reports_addr_error),
		cmocka_unit_test(rdma_get_cm_event_failing_qp_reports_connect_error),
		cmocka_unit_test(rdma_accept_canceled_request_reports_rejected_afterwards),
		cmocka_unit_test(rdma_reject_response_is_reported_to_passive_side),
		cmocka_unit_test(rdma_connect_qpn_in_use_reports_stale_connection),
		cmocka_unit_test(rdma_get_cm_event_removed_interface_reports_device_removal),
		cmocka_unit_test(rdma_get_cm_event_changed_address_reports_only_gid_change),
		cmocka_unit_test(accept_fails_if_the_path_mtu_exceeds_that_of_the_interface),
		cmocka_unit_test(rdma_get_cm_event_multicast_error_has_status),
		cmocka_unit_test(rdma_get_cm_event_interface_down_reports_multicast_error),
		cmocka_unit_test(rdma_resolve_addrinfo_invalid_name_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
