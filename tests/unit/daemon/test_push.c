/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/push.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "descriptors.h"
#include "ipc/client.h"

static uv_loop_t loop;
/* One for each test: the threads of the preceding test may still be ending. */
static struct closer closers[16];
static struct closer *closer = closers;
static struct push push;
static int far_end;
static int failed_count, closed_count;
static int refused_fd;

static bool may_keep(struct push *keeper, int fd)
{
	assert_ptr_equal(keeper, &push);
	return fd != refused_fd;
}

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

static void on_descriptors_closed(struct closer *of)
{
	assert_ptr_equal(of, closer);
}

static int setup(void **state)
{
	(void)state;
	failed_count = 0;
	refused_fd = -1;
	closed_count = 0;
	if (uv_loop_init(&loop) || closer_start(++closer, &loop, on_descriptors_closed))
		return -1;
	push_init(&push, &loop, closer, may_keep, on_failed, on_closed);
	return push_open(&push, &far_end);
}

static void close_loop(void)
{
	closer_stop(closer);
	uv_run(&loop, UV_RUN_DEFAULT);
}

/* Runs the loop until the closing threads have ended; they do not keep the loop alive. */
static void wait_closed(void)
{
	uv_ref((uv_handle_t *)&closer->done);
	while (closer->pending > 0)
		uv_run(&loop, UV_RUN_ONCE);
	uv_unref((uv_handle_t *)&closer->done);
}

static int teardown(void **state)
{
	(void)state;
	push_close(&push);
	wait_closed();
	close_loop();
	assert_int_equal(closed_count, 1);
	if (far_end >= 0)
		close(far_end);
	return uv_loop_close(&loop);
}

static int send_gone(uint64_t pair_id, int nfds)
{
	struct ipc_peer_gone msg = {.hdr = {.type = IPC_PEER_GONE, .len = sizeof(msg)},
				    .pair_id = pair_id};
	int fds[2] = {STDERR_FILENO, STDERR_FILENO};

	return push_send(&push, &msg, sizeof(msg), fds, nfds, getuid());
}

static uint64_t receive(void)
{
	struct ipc_peer_gone msg = {0};

	if (recv(far_end, &msg, sizeof(msg), MSG_DONTWAIT) != (ssize_t)sizeof(msg))
		return 0;
	return msg.pair_id;
}

/* Sends until a message was queued; returns how many were sent directly. */
static uint64_t fill(void)
{
	uint64_t sent = 0;

	while (list_is_empty(&push.pending)) {
		sent++;
		assert_int_equal(send_gone(sent, 0), 0);
	}
	return sent;
}

static void push_full_socket_keeps_order(void **state)
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

static void push_above_limit_ends_client(void **state)
{
	int before = count_descriptors();

	(void)state;
	fill();
	for (int i = 1; i < PUSH_PENDING_MAX; i++)
		assert_int_equal(send_gone(1, 2), 0);
	assert_int_equal(send_gone(1, 2), -ENOBUFS);
	assert_int_equal(count_descriptors(), before + 2 * (PUSH_PENDING_MAX - 1));
	/* The end of a peer is still reported for the maximum number of peers. */
	for (int i = PUSH_PENDING_MAX; i < PUSH_PENDING_ALL_MAX; i++)
		assert_int_equal(send_gone(1, 0), 0);
	assert_int_equal(send_gone(1, 0), -ENOBUFS);
}

static void push_refused_descriptor_is_not_kept(void **state)
{
	int before = count_descriptors();

	(void)state;
	fill();
	refused_fd = dup(STDERR_FILENO);
	close(refused_fd);
	assert_int_equal(send_gone(1, 2), -EMFILE);
	wait_closed();
	assert_int_equal(push.fd_count, 0);
	assert_int_equal(push.pending_count, 1);
	refused_fd = -1;
	assert_int_equal(send_gone(1, 2), 0);
	assert_int_equal(push.fd_count, 2);
	assert_int_equal(count_descriptors(), before + 2);
}

static void push_closed_reader_frees_queue(void **state)
{
	(void)state;
	fill();
	close(far_end);
	far_end = -1;
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(failed_count, 1);
	push_close(&push);
	assert_int_equal(send_gone(1, 0), -ENOTCONN);
	close_loop();
	assert_int_equal(closed_count, 1);
	/* Opened again for the teardown. */
	closed_count = 0;
	uv_loop_close(&loop);
	setup(NULL);
}

static void push_write_by_client_is_ignored(void **state)
{
	(void)state;
	assert_int_equal(send(far_end, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT), -1);
	assert_int_equal(errno, EPIPE);
}

/* The socket can be replaced as long as no message is queued. */
static void push_open_replaces_idle_socket(void **state)
{
	int first = far_end, before = count_descriptors();

	(void)state;
	assert_int_equal(push_open(&push, &far_end), 0);
	assert_int_equal(count_descriptors(), before + 1);
	assert_int_equal(recv(first, &before, 1, MSG_DONTWAIT), 0);
	close(first);
	assert_int_equal(send_gone(5, 0), 0);
	assert_int_equal(receive(), 5);
	fill();
	assert_int_equal(push_open(&push, &first), -EEXIST);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(push_full_socket_keeps_order),	   CASE(push_above_limit_ends_client),
		CASE(push_refused_descriptor_is_not_kept), CASE(push_closed_reader_frees_queue),
		CASE(push_write_by_client_is_ignored),	   CASE(push_open_replaces_idle_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
