/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Threads that are cancelled (pthread_cancel, deferred) while they are blocked in a call on an
 * rsocket: the rsocket works for other threads, and can be closed.
 */

#include "rsocket_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define ROUNDS 8

struct waiter {
	int socket;
	atomic_bool has_begun;
	atomic_bool has_ended; /* the call returned without being cancelled */
};

static void wait_and_cancel(void *(*body)(void *), int socket)
{
	struct waiter waiter = {.socket = socket};
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, body, &waiter), 0);
	while (!waiter.has_begun)
		sched_yield();
	/* The thread is cancelled before it blocks, or while it is blocked: both must work. */
	for (int i = 0; i < 200; i++)
		sched_yield();
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_false(waiter.has_ended);
}

static void *receive(void *arg)
{
	struct waiter *waiter = arg;
	char byte;

	waiter->has_begun = true;
	rrecv(waiter->socket, &byte, 1, 0);
	waiter->has_ended = true;
	return NULL;
}

static void *poll_one(void *arg)
{
	struct waiter *waiter = arg;
	struct pollfd fd = {.fd = waiter->socket, .events = POLLIN};

	waiter->has_begun = true;
	rpoll(&fd, 1, -1);
	waiter->has_ended = true;
	return NULL;
}

/* More descriptors than fit on the stack, so the call allocates memory. */
static void *poll_many(void *arg)
{
	struct waiter *waiter = arg;
	struct pollfd fds[40];

	for (int i = 0; i < 40; i++)
		fds[i] = (struct pollfd){.fd = waiter->socket, .events = POLLIN};
	waiter->has_begun = true;
	rpoll(fds, 40, -1);
	waiter->has_ended = true;
	return NULL;
}

static void *select_one(void *arg)
{
	struct waiter *waiter = arg;
	fd_set set;

	FD_ZERO(&set);
	FD_SET(waiter->socket, &set);
	waiter->has_begun = true;
	rselect(waiter->socket + 1, &set, NULL, NULL, NULL);
	waiter->has_ended = true;
	return NULL;
}

static void *accept_one(void *arg)
{
	struct waiter *waiter = arg;

	waiter->has_begun = true;
	raccept(waiter->socket, NULL, NULL);
	waiter->has_ended = true;
	return NULL;
}

/* Sends until the buffers are full, then blocks indefinitely. */
static void *send_all(void *arg)
{
	static const uint8_t bytes[1 << 16];
	struct waiter *waiter = arg;

	while (rsend(waiter->socket, bytes, sizeof(bytes), 0) > 0)
		waiter->has_begun = true;
	waiter->has_ended = true;
	return NULL;
}

static void goes_on_after(void *(*body)(void *))
{
	struct streams streams;

	streams_open(&streams);
	for (int i = 0; i < ROUNDS; i++) {
		wait_and_cancel(body, streams.passive);
		rs_send_pattern(streams.active, 1000, (uint8_t)i);
		rs_receive_pattern(streams.passive, 1000, (uint8_t)i);
	}
	streams_close(&streams);
}

static void rrecv_cancelled_leaves_rsocket_usable(void **state)
{
	(void)state;
	goes_on_after(receive);
}

static void rpoll_cancelled_leaves_rsocket_usable(void **state)
{
	(void)state;
	goes_on_after(poll_one);
	goes_on_after(poll_many);
}

static void rselect_cancelled_leaves_rsocket_usable(void **state)
{
	(void)state;
	goes_on_after(select_one);
}

static void raccept_cancelled_leaves_listener_usable(void **state)
{
	struct streams streams;

	(void)state;
	streams_open(&streams);
	for (int i = 0; i < ROUNDS; i++) {
		int active, passive;

		wait_and_cancel(accept_one, streams.listener);
		active = rs_connect(&streams.addr);
		passive = rs_accept(streams.listener);
		rs_send_pattern(active, 100, (uint8_t)i);
		rs_receive_pattern(passive, 100, (uint8_t)i);
		rs_close(active);
		rs_close(passive);
	}
	streams_close(&streams);
}

static void rsend_cancelled_leaves_rsocket_usable(void **state)
{
	struct streams streams;
	uint8_t byte = 1;

	(void)state;
	streams_open(&streams);
	wait_and_cancel(send_all, streams.active);
	/* The send lock is free for the next caller. */
	assert_int_equal(rsend(streams.active, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	rs_nonblocking(streams.passive);
	do {
		uint8_t bytes[4096];

		while (rrecv(streams.passive, bytes, sizeof(bytes), 0) > 0)
			;
	} while (rsend(streams.active, &byte, 1, MSG_DONTWAIT) != 1);
	streams_close(&streams);
}

/* The cancellation is pending when the call begins, and the data has arrived or is in transit. */
static void *receive_after_cancel(void *arg)
{
	struct waiter *waiter = arg;
	char byte;

	pthread_cancel(pthread_self());
	waiter->has_ended = rrecv(waiter->socket, &byte, 1, 0) == 1;
	return NULL;
}

static void rrecv_pending_cancel_leaves_rsocket_usable(void **state)
{
	struct streams streams;

	(void)state;
	streams_open(&streams);
	for (int i = 0; i < 10 * ROUNDS; i++) {
		struct waiter waiter = {.socket = streams.passive};
		pthread_t thread;

		rs_send_pattern(streams.active, 1, (uint8_t)i);
		assert_int_equal(pthread_create(&thread, NULL, receive_after_cancel, &waiter), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		if (!waiter.has_ended)
			rs_receive_pattern(streams.passive, 1, (uint8_t)i);
	}
	streams_close(&streams);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rrecv_cancelled_leaves_rsocket_usable),
		cmocka_unit_test(rrecv_pending_cancel_leaves_rsocket_usable),
		cmocka_unit_test(rpoll_cancelled_leaves_rsocket_usable),
		cmocka_unit_test(rselect_cancelled_leaves_rsocket_usable),
		cmocka_unit_test(raccept_cancelled_leaves_listener_usable),
		cmocka_unit_test(rsend_cancelled_leaves_rsocket_usable),
	};

	return cmocka_run_group_tests_name("rsocket_cancel", tests, NULL, NULL);
}
