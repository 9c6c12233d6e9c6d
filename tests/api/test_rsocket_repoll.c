/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* repoll: sets of rsockets and ordinary descriptors, with the semantics of epoll(7). */

#define MOST 8

/* Maximum number of events of one call. */
#define EVENTS_MAX ((int)(INT_MAX / sizeof(struct epoll_event)))

static struct streams streams;
static int set_fd;

static int open_all(void **state)
{
	(void)state;
	streams_open(&streams);
	rs_nonblocking(streams.passive);
	set_fd = repoll_create(EPOLL_CLOEXEC);
	return set_fd < 0 ? -1 : 0;
}

static int close_all(void **state)
{
	(void)state;
	streams_close(&streams);
	return rclose(set_fd);
}

static int control(int set, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};

	return repoll_ctl(set, op, fd, &event);
}

static void add(int set, int fd, uint32_t events, uint64_t data)
{
	assert_int_equal(control(set, EPOLL_CTL_ADD, fd, events, data), 0);
}

/* The set reports exactly this event. */
static void expect_one(int set, int timeout_ms, uint32_t events, uint64_t data)
{
	struct epoll_event found[MOST];

	assert_int_equal(repoll_wait(set, found, MOST, timeout_ms), 1);
	assert_int_equal(found[0].events, events);
	assert_int_equal(found[0].data.u64, data);
}

static void expect_none(int set)
{
	struct epoll_event found[MOST];

	assert_int_equal(repoll_wait(set, found, MOST, 0), 0);
}

/*
 * An edge-triggered event may be reported once more after another change of the rsocket. A
 * level-triggered event would be reported without end.
 */
static void expect_quiet(int set)
{
	struct epoll_event found[MOST];
	int round = 0;

	while (repoll_wait(set, found, MOST, 0))
		assert_true(++round < 10);
}

/* Sends bytes and waits until they have arrived, without a wait on the set. */
static void send_bytes(size_t bytes)
{
	rs_send_pattern(streams.active, bytes, 0);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
}

static void repoll_wait_level_triggered_events_are_repeated(void **state)
{
	(void)state;
	add(set_fd, streams.passive, EPOLLIN, UINT64_C(0x123456789abcdef0));
	expect_none(set_fd);
	rs_send_pattern(streams.active, 10, 0);
	expect_one(set_fd, -1, EPOLLIN, UINT64_C(0x123456789abcdef0));
	expect_one(set_fd, 0, EPOLLIN, UINT64_C(0x123456789abcdef0));
	rs_receive_pattern(streams.passive, 10, 0);
	expect_none(set_fd);
	/* EPOLL_CTL_MOD changes the requested events and the returned data. */
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, streams.passive, EPOLLOUT, 5), 0);
	expect_one(set_fd, 0, EPOLLOUT, 5);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, streams.passive, NULL), 0);
	expect_none(set_fd);
}

static void repoll_wait_edge_triggered_event_for_each_arrival(void **state)
{
	(void)state;
	add(set_fd, streams.passive, EPOLLIN | EPOLLET, 1);
	send_bytes(10);
	expect_one(set_fd, -1, EPOLLIN, 1);
	expect_quiet(set_fd);
	/* More data is a new edge, although the application has not read the first. */
	rs_send_pattern(streams.active, 10, 10);
	expect_one(set_fd, -1, EPOLLIN, 1);
	expect_quiet(set_fd);
	/* Reading a part raises no event. */
	rs_receive_pattern(streams.passive, 5, 0);
	expect_quiet(set_fd);
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, streams.passive, EPOLLIN | EPOLLET, 2), 0);
	expect_one(set_fd, 0, EPOLLIN, 2);
	expect_quiet(set_fd);
	rs_receive_pattern(streams.passive, 15, 5);
}

static void repoll_wait_edge_triggered_pollout_after_full_send(void **state)
{
	static uint8_t bytes[4096];

	(void)state;
	rs_nonblocking(streams.active);
	add(set_fd, streams.active, EPOLLOUT | EPOLLET, 1);
	expect_one(set_fd, -1, EPOLLOUT, 1);
	/* Completions of sends and new credits from the peer raise no edge. */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(rsend(streams.active, bytes, 100, 0), 100);
		assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
		while (rrecv(streams.passive, bytes, sizeof(bytes), 0) > 0)
			;
		expect_none(set_fd);
	}
	while (rsend(streams.active, bytes, sizeof(bytes), 0) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	expect_none(set_fd);
	while (!repoll_wait(set_fd, &(struct epoll_event){0}, 1, 0))
		(void)!rrecv(streams.passive, bytes, sizeof(bytes), 0);
}

static void repoll_wait_oneshot_needs_modification(void **state)
{
	(void)state;
	add(set_fd, streams.passive, EPOLLIN | EPOLLONESHOT, 1);
	send_bytes(1);
	expect_one(set_fd, -1, EPOLLIN, 1);
	expect_none(set_fd);
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, streams.passive, EPOLLIN | EPOLLONESHOT, 1),
			 0);
	expect_one(set_fd, 0, EPOLLIN, 1);
	expect_none(set_fd);
}

static void repoll_ctl_ordinary_descriptor_is_reported(void **state)
{
	struct epoll_event found[MOST];
	int event_fd = eventfd(0, EFD_NONBLOCK);

	(void)state;
	add(set_fd, event_fd, EPOLLIN | EPOLLET, 7);
	add(set_fd, streams.passive, EPOLLIN | EPOLLOUT, 8);
	assert_int_equal(control(set_fd, EPOLL_CTL_ADD, event_fd, EPOLLIN, 7), EEXIST);
	expect_one(set_fd, -1, EPOLLOUT, 8);
	eventfd_write(event_fd, 1);
	assert_int_equal(repoll_wait(set_fd, found, MOST, -1), 2);
	assert_int_equal(found[0].data.u64 + found[1].data.u64, 15);
	expect_one(set_fd, -1, EPOLLOUT, 8);
	/* With room for one event, both kinds of members are reported in turn. */
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, event_fd, EPOLLIN, 7), 0);
	for (int seen = 0, round = 0; seen != 3; round++) {
		assert_true(round < 4);
		assert_int_equal(repoll_wait(set_fd, found, 1, -1), 1);
		seen |= found[0].data.u64 == 7 ? 1 : 2;
	}
	close(event_fd);
	expect_one(set_fd, -1, EPOLLOUT, 8);
}

static void repoll_wait_end_of_peer_is_reported(void **state)
{
	struct epoll_event found[MOST];

	(void)state;
	add(set_fd, streams.passive, EPOLLIN | EPOLLRDHUP, 1);
	assert_int_equal(rshutdown(streams.active, SHUT_RDWR), 0);
	do
		assert_int_equal(repoll_wait(set_fd, found, MOST, PATIENCE_MS), 1);
	while (!(found[0].events & EPOLLHUP));
	assert_true(found[0].events & EPOLLIN);
}

/*
 * EPOLLHUP is reported without a request. After a local shutdown it is reported also while received
 * data is unread.
 */
static void repoll_wait_pollhup_without_request_is_reported(void **state)
{
	(void)state;
	add(set_fd, streams.passive, 0, 1);
	add(set_fd, streams.active, EPOLLET, 2);
	send_bytes(1);
	expect_none(set_fd);
	assert_int_equal(rshutdown(streams.passive, SHUT_RDWR), 0);
	assert_true(rs_await(streams.active, 0) & POLLHUP);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, streams.passive, NULL), 0);
	expect_one(set_fd, PATIENCE_MS, EPOLLHUP, 2);
	expect_quiet(set_fd);
	add(set_fd, streams.passive, 0, 1);
	expect_one(set_fd, PATIENCE_MS, EPOLLHUP, 1);
}

static void *close_a_member(void *arg)
{
	rs_close(*(int *)arg);
	return NULL;
}

static void rclose_removes_member_from_set(void **state)
{
	int other = rs_stream(AF_INET), event_fd = eventfd(0, 0);
	pthread_t thread;

	(void)state;
	add(set_fd, streams.passive, EPOLLIN, 1);
	add(set_fd, other, EPOLLIN, 2);
	add(set_fd, event_fd, EPOLLIN, 3);
	send_bytes(1);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, streams.passive, NULL), 0);
	/*
	 * A member is removed while another thread waits, which continues to wait for the others.
	 */
	assert_int_equal(pthread_create(&thread, NULL, close_a_member, &other), 0);
	for (int i = 0; i < 20; i++)
		assert_true(repoll_wait(set_fd, (struct epoll_event[MOST]){}, MOST, 5) <= 1);
	pthread_join(thread, NULL);
	expect_none(set_fd);
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, other, EPOLLIN, 2), EBADF);
	eventfd_write(event_fd, 1);
	expect_one(set_fd, -1, EPOLLIN, 3);
	close(event_fd);
}

static void repoll_wait_timeout_returns_0_not_early(void **state)
{
	struct timespec start, end;
	struct epoll_event found;

	(void)state;
	add(set_fd, streams.passive, EPOLLIN, 1);
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_int_equal(repoll_wait(set_fd, &found, 1, 50), 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_true((end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000 >=
		    50000);
}

/* A thread in repoll_wait() without a timeout. */
struct waiting {
	pthread_t thread;
	int set;
	int most;
	int ret;
	struct epoll_event found[MOST];
};

static void *wait_for_set(void *arg)
{
	struct waiting *waiting = arg;

	waiting->ret = repoll_wait(waiting->set, waiting->found, waiting->most, -1);
	return NULL;
}

static void waiting_start(struct waiting *waiting, int set)
{
	*waiting = (struct waiting){.set = set, .most = MOST};
	assert_int_equal(pthread_create(&waiting->thread, NULL, wait_for_set, waiting), 0);
}

static void waiting_end(struct waiting *waiting, int ret)
{
	pthread_join(waiting->thread, NULL);
	assert_int_equal(waiting->ret, ret);
}

static void repoll_ctl_added_member_wakes_waiting_threads(void **state)
{
	struct waiting waiting[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		waiting_start(&waiting[i], set_fd);
	send_bytes(1);
	add(set_fd, streams.passive, EPOLLIN, 9);
	for (int i = 0; i < 4; i++) {
		waiting_end(&waiting[i], 1);
		assert_int_equal(waiting[i].found[0].data.u64, 9);
	}
}

/* The event of a one-shot member is reported to exactly one of the waiting threads. */
static void repoll_wait_oneshot_event_reaches_one_thread(void **state)
{
	struct waiting waiting[3];
	int woken = 0, event_fd = eventfd(0, EFD_SEMAPHORE);

	(void)state;
	add(set_fd, streams.passive, EPOLLIN | EPOLLONESHOT, 1);
	add(set_fd, event_fd, EPOLLIN, 2);
	for (int i = 0; i < 3; i++)
		waiting_start(&waiting[i], set_fd);
	send_bytes(1);
	/* The event of the eventfd ends the other threads. */
	eventfd_write(event_fd, 1);
	for (int i = 0; i < 3; i++) {
		pthread_join(waiting[i].thread, NULL);
		for (int k = 0; k < waiting[i].ret; k++)
			woken += waiting[i].found[k].data.u64 == 1;
	}
	if (!woken)
		expect_one(set_fd, -1, EPOLLIN, 1);
	assert_true(woken <= 1);
	close(event_fd);
}

/* A thread that is cancelled while it waits leaves the set usable. */
static void repoll_wait_waiting_thread_can_be_cancelled(void **state)
{
	struct waiting waiting;

	(void)state;
	add(set_fd, streams.passive, EPOLLIN, 1);
	waiting_start(&waiting, set_fd);
	assert_int_equal(pthread_cancel(waiting.thread), 0);
	assert_int_equal(pthread_join(waiting.thread, NULL), 0);
	send_bytes(1);
	expect_one(set_fd, -1, EPOLLIN, 1);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, streams.passive, NULL), 0);
}

static void *wait_for_closed_set(void *arg)
{
	struct epoll_event found[MOST];

	return (void *)(intptr_t)refuses_minus1(repoll_wait(*(int *)arg, found, MOST, -1), EBADF);
}

/*
 * A wait on a closed set fails. The test is repeated until the thread was waiting before the close.
 */
static void rclose_of_set_ends_repoll_wait(void **state)
{
	void *is_ended = NULL;

	(void)state;
	for (int round = 0; !is_ended; round++) {
		int set = repoll_create(0);
		pthread_t thread;

		assert_true(round < 1000 && set >= 0);
		assert_int_equal(fcntl(set, F_GETFD), 0);
		add(set, streams.passive, EPOLLIN, 1);
		assert_int_equal(pthread_create(&thread, NULL, wait_for_closed_set, &set), 0);
		poll(NULL, 0, round);
		assert_int_equal(rclose(set), 0);
		pthread_join(thread, &is_ended);
	}
	assert_int_equal(fcntl(set_fd, F_GETFD), FD_CLOEXEC);
}

static void repoll_ctl_set_in_set_is_reported(void **state)
{
	int event_fd = eventfd(0, EFD_NONBLOCK), outer = repoll_create(0);
	struct waiting waiting;

	(void)state;
	add(outer, set_fd, EPOLLIN | EPOLLOUT, 1);
	add(set_fd, streams.passive, EPOLLIN, 2);
	add(set_fd, event_fd, EPOLLIN, 3);
	expect_none(outer);
	waiting_start(&waiting, outer);
	send_bytes(1);
	waiting_end(&waiting, 1);
	assert_int_equal(waiting.found[0].events, EPOLLIN);
	assert_int_equal(waiting.found[0].data.u64, 1);
	expect_one(set_fd, 0, EPOLLIN, 2);
	rs_receive_pattern(streams.passive, 1, 0);
	expect_none(outer);
	/*
	 * Ordinary members count as well. Adding a member to the inner set wakes threads that wait
	 * for the outer set.
	 */
	eventfd_write(event_fd, 1);
	expect_one(outer, -1, EPOLLIN, 1);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, event_fd, NULL), 0);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, streams.passive, NULL), 0);
	waiting_start(&waiting, outer);
	send_bytes(1);
	add(set_fd, streams.passive, EPOLLIN, 2);
	waiting_end(&waiting, 1);
	assert_int_equal(rclose(outer), 0);
	close(event_fd);
}

static void repoll_ctl_circle_of_sets_fails_with_eloop(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int sets[6];

	(void)state;
	for (int i = 0; i < 6; i++) {
		sets[i] = repoll_create(0);
		assert_true(sets[i] >= 0);
	}
	assert_int_equal(repoll_ctl(sets[0], EPOLL_CTL_ADD, sets[0], &event), EINVAL);
	for (int i = 0; i < 5; i++)
		add(sets[i], sets[i + 1], EPOLLIN, 1);
	assert_int_equal(repoll_ctl(sets[5], EPOLL_CTL_ADD, sets[0], &event), ELOOP);
	assert_int_equal(repoll_ctl(sets[5], EPOLL_CTL_ADD, set_fd, &event), ELOOP);
	for (int i = 5; i >= 0; i--)
		assert_int_equal(rclose(sets[i]), 0);
}

static void repoll_ctl_invalid_argument_fails(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int file = open("/dev/null", O_RDONLY);
	int regular = open("/proc/self/exe", O_RDONLY);

	(void)state;
	assert_minus1_errno(repoll_create(1), EINVAL);
	assert_int_equal(repoll_ctl(1 << 20, EPOLL_CTL_ADD, streams.passive, &event), EINVAL);
	assert_int_equal(repoll_ctl(file, EPOLL_CTL_ADD, streams.passive, &event), EINVAL);
	assert_int_equal(repoll_ctl(streams.active, EPOLL_CTL_ADD, streams.passive, &event),
			 EINVAL);
	assert_int_equal(repoll_ctl(set_fd, 99, streams.passive, &event), EINVAL);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_ADD, 1 << 20, &event), EBADF);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_ADD, regular, &event), EPERM);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_ADD, streams.passive, NULL), EFAULT);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_MOD, streams.passive, &event), ENOENT);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_DEL, streams.passive, NULL), ENOENT);
	add(set_fd, streams.passive, EPOLLIN, 1);
	assert_int_equal(repoll_ctl(set_fd, EPOLL_CTL_ADD, streams.passive, &event), EEXIST);
	assert_minus1_errno(repoll_wait(set_fd, &event, 0, 0), EINVAL);
	assert_int_equal(repoll_wait(file, &event, 1, 0), EINVAL);
	assert_int_equal(repoll_wait(1 << 20, &event, 1, 0), EINVAL);
	assert_minus1_errno(repoll_wait(set_fd, NULL, 1, 0), EFAULT);
	assert_minus1_errno(repoll_wait(set_fd, &event, EVENTS_MAX + 1, 0), EINVAL);
	close(regular);
	close(file);
}

/* The kernel fails to store the event of an ordinary descriptor. The wait ends with this error. */
static void repoll_wait_invalid_events_address_fails(void **state)
{
	struct epoll_event *nowhere = (struct epoll_event *)(uintptr_t)16;
	int event_fd = eventfd(1, EFD_NONBLOCK);

	(void)state;
	add(set_fd, event_fd, EPOLLIN, 1);
	assert_minus1_errno(repoll_wait(set_fd, nowhere, 1, -1), EFAULT);
	assert_minus1_errno(repoll_wait(set_fd, nowhere, 1, -1), EFAULT);
	expect_one(set_fd, 0, EPOLLIN, 1);
	close(event_fd);
}

/* The flags that rdma-core's repoll_create() accepts. */
static void repoll_create_flags_are_accepted(void **state)
{
	int set = repoll_create(O_NONBLOCK | O_CLOEXEC);

	(void)state;
	assert_true(set >= 0);
	assert_int_equal(fcntl(set, F_GETFD), FD_CLOEXEC);
	add(set, streams.active, EPOLLOUT, 1);
	expect_one(set, -1, EPOLLOUT, 1);
	assert_int_equal(rclose(set), 0);
}

static void do_nothing(int number)
{
	(void)number;
}

static void *wait_interrupted(void *arg)
{
	struct epoll_event event;

	(void)arg;
	return (void *)(intptr_t)refuses_minus1(repoll_wait(set_fd, &event, 1, -1), EINTR);
}

static void repoll_wait_signal_fails_with_eintr(void **state)
{
	struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART}, before;
	void *is_interrupted = NULL;
	pthread_t thread;

	(void)state;
	add(set_fd, streams.passive, EPOLLIN, 1);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_interrupted, NULL), 0);
	while (pthread_tryjoin_np(thread, &is_interrupted)) {
		pthread_kill(thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
	assert_non_null(is_interrupted);
	sigaction(SIGUSR1, &before, NULL);
}

/*
 * More members than one wait can return: all are reported in turn. An unconnected stream reports
 * EPOLLHUP.
 */
static void repoll_wait_many_members_are_all_reported(void **state)
{
	struct epoll_event found[MOST];
	bool is_seen[100] = {false};
	int fds[100], left = 100;

	(void)state;
	for (int i = 0; i < 100; i++) {
		fds[i] = rs_stream(AF_INET);
		add(set_fd, fds[i], EPOLLIN, (uint64_t)i);
	}
	for (int round = 0; left; round++) {
		assert_true(round < 2 * 100 / MOST);
		assert_int_equal(repoll_wait(set_fd, found, MOST, -1), MOST);
		for (int i = 0; i < MOST; i++) {
			assert_int_equal(found[i].events, EPOLLHUP);
			left -= !is_seen[found[i].data.u64];
			is_seen[found[i].data.u64] = true;
		}
	}
	for (int i = 0; i < 100; i++)
		rs_close(fds[i]);
	expect_none(set_fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(repoll_wait_level_triggered_events_are_repeated),
		TEST(repoll_wait_edge_triggered_event_for_each_arrival),
		TEST(repoll_wait_edge_triggered_pollout_after_full_send),
		TEST(repoll_wait_oneshot_needs_modification),
		TEST(repoll_ctl_ordinary_descriptor_is_reported),
		TEST(repoll_wait_end_of_peer_is_reported),
		TEST(repoll_wait_pollhup_without_request_is_reported),
		TEST(rclose_removes_member_from_set),
		TEST(repoll_wait_timeout_returns_0_not_early),
		TEST(repoll_ctl_added_member_wakes_waiting_threads),
		TEST(repoll_wait_oneshot_event_reaches_one_thread),
		TEST(repoll_wait_waiting_thread_can_be_cancelled),
		TEST(rclose_of_set_ends_repoll_wait),
		TEST(repoll_ctl_set_in_set_is_reported),
		TEST(repoll_ctl_circle_of_sets_fails_with_eloop),
		TEST(repoll_ctl_invalid_argument_fails),
		TEST(repoll_wait_invalid_events_address_fails),
		TEST(repoll_create_flags_are_accepted),
		TEST(repoll_wait_signal_fails_with_eintr),
		TEST(repoll_wait_many_members_are_all_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
