/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* repoll: sets in rpoll() and rselect(), and sets in sets. */

#define MOST 8

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

/* Sends bytes and waits until they have arrived, without a wait on the set. */
static void send_bytes(size_t bytes)
{
	rs_send_pattern(streams.active, bytes, 0);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
}

/* The set, and a set that contains it, are readable while repoll_wait() would return an event. */
static void rpoll_on_a_set_reports_events_of_rsockets(void **state)
{
	int outer = repoll_create(EPOLL_CLOEXEC);
	struct pollfd fds[] = {{.fd = set_fd, .events = POLLIN},
			       {.fd = outer, .events = POLLIN | POLLOUT},
			       {.fd = streams.passive, .events = POLLIN},
			       {.fd = set_fd, .events = POLLOUT}};
	fd_set in;

	(void)state;
	assert_true(outer >= 0);
	add(outer, set_fd, EPOLLIN, 1);
	add(set_fd, streams.passive, EPOLLIN | EPOLLET, 2);
	assert_int_equal(rpoll(fds, 4, 0), 0);
	rs_send_pattern(streams.active, 10, 0);
	assert_int_equal(rpoll(fds, 1, -1), 1);
	assert_int_equal(rpoll(fds, 4, -1), 3);
	assert_int_equal(fds[0].revents, POLLIN);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(fds[2].revents, POLLIN);
	assert_int_equal(fds[3].revents, 0);
	FD_ZERO(&in);
	FD_SET(outer, &in);
	assert_int_equal(rselect(outer + 1, &in, NULL, NULL, NULL), 1);
	expect_one(set_fd, 0, EPOLLIN, 2);
	assert_int_equal(rpoll(fds, 2, 0), 0);
	assert_int_equal(rclose(outer), 0);
	rs_receive_pattern(streams.passive, 10, 0);
}

static void *rpoll_set(void *arg)
{
	struct pollfd pollfd = {.fd = *(int *)arg, .events = POLLIN};

	assert_int_equal(rpoll(&pollfd, 1, -1), 1);
	return NULL;
}

static void rpoll_on_a_set_includes_members_that_are_added(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, rpoll_set, &set_fd), 0);
	add(set_fd, streams.active, EPOLLOUT, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void repoll_wait_edge_triggered_set_for_each_arrival(void **state)
{
	int outer = repoll_create(EPOLL_CLOEXEC), event_fd = eventfd(0, EFD_NONBLOCK);

	(void)state;
	assert_true(outer >= 0 && event_fd >= 0);
	add(outer, set_fd, EPOLLIN | EPOLLET, 1);
	add(set_fd, event_fd, EPOLLIN, 2);
	add(set_fd, streams.passive, EPOLLIN, 3);
	expect_none(outer);
	send_bytes(10);
	expect_one(outer, -1, EPOLLIN, 1);
	expect_none(outer);
	rs_send_pattern(streams.active, 10, 10);
	expect_one(outer, -1, EPOLLIN, 1);
	expect_none(outer);
	assert_int_equal(eventfd_write(event_fd, 1), 0);
	expect_one(outer, -1, EPOLLIN, 1);
	expect_none(outer);
	rs_receive_pattern(streams.passive, 20, 0);
	expect_none(outer);
	expect_one(set_fd, 0, EPOLLIN, 2);
	assert_int_equal(close(event_fd), 0);
	assert_int_equal(rclose(outer), 0);
}

static void repoll_ctl_refuses_invalid_use_of_epollexclusive(void **state)
{
	const uint32_t events = EPOLLIN | EPOLLEXCLUSIVE;
	int inner = repoll_create(EPOLL_CLOEXEC);

	(void)state;
	assert_true(inner >= 0);
	assert_int_equal(control(set_fd, EPOLL_CTL_ADD, inner, events, 1), EINVAL);
	assert_int_equal(control(set_fd, EPOLL_CTL_ADD, streams.active, events | EPOLLONESHOT, 1),
			 EINVAL);
	add(set_fd, streams.active, events, 1);
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, streams.active, events, 1), EINVAL);
	assert_int_equal(control(set_fd, EPOLL_CTL_MOD, streams.active, EPOLLIN, 1), EINVAL);
	assert_int_equal(rclose(inner), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rpoll_on_a_set_reports_events_of_rsockets),
		TEST(rpoll_on_a_set_includes_members_that_are_added),
		TEST(repoll_wait_edge_triggered_set_for_each_arrival),
		TEST(repoll_ctl_refuses_invalid_use_of_epollexclusive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
