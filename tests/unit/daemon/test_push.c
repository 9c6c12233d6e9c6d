/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/push.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/client.h"

static uv_loop_t loop;
static struct push push;
static int far_end;
static int failed_count, closed_count;

static void on_failed(struct push *failed)
{
	assert_ptr_equal(failed, &push);
	failed_count++;
}

static void on_closed(struct push *closed)
{
	assert_ptr_equal(closed, &push);
	closed_count++;
}

static int setup(void **state)
{
	int pair[2];

	(void)state;
	failed_count = 0;
	closed_count = 0;
	if (uv_loop_init(&loop) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	push_init(&push, on_failed, on_closed);
	far_end = pair[1];
	return push_open(&push, &loop, pair[0]);
}

static int teardown(void **state)
{
	(void)state;
	push_close(&push);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(closed_count, 1);
	if (far_end >= 0)
		close(far_end);
	return uv_loop_close(&loop);
}

static int open_fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static int send_gone(uint64_t pair_id, int nfds)
{
	struct ipc_peer_gone msg = {.hdr = {.type = IPC_PEER_GONE, .len = sizeof(msg)},
				    .pair_id = pair_id};
	int fds[2] = {STDERR_FILENO, STDERR_FILENO};

	return push_send(&push, &msg, sizeof(msg), fds, nfds);
}

static uint64_t receive(void)
{
	struct ipc_peer_gone msg = {0};

	if (recv(far_end, &msg, sizeof(msg), MSG_DONTWAIT) != (ssize_t)sizeof(msg))
		return 0;
	return msg.pair_id;
}

/* Sends until something had to be queued; returns how many went out. */
static uint64_t fill(void)
{
	uint64_t sent = 0;

	while (list_is_empty(&push.pending)) {
		sent++;
		assert_int_equal(send_gone(sent, 0), 0);
	}
	return sent;
}

static void test_order_is_kept_through_the_queue(void **state)
{
	uint64_t sent, expected = 1;

	(void)state;
	sent = fill();
	for (int i = 0; i < PUSH_PENDING_MAX / 2; i++)
		assert_int_equal(send_gone(++sent, 0), 0);
	while (expected <= sent) {
		uint64_t got = receive();

		if (got)
			assert_int_equal(got, expected++);
		else
			uv_run(&loop, UV_RUN_NOWAIT);
	}
	assert_true(list_is_empty(&push.pending));
	assert_int_equal(push.pending_count, 0);
	assert_int_equal(failed_count, 0);
	assert_int_equal(uv_loop_alive(&loop), 0);
}

static void test_bound(void **state)
{
	int before = open_fd_count();

	(void)state;
	fill();
	for (int i = 1; i < PUSH_PENDING_MAX; i++)
		assert_int_equal(send_gone(1, 2), 0);
	assert_int_equal(send_gone(1, 2), -ENOBUFS);
	assert_int_equal(open_fd_count(), before + 2 * (PUSH_PENDING_MAX - 1));
	/* The end of every peer there can be is told all the same. */
	for (int i = PUSH_PENDING_MAX; i < PUSH_PENDING_ALL_MAX; i++)
		assert_int_equal(send_gone(1, 0), 0);
	assert_int_equal(send_gone(1, 0), -ENOBUFS);
}

static void test_reader_that_leaves(void **state)
{
	(void)state;
	fill();
	close(far_end);
	far_end = -1;
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(failed_count, 1);
	push_close(&push);
	assert_int_equal(send_gone(1, 0), -ENOTCONN);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(closed_count, 1);
	/* Open again, for the teardown. */
	closed_count = 0;
	uv_loop_close(&loop);
	setup(NULL);
}

static void test_not_a_seqpacket_socket(void **state)
{
	struct push other;
	int ends[2], pair[2];

	(void)state;
	push_init(&other, on_failed, on_closed);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(push_open(&other, &loop, ends[1]), -EINVAL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(push_open(&other, &loop, pair[0]), -EINVAL);
	assert_int_equal(push_open(&other, &loop, -1), -EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(pair[0]);
	close(pair[1]);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_order_is_kept_through_the_queue),
		CASE(test_bound),
		CASE(test_reader_that_leaves),
		CASE(test_not_a_seqpacket_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
