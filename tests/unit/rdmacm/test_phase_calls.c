/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library itself decides by the phase of an id, for each phase: the result of
 * rdma_accept() and rdma_get_request(), whether rdma_disconnect() of a synchronous id waits for an
 * event, and which events are reported. The fake daemon accepts every request, so each error is the
 * library's.
 */
#include "steps.h"

#include <stdbool.h>
#include <stdio.h>

#define WAITS EAGAIN /* the channels of the ids are non-blocking */

struct subject {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener; /* NULL: the id was not requested */
	struct rdma_cm_id *id;
	struct rdma_cm_event *request; /* not acknowledged */
	uint64_t cookie;
	uint32_t handle;
};

static void take_type(struct subject *subject, enum rdma_cm_event_type pushed,
		      enum rdma_cm_event_type reported)
{
	struct ipc_cm_event msg = {.cookie = subject->cookie,
				   .id = subject->cookie ? 0 : subject->handle,
				   .event = pushed,
				   .qp.remote_qpn = 5};

	fake_daemon_push(&msg);
	take_and_ack(subject->channel, subject->id, reported);
}

static void event(struct subject *subject, enum rdma_cm_event_type type)
{
	take_type(subject, type, type);
}

static void give_qp(struct subject *subject)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};

	assert_int_equal(rdma_create_qp(subject->id, NULL, &attr), 0);
}

static void idle(struct subject *subject)
{
	subject->id = id_open(subject->channel, &subject->cookie);
	event(subject, RDMA_CM_EVENT_ADDR_RESOLVED);
	give_qp(subject);
}

static void route_resolved(struct subject *subject)
{
	idle(subject);
	event(subject, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void listening(struct subject *subject)
{
	idle(subject);
	assert_int_equal(rdma_listen(subject->id, 1), 0);
}

static void listening_removed(struct subject *subject)
{
	listening(subject);
	event(subject, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

static void connecting(struct subject *subject)
{
	route_resolved(subject);
	assert_int_equal(rdma_connect(subject->id, NULL), 0);
}

static void connect_failed(struct subject *subject)
{
	connecting(subject);
	event(subject, RDMA_CM_EVENT_CONNECT_ERROR);
}

static void refused(struct subject *subject)
{
	connecting(subject);
	event(subject, RDMA_CM_EVENT_REJECTED);
}

static void unreachable(struct subject *subject)
{
	connecting(subject);
	event(subject, RDMA_CM_EVENT_UNREACHABLE);
}

static void connected(struct subject *subject)
{
	connecting(subject);
	take_type(subject, RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED);
}

/* The daemon refuses the completion of the connection. */
static void connected_taken_back(struct subject *subject)
{
	connected(subject);
	event(subject, RDMA_CM_EVENT_CONNECT_ERROR);
}

static void established(struct subject *subject)
{
	subject->id = id_open(subject->channel, &subject->cookie);
	event(subject, RDMA_CM_EVENT_ADDR_RESOLVED);
	event(subject, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(subject->id), 0);
	give_qp(subject);
}

static void response_rejected(struct subject *subject)
{
	subject->id = id_open(subject->channel, &subject->cookie);
	event(subject, RDMA_CM_EVENT_ADDR_RESOLVED);
	event(subject, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_reject(subject->id, NULL, 0), 0);
	give_qp(subject);
}

static void connected_disconnected(struct subject *subject)
{
	connected(subject);
	event(subject, RDMA_CM_EVENT_DISCONNECTED);
}

static void connected_over(struct subject *subject)
{
	connected_disconnected(subject);
	event(subject, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static void connected_removed(struct subject *subject)
{
	connected(subject);
	event(subject, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

static void connected_refused(struct subject *subject)
{
	connected(subject);
	event(subject, RDMA_CM_EVENT_REJECTED);
}

static void connected_unreachable(struct subject *subject)
{
	connected(subject);
	event(subject, RDMA_CM_EVENT_UNREACHABLE);
}

/* The application receives the last event of the connection before rdma_establish() returns. */
static void over_before_established(struct subject *subject, enum rdma_cm_event_type last)
{
	subject->id = id_open(subject->channel, &subject->cookie);
	event(subject, RDMA_CM_EVENT_ADDR_RESOLVED);
	event(subject, RDMA_CM_EVENT_CONNECT_RESPONSE);
	event(subject, last);
	assert_int_equal(rdma_establish(subject->id), 0);
	give_qp(subject);
}

static void refused_established(struct subject *subject)
{
	over_before_established(subject, RDMA_CM_EVENT_REJECTED);
}

static void unreachable_established(struct subject *subject)
{
	over_before_established(subject, RDMA_CM_EVENT_UNREACHABLE);
}

static void timewait_established(struct subject *subject)
{
	over_before_established(subject, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static void removed_established(struct subject *subject)
{
	over_before_established(subject, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

/* The QP of the active side fails. */
static void failed(struct subject *subject)
{
	connecting(subject);
	fake_qp_fail(IBV_QPS_RTR);
	take_type(subject, RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_ERROR);
}

static void failed_over(struct subject *subject)
{
	failed(subject);
	event(subject, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static void failed_unrejected(struct subject *subject)
{
	fake_daemon_fail(IPC_CM_REJECT, -EINVAL);
	failed(subject);
}

static void requested(struct subject *subject)
{
	uint64_t listen_cookie;

	subject->listener = id_open(subject->channel, &listen_cookie);
	subject->handle = fake_daemon_push_request(listen_cookie);
	subject->request = take_request(subject->channel, subject->listener);
	subject->id = subject->request->id;
	give_qp(subject);
}

static void withdrawn(struct subject *subject)
{
	requested(subject);
	event(subject, RDMA_CM_EVENT_REJECTED);
}

static void rejected(struct subject *subject)
{
	requested(subject);
	assert_int_equal(rdma_reject(subject->id, NULL, 0), 0);
}

static void accept_failed(struct subject *subject)
{
	requested(subject);
	fake_qp_fail(IBV_QPS_RTS);
	assert_int_equal(rdma_accept(subject->id, NULL), -1);
	assert_int_equal(errno, EIO);
}

static void accept_too_long(struct subject *subject)
{
	static const char data[UINT8_MAX];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};

	requested(subject);
	assert_int_equal(rdma_accept(subject->id, &param), -1);
	assert_int_equal(errno, EINVAL);
}

static void accepted(struct subject *subject)
{
	requested(subject);
	assert_int_equal(rdma_accept(subject->id, NULL), 0);
	/* The reply shows that the daemon has the request. */
	assert_int_equal(rdma_notify(subject->id, IBV_EVENT_COMM_EST), 0);
}

/* The daemon refuses the accept. */
static void accepted_taken_back(struct subject *subject)
{
	accepted(subject);
	event(subject, RDMA_CM_EVENT_CONNECT_ERROR);
}

static void accepted_refused(struct subject *subject)
{
	accepted(subject);
	event(subject, RDMA_CM_EVENT_REJECTED);
}

static void accepted_unreachable(struct subject *subject)
{
	accepted(subject);
	event(subject, RDMA_CM_EVENT_UNREACHABLE);
}

static void accepted_removed(struct subject *subject)
{
	accepted(subject);
	event(subject, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

static void accepted_established(struct subject *subject)
{
	accepted(subject);
	event(subject, RDMA_CM_EVENT_ESTABLISHED);
}

static void accepted_disconnected(struct subject *subject)
{
	accepted_established(subject);
	event(subject, RDMA_CM_EVENT_DISCONNECTED);
}

static void accepted_over(struct subject *subject)
{
	accepted_disconnected(subject);
	event(subject, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static const struct expected {
	void (*enter)(struct subject *subject);
	const char *name;
	int accept;	 /* errno; 0: success */
	int get_request; /* of a synchronous id */
	int disconnect;	 /* of a synchronous id */
	bool is_failed;	 /* REJECTED, CONNECT_ERROR and DISCONNECTED are not reported */
} expectations[] = {
	{idle, "idle", EINVAL, EINVAL, 0, false},
	{route_resolved, "route resolved", EINVAL, EINVAL, 0, false},
	{listening, "listening", EINVAL, WAITS, 0, false},
	{listening_removed, "listening, removed", EINVAL, WAITS, 0, false},
	{connecting, "connecting", EINVAL, EINVAL, 0, false},
	{connect_failed, "connect failed", EINVAL, EINVAL, 0, false},
	{refused, "refused", EINVAL, EINVAL, 0, false},
	{unreachable, "unreachable", EINVAL, EINVAL, 0, false},
	{connected, "connected", EINVAL, EINVAL, WAITS, false},
	{connected_taken_back, "connected, taken back", EINVAL, EINVAL, 0, false},
	{established, "established", EINVAL, EINVAL, WAITS, false},
	{response_rejected, "response rejected", EINVAL, EINVAL, 0, false},
	{connected_disconnected, "connected, disconnected", EINVAL, EINVAL, WAITS, false},
	{connected_over, "connected, over", EINVAL, EINVAL, 0, false},
	{connected_removed, "connected, removed", EINVAL, EINVAL, 0, false},
	{connected_refused, "connected, refused", EINVAL, EINVAL, 0, false},
	{connected_unreachable, "connected, unreachable", EINVAL, EINVAL, 0, false},
	{refused_established, "refused, established", EINVAL, EINVAL, 0, false},
	{unreachable_established, "unreachable, established", EINVAL, EINVAL, 0, false},
	{timewait_established, "timewait exit, established", EINVAL, EINVAL, 0, false},
	{removed_established, "removed, established", EINVAL, EINVAL, 0, false},
	{failed_unrejected, "failed, not rejected", EINVAL, EINVAL, 0, true},
	{failed, "failed", EINVAL, EINVAL, 0, true},
	{failed_over, "failed, over", EINVAL, EINVAL, 0, true},
	{requested, "requested", 0, EINVAL, 0, false},
	{withdrawn, "withdrawn", 0, EINVAL, 0, false},
	{rejected, "rejected", EINVAL, EINVAL, 0, false},
	{accept_failed, "accept failed", 0, EINVAL, 0, false},
	{accept_too_long, "accept too long", EINVAL, EINVAL, 0, false},
	{accepted, "accepted", EINVAL, EINVAL, WAITS, false},
	{accepted_taken_back, "accepted, taken back", 0, EINVAL, 0, false},
	{accepted_refused, "accepted, refused", EINVAL, EINVAL, 0, false},
	{accepted_unreachable, "accepted, unreachable", EINVAL, EINVAL, 0, false},
	{accepted_removed, "accepted, removed", EINVAL, EINVAL, 0, false},
	{accepted_established, "accepted, established", EINVAL, EINVAL, WAITS, false},
	{accepted_disconnected, "accepted, disconnected", EINVAL, EINVAL, WAITS, false},
	{accepted_over, "accepted, over", EINVAL, EINVAL, 0, false},
};
#define EXPECTATIONS (sizeof(expectations) / sizeof(expectations[0]))

static void enter(struct subject *subject, const struct expected *expected)
{
	*subject = (struct subject){.channel = channel_open()};
	expected->enter(subject);
}

static void leave(struct subject *subject)
{
	rdma_destroy_ep(subject->id);
	if (subject->request)
		assert_int_equal(rdma_ack_cm_event(subject->request), 0);
	if (subject->listener)
		assert_int_equal(rdma_destroy_id(subject->listener), 0);
	rdma_destroy_event_channel(subject->channel);
	fake_qp_moves();
}

static void make_sync(struct subject *subject)
{
	assert_int_equal(rdma_migrate_id(subject->id, NULL), 0);
	assert_int_equal(fcntl(subject->id->channel->fd, F_SETFL, O_NONBLOCK), 0);
}

static int result_of(int ret)
{
	return ret ? errno : 0;
}

/* Prints a difference; all are printed before the test fails. */
static bool is_as_expected(const struct expected *expected, const char *call, int result,
			   int wanted)
{
	if (result == wanted)
		return true;
	print_error("%s in phase %s: %d, not %d\n", call, expected->name, result, wanted);
	return false;
}

static void rdma_accept_depends_on_phase(void **state)
{
	bool is_right = true;

	(void)state;
	for (size_t i = 0; i < EXPECTATIONS; i++) {
		struct subject subject;

		enter(&subject, &expectations[i]);
		is_right &= is_as_expected(&expectations[i], "rdma_accept()",
					   result_of(rdma_accept(subject.id, NULL)),
					   expectations[i].accept);
		leave(&subject);
	}
	assert_true(is_right);
}

static void rdma_get_request_depends_on_phase(void **state)
{
	bool is_right = true;

	(void)state;
	for (size_t i = 0; i < EXPECTATIONS; i++) {
		struct rdma_cm_id *request;
		struct subject subject;

		enter(&subject, &expectations[i]);
		is_right &= is_as_expected(&expectations[i], "rdma_get_request(), asynchronous",
					   result_of(rdma_get_request(subject.id, &request)),
					   EINVAL);
		make_sync(&subject);
		is_right &= is_as_expected(&expectations[i], "rdma_get_request()",
					   result_of(rdma_get_request(subject.id, &request)),
					   expectations[i].get_request);
		leave(&subject);
	}
	assert_true(is_right);
}

static void rdma_disconnect_waits_depending_on_phase(void **state)
{
	bool is_right = true;

	(void)state;
	for (size_t i = 0; i < EXPECTATIONS; i++) {
		struct subject subject;

		enter(&subject, &expectations[i]);
		is_right &= is_as_expected(&expectations[i], "rdma_disconnect(), asynchronous",
					   result_of(rdma_disconnect(subject.id)), 0);
		make_sync(&subject);
		is_right &= is_as_expected(&expectations[i], "rdma_disconnect()",
					   result_of(rdma_disconnect(subject.id)),
					   expectations[i].disconnect);
		leave(&subject);
	}
	assert_true(is_right);
}

/*
 * Pushes an event of each type in turn to a new id in the phase; returns the reported ones as a
 * mask.
 */
static unsigned reported_events(const struct expected *expected)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_REJECTED,	     RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_DISCONNECTED,  RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_DEVICE_REMOVAL,
		RDMA_CM_EVENT_ADDR_CHANGE,   RDMA_CM_EVENT_ESTABLISHED,
	};
	unsigned reported = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct rdma_cm_event *taken;
		struct subject subject;

		enter(&subject, expected);
		fake_daemon_push(&(struct ipc_cm_event){
			.cookie = subject.cookie, .id = subject.handle, .event = types[i]});
		if (!rdma_get_cm_event(subject.channel, &taken)) {
			assert_int_equal(taken->event, types[i]);
			assert_int_equal(rdma_ack_cm_event(taken), 0);
			reported |= 1u << i;
		} else {
			assert_int_equal(errno, EAGAIN);
		}
		leave(&subject);
	}
	return reported;
}

static void rdma_get_cm_event_reports_events_depending_on_phase(void **state)
{
	bool is_right = true;

	(void)state;
	for (size_t i = 0; i < EXPECTATIONS; i++)
		is_right &= is_as_expected(&expectations[i], "reported events",
					   (int)reported_events(&expectations[i]),
					   expectations[i].is_failed ? 0xf8 : 0xff);
	assert_true(is_right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_accept_depends_on_phase),
		cmocka_unit_test(rdma_get_request_depends_on_phase),
		cmocka_unit_test(rdma_disconnect_waits_depending_on_phase),
		cmocka_unit_test(rdma_get_cm_event_reports_events_depending_on_phase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
