/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Allocations of memory, descriptors and threads fail, one after the other, in each call of
 * rsockets. A blocking call allocates an object that wakes it, which is kept for the next one. So
 * the tests in which this allocation fails come first, and no other call of theirs blocks.
 */

#include "rsocket_fixture.h"
#include "shortage.h"

#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#define MANY 200 /* number of descriptors, more than rpoll() has room for on its stack */

/* Repeats a non-blocking call until the condition holds. */
#define AGAIN_UNTIL(condition)                       \
	for (int tries = 0; !(condition); tries++) { \
		assert_true(tries < PATIENCE_MS);    \
		poll(NULL, 0, 1);                    \
	}

/* Connects a stream to the listener without a call that waits. */
static int connect_without_waiting(int listener, struct sockaddr_storage *addr, int *passive)
{
	int active = rs_stream(AF_INET);

	rs_nonblocking(active);
	assert_minus1_errno(rconnect(active, rs_sa(addr), sizeof(*addr)), EINPROGRESS);
	rs_nonblocking(listener);
	AGAIN_UNTIL((*passive = raccept(listener, NULL, NULL)) >= 0);
	AGAIN_UNTIL(!rconnect(active, rs_sa(addr), sizeof(*addr)) || errno == EISCONN);
	return active;
}

/* Unless SO_LINGER is 0, rclose() waits until the peer has received what was sent. */
static void close_without_waiting(int stream)
{
	struct linger abrupt = {.l_onoff = 1};

	assert_int_equal(rsetsockopt(stream, SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt)), 0);
	rs_close(stream);
}

static void rpoll_without_descriptor_succeeds_or_fails(void **state)
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
	active = connect_without_waiting(listener, &addr, &passive);
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(rrecv(passive, &byte, 1, 0), ENOMEM);
	assert_true(shortage_was_felt());
	while (rsend(passive, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(rsend(passive, bytes, sizeof(bytes), 0), ENOMEM);
	assert_true(shortage_was_felt());
	close_without_waiting(active);
	close_without_waiting(passive);
	rs_close(listener);
}

/* A blocking call creates a descriptor that wakes it. */
static void rconnect_without_descriptor_fails(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener, active;

	(void)state;
	shortage_needed();
	listener = rs_listen(&addr, 1);
	shortage_of(ENFILE, 1);
	assert_minus1_errno(raccept(listener, NULL, NULL), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(raccept(listener, NULL, NULL), EMFILE);
	assert_true(shortage_was_felt());
	active = rs_stream(AF_INET);
	shortage_of(ENFILE, 1);
	assert_minus1_errno(rconnect(active, rs_sa(&addr), sizeof(addr)), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(rconnect(active, rs_sa(&addr), sizeof(addr)), EMFILE);
	assert_true(shortage_was_felt());
	rs_close(active);
	rs_close(listener);
}

static void rsend_without_descriptor_fails(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	static const char bytes[4096];
	int listener, active, passive;
	char byte;

	(void)state;
	shortage_needed();
	listener = rs_listen(&addr, 1);
	active = connect_without_waiting(listener, &addr, &passive);
	shortage_of(ENFILE, 1);
	assert_minus1_errno(rrecv(passive, &byte, 1, 0), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(rrecv(passive, &byte, 1, 0), EMFILE);
	assert_true(shortage_was_felt());
	while (rsend(passive, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	shortage_of(ENFILE, 1);
	assert_minus1_errno(rsend(passive, bytes, sizeof(bytes), 0), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(rsend(passive, bytes, sizeof(bytes), 0), EMFILE);
	assert_true(shortage_was_felt());
	close_without_waiting(active);
	close_without_waiting(passive);
	rs_close(listener);
}

/* An unconnected datagram socket has no events for reading. */
static void rpoll_without_descriptor_fails(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct pollfd pollfd = {.events = POLLIN};
	int fd, set;
	fd_set in;

	(void)state;
	shortage_needed();
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	set = repoll_create(0);
	assert_true(fd >= 0 && set >= 0);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
	pollfd.fd = fd;
	shortage_of(ENFILE, 1);
	assert_minus1_errno(rpoll(&pollfd, 1, -1), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(rpoll(&pollfd, 1, -1), EMFILE);
	assert_true(shortage_was_felt());
	FD_ZERO(&in);
	FD_SET(fd, &in);
	shortage_of(ENFILE, 1);
	assert_minus1_errno(rselect(fd + 1, &in, NULL, NULL, NULL), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(rselect(fd + 1, &in, NULL, NULL, NULL), EMFILE);
	assert_true(shortage_was_felt());
	shortage_of(ENFILE, 1);
	assert_minus1_errno(repoll_wait(set, &event, 1, -1), ENFILE);
	assert_true(shortage_was_felt());
	shortage_of(EMFILE, 1);
	assert_minus1_errno(repoll_wait(set, &event, 1, -1), EMFILE);
	assert_true(shortage_was_felt());
	rs_close(set);
	rs_close(fd);
}

static void close_it(int socket)
{
	rs_close(socket);
}

/* For a call that returns a descriptor. */
#define starve_socket(type, wanted)                                                 \
	do {                                                                        \
		int made = -1;                                                      \
		starve((made = rsocket(AF_INET, type, 0)) < 0 ? errno : 0, wanted); \
		close_it(made);                                                     \
	} while (0)

static void repoll_create_no_memory_fails_without_leak(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int socket, set;

	(void)state;
	shortage_needed();
	socket = rs_stream(AF_INET);
	shortage_of(ENFILE, 1);
	assert_minus1_errno(repoll_create(0), ENFILE);
	shortage_of(ENOMEM, 1);
	assert_minus1_errno(repoll_create(0), ENOMEM);
	assert_true(shortage_was_felt());
	set = repoll_create(0);
	assert_true(set >= 0);
	shortage_of(ENOMEM, 1);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, socket, &event), ENOMEM);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, socket, &event), 0);
	shortage_that_lasts(ENOMEM);
	assert_minus1_errno(repoll_wait(set, &event, 1, -1), ENOMEM);
	assert_true(shortage_was_felt());
	assert_int_equal(repoll_wait(set, &event, 1, -1), 1);
	rs_close(set);
	rs_close(socket);
}

static void rsocket_no_memory_fails_without_leak(void **state)
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

/* The first listener of the process: it creates a thread and its objects. */
static void rlisten_no_memory_fails_without_leak(void **state)
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
	/* The C library reports missing memory for a thread as EAGAIN, too. */
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

/*
 * A connection whose nth allocation fails; returns whether it was established by the first attempt.
 * A later connection to another address succeeds.
 */
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

static void rconnect_no_memory_fails_without_leak(void **state)
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

/*
 * The peer's shutdown message is processed without memory: an unprocessed message would keep the
 * thread from sleeping.
 */
static void rrecv_end_of_peer_needs_no_memory(void **state)
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
	/* The first blocking call allocates the object that wakes it. */
	assert_int_equal(rpoll(&pollfd, 1, 1), 0);
	rs_close(streams.passive);
	shortage_that_lasts(ENOMEM);
	assert_int_equal(rpoll(&pollfd, 1, PATIENCE_MS), 1);
	assert_true(shortage_was_felt());
	assert_true(pollfd.revents & POLLHUP);
	rs_close(streams.active);
	rs_close(streams.listener);
}

static void rpoll_no_memory_for_many_descriptors_fails(void **state)
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

static void rsetsockopt_no_memory_fails_without_leak(void **state)
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
		cmocka_unit_test(rlisten_no_memory_fails_without_leak),
		cmocka_unit_test(rpoll_without_descriptor_succeeds_or_fails),
		cmocka_unit_test(rpoll_without_descriptor_fails),
		cmocka_unit_test(rsend_without_descriptor_fails),
		cmocka_unit_test(rconnect_without_descriptor_fails),
		cmocka_unit_test(repoll_create_no_memory_fails_without_leak),
		cmocka_unit_test(rsocket_no_memory_fails_without_leak),
		cmocka_unit_test(rconnect_no_memory_fails_without_leak),
		cmocka_unit_test(rpoll_no_memory_for_many_descriptors_fails),
		cmocka_unit_test(rsetsockopt_no_memory_fails_without_leak),
		cmocka_unit_test(rrecv_end_of_peer_needs_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
