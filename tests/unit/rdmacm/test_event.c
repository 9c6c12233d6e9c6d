/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_daemon.h"

static struct rdma_event_channel *channel_open(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	return channel;
}

static struct rdma_cm_id *id_open(struct rdma_event_channel *channel, uint64_t *cookie)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	*cookie = fake_daemon_last_cookie();
	return id;
}

static struct rdma_cm_event *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	return event;
}

static void take_and_ack(struct rdma_event_channel *channel, struct rdma_cm_id *id,
			 enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = take(channel, type);

	assert_ptr_equal(event->id, id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void nothing_left(struct rdma_event_channel *channel)
{
	struct pollfd pollfd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	assert_int_equal(poll(&pollfd, 1, 0), 0);
	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

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

static void what_an_event_carries(void **state)
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

/* Whatever a daemon gone wrong pushes, it reaches nobody and hurts nothing. */
static void nonsense_is_dropped(void **state)
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

static void a_response_completes_the_connection(void **state)
{
	unsigned established = fake_daemon_requests(IPC_CM_ESTABLISH);
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);

	(void)state;
	push_response(cookie);
	take_and_ack(channel, id, RDMA_CM_EVENT_ESTABLISHED);
	assert_string_equal(fake_qp_moves(), "IRS");
	assert_int_equal(fake_daemon_requests(IPC_CM_ESTABLISH), established + 1);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_string_equal(fake_qp_moves(), "E");
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void without_a_qp_the_user_completes_it(void **state)
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

static void a_qp_that_fails_ends_the_attempt(void **state)
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
	/* What the two managers still have to say about it is no news. */
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_REJECTED);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_DISCONNECTED);
	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void an_establish_that_fails_does_too(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_with_qp(channel, &cookie);
	struct rdma_cm_event *event;

	(void)state;
	fake_daemon_fail(IPC_CM_ESTABLISH, -EINVAL);
	push_response(cookie);
	event = take(channel, RDMA_CM_EVENT_CONNECT_ERROR);
	assert_int_equal(event->status, -EINVAL);
	rdma_ack_cm_event(event);
	assert_string_equal(fake_qp_moves(), "IRSE");
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void a_rejection_takes_the_qp_to_err(void **state)
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

static struct rdma_cm_event *take_request(struct rdma_event_channel *channel,
					  struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);

	assert_ptr_equal(event->listen_id, listener);
	assert_ptr_not_equal(event->id, listener);
	assert_ptr_equal(event->id->channel, listener->channel);
	assert_ptr_equal(event->id->context, listener->context);
	assert_int_equal(event->id->ps, listener->ps);
	assert_int_equal(event->id->qp_type, listener->qp_type);
	assert_non_null(event->id->verbs);
	return event;
}

static void an_accept_readies_the_qp_first(void **state)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event;
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

/* Before ACCEPT the daemon has no cookie for the id that a request made. */
static void a_request_may_be_withdrawn(void **state)
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

static void unread_events_die_with_their_id(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookies[2];
	struct rdma_cm_id *dying = id_open(channel, &cookies[0]);
	struct rdma_cm_id *other = id_open(channel, &cookies[1]);

	(void)state;
	/* More than one message's worth to give back. */
	for (int round = 0; round < 2 * IPC_MIGRATE_EVENTS; round++) {
		fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
		fake_daemon_push_type(cookies[1], round % 2 ? RDMA_CM_EVENT_ADDR_CHANGE :
							      RDMA_CM_EVENT_TIMEWAIT_EXIT);
	}
	assert_int_equal(rdma_destroy_id(dying), 0);
	for (int round = 0; round < 2 * IPC_MIGRATE_EVENTS; round++)
		take_and_ack(channel, other,
			     round % 2 ? RDMA_CM_EVENT_ADDR_CHANGE : RDMA_CM_EVENT_TIMEWAIT_EXIT);
	nothing_left(channel);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(channel);
}

static void unread_requests_are_refused(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *listener = id_open(channel, &cookie);

	(void)state;
	fake_daemon_push_request(cookie);
	fake_daemon_push_request(cookie);
	assert_int_equal(fake_daemon_ids(), 3);
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_equal(fake_daemon_ids(), 0);
	nothing_left(channel);
	rdma_destroy_event_channel(channel);
}

static void *destroy(void *id)
{
	return (void *)(intptr_t)rdma_destroy_id(id);
}

static void destroy_waits_for_acks(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	unsigned destroyed = fake_daemon_requests(IPC_CM_DESTROY);
	struct rdma_cm_event *events[2];
	pthread_t thread;
	void *result;

	(void)state;
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	events[0] = take(channel, RDMA_CM_EVENT_ADDR_CHANGE);
	events[1] = take(channel, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(pthread_create(&thread, NULL, destroy, id), 0);
	while (fake_daemon_requests(IPC_CM_DESTROY) == destroyed)
		sched_yield();
	assert_int_equal(rdma_ack_cm_event(events[1]), 0);
	assert_int_not_equal(pthread_tryjoin_np(thread, &result), 0);
	assert_int_equal(rdma_ack_cm_event(events[0]), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	rdma_destroy_event_channel(channel);
}

static void migration_carries_events(void **state)
{
	struct rdma_event_channel *from = channel_open();
	struct rdma_event_channel *to = channel_open();
	uint64_t cookies[2];
	struct rdma_cm_id *moving = id_open(from, &cookies[0]);
	struct rdma_cm_id *staying = id_open(from, &cookies[1]);

	(void)state;
	fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_push_type(cookies[1], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(rdma_migrate_id(moving, to), 0);
	assert_ptr_equal(moving->channel, to);
	fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_DISCONNECTED);
	take_and_ack(from, staying, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	nothing_left(from);
	take_and_ack(to, moving, RDMA_CM_EVENT_ADDR_CHANGE);
	take_and_ack(to, moving, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	take_and_ack(to, moving, RDMA_CM_EVENT_DISCONNECTED);
	nothing_left(to);
	assert_int_equal(rdma_migrate_id(moving, to), 0);
	assert_int_equal(rdma_destroy_id(moving), 0);
	assert_int_equal(rdma_destroy_id(staying), 0);
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}

static void a_listener_takes_its_requests_along(void **state)
{
	struct rdma_event_channel *from = channel_open();
	struct rdma_event_channel *to = channel_open();
	struct rdma_cm_event *event;
	uint64_t cookie;
	struct rdma_cm_id *listener = id_open(from, &cookie);

	(void)state;
	fake_daemon_push_request(cookie);
	assert_int_equal(rdma_migrate_id(listener, to), 0);
	nothing_left(from);
	event = take_request(to, listener);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}

static void to_sync_and_back(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_event_channel *own;
	struct rdma_cm_event *event;
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);

	(void)state;
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	own = id->channel;
	assert_ptr_not_equal(own, channel);
	nothing_left(channel);
	errno = 0;
	assert_int_equal(rdma_migrate_id(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	/* The event that was on its way is the outcome of the call that waits for it. */
	assert_int_equal(
		rdma_resolve_addr(id, NULL,
				  (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET},
				  1),
		0);
	event = id->event;
	assert_non_null(event);
	assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_ptr_equal(id->channel, channel);
	assert_null(id->event);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void events_of_ones_own(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_addrinfo *info;
	struct rdma_cm_event *event;
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);

	(void)state;
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, -7, 0x123456789abcdefull), 0);
	event = take(channel, RDMA_CM_EVENT_USER);
	assert_int_equal(event->status, -7);
	assert_true(event->param.arg == 0x123456789abcdefull);
	rdma_ack_cm_event(event);

	errno = 0;
	assert_int_equal(rdma_query_addrinfo(id, &info), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addrinfo(id, "x", NULL,
					       &(struct rdma_addrinfo){.ai_flags = RAI_SA}),
			 -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), 0);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), -1);
	assert_int_equal(errno, EBUSY);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(info->ai_dst_len, sizeof(struct sockaddr_in));
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_query_addrinfo(id, &info), -1);
	assert_int_equal(errno, ENOENT);

	assert_int_equal(
		rdma_resolve_addrinfo(id, "nobody", NULL,
				      &(struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST}),
		0);
	event = take(channel, RDMA_CM_EVENT_ADDRINFO_ERROR);
	assert_int_equal(event->status, -ENOENT);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void *wait_for_event(void *channel)
{
	struct rdma_cm_event *event;

	return (void *)(intptr_t)rdma_get_cm_event(channel, &event);
}

/* rping ends its event thread this way, then destroys its ids. */
static void a_waiting_thread_can_be_cancelled(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, channel), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* The channel before its last id: a mistake that must not cost more than itself. */
static void channel_destroyed_too_early(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	unsigned destroyed = fake_daemon_requests(IPC_CM_CHANNEL_DESTROY);

	(void)state;
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), destroyed);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), destroyed + 1);
}

static void child_starts_clean(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		struct rdma_cm_event *event;
		bool good = rdma_get_cm_event(channel, &event) == -1 && errno == ENODEV &&
			    rdma_listen(id, 1) == -1 && errno == ENODEV && rdma_destroy_id(id) == 0;

		rdma_destroy_event_channel(channel);
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void daemons_death_is_told_to_every_id(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_id *ids[3], *told[3];
	struct rdma_cm_event *event;
	uint64_t cookie;

	(void)state;
	for (int i = 0; i < 3; i++)
		ids[i] = id_open(channel, &cookie);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_kill();
	/* What was on its way still comes. */
	take_and_ack(channel, ids[2], RDMA_CM_EVENT_ADDR_CHANGE);
	for (int i = 0; i < 3; i++) {
		event = take(channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
		told[i] = event->id;
		rdma_ack_cm_event(event);
		for (int before = 0; before < i; before++)
			assert_ptr_not_equal(told[before], told[i]);
	}
	for (int round = 0; round < 2; round++) {
		errno = 0;
		assert_int_equal(rdma_get_cm_event(channel, &event), -1);
		assert_int_equal(errno, ENODEV);
	}
	assert_int_equal(rdma_listen(ids[0], 1), -1);
	assert_int_equal(errno, ENODEV);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);

	/* The next channel finds the next daemon. */
	channel = channel_open();
	ids[0] = id_open(channel, &cookie);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	take_and_ack(channel, ids[0], RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(rdma_destroy_id(ids[0]), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_event_carries),
		cmocka_unit_test(nonsense_is_dropped),
		cmocka_unit_test(a_response_completes_the_connection),
		cmocka_unit_test(without_a_qp_the_user_completes_it),
		cmocka_unit_test(a_qp_that_fails_ends_the_attempt),
		cmocka_unit_test(an_establish_that_fails_does_too),
		cmocka_unit_test(a_rejection_takes_the_qp_to_err),
		cmocka_unit_test(an_accept_readies_the_qp_first),
		cmocka_unit_test(a_request_may_be_withdrawn),
		cmocka_unit_test(unread_events_die_with_their_id),
		cmocka_unit_test(unread_requests_are_refused),
		cmocka_unit_test(destroy_waits_for_acks),
		cmocka_unit_test(migration_carries_events),
		cmocka_unit_test(a_listener_takes_its_requests_along),
		cmocka_unit_test(to_sync_and_back),
		cmocka_unit_test(events_of_ones_own),
		cmocka_unit_test(a_waiting_thread_can_be_cancelled),
		cmocka_unit_test(channel_destroyed_too_early),
		cmocka_unit_test(child_starts_clean),
		cmocka_unit_test(daemons_death_is_told_to_every_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
