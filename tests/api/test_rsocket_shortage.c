/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Memory, descriptors and threads run out, at each place of each call of rsockets where one of them is asked for. Who sleeps
 * needs something to be woken by, which is kept for the next sleeper: before the second test nobody has slept.
 */

#include "rsocket_fixture.h"
#include "shortage.h"

#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#define MANY 200 /* descriptors at once, more than rpoll() has room for on its stack */

/* What does not wait is asked again until it is so. */
#define AGAIN_UNTIL(condition)                       \
	for (int tries = 0; !(condition); tries++) { \
		assert_true(tries < PATIENCE_MS);    \
		poll(NULL, 0, 1);                    \
	}

static void nobody_can_be_woken(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	static const char bytes[4096];
	int listener, active, passive = -1;
	char byte;

	(void)state;
	shortage_needed();
	listener = rs_listen(&addr, 1);
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(raccept(listener, NULL, NULL), ENOMEM);
	assert_true(shortage_was_felt());
	active = rs_stream(AF_INET);
	rs_nonblocking(active);
	assert_minus1_errno(rconnect(active, rs_sa(&addr), sizeof(addr)), EINPROGRESS);
	rs_nonblocking(listener);
	AGAIN_UNTIL((passive = raccept(listener, NULL, NULL)) >= 0);
	AGAIN_UNTIL(!rconnect(active, rs_sa(&addr), sizeof(addr)) || errno == EISCONN);
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(rrecv(passive, &byte, 1, 0), ENOMEM);
	assert_true(shortage_was_felt());
	while (rsend(passive, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(rsend(passive, bytes, sizeof(bytes), 0), ENOMEM);
	assert_true(shortage_was_felt());
	rs_close(active);
	rs_close(passive);
	rs_close(listener);
}

static void close_it(int socket)
{
	rs_close(socket);
}

/* Of a call that answers a descriptor. */
#define starve_socket(type, wanted)                                                 \
	do {                                                                        \
		int made = -1;                                                      \
		starve((made = rsocket(AF_INET, type, 0)) < 0 ? errno : 0, wanted); \
		close_it(made);                                                     \
	} while (0)

static void sockets(void **state)
{
	(void)state;
	shortage_needed();
	shortage_of(ENFILE, 1);
	assert_minus1_errno(rsocket(AF_INET, SOCK_STREAM, 0), ENFILE);
	shortage_of(ENOMEM, 1);
	assert_minus1_errno(rsocket(AF_INET, SOCK_STREAM, 0), ENOMEM);
	starve_socket(SOCK_STREAM, ENFILE);
	starve_socket(SOCK_STREAM, ENOMEM);
	starve_socket(SOCK_DGRAM, ENFILE);
	starve_socket(SOCK_DGRAM, ENOMEM);
}

/* The first listener of the process: it needs a thread, and what that needs. */
static void listeners(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	unsigned int nth = 0;
	int listener;

	(void)state;
	shortage_needed();
	listener = rs_stream(AF_INET);
	assert_int_equal(rbind(listener, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	shortage_of(EAGAIN, 1);
	assert_minus1_errno(rlisten(listener, 1), EAGAIN);
	assert_true(shortage_was_felt());
	/* Of the C library, memory for a thread is EAGAIN too. */
	do {
		shortage_of(ENOMEM, ++nth);
		assert_int_equal(rlisten(listener, 1), -1);
	} while (errno == EAGAIN);
	shortage_of(ENOMEM, 1);
	assert_minus1_errno(rlisten(listener, 1), ENOMEM);
	shortage_was_felt();
	assert_int_equal(rlisten(listener, 1), 0);
	rs_close(listener);
}

/* A connection whose nth piece of memory is lacking; whether it was made at once. The next try, to another, can be made. */
static bool connects_without(unsigned int nth, bool *is_felt)
{
	struct sockaddr_storage first = rs_addr("127.0.0.1", 0), next = rs_addr("127.0.0.1", 0);
	int listeners[] = {rs_listen(&first, 1), rs_listen(&next, 1)};
	int active = rs_stream(AF_INET), passive;
	bool is_made;

	shortage_of(ENOMEM, nth);
	is_made = !rconnect(active, rs_sa(&first), sizeof(first));
	*is_felt = shortage_was_felt();
	if (!is_made) {
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(rconnect(active, rs_sa(&next), sizeof(next)), 0);
	}
	passive = rs_accept(listeners[!is_made]);
	rs_send_pattern(active, 100, 1);
	rs_receive_pattern(passive, 100, 1);
	rs_close(active);
	rs_close(passive);
	rs_close(listeners[0]);
	rs_close(listeners[1]);
	return is_made;
}

static void connections(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	unsigned int refused = 0;
	bool is_felt = true;
	int listener, active;

	(void)state;
	shortage_needed();
	listener = rs_listen(&addr, 1);
	active = rs_stream(AF_INET);
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(rconnect(active, rs_sa(&addr), sizeof(addr)), ENOMEM);
	assert_true(shortage_was_felt());
	rs_close(active);
	rs_close(listener);
	for (unsigned int nth = 1; is_felt; nth++)
		if (!connects_without(nth, &is_felt)) {
			assert_true(is_felt);
			refused++;
		}
	assert_true(refused > 0);
}

/* What the peer's end says to a process without memory is taken all the same: nobody would sleep while it lies there. */
static void the_end_of_a_peer_needs_no_memory(void **state)
{
	struct linger abrupt = {.l_onoff = 1};
	struct pollfd pollfd = {.events = POLLRDHUP};
	struct streams streams;

	(void)state;
	shortage_needed();
	streams_open(&streams);
	assert_int_equal(
		rsetsockopt(streams.passive, SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt)), 0);
	pollfd.fd = streams.active;
	/* Whoever sleeps once has what it needs to be woken by. */
	assert_int_equal(rpoll(&pollfd, 1, 1), 0);
	rs_close(streams.passive);
	shortage_that_lasts(ENOMEM);
	assert_int_equal(rpoll(&pollfd, 1, PATIENCE_MS), 1);
	assert_true(shortage_was_felt());
	assert_true(pollfd.revents & POLLHUP);
	rs_close(streams.active);
	rs_close(streams.listener);
}

static void many_at_once(void **state)
{
	struct pollfd pollfds[MANY];
	fd_set in;
	int fd;

	(void)state;
	shortage_needed();
	fd = rs_stream(AF_INET);
	for (int i = 0; i < MANY; i++)
		pollfds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
	FD_ZERO(&in);
	FD_SET(fd, &in);
	starve_minus1(rpoll(pollfds, MANY, 0), ENOMEM);
	starve_minus1(rselect(fd + 1, &in, NULL, NULL, &(struct timeval){0}), ENOMEM);
	rs_close(fd);
}

static void options(void **state)
{
	struct ibv_path_data path = {0};
	int fd;

	(void)state;
	shortage_needed();
	fd = rs_stream(AF_INET);
	starve_minus1(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, sizeof(path)), ENOMEM);
	rs_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listeners),
		cmocka_unit_test(nobody_can_be_woken),
		cmocka_unit_test(sockets),
		cmocka_unit_test(connections),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(options),
		cmocka_unit_test(the_end_of_a_peer_needs_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
