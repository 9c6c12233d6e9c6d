/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The descriptors that a waiter keeps in the kernel's set. The calls of libibverbs are replaced:
 * they only wait.
 */

#include "rsocket/watch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/librdmacm_calls.h"
#include "base/util.h"

#define FDS 40

static struct {
	int open_error;
	int wait_error;
	unsigned int opened;
	unsigned int closed;
	unsigned int waits;
	unsigned int begun;
	unsigned int ended;
} calls;

static struct usrdma_serve serve;
static struct ibv_context *const context = (struct ibv_context *)&calls;

int usrdma_serve_open(struct ibv_context *of, struct usrdma_serve **made)
{
	assert_ptr_equal(of, context);
	if (calls.open_error)
		return calls.open_error;
	calls.opened++;
	serve.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(serve.epoll_fd >= 0);
	*made = &serve;
	return 0;
}

void usrdma_serve_close(struct usrdma_serve *closing)
{
	assert_ptr_equal(closing, &serve);
	calls.closed++;
	close(serve.epoll_fd);
}

int usrdma_serve_wait(struct usrdma_serve *of, struct epoll_event *events, int max, int timeout_ms)
{
	assert_ptr_equal(of, &serve);
	calls.waits++;
	return calls.wait_error ? calls.wait_error :
				  epoll_wait(serve.epoll_fd, events, max, timeout_ms);
}

void usrdma_wait_begins(struct ibv_context *of)
{
	assert_ptr_equal(of, context);
	calls.begun++;
}

void usrdma_wait_ends(struct ibv_context *of)
{
	assert_ptr_equal(of, context);
	calls.ended++;
}

void usrdma_catch_up(struct ibv_context *of)
{
	(void)of;
}

int usrdma_take_cq_event(struct ibv_comp_channel *channel)
{
	(void)channel;
	return -EAGAIN;
}

static struct watch watch;
static struct pollfd fds[FDS];
static uint64_t ids[FDS];

static void open_fds(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fds[i] = (struct pollfd){.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
		ids[i] = watch_new_id() | WATCH_PERMANENT;
	}
}

static int setup(void **state)
{
	(void)state;
	memset(&calls, 0, sizeof(calls));
	watch = (struct watch){0};
	open_fds(FDS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < FDS; i++)
		close(fds[i].fd);
	if (watch.serve)
		close(serve.epoll_fd);
	watch_forget(&watch);
	return 0;
}

static int poll_some(size_t first, size_t count)
{
	return watch_poll(&watch, context, fds + first, ids + first, count, 1);
}

static void post(int i)
{
	assert_int_equal(eventfd_write(fds[i].fd, 1), 0);
}

/*
 * Exactly the descriptors [first, first + count) are watched: the others are readable, too, and are
 * not reported.
 */
static void expect_watched(size_t first, size_t count)
{
	eventfd_t value;

	for (size_t i = 0; i < FDS; i++) {
		if (i < first || i >= first + count)
			post((int)i);
	}
	assert_int_equal(poll_some(first, count), 0);
	for (size_t i = 0; i < FDS; i++) {
		if (i < first || i >= first + count)
			assert_int_equal(eventfd_read(fds[i].fd, &value), 0);
	}
	for (size_t i = first; i < first + count; i++) {
		post((int)i);
		assert_int_equal(poll_some(first, count), 1);
		for (size_t k = first; k < first + count; k++)
			assert_int_equal(fds[k].revents, k == i ? POLLIN : 0);
		assert_int_equal(eventfd_read(fds[i].fd, &value), 0);
	}
	assert_int_equal(calls.begun, 0);
}

static void watch_poll_reports_readable_descriptors(void **state)
{
	(void)state;
	expect_watched(0, 3);
	assert_int_equal(calls.opened, 1);
}

static void watch_poll_follows_changed_descriptors(void **state)
{
	static const struct {
		size_t first, count;
	} polls[] = {{0, 3}, {1, 3}, {3, 20}, {0, FDS}, {5, 1}, {6, 1}, {0, 17}, {20, 20}};

	(void)state;
	for (size_t i = 0; i < COUNT(polls); i++)
		expect_watched(polls[i].first, polls[i].count);
	assert_int_equal(calls.opened, 1);
	assert_int_equal(calls.closed, 0);
}

static void watch_poll_in_other_order_reports_right_place(void **state)
{
	struct pollfd fd;
	uint64_t id;

	(void)state;
	expect_watched(0, 8);
	fd = fds[2];
	fds[2] = fds[6];
	fds[6] = fd;
	id = ids[2];
	ids[2] = ids[6];
	ids[6] = id;
	expect_watched(0, 8);
}

/* The number of a closed descriptor belongs to another object. */
static void watch_poll_watches_reused_number(void **state)
{
	int fd = fds[1].fd;

	(void)state;
	ids[1] = watch_new_id();
	expect_watched(0, 3);
	close(fd);
	assert_int_equal(dup(fds[FDS - 1].fd), fd);
	ids[1] = watch_new_id();
	post(FDS - 1);
	assert_int_equal(poll_some(0, 3), 1);
	assert_int_equal(fds[1].revents, POLLIN);
}

/*
 * The kernel watches a closed descriptor while a child of a fork() has a copy. The wait must not
 * report its events.
 */
static void watch_poll_closed_descriptor_with_a_copy_is_not_reported(void **state)
{
	int copy;

	(void)state;
	ids[1] = watch_new_id();
	expect_watched(0, 3);
	copy = dup(fds[1].fd);
	assert_true(copy >= 0);
	post(1);
	close(fds[1].fd);
	fds[1].fd = eventfd(0, EFD_NONBLOCK);
	ids[1] = watch_new_id();
	assert_int_equal(poll_some(0, 3), 0);
	assert_int_equal(calls.closed, 1);
	assert_int_equal(calls.begun, 1);
	assert_int_equal(calls.ended, 1);
	calls.begun = 0;
	expect_watched(0, 3);
	assert_int_equal(calls.opened, 2);
	close(copy);
}

static void watch_poll_same_descriptor_twice_is_reported(void **state)
{
	(void)state;
	close(fds[1].fd);
	fds[1].fd = fds[0].fd;
	ids[1] = ids[0];
	post(0);
	for (int i = 0; i < 3; i++)
		assert_true(poll_some(0, 3) > 0);
	assert_true(fds[0].revents || fds[1].revents);
	fds[1].fd = eventfd(0, EFD_NONBLOCK);
}

/* The thread waits in poll(2), which libibverbs has to know. */
static void expect_poll_waits(void)
{
	post(1);
	assert_int_equal(poll_some(0, 3), 1);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(calls.begun, 1);
	assert_int_equal(calls.ended, 1);
}

static void watch_poll_unknown_descriptor_polls(void **state)
{
	(void)state;
	ids[0] = 0;
	expect_poll_waits();
	assert_int_equal(calls.waits, 0);
}

static void watch_poll_without_set_polls(void **state)
{
	(void)state;
	calls.open_error = -EMFILE;
	expect_poll_waits();
}

static void watch_poll_unusable_device_polls(void **state)
{
	(void)state;
	calls.wait_error = -EIO;
	expect_poll_waits();
	assert_int_equal(calls.closed, 1);
}

static void watch_poll_without_context_polls(void **state)
{
	(void)state;
	post(1);
	assert_int_equal(watch_poll(&watch, NULL, fds, ids, 3, 1), 1);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(calls.opened + calls.begun, 0);
}

static void watch_poll_interrupted_returns_eintr(void **state)
{
	(void)state;
	calls.wait_error = -EINTR;
	assert_int_equal(poll_some(0, 3), -EINTR);
	assert_int_equal(calls.closed, 0);
	assert_int_equal(calls.begun, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(watch_poll_reports_readable_descriptors),
		TEST(watch_poll_follows_changed_descriptors),
		TEST(watch_poll_in_other_order_reports_right_place),
		TEST(watch_poll_watches_reused_number),
		TEST(watch_poll_closed_descriptor_with_a_copy_is_not_reported),
		TEST(watch_poll_same_descriptor_twice_is_reported),
		TEST(watch_poll_unknown_descriptor_polls),
		TEST(watch_poll_without_set_polls),
		TEST(watch_poll_unusable_device_polls),
		TEST(watch_poll_without_context_polls),
		TEST(watch_poll_interrupted_returns_eintr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
