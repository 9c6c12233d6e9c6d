/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Events and event channels: waiting, acknowledgement, destruction, migration, and events that the
 * application injects.
 */

#define JUMPS 200

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

/* An id with an unread ADDR_RESOLVED event. */
static struct rdma_cm_id *id_with_event(struct rdma_event_channel *channel)
{
	struct sockaddr_storage dst = cm_loopback(CM_PORT_NOBODY);
	struct rdma_cm_id *id = cm_id(channel);

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&dst), 1000), 0);
	return id;
}

static void rdma_get_cm_event_channel_fd_can_be_polled_and_duplicated(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int copy;

	(void)state;
	assert_true(channel->fd >= 0);
	assert_int_equal(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_false(cm_readable(channel, 0));
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_minus1_errno(rdma_get_cm_event(channel, &event), EAGAIN);
	copy = dup(channel->fd);
	assert_true(copy >= 0);
	id = id_with_event(channel);
	assert_int_equal(poll(&(struct pollfd){.fd = copy, .events = POLLIN}, 1, 10000), 1);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_minus1_errno(rdma_get_cm_event(channel, &event), EAGAIN);
	assert_false(cm_readable(channel, 0));
	assert_int_equal(close(copy), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_ack_cm_event_null_fails_with_einval(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_event *event;

	(void)state;
	assert_minus1_errno(rdma_ack_cm_event(NULL), EINVAL);
	assert_minus1_errno(rdma_get_cm_event(NULL, &event), EINVAL);
	assert_minus1_errno(rdma_get_cm_event(channel, NULL), EINVAL);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(NULL);
}

static void *wait_for_event(void *channel)
{
	struct rdma_cm_event *event;

	return rdma_get_cm_event(channel, &event) ? NULL : event;
}

static void rdma_get_cm_event_blocks_until_event(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;
	void *got;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, channel), 0);
	id = id_with_event(channel);
	assert_int_equal(pthread_join(thread, &got), 0);
	event = got;
	assert_non_null(event);
	assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(event->id, id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void on_signal(int number)
{
	(void)number;
}

static void *wait_until_interrupted(void *channel)
{
	struct rdma_cm_event *event;

	return (void *)(intptr_t)refuses_minus1(rdma_get_cm_event(channel, &event), EINTR);
}

static void rdma_get_cm_event_signal_fails_with_eintr(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct rdma_event_channel *channel = cm_channel();
	pthread_t thread;
	void *was_interrupted;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_until_interrupted, channel), 0);
	/*
	 * The thread may not be blocked yet: the signal is repeated until it interrupts the call.
	 */
	do {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	} while (pthread_tryjoin_np(thread, &was_interrupted));
	assert_non_null(was_interrupted);
	rdma_destroy_event_channel(channel);
}

static void rdma_destroy_id_removes_unread_events(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *first, *dying, *last;

	(void)state;
	dying = id_with_event(channel);
	assert_int_equal(rdma_destroy_id(dying), 0);
	assert_false(cm_readable(channel, 0));

	first = id_with_event(channel);
	dying = id_with_event(channel);
	last = id_with_event(channel);
	assert_int_equal(rdma_destroy_id(dying), 0);
	cm_pass(channel, first, RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_pass(channel, last, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_false(cm_readable(channel, 0));
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_destroy_id(last), 0);
	rdma_destroy_event_channel(channel);
}

static void *destroy(void *id)
{
	return (void *)(intptr_t)rdma_destroy_id(id);
}

static void rdma_destroy_id_unacknowledged_event_waits(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = id_with_event(channel);
	struct rdma_cm_event *event = cm_get(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, destroy, id), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_not_equal(pthread_tryjoin_np(thread, &result), 0);
		sched_yield();
	}
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	rdma_destroy_event_channel(channel);
}

/*
 * The CONNECT_REQUEST is the listener's event: the new id may be destroyed before its
 * acknowledgement.
 */
static void rdma_destroy_id_of_unacknowledged_request_succeeds(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends,
		     &(struct rdma_conn_param){.private_data = "abc", .private_data_len = 3});
	assert_int_equal(rdma_destroy_id(ends.passive), 0);
	ends.passive = NULL;
	assert_memory_equal(ends.request->param.conn.private_data, "abc", 3);
	ends_close(&ends);
}

static void rdma_migrate_id_moves_unread_events(void **state)
{
	struct rdma_event_channel *from = cm_channel();
	struct rdma_event_channel *to = cm_channel();
	struct rdma_cm_id *moving = id_with_event(from);
	struct rdma_cm_id *staying = id_with_event(from);

	(void)state;
	assert_int_equal(rdma_migrate_id(moving, to), 0);
	assert_ptr_equal(moving->channel, to);
	cm_pass(from, staying, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_false(cm_readable(from, 0));
	cm_pass(to, moving, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(moving, 1000), 0);
	cm_pass(to, moving, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_migrate_id(moving, to), 0);
	assert_minus1_errno(rdma_migrate_id(NULL, to), EINVAL);
	assert_int_equal(rdma_destroy_id(moving), 0);
	assert_int_equal(rdma_destroy_id(staying), 0);
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}

static void rdma_migrate_id_listener_moves_unread_requests(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 4);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	assert_true(cm_readable(ends.server, 10000));
	assert_int_equal(rdma_migrate_id(ends.listener, channel), 0);
	assert_false(cm_readable(ends.server, 0));
	rdma_destroy_event_channel(ends.server);
	ends.server = channel;
	ends.request = cm_get(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	ends.passive = ends.request->id;
	assert_ptr_equal(ends.passive->channel, channel);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	ends_close(&ends);
}

static void rdma_migrate_id_connected_id_succeeds(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_int_equal(rdma_migrate_id(ends.passive, channel), 0);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(channel, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_DISCONNECTED);
	ends_close(&ends);
	rdma_destroy_event_channel(channel);
}

static void *migrate(void *arg)
{
	struct rdma_cm_id *id = arg;

	return (void *)(intptr_t)rdma_migrate_id(id, id->context);
}

static void rdma_migrate_id_unacknowledged_event_waits(void **state)
{
	struct rdma_event_channel *from = cm_channel();
	struct rdma_event_channel *to = cm_channel();
	struct rdma_cm_id *id = id_with_event(from);
	struct rdma_cm_event *event = cm_get(from, RDMA_CM_EVENT_ADDR_RESOLVED);
	pthread_t thread;
	void *result;

	(void)state;
	id->context = to;
	assert_int_equal(pthread_create(&thread, NULL, migrate, id), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_not_equal(pthread_tryjoin_np(thread, &result), 0);
		sched_yield();
	}
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	assert_ptr_equal(id->channel, to);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}

static void rdma_write_cm_event_is_returned_by_get_cm_event(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = id_with_event(channel);
	struct rdma_addrinfo *info;
	struct rdma_cm_event *event;

	(void)state;
	assert_minus1_errno(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	assert_minus1_errno(rdma_write_cm_event(NULL, RDMA_CM_EVENT_USER, 0, 0), EINVAL);
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 4711, UINT64_MAX - 1), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	event = cm_get(channel, RDMA_CM_EVENT_USER);
	assert_ptr_equal(event->id, id);
	assert_int_equal(event->status, 4711);
	assert_true(event->param.arg == UINT64_MAX - 1);
	assert_int_equal(rdma_ack_cm_event(event), 0);

	assert_minus1_errno(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), 0);
	assert_minus1_errno(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), EBUSY);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(info->ai_family, AF_INET);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* Objects of the parent stay the parent's. The child opens its own, and both work. */
static void rdma_get_cm_event_after_fork_parent_and_child_work(void **state)
{
	struct ends ends;
	int status;
	pid_t pid;

	(void)state;
	ends_open(&ends, NULL);
	pid = fork();
	if (pid == 0) {
		struct rdma_cm_event *event;
		struct ends own;
		bool good = refuses_minus1(rdma_get_cm_event(ends.client, &event), ENODEV) &&
			    refuses_minus1(rdma_listen(ends.listener, 1), ENODEV) &&
			    rdma_destroy_id(ends.listener) == 0;

		ends_open(&own, NULL);
		ends_close(&own);
		_exit(good ? 0 : 1);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_DISCONNECTED);
	ends_close(&ends);
}

static sigjmp_buf jump;
static volatile sig_atomic_t may_jump;

static void jump_out(int signal)
{
	(void)signal;
	if (!may_jump)
		return;
	/*
	 * siglongjmp() unblocks the signal first: a handler that jumped again would leave the stack
	 * of this one in use.
	 */
	may_jump = 0;
	siglongjmp(jump, 1);
}

struct signaller {
	pthread_t target;
	atomic_bool is_over;
};

static void *send_signals(void *arg)
{
	struct signaller *signaller = arg;

	while (!signaller->is_over) {
		pthread_kill(signaller->target, SIGUSR1);
		sched_yield();
	}
	return NULL;
}

/*
 * The channel has no event. The signal handler longjmps out of a call that blocks indefinitely, or
 * out of one of many calls that do not block. The thread can be cancelled afterwards.
 */
static void jump_out_of_a_call(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int cancel_state;

	if (!sigsetjmp(jump, 1)) {
		may_jump = 1;
		for (;;)
			rdma_get_cm_event(channel, &event);
	}
	may_jump = 0;
	assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel_state), 0);
	assert_int_equal(cancel_state, PTHREAD_CANCEL_ENABLE);
}

static void *exit_after_a_jump(void *channel)
{
	struct rdma_cm_event *event;

	if (!sigsetjmp(jump, 1)) {
		may_jump = 1;
		for (;;)
			rdma_get_cm_event(channel, &event);
	}
	may_jump = 0;
	pthread_exit(channel);
}

/*
 * The abandoned call has left no cleanup handler, which pthread_exit() would call in a frame that
 * is no more.
 */
static void rdma_get_cm_event_thread_may_exit_after_siglongjmp(void **state)
{
	struct sigaction action = {.sa_handler = jump_out}, before;
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = id_with_event(channel);

	(void)state;
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *ret;

		assert_int_equal(pthread_create(&thread, NULL, exit_after_a_jump, channel), 0);
		while (pthread_tryjoin_np(thread, &ret) == EBUSY) {
			pthread_kill(thread, SIGUSR1);
			poll(NULL, 0, 1);
		}
		assert_ptr_equal(ret, channel);
	}
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_siglongjmp_leaves_channel_usable(void **state)
{
	struct sigaction action = {.sa_handler = jump_out}, before;
	struct rdma_event_channel *channel = cm_channel();
	struct signaller signaller = {.target = pthread_self()};
	struct rdma_cm_id *id = id_with_event(channel);
	pthread_t thread;

	(void)state;
	/* This binds the functions first: the handler must not jump out of the dynamic loader. */
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&thread, NULL, send_signals, &signaller), 0);
	for (int i = 0; i < JUMPS; i++)
		jump_out_of_a_call(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < JUMPS; i++)
		jump_out_of_a_call(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, 0), 0);
	signaller.is_over = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = id_with_event(channel);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* As in Linux, the ids of a destroyed channel end with it. The application frees them later. */
static void rdma_destroy_event_channel_ends_its_ids(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *connected, *listener;
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	connected = ends.active;
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	/* The request is in the socket. */
	assert_true(cm_readable(ends.server, 10000));
	rdma_destroy_event_channel(ends.server);
	ends.server = NULL;
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_event *event;

		assert_true(cm_readable(ends.client, 10000));
		assert_int_equal(rdma_get_cm_event(ends.client, &event), 0);
		assert_int_equal(event->event, event->id == connected ? RDMA_CM_EVENT_DISCONNECTED :
									RDMA_CM_EVENT_REJECTED);
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	listener = cm_id(channel);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&ends.addr), 0);
	assert_minus1_errno(rdma_listen(ends.listener, 1), EBADF);
	rdma_destroy_qp(connected);
	assert_int_equal(rdma_destroy_id(connected), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_get_cm_event_channel_fd_can_be_polled_and_duplicated),
		cmocka_unit_test(rdma_ack_cm_event_null_fails_with_einval),
		cmocka_unit_test(rdma_get_cm_event_blocks_until_event),
		cmocka_unit_test(rdma_get_cm_event_signal_fails_with_eintr),
		cmocka_unit_test(rdma_destroy_id_removes_unread_events),
		cmocka_unit_test(rdma_destroy_id_unacknowledged_event_waits),
		cmocka_unit_test(rdma_destroy_id_of_unacknowledged_request_succeeds),
		cmocka_unit_test(rdma_migrate_id_moves_unread_events),
		cmocka_unit_test(rdma_migrate_id_listener_moves_unread_requests),
		cmocka_unit_test(rdma_migrate_id_connected_id_succeeds),
		cmocka_unit_test(rdma_migrate_id_unacknowledged_event_waits),
		cmocka_unit_test(rdma_write_cm_event_is_returned_by_get_cm_event),
		cmocka_unit_test(rdma_get_cm_event_after_fork_parent_and_child_work),
		cmocka_unit_test(rdma_destroy_event_channel_ends_its_ids),
		cmocka_unit_test(rdma_get_cm_event_siglongjmp_leaves_channel_usable),
		cmocka_unit_test(rdma_get_cm_event_thread_may_exit_after_siglongjmp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
