/* SPDX-License-Identifier: BSD-2-Clause */
/* Errnos documented in rsocket.h that no other test of rsockets covers. */
#include "host.h"
#include "host_address.h"
#include "rsocket_fixture.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define NEIGHBOUR     "10.77.0.77" /* an address on own0's network that does not reply */
#define CONNECTING    32
#define UNROUTED      "192.0.2.1"
#define PRIVILEGED    7
#define CM_PATIENCE_S "1"

static void rsocket_without_descriptor_fails_with_emfile(void **state)
{
	struct rlimit before, none = {0};

	(void)state;
	rs_close(rs_stream(AF_INET));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_minus1_errno(rsocket(AF_INET, SOCK_STREAM, 0), EMFILE);
	assert_minus1_errno(rsocket(AF_INET, SOCK_DGRAM, 0), EMFILE);
	assert_minus1_errno(repoll_create(0), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void rbind_privileged_port_fails_with_eacces(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", PRIVILEGED);
	int fd = rs_stream(AF_INET);

	(void)state;
	if (geteuid() == 0)
		skip();
	assert_minus1_errno(rbind(fd, rs_sa(&addr), rs_addr_bytes(&addr)), EACCES);
	rs_close(fd);
}

/* Two rsockets may bind to the port, one may listen. */
static void rlisten_used_port_fails_with_eaddrinuse(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int fds[2] = {rs_stream(AF_INET), rs_stream(AF_INET)};
	socklen_t bytes = sizeof(addr);

	(void)state;
	for (int i = 0; i < 2; i++) {
		rs_set(fds[i], SOL_SOCKET, SO_REUSEADDR, 1);
		assert_int_equal(rbind(fds[i], rs_sa(&addr), rs_addr_bytes(&addr)), 0);
		assert_int_equal(rgetsockname(fds[i], rs_sa(&addr), &bytes), 0);
	}
	assert_int_equal(rlisten(fds[0], 1), 0);
	assert_minus1_errno(rlisten(fds[1], 1), EADDRINUSE);
	rs_close(fds[0]);
	assert_int_equal(rlisten(fds[1], 1), 0);
	rs_close(fds[1]);
}

/* Calls a blocking function and interrupts it by signals until one arrives while it is blocked. */
static void is_interrupted(void *(*call)(void *arg), void *arg)
{
	pthread_t thread;
	void *was_interrupted;

	assert_int_equal(pthread_create(&thread, NULL, call, arg), 0);
	do {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	} while (pthread_tryjoin_np(thread, &was_interrupted));
	assert_non_null(was_interrupted);
}

static void *accept_from(void *fd)
{
	return (void *)(intptr_t)refuses_minus1(raccept(*(int *)fd, NULL, NULL), EINTR);
}

static void *receive_from(void *fd)
{
	char byte;

	return (void *)(intptr_t)refuses_minus1(rrecv(*(int *)fd, &byte, 1, 0), EINTR);
}

static void *send_to(void *fd)
{
	char byte = 0;

	return (void *)(intptr_t)refuses_minus1(rsend(*(int *)fd, &byte, 1, 0), EINTR);
}

static void *poll_it(void *fd)
{
	struct pollfd pollfd = {.fd = *(int *)fd, .events = POLLIN};

	return (void *)(intptr_t)refuses_minus1(rpoll(&pollfd, 1, -1), EINTR);
}

static void *select_it(void *fd)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(*(int *)fd, &in);
	return (void *)(intptr_t)refuses_minus1(rselect(*(int *)fd + 1, &in, NULL, NULL, NULL),
						EINTR);
}

static void *connect_without_listener(void *fd)
{
	struct sockaddr_storage far = rs_addr(NEIGHBOUR, 4711);

	return (void *)(intptr_t)refuses_minus1(
		rconnect(*(int *)fd, rs_sa(&far), rs_addr_bytes(&far)), EINTR);
}

static void fill(int fd)
{
	static const char bytes[4096];

	while (rsend(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
}

static void rrecv_signal_fails_with_eintr(void **state)
{
	struct streams streams;

	(void)state;
	streams_open(&streams);
	is_interrupted(accept_from, &streams.listener);
	is_interrupted(receive_from, &streams.active);
	is_interrupted(poll_it, &streams.active);
	is_interrupted(select_it, &streams.active);
	fill(streams.active);
	is_interrupted(send_to, &streams.active);
	streams_close(&streams);
}

static void rgetsockopt_invalid_argument_fails(void **state)
{
	struct timeval never = {.tv_usec = 1000000};
	struct iovec long_ones[2] = {{.iov_len = SSIZE_MAX}, {.iov_len = 1}};
	struct msghdr msg = {.msg_iov = long_ones, .msg_iovlen = 2};
	uint8_t *unmapped = (uint8_t *)(uintptr_t)4096;
	struct sockaddr_storage addr;
	struct streams streams;
	socklen_t bytes = 4;
	int value = 1;

	(void)state;
	streams_open_at(&streams, "127.0.0.1", NULL);
	assert_minus1_errno(rrecvmsg(streams.active, &msg, 0), EINVAL);
	assert_minus1_errno(rsendmsg(streams.active, &msg, 0), EINVAL);
	msg.msg_iovlen = IOV_MAX + 1;
	assert_minus1_errno(rrecvmsg(streams.active, &msg, 0), EMSGSIZE);
	assert_minus1_errno(rsendmsg(streams.active, &msg, 0), EMSGSIZE);
	assert_minus1_errno(rreadv(streams.active, long_ones, IOV_MAX + 1), EINVAL);
	assert_minus1_errno(rreadv(streams.active, NULL, 1), EFAULT);
	assert_minus1_errno(rgetpeername(streams.active, NULL, &bytes), EFAULT);
	assert_minus1_errno(rgetpeername(streams.active, rs_sa(&addr), NULL), EFAULT);
	assert_minus1_errno(
		rsetsockopt(streams.active, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never)), EDOM);
	assert_minus1_errno(rsetsockopt(streams.active, SOL_SOCKET, SO_KEEPALIVE, NULL, 4), EFAULT);
	assert_minus1_errno(rgetsockopt(streams.active, SOL_SOCKET, SO_TYPE, NULL, &bytes), EFAULT);
	assert_minus1_errno(rgetsockopt(streams.active, SOL_SOCKET, SO_TYPE, &value, NULL), EFAULT);
	assert_minus1_errno(riomap(streams.active, unmapped, 8, PROT_NONE, 0, 0), EFAULT);
	streams_close(&streams);
}

/* An array that exceeds the limit of descriptors is not read. */
static void rpoll_above_descriptor_limit_fails_with_einval(void **state)
{
	struct pollfd pollfd = {.fd = 0};

	(void)state;
	assert_minus1_errno(rpoll(&pollfd, (nfds_t)INT_MAX + 1, 0), EINVAL);
}

/*
 * A buffer that cannot be accessed. The stream goes on with the same data. cmocka replaces the
 * library's handler of faults before each test; the library notices it after 1024 accesses of a
 * thread at the latest.
 */
static void rsend_and_rrecv_inaccessible_buffer_fail_with_efault(void **state)
{
	static const size_t sizes[] = {1, 8, 100, 5000, 200000};
	const size_t bytes = 1 << 20;
	uint8_t *sent = malloc(bytes), *arrived = malloc(bytes);
	uint8_t *none = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct streams streams;

	(void)state;
	assert_true(sent && arrived && none != MAP_FAILED);
	streams_open(&streams);
	for (int i = 0; i < 1024; i++) {
		assert_int_equal(rsend(streams.active, sent, 1, 0), 1);
		assert_int_equal(rrecv(streams.passive, arrived, 1, 0), 1);
	}
	for (size_t i = 0; i < bytes; i++)
		sent[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t got = 0;

		for (int times = 0; times < 50; times++)
			assert_minus1_errno(rsend(streams.active, none, sizes[i], 0), EFAULT);
		for (size_t done = 0; done < sizes[i]; done += got) {
			size_t part = sizes[i] - done < 4096 ? sizes[i] - done : 4096;
			ssize_t ret = rsend(streams.active, sent + done, part, 0);

			assert_int_equal(ret, part);
			assert_minus1_errno(rrecv(streams.passive, none, part, 0), EFAULT);
			ret = rrecv(streams.passive, arrived + done, part, MSG_WAITALL);
			assert_int_equal(ret, part);
			got = part;
		}
		assert_memory_equal(arrived, sent, sizes[i]);
	}
	streams_close(&streams);
	munmap(none, bytes);
	free(sent);
	free(arrived);
}

static void rsend_dgram_too_long_fails_with_emsgsize(void **state)
{
	static const char bytes[100000];
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 4711);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	assert_int_equal(rconnect(fd, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_minus1_errno(rsend(fd, bytes, sizeof(bytes), 0), EMSGSIZE);
	rs_close(fd);
}

static void rsend_dgram_without_receiver_fails_with_econnrefused(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 4711);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	char byte = 0;

	(void)state;
	assert_int_equal(rconnect(fd, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_int_equal(rsend(fd, &byte, 1, 0), 1);
	assert_minus1_errno(rrecv(fd, &byte, 1, 0), ECONNREFUSED);
	rs_close(fd);
}

/* A peer that sends a valid opening message of rsockets, and then an invalid message. */
static void rrecv_peer_with_other_protocol_fails(void **state)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	struct rdma_cm_id *listener, *peer;
	struct rdma_conn_param param = {.rnr_retry_count = 7};
	int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	char byte = 0;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, rs_sa(&addr)), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	((struct sockaddr_in *)&addr)->sin_port = rdma_get_src_port(listener);
	assert_minus1_errno(rconnect(fd, rs_sa(&addr), rs_addr_bytes(&addr)), EINPROGRESS);
	assert_int_equal(rdma_get_request(listener, &peer), 0);
	assert_int_equal(rdma_create_qp(peer, NULL, &attr), 0);
	param.private_data = peer->event->param.conn.private_data;
	param.private_data_len = peer->event->param.conn.private_data_len;
	assert_int_equal(rdma_accept(peer, &param), 0);
	assert_int_equal(rs_await(fd, POLLOUT), POLLOUT);
	assert_int_equal(rdma_post_sendv(peer, NULL, NULL, 0, 0), 0);
	assert_true(rs_await(fd, POLLIN) & POLLERR);
	assert_minus1_errno(rrecv(fd, &byte, 1, 0), EPROTO);
	rs_close(fd);
	rdma_destroy_ep(peer);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void rconnect_without_listener_fails_with_econnrefused(void **state)
{
	struct sockaddr_storage far = rs_addr(UNROUTED, 4711);
	socklen_t bytes = rs_addr_bytes(&far);
	int fd = rs_stream(AF_INET), dgram = rsocket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	host_needed();
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), ENETUNREACH);
	assert_minus1_errno(rsendto(dgram, "x", 1, 0, rs_sa(&far), bytes), ENETUNREACH);
	host_ip("route add unreachable " UNROUTED "/32");
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), EHOSTUNREACH);
	host_ip("route del unreachable " UNROUTED "/32");
	rs_close(fd);
	rs_close(dgram);
}

static int begin(const char *text)
{
	struct sockaddr_storage far = rs_addr(text, 4711);
	int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_minus1_errno(rconnect(fd, rs_sa(&far), rs_addr_bytes(&far)), EINPROGRESS);
	return fd;
}

/* SO_SNDTIMEO, which also limits connecting (socket(7)). */
static void set_patience(int fd, unsigned int milliseconds)
{
	struct timeval time = {.tv_usec = (suseconds_t)milliseconds * 1000};

	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)), 0);
}

/* The kernel still has a reachable neighbour entry for the host. */
static void rconnect_host_without_response_fails_with_etimedout(void **state)
{
	struct sockaddr_storage far = rs_addr(NEIGHBOUR, 4711);
	socklen_t bytes = rs_addr_bytes(&far);
	int fd, sender, receiver;
	char byte = 0;

	(void)state;
	host_needed();
	host_ip("neigh add " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	fd = rs_stream(AF_INET);
	is_interrupted(connect_without_listener, &fd);
	/*
	 * A blocking call then waits for the connection that is in progress, as a program that
	 * retries after EINTR expects.
	 */
	rs_nonblocking(fd);
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), EALREADY);
	assert_int_equal(rfcntl(fd, F_SETFL, 0), 0);
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), ETIMEDOUT);
	rs_close(fd);
	fd = rs_stream(AF_INET);
	set_patience(fd, 20);
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), EINPROGRESS);
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), EALREADY);
	assert_true(rs_await(fd, POLLOUT) & POLLERR);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_ERROR), ETIMEDOUT);
	rs_close(fd);
	sender = begin(NEIGHBOUR);
	receiver = begin(NEIGHBOUR);
	fd = rs_stream(AF_INET);
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), ETIMEDOUT);
	assert_true(rs_await(sender, POLLOUT) & POLLERR);
	assert_true(rs_await(receiver, POLLIN) & POLLERR);
	assert_minus1_errno(rsend(sender, &byte, 1, 0), ETIMEDOUT);
	assert_minus1_errno(rrecv(receiver, &byte, 1, 0), ETIMEDOUT);
	rs_close(fd);
	rs_close(sender);
	rs_close(receiver);
	host_ip("neigh del " NEIGHBOUR " dev own0");
}

/* The interface of the listener's address is removed, so no connection can arrive. */
static void raccept_removed_interface_fails(void **state)
{
	struct sockaddr_storage addr = rs_addr("10.78.0.1", 0);
	int listener;

	(void)state;
	host_needed();
	listener = rs_stream(AF_INET);
	host_ip("link add brief0 type veth peer name brief1");
	host_ip("addr add 10.78.0.1/24 dev brief0");
	host_ip("link set brief0 up");
	host_ip("link set brief1 up");
	host_wait_address(&addr);
	assert_int_equal(rbind(listener, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_int_equal(rlisten(listener, 1), 0);
	host_ip("link del brief0");
	assert_true(rs_await(listener, POLLIN) & POLLERR);
	assert_minus1_errno(raccept(listener, NULL, NULL), ENETDOWN);
	rs_close(listener);
}

/*
 * Must be the last case: later calls use another daemon. There are many sockets, so that the daemon
 * ends at different steps of connecting.
 */
static void rrecv_dead_daemon_fails(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	struct sockaddr_storage far = rs_addr(NEIGHBOUR, 4711);
	struct streams streams;
	int connecting[CONNECTING], dgram, bound = rs_stream(AF_INET);
	char byte = 0;

	(void)state;
	host_needed();
	host_ip("neigh add " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	streams_open(&streams);
	for (int i = 0; i < CONNECTING; i++)
		connecting[i] = begin(NEIGHBOUR);
	host_kill_daemon();
	for (int i = 0; i < CONNECTING; i++)
		assert_true(rs_await(connecting[i], POLLOUT) & POLLERR);
	assert_minus1_errno(rconnect(connecting[0], rs_sa(&far), rs_addr_bytes(&far)), ENETDOWN);
	for (int i = 2; i < CONNECTING; i++)
		assert_minus1_errno(rrecv(connecting[i], &byte, 1, 0), ENETDOWN);
	assert_minus1_errno(rsend(connecting[1], &byte, 1, 0), ENETDOWN);
	/* No connection can arrive any more: the listener reports POLLERR. */
	assert_true(rs_await(streams.listener, POLLIN) & POLLERR);
	assert_minus1_errno(raccept(streams.listener, NULL, NULL), ENETDOWN);
	/* The end of the daemon ends the connection, too. */
	assert_true(rs_await(streams.active, POLLIN) & POLLERR);
	assert_int_equal(rrecv(streams.active, &byte, 1, 0), -1);
	assert_true(errno == ENETDOWN || errno == ECONNRESET);
	assert_minus1_errno(rbind(bound, rs_sa(&addr), rs_addr_bytes(&addr)), ENODEV);
	assert_int_equal(setenv("USRDMA_DAEMON", "/dev/null", 1), 0);
	assert_minus1_errno(rsocket(AF_INET, SOCK_STREAM, 0), ENODEV);
	dgram = rsocket(AF_INET, SOCK_DGRAM, 0);
	assert_true(dgram >= 0);
	assert_minus1_errno(rsendto(dgram, "x", 1, 0, rs_sa(&addr), rs_addr_bytes(&addr)), ENODEV);
	assert_int_equal(unsetenv("USRDMA_DAEMON"), 0);
	rs_close(bound);
	rs_close(dgram);
	for (int i = 0; i < CONNECTING; i++)
		rs_close(connecting[i]);
	streams_close(&streams);
	host_ip("neigh del " NEIGHBOUR " dev own0");
}

static void on_signal(int number)
{
	(void)number;
}

static int setup(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};

	(void)state;
	setenv("USRDMA_CM_TIMEOUT", CM_PATIENCE_S, 1);
	return sigaction(SIGUSR1, &action, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsocket_without_descriptor_fails_with_emfile),
		cmocka_unit_test(rbind_privileged_port_fails_with_eacces),
		cmocka_unit_test(rlisten_used_port_fails_with_eaddrinuse),
		cmocka_unit_test(rrecv_signal_fails_with_eintr),
		cmocka_unit_test(rgetsockopt_invalid_argument_fails),
		cmocka_unit_test(rpoll_above_descriptor_limit_fails_with_einval),
		cmocka_unit_test(rsend_and_rrecv_inaccessible_buffer_fail_with_efault),
		cmocka_unit_test(rsend_dgram_too_long_fails_with_emsgsize),
		cmocka_unit_test(rsend_dgram_without_receiver_fails_with_econnrefused),
		cmocka_unit_test(rrecv_peer_with_other_protocol_fails),
		cmocka_unit_test(rconnect_without_listener_fails_with_econnrefused),
		cmocka_unit_test(rconnect_host_without_response_fails_with_etimedout),
		cmocka_unit_test(raccept_removed_interface_fails),
		cmocka_unit_test(rrecv_dead_daemon_fails),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
