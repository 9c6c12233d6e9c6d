/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closing of descriptors: descriptors whose close() blocks for many users do not delay those that
 * close at once.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fdpass.h"
#include "daemon/closer.h"
#include "descriptors.h"

/* More than CLOSER_SERVING_MAX. */
#define USERS	  70
#define OTHER_UID 5000

static uv_loop_t loop;
/* One for each test: the threads of the preceding test may still be ending. */
static struct closer closers[8];
static struct closer *closer = closers;

static void on_closed(struct closer *of)
{
	assert_ptr_equal(of, closer);
}

static int setup(void **state)
{
	(void)state;
	return uv_loop_init(&loop) || closer_start(++closer, &loop, on_closed) ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	closer_stop(closer);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

/* Runs the loop until the user has this number of unclosed descriptors. */
static void wait_pending(uid_t uid, unsigned int count)
{
	uv_ref((uv_handle_t *)&closer->done);
	while (closer_pending(closer, uid) > count)
		uv_run(&loop, UV_RUN_ONCE);
	uv_unref((uv_handle_t *)&closer->done);
	assert_int_equal(closer_pending(closer, uid), count);
}

/* Returns a TCP socket with unsent data. Its close() blocks until *far_end is closed. */
static int lingering(int *far_end)
{
	const struct linger linger = {.l_onoff = 1, .l_linger = 600};
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	static char data[1 << 16];

	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
	*far_end = accept(listener, NULL, NULL);
	assert_true(*far_end >= 0);
	close(listener);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		continue;
	return fd;
}

static void socket_pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
}

static void closer_add_many_users_that_block_does_not_delay_memory_and_empty_sockets(void **state)
{
	int far_ends[USERS], fds[2], before;

	(void)state;
	before = count_descriptors();
	for (unsigned int i = 0; i < USERS; i++)
		closer_add(closer, i, lingering(&far_ends[i]));
	for (int i = 0; i < 2 * CLOSER_USER_MAX; i++) {
		closer_add(closer, OTHER_UID, memfd_create("memory", 0));
		socket_pair(fds);
		closer_add(closer, OTHER_UID, fds[0]);
		wait_pending(OTHER_UID, 0);
		assert_false(closer_is_full(closer, OTHER_UID));
		close(fds[1]);
	}
	for (unsigned int i = 0; i < USERS; i++) {
		assert_int_equal(closer_pending(closer, i), 1);
		close(far_ends[i]);
	}
	for (unsigned int i = 0; i < USERS; i++)
		wait_pending(i, 0);
	assert_int_equal(count_descriptors(), before);
}

/* A socket in whose queue such a descriptor is blocks, too. */
static void closer_add_socket_with_blocking_descriptor_is_closed_by_thread(void **state)
{
	int far_end, fds[2], fd = lingering(&far_end);

	(void)state;
	socket_pair(fds);
	assert_int_equal(send(fds[1], "x", 1, 0), 1);
	assert_int_equal(send(fds[1], "", 0, 0), 0);
	assert_int_equal(fdpass_send(fds[1], "", 1, &fd, 1, 0), 0);
	close(fd);
	closer_add_socket(closer, OTHER_UID, fds[0]);
	assert_int_equal(closer_pending(closer, OTHER_UID), 1);
	close(far_end);
	wait_pending(OTHER_UID, 0);
	close(fds[1]);
}

static void closer_add_socket_with_messages_is_closed_at_once(void **state)
{
	int fds[2], before = count_descriptors();

	(void)state;
	for (int is_open = 0; is_open < 2; is_open++) {
		socket_pair(fds);
		for (int i = 0; i < 10; i++)
			assert_int_equal(send(fds[1], "message", (size_t)(i % 3), 0), i % 3);
		if (!is_open)
			close(fds[1]);
		closer_add_socket(closer, OTHER_UID, fds[0]);
		assert_int_equal(closer_pending(closer, OTHER_UID), 0);
		if (is_open)
			close(fds[1]);
		assert_int_equal(count_descriptors(), before);
	}
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(closer_add_many_users_that_block_does_not_delay_memory_and_empty_sockets),
		CASE(closer_add_socket_with_blocking_descriptor_is_closed_by_thread),
		CASE(closer_add_socket_with_messages_is_closed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
