/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>

/* Bytes through a stream: their order, their limits, the ways to ask for them, and the end. */

static struct streams streams;

static int open_streams(void **state)
{
	(void)state;
	streams_open(&streams);
	return 0;
}

static int close_streams(void **state)
{
	(void)state;
	streams_close(&streams);
	return 0;
}

static void small_messages_keep_their_order(void **state)
{
	(void)state;
	for (uint8_t round = 0; round < 200; round++) {
		rs_send_pattern(streams.active, 1 + round % 100, round);
		rs_receive_pattern(streams.passive, 1 + round % 100, round);
		rs_send_pattern(streams.passive, 3, round);
		rs_receive_pattern(streams.active, 3, round);
	}
}

struct transfer {
	int socket;
	size_t bytes;
};

static void *send_pattern(void *arg)
{
	const struct transfer *transfer = arg;

	rs_send_pattern(transfer->socket, transfer->bytes, 5);
	return NULL;
}

static void exchange(int from, int to, size_t bytes)
{
	struct transfer transfer = {from, bytes};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, send_pattern, &transfer), 0);
	rs_receive_pattern(to, bytes, 5);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Many times the size of any buffer, so that every wrap of the rings is met. */
static void much_passes(void **state)
{
	(void)state;
	exchange(streams.active, streams.passive, 20000003);
	exchange(streams.passive, streams.active, 3000001);
}

static void use_smallest(int socket)
{
	rs_set(socket, SOL_SOCKET, SO_RCVBUF, 1);
	rs_set(socket, SOL_SOCKET, SO_SNDBUF, 1);
	rs_set(socket, SOL_RDMA, RDMA_SQSIZE, 1);
	rs_set(socket, SOL_RDMA, RDMA_RQSIZE, 1);
	rs_set(socket, SOL_RDMA, RDMA_INLINE, 0);
}

static void much_passes_through_the_smallest_buffers(void **state)
{
	struct streams small;

	(void)state;
	streams_open_at(&small, "127.0.0.1", use_smallest);
	assert_int_equal(rs_get(small.active, SOL_RDMA, RDMA_INLINE), 0);
	exchange(small.active, small.passive, 500009);
	exchange(small.passive, small.active, 300007);
	streams_close(&small);
}

/* A sender that must not wait fills what there is, and hears when there is room again. */
static void a_full_stream_takes_no_more(void **state)
{
	size_t sent = 0, received = 0;
	uint8_t *buffer = calloc(1, 1 << 20);
	ssize_t count;

	(void)state;
	assert_non_null(buffer);
	rs_nonblocking(streams.active);
	do {
		count = rsend(streams.active, buffer, 1 << 20, 0);
		sent += count > 0 ? (size_t)count : 0;
	} while (count > 0);
	assert_int_equal(errno, EAGAIN);
	/* A part of one large call: what fits. */
	assert_true(sent > 65536 && sent < 1 << 20);
	assert_int_equal(rs_look(streams.active, POLLOUT), 0);
	while (received < sent) {
		count = rrecv(streams.passive, buffer, 1 << 20, MSG_DONTWAIT);
		assert_true(count > 0 || errno == EAGAIN);
		received += count > 0 ? (size_t)count : 0;
	}
	assert_true(rs_await(streams.active, POLLOUT) & POLLOUT);
	assert_int_equal(received, sent);
	assert_minus1_errno(rrecv(streams.passive, buffer, 1, MSG_DONTWAIT), EAGAIN);
	free(buffer);
}

static void looking_does_not_take(void **state)
{
	uint8_t buffer[100];

	(void)state;
	rs_send_pattern(streams.active, 100, 1);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rrecv(streams.passive, buffer, 100, MSG_PEEK), 100);
		assert_true(pattern_holds(buffer, 100, 1));
	}
	assert_int_equal(rrecv(streams.passive, buffer, 40, 0), 40);
	assert_int_equal(rrecv(streams.passive, buffer + 40, 60, MSG_PEEK), 60);
	assert_true(pattern_holds(buffer, 100, 1));
	/* Thrown away without being copied. */
	assert_int_equal(rrecv(streams.passive, NULL, 60, MSG_TRUNC), 60);
	assert_minus1_errno(rrecv(streams.passive, buffer, 1, MSG_DONTWAIT), EAGAIN);
}

static void waiting_for_all_takes_all(void **state)
{
	struct transfer transfer = {streams.active, 300000};
	uint8_t *buffer = malloc(transfer.bytes);
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, send_pattern, &transfer), 0);
	assert_int_equal(rrecv(streams.passive, buffer, transfer.bytes, MSG_WAITALL),
			 transfer.bytes);
	assert_true(pattern_holds(buffer, transfer.bytes, 5));
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* At the end of a stream there is less. */
	rs_send_pattern(streams.active, 10, 1);
	assert_int_equal(rshutdown(streams.active, SHUT_WR), 0);
	assert_int_equal(rrecv(streams.passive, buffer, 100, MSG_WAITALL), 10);
	assert_int_equal(rrecv(streams.passive, buffer, 100, MSG_WAITALL), 0);
	free(buffer);
}

static void buffers_may_be_many(void **state)
{
	uint8_t bytes[1000], read[1000];
	struct iovec out[] = {{bytes, 100}, {NULL, 0}, {bytes + 100, 1}, {bytes + 101, 899}};
	struct iovec in[] = {{read, 1}, {read + 1, 998}, {NULL, 0}, {read + 999, 1}};
	struct msghdr out_msg = {.msg_iov = out, .msg_iovlen = 4};
	struct sockaddr_storage from;
	struct msghdr in_msg = {.msg_iov = in, .msg_iovlen = 4, .msg_name = &from};
	char control[64];

	(void)state;
	pattern_fill(bytes, sizeof(bytes), 9);
	assert_int_equal(rwritev(streams.active, out, 4), 1000);
	assert_int_equal(rrecv(streams.passive, read, 1000, MSG_WAITALL), 1000);
	assert_true(pattern_holds(read, sizeof(read), 9));
	memset(read, 0, sizeof(read));
	assert_int_equal(rsendmsg(streams.active, &out_msg, 0), 1000);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	assert_int_equal(rreadv(streams.passive, in, 4), 1000);
	assert_true(pattern_holds(read, sizeof(read), 9));
	assert_int_equal(rwrite(streams.active, bytes, 1000), 1000);
	in_msg.msg_namelen = sizeof(from);
	in_msg.msg_control = control;
	in_msg.msg_controllen = sizeof(control);
	in_msg.msg_flags = -1;
	assert_int_equal(rrecvmsg(streams.passive, &in_msg, MSG_WAITALL), 1000);
	assert_true(pattern_holds(read, sizeof(read), 9));
	assert_int_equal(in_msg.msg_controllen, 0);
	assert_int_equal(in_msg.msg_flags, 0);
	assert_int_equal(in_msg.msg_namelen, sizeof(struct sockaddr_in));
}

static void bad_buffers_are_refused(void **state)
{
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct sockaddr_storage addr = streams.addr;

	(void)state;
	assert_minus1_errno(rwritev(streams.active, &iov, -1), EINVAL);
	assert_minus1_errno(rreadv(streams.active, &iov, IOV_MAX + 1), EINVAL);
	assert_minus1_errno(rwritev(streams.active, NULL, 1), EFAULT);
	assert_minus1_errno(rsendmsg(streams.active, NULL, 0), EFAULT);
	assert_minus1_errno(rrecvmsg(streams.active, NULL, 0), EFAULT);
	msg.msg_control = &byte;
	msg.msg_controllen = 1;
	assert_minus1_errno(rsendmsg(streams.active, &msg, 0), ENOTSUP);
	msg.msg_iovlen = (size_t)INT_MAX + 1;
	assert_minus1_errno(rrecvmsg(streams.active, &msg, 0), EMSGSIZE);
	msg.msg_controllen = 0;
	assert_minus1_errno(rsendmsg(streams.active, &msg, 0), EMSGSIZE);
	assert_minus1_errno(rrecvfrom(streams.active, &byte, 1, 0, rs_sa(&addr), NULL), EFAULT);
	assert_minus1_errno(rsendto(streams.active, &byte, 1, 0, rs_sa(&addr), sizeof(addr)),
			    EISCONN);
	assert_minus1_errno(rsend(streams.active, &byte, 1, MSG_OOB), EOPNOTSUPP);
	assert_minus1_errno(rrecv(streams.active, &byte, 1, MSG_OOB), EOPNOTSUPP);
	assert_minus1_errno(rrecv(streams.active, &byte, 1, MSG_ERRQUEUE), EOPNOTSUPP);
	assert_int_equal(rsend(streams.active, &byte, 0, 0), 0);
	assert_int_equal(rrecv(streams.active, &byte, 0, 0), 0);
}

static void who_was_never_connected_cannot(void **state)
{
	int fd = rs_stream(AF_INET);
	char byte = 0;

	(void)state;
	assert_minus1_errno(rsend(fd, &byte, 1, 0), ENOTCONN);
	assert_minus1_errno(rrecv(fd, &byte, 1, 0), ENOTCONN);
	assert_minus1_errno(rshutdown(fd, SHUT_RDWR), ENOTCONN);
	assert_minus1_errno(rshutdown(fd, 17), EINVAL);
	assert_int_equal(rs_look(fd, POLLIN | POLLOUT), POLLOUT | POLLHUP);
	rs_close(fd);
}

/* One side says that it is done; the other reads to the end, and goes on sending. */
static void half_a_connection_goes_on(void **state)
{
	char byte = 0;

	(void)state;
	rs_send_pattern(streams.active, 100000, 3);
	assert_int_equal(rshutdown(streams.active, SHUT_WR), 0);
	assert_minus1_errno(rsend(streams.active, &byte, 1, 0), EPIPE);
	rs_receive_pattern(streams.passive, 100000, 3);
	assert_true(rs_await(streams.passive, POLLIN | POLLRDHUP) & POLLRDHUP);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
	rs_send_pattern(streams.passive, 50000, 4);
	rs_receive_pattern(streams.active, 50000, 4);
	assert_int_equal(rshutdown(streams.passive, SHUT_WR), 0);
	assert_true(rs_await(streams.active, POLLIN) & POLLIN);
	assert_int_equal(rrecv(streams.active, &byte, 1, 0), 0);
	assert_int_equal(rshutdown(streams.active, SHUT_RDWR), 0);
}

static void who_reads_no_more_finds_the_end(void **state)
{
	char byte = 0;

	(void)state;
	assert_int_equal(rshutdown(streams.passive, SHUT_RD), 0);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
	/* The other direction is as it was. */
	rs_send_pattern(streams.passive, 100, 4);
	rs_receive_pattern(streams.active, 100, 4);
	assert_int_equal(rshutdown(streams.passive, SHUT_WR), 0);
	assert_minus1_errno(rsend(streams.passive, &byte, 1, 0), EPIPE);
}

/* What was sent before a close arrives; then comes the end, and who still sends is told. */
static void closing_delivers_first(void **state)
{
	char byte = 0;
	int fd;

	(void)state;
	rs_send_pattern(streams.active, 60000, 3);
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	fd = streams.passive;
	assert_true(rs_await(fd, POLLIN) & POLLIN);
	rs_receive_pattern(fd, 60000, 3);
	assert_true(rs_await(fd, 0) & POLLHUP);
	assert_int_equal(rrecv(fd, &byte, 1, 0), 0);
	assert_minus1_errno(rsend(fd, &byte, 1, 0), ECONNRESET);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_ERROR), 0);
	assert_int_equal(rshutdown(fd, SHUT_RDWR), 0);
}

/* As long as there is something to read, POLLHUP would make a program miss it. */
static void hanging_up_comes_after_the_last_byte(void **state)
{
	short events;

	(void)state;
	rs_send_pattern(streams.active, 10, 3);
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	do {
		events = rs_await(streams.passive, POLLIN | POLLRDHUP);
		assert_false(events & POLLHUP);
	} while (!(events & POLLRDHUP));
	rs_receive_pattern(streams.passive, 10, 3);
	assert_true(rs_look(streams.passive, POLLIN) & POLLHUP);
}

/* With a linger time of 0 a close is a reset. */
static void an_abrupt_end_is_a_reset(void **state)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	char byte = 0;

	(void)state;
	assert_int_equal(
		rsetsockopt(streams.active, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	assert_true(rs_await(streams.passive, POLLIN) & POLLERR);
	/* Once; after that there is the end. */
	assert_minus1_errno(rrecv(streams.passive, &byte, 1, 0), ECONNRESET);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
	assert_minus1_errno(rsend(streams.passive, &byte, 1, 0), EPIPE);
}

static void a_reset_is_told_by_so_error_too(void **state)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	char byte = 0;

	(void)state;
	assert_int_equal(
		rsetsockopt(streams.active, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	assert_true(rs_await(streams.passive, POLLOUT) & POLLERR);
	assert_int_equal(rs_get(streams.passive, SOL_SOCKET, SO_ERROR), ECONNRESET);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
}

static void timeouts_end_a_wait(void **state)
{
	struct timeval time = {.tv_usec = 2000};
	uint8_t *buffer = calloc(1, 1 << 20);
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 1);
	char byte;

	(void)state;
	assert_non_null(buffer);
	assert_int_equal(rsetsockopt(streams.passive, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)),
			 0);
	assert_minus1_errno(rrecv(streams.passive, &byte, 1, 0), EAGAIN);
	assert_int_equal(rsetsockopt(streams.active, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)),
			 0);
	assert_true(rsend(streams.active, buffer, 1 << 20, 0) < 1 << 20);
	assert_minus1_errno(rsend(streams.active, buffer, 1 << 20, 0), EAGAIN);
	assert_int_equal(rsetsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	assert_minus1_errno(raccept(listener, NULL, NULL), EAGAIN);
	rs_close(listener);
	free(buffer);
}

static void *receive_one(void *arg)
{
	char byte;

	return (void *)(intptr_t)(rrecv(*(int *)arg, &byte, 1, 0) < 0 ? errno : 0);
}

static void closing_wakes_who_receives(void **state)
{
	pthread_t thread;
	void *ret;
	int fd = streams.passive;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, receive_one, &fd), 0);
	rs_close(streams.passive);
	assert_int_equal(pthread_join(thread, &ret), 0);
	/* Whichever it met first: the descriptor without an rsocket, or the end. */
	assert_true((intptr_t)ret == EBADF || ret == NULL);
	streams.passive = rs_stream(AF_INET);
}

static void *send_much(void *arg)
{
	uint8_t *buffer = calloc(1, 1 << 22);
	ssize_t ret = rsend(*(int *)arg, buffer, 1 << 22, 0);
	intptr_t error = ret < 0 ? errno : 0;

	free(buffer);
	return (void *)error;
}

/* Who is asleep in a send when the peer goes learns it: of part of it by the count. */
static void the_end_wakes_who_sends(void **state)
{
	pthread_t thread;
	char byte = 0;
	void *ret;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, send_much, &streams.active), 0);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	rs_close(streams.passive);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_null(ret);
	errno = 0;
	assert_int_equal(rsend(streams.active, &byte, 1, 0), -1);
	assert_true(errno == ECONNRESET || errno == EPIPE);
	streams.passive = rs_stream(AF_INET);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_streams, close_streams)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(small_messages_keep_their_order),
		CASE(much_passes),
		cmocka_unit_test(much_passes_through_the_smallest_buffers),
		CASE(a_full_stream_takes_no_more),
		CASE(looking_does_not_take),
		CASE(waiting_for_all_takes_all),
		CASE(buffers_may_be_many),
		CASE(bad_buffers_are_refused),
		cmocka_unit_test(who_was_never_connected_cannot),
		CASE(half_a_connection_goes_on),
		CASE(who_reads_no_more_finds_the_end),
		CASE(closing_delivers_first),
		CASE(hanging_up_comes_after_the_last_byte),
		CASE(an_abrupt_end_is_a_reset),
		CASE(a_reset_is_told_by_so_error_too),
		CASE(timeouts_end_a_wait),
		CASE(closing_wakes_who_receives),
		CASE(the_end_wakes_who_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
