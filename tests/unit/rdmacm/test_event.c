/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <malloc.h>

#include "rdmacm/id.h"

/* An id that is bound to the fake device, with a QP. */
static struct rdma_cm_id *id_with_qp(struct rdma_event_channel *channel, uint64_t *cookie)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct rdma_cm_id *id = id_open(channel, cookie);

	fake_daemon_push_type(*cookie, RDMA_CM_EVENT_ADDR_RESOLVED);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_string_equal(fake_qp_moves(), "I");
	return id;
}

static void push_response(uint64_t cookie)
{
	struct ipc_cm_event event = {
		.cookie = cookie, .event = RDMA_CM_EVENT_CONNECT_RESPONSE, .qp.remote_qpn = 5};

	fake_daemon_push(&event);
}

static void rdma_get_cm_event_has_parameters_of_message(void **state)
{
	struct ipc_cm_event msg = {
		.event = RDMA_CM_EVENT_ESTABLISHED,
		.status = -3,
		.param = {.qp_num = 77,
			  .responder_resources = 1,
			  .initiator_depth = 2,
			  .flow_control = 1,
			  .retry_count = 3,
			  .rnr_retry_count = 4,
			  .srq = 1,
			  .private_len = 196,
			  .private_data = "hello"},
	};
	static const char zeros[196 - 6];
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	id = id_open(channel, &msg.cookie);
	fake_daemon_push(&msg);
	event = take(channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, id);
	assert_null(event->listen_id);
	assert_int_equal(event->status, -3);
	assert_int_equal(event->param.conn.qp_num, 77);
	assert_int_equal(event->param.conn.responder_resources, 1);
	assert_int_equal(event->param.conn.initiator_depth, 2);
	assert_int_equal(event->param.conn.flow_control, 1);
	assert_int_equal(event->param.conn.retry_count, 3);
	assert_int_equal(event->param.conn.rnr_retry_count, 4);
	assert_int_equal(event->param.conn.srq, 1);
	assert_int_equal(event->param.conn.private_data_len, 196);
	assert_string_equal(event->param.conn.private_data, "hello");
	assert_memory_equal((const char *)event->param.conn.private_data + 6, zeros, sizeof(zeros));
	rdma_ack_cm_event(event);
	nothing_left(channel);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* An invalid push of the daemon causes no event and has no other effect. */
static void rdma_get_cm_event_malformed_message_is_dropped(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct ipc_cm_event msg = {.event = RDMA_CM_EVENT_ESTABLISHED};
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);

	(void)state;
	msg.hdr.type = IPC_CM_EVENT;
	msg.hdr.len = sizeof(msg);
	msg.cookie = cookie ^ 1ull << 40;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	msg.cookie = 0;
	msg.id = 999;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	msg.cookie = cookie;
	msg.event = RDMA_CM_EVENT_INTERNAL + 1;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	msg.event = RDMA_CM_EVENT_INTERNAL;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	msg.event = RDMA_CM_EVENT_ESTABLISHED;
	msg.param.private_len = IPC_PRIVATE_MAX;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	msg.param.private_len = UINT32_MAX;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	msg.param.private_len = 0;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg) - 1);
	fake_daemon_push_raw(cookie, "?", 1);
	msg.hdr.type = IPC_PEER_GONE;
	fake_daemon_push_raw(cookie, &msg, sizeof(msg));
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_CHANGE);
	nothing_left(channel);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_connect_response_establishes(void **state)
{
	unsigned established = fake_daemon_requests(IPC_CM_ESTABLISH);
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);

	(void)state;
	push_response(cookie);
	take_and_ack(channel, id, RDMA_CM_EVENT_ESTABLISHED);
	assert_string_equal(fake_qp_moves(), "IRS");
	/* The reply shows that preceding pushes have been read. */
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_ESTABLISH), established + 1);
	assert_string_equal(fake_qp_moves(), "E");
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void rdma_establish_id_without_qp_completes_connection(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	int mask;

	(void)state;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), -1);
	push_response(cookie);
	take_and_ack(channel, id, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(id), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_failing_qp_ends_connection(void **state)
{
	unsigned rejected = fake_daemon_requests(IPC_CM_REJECT);
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);
	struct rdma_cm_event *event;

	(void)state;
	fake_qp_fail(IBV_QPS_RTR);
	push_response(cookie);
	event = take(channel, RDMA_CM_EVENT_CONNECT_ERROR);
	assert_int_equal(event->status, -EIO);
	rdma_ack_cm_event(event);
	assert_string_equal(fake_qp_moves(), "IE");
	assert_int_equal(fake_daemon_requests(IPC_CM_REJECT), rejected + 1);
	/* Later events of the connection are not reported. */
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_REJECTED);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_DISCONNECTED);
	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

/*
 * Before rcm_id_request_plain() returns, another thread receives DISCONNECTED and destroys the id.
 */
static bool is_destroyed_by_disconnect;

int __real_rcm_id_request_plain(struct rcm_id *id, enum ipc_type type);
int __wrap_rcm_id_request_plain(struct rcm_id *id, enum ipc_type type);
int __wrap_rcm_id_request_plain(struct rcm_id *id, enum ipc_type type)
{
	int ret = __real_rcm_id_request_plain(id, type);

	if (type == IPC_CM_DISCONNECT && is_destroyed_by_disconnect) {
		rdma_destroy_qp(&id->pub);
		assert_int_equal(rdma_destroy_id(&id->pub), 0);
	}
	return ret;
}

static void rdma_disconnect_does_not_access_id_after_its_event(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);

	(void)state;
	push_response(cookie);
	take_and_ack(channel, id, RDMA_CM_EVENT_ESTABLISHED);
	is_destroyed_by_disconnect = true;
	/* Freed memory contains this byte, so that a use of a pointer in it fails. */
	mallopt(M_PERTURB, 0x5a);
	assert_int_equal(rdma_disconnect(id), 0);
	mallopt(M_PERTURB, 0);
	is_destroyed_by_disconnect = false;
	assert_string_equal(fake_qp_moves(), "IRSE");
	rdma_destroy_event_channel(channel);
}

/* The daemon then refuses rdma_establish(), also after the application has destroyed the QP. */
static void rdma_get_cm_event_qp_that_cannot_be_moved_rejects_response(void **state)
{
	unsigned rejected = fake_daemon_requests(IPC_CM_REJECT);
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);

	(void)state;
	fake_qp_fail(IBV_QPS_RTS);
	fake_qp_fail(IBV_QPS_ERR);
	push_response(cookie);
	take_and_ack(channel, id, RDMA_CM_EVENT_CONNECT_ERROR);
	assert_string_equal(fake_qp_moves(), "IR");
	assert_int_equal(fake_daemon_requests(IPC_CM_REJECT), rejected + 1);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

/* The call does not wait for the daemon's reply. */
static void rdma_get_cm_event_failed_establish_is_reported(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);
	struct rdma_cm_event *event;

	(void)state;
	fake_daemon_fail(IPC_CM_ESTABLISH, -EINVAL);
	push_response(cookie);
	take_and_ack(channel, id, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
	event = take(channel, RDMA_CM_EVENT_CONNECT_ERROR);
	assert_int_equal(event->status, -EINVAL);
	rdma_ack_cm_event(event);
	assert_string_equal(fake_qp_moves(), "IRSE");
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_rejected_moves_qp_to_err(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct ipc_cm_event msg = {.event = RDMA_CM_EVENT_REJECTED, .status = 28};
	struct rdma_cm_id *id = id_with_qp(channel, &msg.cookie);
	struct rdma_cm_event *event;

	(void)state;
	fake_daemon_push(&msg);
	event = take(channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_string_equal(fake_qp_moves(), "E");
	rdma_ack_cm_event(event);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void rdma_accept_moves_qp_to_rtr_before_reply(void **state)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event, *refusal;
	struct rdma_cm_id *id;
	uint64_t cookie;
	struct rdma_cm_id *listener = id_open(channel, &cookie);

	(void)state;
	fake_daemon_push_request(cookie);
	event = take_request(channel, listener);
	id = event->id;
	assert_int_equal(rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	fake_qp_moves();
	fake_qp_fail(IBV_QPS_RTS);
	assert_int_equal(rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EIO);
	assert_string_equal(fake_qp_moves(), "IRE");
	/* The first call succeeds without waiting for the daemon's reply. */
	fake_daemon_fail(IPC_CM_ACCEPT, -EDQUOT);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_string_equal(fake_qp_moves(), "IRS");
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
	refusal = take(channel, RDMA_CM_EVENT_CONNECT_ERROR);
	assert_ptr_equal(refusal->id, id);
	assert_int_equal(refusal->status, -EDQUOT);
	rdma_ack_cm_event(refusal);
	assert_string_equal(fake_qp_moves(), "E");
	fake_daemon_fail(IPC_CM_ACCEPT, -EINVAL);
	assert_int_equal(rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_string_equal(fake_qp_moves(), "IRSE");
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_string_equal(fake_qp_moves(), "IRS");
	rdma_ack_cm_event(event);
	rdma_destroy_ep(id);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* Before ACCEPT the daemon has no cookie of an id that a request created. */
static void rdma_get_cm_event_canceled_request_is_reported(void **state)
{
	struct ipc_cm_event rejected = {.event = RDMA_CM_EVENT_REJECTED, .status = 4};
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	uint64_t cookie;
	struct rdma_cm_id *listener = id_open(channel, &cookie);

	(void)state;
	rejected.id = fake_daemon_push_request(cookie);
	fake_daemon_push(&rejected);
	event = take_request(channel, listener);
	id = event->id;
	take_and_ack(channel, id, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake_daemon_ids(), 0);
}

/* rdma_get_cm_event() rejects the request while it holds the channel's lock and blocks signals. */
static void stray_request_is_rejected_without_waiting_for_the_daemon(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event;
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);

	(void)state;
	fake_daemon_push_stray_request(cookie);
	fake_daemon_push_stray_request(cookie);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_stop();
	event = take(channel, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_continue();
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake_daemon_ids(), 0);
	rdma_destroy_event_channel(channel);
}

static void *listen_on(void *id)
{
	return (void *)(intptr_t)rdma_listen(id, 1);
}

static void stray_request_is_rejected_while_a_thread_waits_for_the_daemon(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event;
	uint64_t cookies[2];
	struct rdma_cm_id *id = id_open(channel, &cookies[0]);
	struct rdma_cm_id *listener = id_open(channel, &cookies[1]);
	pthread_t thread;
	void *result;

	(void)state;
	fake_daemon_push_stray_request(cookies[0]);
	fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_stop();
	assert_int_equal(pthread_create(&thread, NULL, listen_on, listener), 0);
	event = take(channel, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_continue();
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake_daemon_ids(), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_get_cm_event_has_parameters_of_message),
		cmocka_unit_test(rdma_get_cm_event_malformed_message_is_dropped),
		cmocka_unit_test(rdma_get_cm_event_connect_response_establishes),
		cmocka_unit_test(rdma_establish_id_without_qp_completes_connection),
		cmocka_unit_test(rdma_get_cm_event_failing_qp_ends_connection),
		cmocka_unit_test(rdma_get_cm_event_qp_that_cannot_be_moved_rejects_response),
		cmocka_unit_test(rdma_disconnect_does_not_access_id_after_its_event),
		cmocka_unit_test(rdma_get_cm_event_failed_establish_is_reported),
		cmocka_unit_test(rdma_get_cm_event_rejected_moves_qp_to_err),
		cmocka_unit_test(rdma_accept_moves_qp_to_rtr_before_reply),
		cmocka_unit_test(rdma_get_cm_event_canceled_request_is_reported),
		cmocka_unit_test(stray_request_is_rejected_without_waiting_for_the_daemon),
		cmocka_unit_test(stray_request_is_rejected_while_a_thread_waits_for_the_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
