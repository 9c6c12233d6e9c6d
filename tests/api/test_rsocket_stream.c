/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>

/* Stream data: its order, its limits, the calls for it, and the end of the stream. */

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

static void rsend_small_messages_keep_order(void **state)
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

/* Many times the size of the buffers, so that the rings wrap. */
static void rsend_more_than_buffers_arrives(void **state)
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

static void rsend_smallest_buffers_deliver_all(void **state)
{
	struct streams small;

	(void)state;
	streams_open_at(&small, "127.0.0.1", use_smallest);
	assert_int_equal(rs_get(small.active, SOL_RDMA, RDMA_INLINE), 0);
	exchange(small.active, small.passive, 500009);
	exchange(small.passive, small.active, 300007);
	streams_close(&small);
}

/* A non-blocking sender fills the buffers, and POLLOUT is reported when there is room again. */
static void rsend_full_stream_fails_with_eagain(void **state)
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
	/* A part of one large send: the bytes that fit. */
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

static void rrecv_msg_peek_keeps_data(void **state)
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
	/* MSG_TRUNC discards the bytes without a copy. */
	assert_int_equal(rrecv(streams.passive, NULL, 60, MSG_TRUNC), 60);
	assert_minus1_errno(rrecv(streams.passive, buffer, 1, MSG_DONTWAIT), EAGAIN);
}

static void rrecv_msg_waitall_returns_all(void **state)
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
	/* At the end of the stream fewer bytes are returned. */
	rs_send_pattern(streams.active, 10, 1);
	assert_int_equal(rshutdown(streams.active, SHUT_WR), 0);
	assert_int_equal(rrecv(streams.passive, buffer, 100, MSG_WAITALL), 10);
	assert_int_equal(rrecv(streams.passive, buffer, 100, MSG_WAITALL), 0);
	free(buffer);
}

struct looking {
	uint8_t *buffer;
	size_t bytes;
	ssize_t ret;
};

static void *look_at_all(void *arg)
{
	struct looking *looking = arg;

	looking->ret = rrecv(streams.passive, looking->buffer, looking->bytes,
			     MSG_PEEK | MSG_WAITALL);
	return NULL;
}

/*
 * With MSG_PEEK the bytes stay in the ring, so MSG_WAITALL waits until all of them are in the ring.
 */
static void rrecv_msg_peek_waitall_waits_for_ring_size(void **state)
{
	struct transfer transfer = {streams.active, 3000000};
	struct looking looking = {malloc(transfer.bytes), 50000, 0};
	pthread_t thread;

	(void)state;
	rs_send_pattern(streams.active, 10, 5);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	assert_int_equal(pthread_create(&thread, NULL, look_at_all, &looking), 0);
	rs_send_pattern(streams.active, 30000, 15);
	rs_send_pattern(streams.active, 19990, 25);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(looking.ret, 50000);
	assert_true(pattern_holds(looking.buffer, 10, 5));
	assert_true(pattern_holds(looking.buffer + 10, 30000, 15));
	assert_true(pattern_holds(looking.buffer + 30010, 19990, 25));
	assert_int_equal(rrecv(streams.passive, looking.buffer, 50000, MSG_WAITALL), 50000);
	/*
	 * More than the size of the ring: the call returns as many bytes as the peer may send
	 * before a read.
	 */
	assert_int_equal(pthread_create(&thread, NULL, send_pattern, &transfer), 0);
	looking.bytes = transfer.bytes;
	look_at_all(&looking);
	assert_true(looking.ret > 50000 && looking.ret < (ssize_t)transfer.bytes);
	assert_true(pattern_holds(looking.buffer, (size_t)looking.ret, 5));
	assert_int_equal(rrecv(streams.passive, looking.buffer, transfer.bytes, MSG_WAITALL),
			 transfer.bytes);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* At the end of the stream, and with MSG_DONTWAIT, fewer bytes are returned. */
	rs_send_pattern(streams.active, 10, 1);
	assert_true(rs_await(streams.passive, POLLIN) & POLLIN);
	assert_int_equal(rrecv(streams.passive, looking.buffer, 100,
			       MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT),
			 10);
	assert_int_equal(rshutdown(streams.active, SHUT_WR), 0);
	look_at_all(&looking);
	assert_int_equal(looking.ret, 10);
	assert_int_equal(rrecv(streams.passive, looking.buffer, 10, 0), 10);
	look_at_all(&looking);
	assert_int_equal(looking.ret, 0);
	free(looking.buffer);
}

static void rwritev_many_buffers_arrive(void **state)
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

static void rwritev_invalid_buffers_fail(void **state)
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

static void rsend_unconnected_fails(void **state)
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

/* One side shuts down its direction; the other reads to the end, and continues to send. */
static void rshutdown_one_direction_keeps_the_other(void **state)
{
	char byte = 0;

	(void)state;
	rs_send_pattern(streams.active, 100000, 3);
	assert_int_equal(rshutdown(streams.active, SHUT_WR), 0);
	assert_minus1_errno(rsend(streams.active, &byte, 1, 0), EPIPE);
	assert_minus1_errno(rsend(streams.active, &byte, 0, 0), EPIPE);
	assert_int_equal(rsend(streams.passive, &byte, 0, 0), 0);
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

static void rshutdown_read_returns_end_of_stream(void **state)
{
	char byte = 0;

	(void)state;
	assert_int_equal(rshutdown(streams.passive, SHUT_RD), 0);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
	/* The other direction is unaffected. */
	rs_send_pattern(streams.passive, 100, 4);
	rs_receive_pattern(streams.active, 100, 4);
	assert_int_equal(rshutdown(streams.passive, SHUT_WR), 0);
	assert_minus1_errno(rsend(streams.passive, &byte, 1, 0), EPIPE);
}

/*
 * Data sent before a close arrives; then the end of the stream is reported, and a sender gets an
 * error.
 */
static void rclose_delivers_earlier_data(void **state)
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

/* POLLHUP before all data was read would make a program lose the data. */
static void rpoll_pollhup_after_last_byte(void **state)
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

/* With a linger time of 0 a close resets the connection. */
static void rclose_linger_0_resets(void **state)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	char byte = 0;

	(void)state;
	assert_int_equal(
		rsetsockopt(streams.active, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	assert_true(rs_await(streams.passive, POLLIN) & POLLERR);
	/* The error is returned once; after that the end of the stream. */
	assert_minus1_errno(rrecv(streams.passive, &byte, 1, 0), ECONNRESET);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
	assert_minus1_errno(rsend(streams.passive, &byte, 1, 0), EPIPE);
}

static void rgetsockopt_so_error_after_reset_is_econnreset(void **state)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	char byte = 0;

	(void)state;
	assert_int_equal(
		rsetsockopt(streams.active, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	rs_close(streams.active);
	streams.active = rs_stream(AF_INET);
	assert_true(rs_await(streams.passive, 0) & POLLERR);
	assert_int_equal(rs_get(streams.passive, SOL_SOCKET, SO_ERROR), ECONNRESET);
	assert_int_equal(rrecv(streams.passive, &byte, 1, 0), 0);
}

static void rrecv_so_rcvtimeo_fails_with_eagain(void **state)
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

static void rclose_wakes_rrecv(void **state)
{
	pthread_t thread;
	void *ret;
	int fd = streams.passive;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, receive_one, &fd), 0);
	rs_close(streams.passive);
	assert_int_equal(pthread_join(thread, &ret), 0);
	/* The call finds either no rsocket at the descriptor, or the end of the stream. */
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

/* A blocked send returns when the peer closes: with the number of bytes sent, or an error. */
static void rsend_blocked_returns_when_peer_closes(void **state)
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
		CASE(rsend_small_messages_keep_order),
		CASE(rsend_more_than_buffers_arrives),
		cmocka_unit_test(rsend_smallest_buffers_deliver_all),
		CASE(rsend_full_stream_fails_with_eagain),
		CASE(rrecv_msg_peek_keeps_data),
		CASE(rrecv_msg_waitall_returns_all),
		CASE(rrecv_msg_peek_waitall_waits_for_ring_size),
		CASE(rwritev_many_buffers_arrive),
		CASE(rwritev_invalid_buffers_fail),
		cmocka_unit_test(rsend_unconnected_fails),
		CASE(rshutdown_one_direction_keeps_the_other),
		CASE(rshutdown_read_returns_end_of_stream),
		CASE(rclose_delivers_earlier_data),
		CASE(rpoll_pollhup_after_last_byte),
		CASE(rclose_linger_0_resets),
		CASE(rgetsockopt_so_error_after_reset_is_econnreset),
		CASE(rrecv_so_rcvtimeo_fails_with_eagain),
		CASE(rclose_wakes_rrecv),
		CASE(rsend_blocked_returns_when_peer_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
