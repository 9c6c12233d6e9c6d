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

/* Whichever step of connecting has no memory, the next try can be made. */
static void connections(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener, active, passive;

	(void)state;
	shortage_needed();
	listener = rs_listen(&addr, 8);
	active = rs_stream(AF_INET);
	starve_minus1(rconnect(active, rs_sa(&addr), sizeof(addr)), ENOMEM);
	passive = rs_accept(listener);
	rs_send_pattern(active, 100, 1);
	rs_receive_pattern(passive, 100, 1);
	rs_close(active);
	rs_close(passive);
	rs_close(listener);
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
		cmocka_unit_test(listeners),	cmocka_unit_test(nobody_can_be_woken),
		cmocka_unit_test(sockets),	cmocka_unit_test(connections),
		cmocka_unit_test(many_at_once), cmocka_unit_test(options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
