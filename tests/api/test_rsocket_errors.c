/* SPDX-License-Identifier: BSD-2-Clause */
/* Errnos that the pages of rsocket.h name and that no other test of rsockets is about. */
#include "host.h"
#include "rsocket_fixture.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define NEIGHBOUR     "10.77.0.77" /* on own0's network, and says nothing */
#define STRANGER      "192.0.2.1"
#define PRIVILEGED    7
#define CM_PATIENCE_S "1"

static void no_descriptor_is_left(void **state)
{
	struct rlimit before, none = {0};

	(void)state;
	rs_close(rs_stream(AF_INET));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_minus1_errno(rsocket(AF_INET, SOCK_STREAM, 0), EMFILE);
	assert_minus1_errno(rsocket(AF_INET, SOCK_DGRAM, 0), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_port_of_root(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", PRIVILEGED);
	int fd = rs_stream(AF_INET);

	(void)state;
	if (geteuid() == 0)
		skip();
	assert_minus1_errno(rbind(fd, rs_sa(&addr), rs_addr_bytes(&addr)), EACCES);
	rs_close(fd);
}

/* Both may be bound, one may listen. */
static void one_listener_a_port(void **state)
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

/* A call that waits and says whether it was interrupted, by a signal that comes until it counts. */
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
	return (void *)(intptr_t)says_minus1(raccept(*(int *)fd, NULL, NULL), EINTR);
}

static void *receive_from(void *fd)
{
	char byte;

	return (void *)(intptr_t)says_minus1(rrecv(*(int *)fd, &byte, 1, 0), EINTR);
}

static void *send_to(void *fd)
{
	char byte = 0;

	return (void *)(intptr_t)says_minus1(rsend(*(int *)fd, &byte, 1, 0), EINTR);
}

static void *poll_it(void *fd)
{
	struct pollfd pollfd = {.fd = *(int *)fd, .events = POLLIN};

	return (void *)(intptr_t)says_minus1(rpoll(&pollfd, 1, -1), EINTR);
}

static void *select_it(void *fd)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(*(int *)fd, &in);
	return (void *)(intptr_t)says_minus1(rselect(*(int *)fd + 1, &in, NULL, NULL, NULL), EINTR);
}

static void *connect_to_nobody(void *fd)
{
	struct sockaddr_storage far = rs_addr(NEIGHBOUR, 4711);

	return (void *)(intptr_t)says_minus1(rconnect(*(int *)fd, rs_sa(&far), rs_addr_bytes(&far)),
					     EINTR);
}

static void fill(int fd)
{
	static const char bytes[4096];

	while (rsend(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
}

static void signals_interrupt(void **state)
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

static void what_cannot_be_asked(void **state)
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

/* An array that is too long for any process is not looked at. */
static void too_many_to_poll(void **state)
{
	struct pollfd pollfd = {.fd = 0};

	(void)state;
	assert_minus1_errno(rpoll(&pollfd, (nfds_t)INT_MAX + 1, 0), EINVAL);
}

static void a_datagram_too_long(void **state)
{
	static const char bytes[100000];
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 4711);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	assert_int_equal(rconnect(fd, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_minus1_errno(rsend(fd, bytes, sizeof(bytes), 0), EMSGSIZE);
	rs_close(fd);
}

static void nobody_takes_the_datagram(void **state)
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

/* A peer that opens as an rsocket does, by saying what it was told, and then sends what no rsocket sends. */
static void a_peer_of_another_tongue(void **state)
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

static void nobody_is_there(void **state)
{
	struct sockaddr_storage far = rs_addr(STRANGER, 4711);
	socklen_t bytes = rs_addr_bytes(&far);
	int fd = rs_stream(AF_INET), dgram = rsocket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	host_needed();
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), ENETUNREACH);
	assert_minus1_errno(rsendto(dgram, "x", 1, 0, rs_sa(&far), bytes), ENETUNREACH);
	host_ip("route add unreachable " STRANGER "/32");
	assert_minus1_errno(rconnect(fd, rs_sa(&far), bytes), EHOSTUNREACH);
	host_ip("route del unreachable " STRANGER "/32");
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

/* SO_SNDTIMEO, which is for connecting too (socket(7)). */
static void set_patience(int fd, unsigned int milliseconds)
{
	struct timeval time = {.tv_usec = (suseconds_t)milliseconds * 1000};

	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)), 0);
}

/* A neighbour that was there a moment ago, as far as this host knows. */
static void nobody_answers(void **state)
{
	struct sockaddr_storage far = rs_addr(NEIGHBOUR, 4711);
	socklen_t bytes = rs_addr_bytes(&far);
	int fd, sender, receiver;
	char byte = 0;

	(void)state;
	host_needed();
	host_ip("neigh add " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	fd = rs_stream(AF_INET);
	is_interrupted(connect_to_nobody, &fd);
	/* Who may wait then waits for what was begun, as who begins again after EINTR wants. */
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

/* An address is an interface's: without that, nobody can come. */
static void the_interface_of_a_listener_goes(void **state)
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
	/* No event tells of an interface that is new. */
	while (rbind(listener, rs_sa(&addr), rs_addr_bytes(&addr))) {
		assert_true(errno == EADDRNOTAVAIL || errno == ENODEV);
		poll(NULL, 0, 10);
	}
	assert_int_equal(rlisten(listener, 1), 0);
	host_ip("link del brief0");
	assert_true(rs_await(listener, POLLIN) & POLLERR);
	assert_minus1_errno(raccept(listener, NULL, NULL), ENETDOWN);
	rs_close(listener);
}

/* The last one: whatever comes afterwards has another daemon. */
static void the_daemon_dies(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	struct sockaddr_storage far = rs_addr(NEIGHBOUR, 4711);
	struct streams streams;
	int connecting[3], dgram, bound = rs_stream(AF_INET);
	char byte = 0;

	(void)state;
	host_needed();
	host_ip("neigh add " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	streams_open(&streams);
	for (int i = 0; i < 3; i++)
		connecting[i] = begin(NEIGHBOUR);
	host_kill_daemon();
	for (int i = 0; i < 3; i++)
		assert_true(rs_await(connecting[i], POLLOUT) & POLLERR);
	assert_minus1_errno(rconnect(connecting[0], rs_sa(&far), rs_addr_bytes(&far)), ENETDOWN);
	assert_minus1_errno(rrecv(connecting[1], &byte, 1, 0), ENETDOWN);
	assert_minus1_errno(rsend(connecting[2], &byte, 1, 0), ENETDOWN);
	/* Nobody will come any more, which who waits for somebody hears. */
	assert_true(rs_await(streams.listener, POLLIN) & POLLERR);
	assert_minus1_errno(raccept(streams.listener, NULL, NULL), ENETDOWN);
	/* A connection breaks by it, too. */
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
	for (int i = 0; i < 3; i++)
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
		cmocka_unit_test(no_descriptor_is_left),
		cmocka_unit_test(a_port_of_root),
		cmocka_unit_test(one_listener_a_port),
		cmocka_unit_test(signals_interrupt),
		cmocka_unit_test(what_cannot_be_asked),
		cmocka_unit_test(too_many_to_poll),
		cmocka_unit_test(a_datagram_too_long),
		cmocka_unit_test(nobody_takes_the_datagram),
		cmocka_unit_test(a_peer_of_another_tongue),
		cmocka_unit_test(nobody_is_there),
		cmocka_unit_test(nobody_answers),
		cmocka_unit_test(the_interface_of_a_listener_goes),
		cmocka_unit_test(the_daemon_dies),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
