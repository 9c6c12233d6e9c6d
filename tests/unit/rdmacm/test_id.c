/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rdmacm/channel.h"
#include "rdmacm/id.h"

#define CHILD_SECONDS 30 /* then SIGALRM ends a child that waits */

/* Wherever such events are in the queue, a readable descriptor always means another event. */
static void rdma_destroy_id_removes_unread_events(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookies[2];
	struct rdma_cm_id *dying = id_open(channel, &cookies[0]);
	struct rdma_cm_id *other = id_open(channel, &cookies[1]);

	(void)state;
	for (int round = 0; round < 4; round++) {
		fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
		fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
		fake_daemon_push_type(cookies[1], round % 2 ? RDMA_CM_EVENT_ADDR_CHANGE :
							      RDMA_CM_EVENT_TIMEWAIT_EXIT);
		fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
	}
	assert_int_equal(rdma_destroy_id(dying), 0);
	for (int round = 0; round < 4; round++)
		take_and_ack(channel, other,
			     round % 2 ? RDMA_CM_EVENT_ADDR_CHANGE : RDMA_CM_EVENT_TIMEWAIT_EXIT);
	nothing_left(channel);
	dying = id_open(channel, &cookies[0]);
	fake_daemon_push_type(cookies[0], RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(rdma_destroy_id(dying), 0);
	nothing_left(channel);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(channel);
}

/* More events than one message can return. */
static void rdma_destroy_id_listener_keeps_order_of_other_events(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookies[2];
	struct rdma_cm_id *listener = id_open(channel, &cookies[0]);
	struct rdma_cm_id *other = id_open(channel, &cookies[1]);

	(void)state;
	assert_int_equal(rdma_listen(listener, 100), 0);
	for (int round = 0; round < 2 * IPC_MIGRATE_EVENTS; round++) {
		fake_daemon_push_request(cookies[0]);
		fake_daemon_push_type(cookies[1], round % 2 ? RDMA_CM_EVENT_ADDR_CHANGE :
							      RDMA_CM_EVENT_TIMEWAIT_EXIT);
	}
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_equal(fake_daemon_ids(), 1);
	for (int round = 0; round < 2 * IPC_MIGRATE_EVENTS; round++)
		take_and_ack(channel, other,
			     round % 2 ? RDMA_CM_EVENT_ADDR_CHANGE : RDMA_CM_EVENT_TIMEWAIT_EXIT);
	nothing_left(channel);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_destroy_id_listener_rejects_unread_requests(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *listener = id_open(channel, &cookie);

	(void)state;
	assert_int_equal(rdma_listen(listener, 2), 0);
	fake_daemon_push_request(cookie);
	fake_daemon_push_request(cookie);
	assert_int_equal(fake_daemon_ids(), 3);
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_equal(fake_daemon_ids(), 0);
	nothing_left(channel);
	rdma_destroy_event_channel(channel);
}

static void *take_one(void *channel)
{
	assert_int_equal(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_ADDR_CHANGE)), 0);
	return NULL;
}

/*
 * A thread that has received an event may be about to receive the next one. If rdma_get_cm_event()
 * can block, rdma_destroy_id() gives it some time, and then no longer expects it.
 */
static void rdma_destroy_id_waits_for_blocking_reader_only(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	pthread_t reader;
	uint64_t cookie;

	(void)state;
	for (int can_block = 0; can_block < 2; can_block++) {
		struct rdma_cm_id *id = id_open(channel, &cookie);

		assert_int_equal(fcntl(channel->fd, F_SETFL, can_block ? 0 : O_NONBLOCK), 0);
		fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
		assert_int_equal(pthread_create(&reader, NULL, take_one, channel), 0);
		assert_int_equal(pthread_join(reader, NULL), 0);
		fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
		assert_int_equal(rdma_destroy_id(id), 0);
		assert_int_equal(rcm_channel_of(channel)->has_reader, !can_block);
	}
	rdma_destroy_event_channel(channel);
}

static void *destroy(void *id)
{
	return (void *)(intptr_t)rdma_destroy_id(id);
}

static void rdma_destroy_id_unacknowledged_event_waits(void **state)
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

static void rdma_migrate_id_moves_unread_events(void **state)
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

static void rdma_migrate_id_listener_moves_unread_requests(void **state)
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

static void rdma_migrate_id_to_synchronous_and_back_succeeds(void **state)
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
	/* The event that was in transit is the result of the waiting call. */
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

static void rdma_write_cm_event_is_returned_by_get_cm_event(void **state)
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

/* rping ends its event thread in this way, then destroys its ids. */
static void rdma_get_cm_event_waiting_thread_can_be_cancelled(void **state)
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

/*
 * The channel is destroyed before its last id: the daemon destroys the id, and the library frees it
 * later.
 */
static void rdma_destroy_event_channel_before_its_ids_is_safe(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	unsigned closed = fake_daemon_requests(IPC_CM_CHANNEL_DESTROY);
	unsigned destroyed = fake_daemon_requests(IPC_CM_DESTROY);

	(void)state;
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), closed + 1);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), closed + 1);
	assert_int_equal(fake_daemon_requests(IPC_CM_DESTROY), destroyed);
}

/* The daemon refuses while an id is migrated: the id and then the channel are destroyed later. */
static void rdma_destroy_event_channel_refused_is_repeated(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	unsigned closed = fake_daemon_requests(IPC_CM_CHANNEL_DESTROY);
	unsigned destroyed = fake_daemon_requests(IPC_CM_DESTROY);

	(void)state;
	fake_daemon_fail(IPC_CM_CHANNEL_DESTROY, -EBUSY);
	rdma_destroy_event_channel(channel);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), closed + 2);
	assert_int_equal(fake_daemon_requests(IPC_CM_DESTROY), destroyed + 1);
}

/*
 * A thread waits for an event: rping and cmtime destroy their channel then. It continues to wait,
 * and the id remains.
 */
static void rdma_destroy_event_channel_waits_for_last_reader(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	unsigned closed = fake_daemon_requests(IPC_CM_CHANNEL_DESTROY);
	unsigned destroyed = fake_daemon_requests(IPC_CM_DESTROY);

	(void)state;
	rcm_channel_begin_wait(rcm_channel_of(channel));
	rcm_channel_begin_wait(rcm_channel_of(channel));
	rdma_destroy_event_channel(channel);
	rcm_channel_end_wait(rcm_channel_of(channel));
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), closed);
	rcm_channel_end_wait(rcm_channel_of(channel));
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), closed + 1);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_DESTROY), destroyed);
}

static void *destroy_channel(void *channel)
{
	rdma_destroy_event_channel(channel);
	return NULL;
}

/*
 * A thread begins to wait, in error, while the daemon destroys the channel. The handle may belong
 * to another channel afterwards.
 */
static void rdma_destroy_event_channel_is_requested_once(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie);
	unsigned closed = fake_daemon_requests(IPC_CM_CHANNEL_DESTROY);
	pthread_t thread;

	(void)state;
	fake_daemon_stop();
	assert_int_equal(pthread_create(&thread, NULL, destroy_channel, channel), 0);
	while (!rcm_channel_is_destroyed(rcm_channel_of(channel)))
		sched_yield();
	rcm_channel_begin_wait(rcm_channel_of(channel));
	rcm_channel_end_wait(rcm_channel_of(channel));
	fake_daemon_continue();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_CHANNEL_DESTROY), closed + 1);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void rdma_get_cm_event_in_forked_child_fails(void **state)
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

static bool fails_in_child(int ret)
{
	return ret == -1 && errno == ENODEV;
}

/* The locks of the ids are held by a thread that the child does not have. */
static void calls_on_id_in_forked_child_do_not_wait_for_its_lock(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = id_open(channel, &cookie), *listener, *request;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	pthread_mutex_lock(&rcm_id_of(id)->lock);
	pthread_mutex_lock(&rcm_id_of(listener)->lock);
	pid = fork();
	if (pid == 0) {
		bool good;

		alarm(CHILD_SECONDS);
		good = fails_in_child(rdma_accept(id, NULL)) &&
		       fails_in_child(rdma_disconnect(id)) && fails_in_child(rdma_establish(id)) &&
		       fails_in_child(rdma_reject(id, NULL, 0)) &&
		       fails_in_child(rdma_get_request(listener, &request));
		_exit(good ? 0 : 1);
	}
	pthread_mutex_unlock(&rcm_id_of(listener)->lock);
	pthread_mutex_unlock(&rcm_id_of(id)->lock);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_dead_daemon_reports_device_removal(void **state)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_id *ids[3], *notified[3];
	struct rdma_cm_event *event;
	uint64_t cookie;

	(void)state;
	for (int i = 0; i < 3; i++)
		ids[i] = id_open(channel, &cookie);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_daemon_kill();
	/* Events that were in transit still arrive. */
	take_and_ack(channel, ids[2], RDMA_CM_EVENT_ADDR_CHANGE);
	for (int i = 0; i < 3; i++) {
		event = take(channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
		notified[i] = event->id;
		rdma_ack_cm_event(event);
		for (int before = 0; before < i; before++)
			assert_ptr_not_equal(notified[before], notified[i]);
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

	/* The next channel uses the next daemon. */
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
		cmocka_unit_test(rdma_destroy_id_removes_unread_events),
		cmocka_unit_test(rdma_destroy_id_listener_keeps_order_of_other_events),
		cmocka_unit_test(rdma_destroy_id_listener_rejects_unread_requests),
		cmocka_unit_test(rdma_destroy_id_unacknowledged_event_waits),
		cmocka_unit_test(rdma_migrate_id_moves_unread_events),
		cmocka_unit_test(rdma_migrate_id_listener_moves_unread_requests),
		cmocka_unit_test(rdma_migrate_id_to_synchronous_and_back_succeeds),
		cmocka_unit_test(rdma_write_cm_event_is_returned_by_get_cm_event),
		cmocka_unit_test(rdma_get_cm_event_waiting_thread_can_be_cancelled),
		cmocka_unit_test(rdma_destroy_event_channel_before_its_ids_is_safe),
		cmocka_unit_test(rdma_destroy_id_waits_for_blocking_reader_only),
		cmocka_unit_test(rdma_destroy_event_channel_refused_is_repeated),
		cmocka_unit_test(rdma_destroy_event_channel_waits_for_last_reader),
		cmocka_unit_test(rdma_destroy_event_channel_is_requested_once),
		cmocka_unit_test(rdma_get_cm_event_in_forked_child_fails),
		cmocka_unit_test(calls_on_id_in_forked_child_do_not_wait_for_its_lock),
		cmocka_unit_test(rdma_get_cm_event_dead_daemon_reports_device_removal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
