/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTOR_ARGUMENT "--connect"

/* How rsockets get an address and a peer, and the errors of each call. */

static void rsocket_unsupported_type_fails(void **state)
{
	(void)state;
	assert_minus1_errno(rsocket(AF_UNIX, SOCK_STREAM, 0), EOPNOTSUPP);
	assert_minus1_errno(rsocket(AF_INET, SOCK_RAW, 0), EOPNOTSUPP);
	assert_minus1_errno(rsocket(AF_INET6, SOCK_SEQPACKET, 0), EOPNOTSUPP);
	assert_minus1_errno(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EOPNOTSUPP);
	assert_minus1_errno(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EOPNOTSUPP);
}

static void rsocket_type_flags_are_kept(void **state)
{
	int fd = rsocket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);

	(void)state;
	assert_true(fd >= 0);
	assert_true(rfcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(rfcntl(fd, F_GETFD), FD_CLOEXEC);
	rs_close(fd);
	fd = rs_stream(AF_INET);
	assert_int_equal(rfcntl(fd, F_GETFL), O_RDWR);
	assert_int_equal(rfcntl(fd, F_GETFD), 0);
	assert_minus1_errno(rfcntl(fd, F_DUPFD, 0), ENOTSUP);
	rs_close(fd);
}

/* Every call fails for ordinary descriptors and closed rsockets. */
static void assert_is_none(int fd)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	socklen_t bytes = sizeof(addr);
	struct iovec iov = {&addr, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	char byte = 0;
	int value = 0;

	assert_minus1_errno(rclose(fd), EBADF);
	assert_minus1_errno(rbind(fd, rs_sa(&addr), bytes), EBADF);
	assert_minus1_errno(rlisten(fd, 1), EBADF);
	assert_minus1_errno(raccept(fd, NULL, NULL), EBADF);
	assert_minus1_errno(rconnect(fd, rs_sa(&addr), bytes), EBADF);
	assert_minus1_errno(rshutdown(fd, SHUT_RDWR), EBADF);
	assert_minus1_errno(rrecv(fd, &byte, 1, 0), EBADF);
	assert_minus1_errno(rrecvfrom(fd, &byte, 1, 0, NULL, NULL), EBADF);
	assert_minus1_errno(rrecvmsg(fd, &msg, 0), EBADF);
	assert_minus1_errno(rread(fd, &byte, 1), EBADF);
	assert_minus1_errno(rreadv(fd, &iov, 1), EBADF);
	assert_minus1_errno(rsend(fd, &byte, 1, 0), EBADF);
	assert_minus1_errno(rsendto(fd, &byte, 1, 0, rs_sa(&addr), bytes), EBADF);
	assert_minus1_errno(rsendmsg(fd, &msg, 0), EBADF);
	assert_minus1_errno(rwrite(fd, &byte, 1), EBADF);
	assert_minus1_errno(rwritev(fd, &iov, 1), EBADF);
	assert_minus1_errno(rgetpeername(fd, rs_sa(&addr), &bytes), EBADF);
	assert_minus1_errno(rgetsockname(fd, rs_sa(&addr), &bytes), EBADF);
	assert_minus1_errno(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value)),
			    EBADF);
	bytes = sizeof(value);
	assert_minus1_errno(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &bytes), EBADF);
	assert_minus1_errno(rfcntl(fd, F_GETFL), EBADF);
	assert_minus1_errno((int)riomap(fd, &byte, 1, PROT_WRITE, 0, -1), EBADF);
	assert_minus1_errno(riounmap(fd, &byte, 1), EBADF);
	assert_minus1_errno((ssize_t)riowrite(fd, &byte, 1, 0, 0), EBADF);
}

static void rbind_other_descriptor_fails(void **state)
{
	int fd = rs_stream(AF_INET);

	(void)state;
	assert_is_none(0);
	assert_is_none(-1);
	assert_is_none(1 << 30);
	rs_close(fd);
	assert_is_none(fd);
}

static void rbind_invalid_address_fails(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0), six = rs_addr("::1", 0);
	struct sockaddr_storage foreign = rs_addr("192.0.2.1", 0);
	socklen_t bytes = sizeof(addr);
	int fd = rs_stream(AF_INET), other = rs_stream(AF_INET);

	(void)state;
	assert_minus1_errno(rbind(fd, rs_sa(&six), sizeof(six)), EAFNOSUPPORT);
	assert_minus1_errno(rbind(fd, rs_sa(&addr), 7), EINVAL);
	assert_minus1_errno(rbind(fd, NULL, sizeof(addr)), EINVAL);
	assert_minus1_errno(rbind(fd, rs_sa(&foreign), sizeof(foreign)), EADDRNOTAVAIL);
	assert_int_equal(rbind(fd, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_minus1_errno(rbind(fd, rs_sa(&addr), rs_addr_bytes(&addr)), EINVAL);
	assert_int_equal(rgetsockname(fd, rs_sa(&addr), &bytes), 0);
	assert_int_equal(bytes, sizeof(struct sockaddr_in));
	assert_int_not_equal(((struct sockaddr_in *)&addr)->sin_port, 0);
	assert_minus1_errno(rbind(other, rs_sa(&addr), bytes), EADDRINUSE);
	rs_close(fd);
	assert_int_equal(rbind(other, rs_sa(&addr), bytes), 0);
	rs_close(other);
}

static void rbind_reuseaddr_shares_address(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int fd = rs_stream(AF_INET), other = rs_stream(AF_INET);
	socklen_t bytes = sizeof(addr);

	(void)state;
	rs_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	rs_set(other, SOL_SOCKET, SO_REUSEADDR, 1);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_REUSEADDR), 1);
	assert_int_equal(rbind(fd, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_int_equal(rgetsockname(fd, rs_sa(&addr), &bytes), 0);
	assert_int_equal(rbind(other, rs_sa(&addr), bytes), 0);
	rs_close(fd);
	rs_close(other);
}

static void rgetsockname_unbound_returns_wildcard(void **state)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);
	int fd = rs_stream(AF_INET6);

	(void)state;
	assert_int_equal(rgetsockname(fd, rs_sa(&addr), &bytes), 0);
	assert_int_equal(bytes, sizeof(struct sockaddr_in6));
	assert_int_equal(addr.ss_family, AF_INET6);
	assert_int_equal(((struct sockaddr_in6 *)&addr)->sin6_port, 0);
	assert_minus1_errno(rgetpeername(fd, rs_sa(&addr), &bytes), ENOTCONN);
	assert_minus1_errno(rgetsockname(fd, NULL, &bytes), EFAULT);
	assert_minus1_errno(rgetsockname(fd, rs_sa(&addr), NULL), EFAULT);
	rs_close(fd);
}

static void rgetpeername_both_sides_agree(void **state)
{
	static const char *const texts[] = {"127.0.0.1", "::1"};
	struct sockaddr_storage here, there;
	socklen_t here_bytes, there_bytes;
	struct streams streams;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		streams_open_at(&streams, texts[i], NULL);
		here_bytes = there_bytes = sizeof(here);
		memset(&here, 0, sizeof(here));
		memset(&there, 0, sizeof(there));
		assert_int_equal(rgetsockname(streams.active, rs_sa(&here), &here_bytes), 0);
		assert_int_equal(rgetpeername(streams.passive, rs_sa(&there), &there_bytes), 0);
		assert_int_equal(here_bytes, there_bytes);
		assert_memory_equal(&here, &there, here_bytes);
		there_bytes = sizeof(there);
		assert_int_equal(rgetpeername(streams.active, rs_sa(&there), &there_bytes), 0);
		assert_memory_equal(&there, &streams.addr, there_bytes);
		/* The address is truncated to the length of the buffer. */
		there_bytes = 2;
		assert_int_equal(rgetpeername(streams.active, rs_sa(&there), &there_bytes), 0);
		assert_int_equal(there_bytes, rs_addr_bytes(&streams.addr));
		streams_close(&streams);
	}
}

/* Connects over the address of an interface, if the lab has one. */
static void rconnect_interface_address_succeeds(void **state)
{
	struct ifaddrs *list;
	char text[INET_ADDRSTRLEN];
	struct streams streams;

	(void)state;
	assert_int_equal(getifaddrs(&list), 0);
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
		const struct sockaddr_in *in = (const void *)ifa->ifa_addr;

		if (!in || in->sin_family != AF_INET ||
		    ntohl(in->sin_addr.s_addr) == INADDR_LOOPBACK)
			continue;
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		streams_open_at(&streams, text, NULL);
		rs_send_pattern(streams.active, 1000, 1);
		rs_receive_pattern(streams.passive, 1000, 1);
		streams_close(&streams);
		break;
	}
	freeifaddrs(list);
}

/*
 * A listener of both families gets IPv4 connections with mapped addresses; an IPv6-only listener
 * does not get them.
 */
static void raccept_ipv4_peer_of_ipv6_listener_has_mapped_address(void **state)
{
	struct sockaddr_storage any = rs_addr("::", 0), mapped = rs_addr("::ffff:127.0.0.1", 0);
	struct sockaddr_storage peer;
	socklen_t bytes = sizeof(any);
	int listener = rs_stream(AF_INET6);
	int client = rs_stream(AF_INET6);
	int served;

	(void)state;
	rs_set(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	assert_int_equal(rbind(listener, rs_sa(&any), sizeof(struct sockaddr_in6)), 0);
	assert_int_equal(rlisten(listener, 1), 0);
	assert_int_equal(rgetsockname(listener, rs_sa(&any), &bytes), 0);
	((struct sockaddr_in6 *)&mapped)->sin6_port = ((struct sockaddr_in6 *)&any)->sin6_port;
	assert_int_equal(rconnect(client, rs_sa(&mapped), sizeof(struct sockaddr_in6)), 0);
	served = rs_accept(listener);
	bytes = sizeof(peer);
	assert_int_equal(rgetpeername(served, rs_sa(&peer), &bytes), 0);
	assert_int_equal(bytes, sizeof(struct sockaddr_in6));
	assert_true(IN6_IS_ADDR_V4MAPPED(&((struct sockaddr_in6 *)&peer)->sin6_addr));
	rs_close(client);
	rs_close(served);
	rs_close(listener);
}

static void rlisten_v6only_rejects_ipv4(void **state)
{
	struct sockaddr_storage any = rs_addr("::", 0), four = rs_addr("127.0.0.1", 0);
	socklen_t bytes = sizeof(any);
	int listener = rs_stream(AF_INET6);
	int client = rs_stream(AF_INET);
	int on = 1;

	(void)state;
	rs_set(listener, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	assert_int_equal(rbind(listener, rs_sa(&any), sizeof(struct sockaddr_in6)), 0);
	assert_int_equal(rlisten(listener, 1), 0);
	assert_int_equal(rgetsockname(listener, rs_sa(&any), &bytes), 0);
	((struct sockaddr_in *)&four)->sin_port = ((struct sockaddr_in6 *)&any)->sin6_port;
	assert_minus1_errno(rconnect(client, rs_sa(&four), sizeof(struct sockaddr_in)),
			    ECONNREFUSED);
	assert_minus1_errno(rsetsockopt(client, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)),
			    ENOPROTOOPT);
	rs_close(client);
	rs_close(listener);
}

static void rlisten_in_wrong_state_fails(void **state)
{
	struct streams streams;
	int fd;

	(void)state;
	streams_open(&streams);
	assert_minus1_errno(rlisten(streams.active, 1), EINVAL);
	assert_minus1_errno(raccept(streams.active, NULL, NULL), EINVAL);
	assert_int_equal(rlisten(streams.listener, 3), 0);
	fd = rs_stream(AF_INET);
	assert_minus1_errno(raccept(fd, NULL, NULL), EINVAL);
	rs_nonblocking(streams.listener);
	assert_minus1_errno(raccept(streams.listener, NULL, NULL), EAGAIN);
	assert_minus1_errno(raccept(streams.listener, rs_sa(&streams.addr), NULL), EFAULT);
	rs_close(fd);
	streams_close(&streams);
}

/* rlisten() on an unbound rsocket assigns a port. */
static void rlisten_unbound_assigns_port(void **state)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);
	int listener = rs_stream(AF_INET), client, served;

	(void)state;
	assert_int_equal(rlisten(listener, 0), 0);
	assert_int_equal(rs_get(listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
	assert_int_equal(rgetsockname(listener, rs_sa(&addr), &bytes), 0);
	assert_int_not_equal(((struct sockaddr_in *)&addr)->sin_port, 0);
	((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	client = rs_connect(&addr);
	served = rs_accept(listener);
	rs_close(client);
	rs_close(served);
	rs_close(listener);
}

static void rconnect_invalid_argument_fails(void **state)
{
	struct sockaddr_storage nobody = rs_addr("127.0.0.1", 1), six = rs_addr("::1", 1);
	struct streams streams;
	int fd = rs_stream(AF_INET);

	(void)state;
	assert_minus1_errno(rconnect(fd, rs_sa(&six), sizeof(six)), EAFNOSUPPORT);
	assert_minus1_errno(rconnect(fd, rs_sa(&nobody), 3), EINVAL);
	assert_minus1_errno(rconnect(fd, rs_sa(&nobody), sizeof(nobody)), ECONNREFUSED);
	/* The error was returned already, so SO_ERROR is 0; the rsocket may connect again. */
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_ERROR), 0);
	assert_minus1_errno(rconnect(fd, rs_sa(&nobody), sizeof(nobody)), ECONNREFUSED);
	streams_open(&streams);
	assert_int_equal(rconnect(fd, rs_sa(&streams.addr), streams.addr_bytes), 0);
	assert_minus1_errno(rconnect(fd, rs_sa(&streams.addr), streams.addr_bytes), EISCONN);
	assert_minus1_errno(rconnect(streams.listener, rs_sa(&streams.addr), streams.addr_bytes),
			    EISCONN);
	assert_minus1_errno(rconnect(streams.passive, rs_sa(&streams.addr), streams.addr_bytes),
			    EISCONN);
	rs_close(fd);
	streams_close(&streams);
}

static void rconnect_nonblocking_completes_later(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 1);
	int client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int served;

	(void)state;
	assert_minus1_errno(rconnect(client, rs_sa(&addr), sizeof(addr)), EINPROGRESS);
	assert_true(rs_await(client, POLLOUT) & POLLOUT);
	assert_int_equal(rs_get(client, SOL_SOCKET, SO_ERROR), 0);
	/* As with TCP, the next call returns 0. */
	assert_int_equal(rconnect(client, rs_sa(&addr), sizeof(addr)), 0);
	assert_minus1_errno(rconnect(client, rs_sa(&addr), sizeof(addr)), EISCONN);
	served = rs_accept(listener);
	rs_close(client);
	rs_close(served);
	rs_close(listener);
}

static void rconnect_nonblocking_failure_sets_so_error(void **state)
{
	struct sockaddr_storage nobody = rs_addr("127.0.0.1", 1);
	int client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	char byte = 0;

	(void)state;
	assert_minus1_errno(rconnect(client, rs_sa(&nobody), sizeof(nobody)), EINPROGRESS);
	assert_int_equal(rs_await(client, POLLOUT), POLLOUT | POLLERR | POLLHUP);
	assert_int_equal(rs_get(client, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
	assert_int_equal(rs_get(client, SOL_SOCKET, SO_ERROR), 0);
	assert_minus1_errno(rsend(client, &byte, 1, 0), ENOTCONN);
	rs_close(client);
}

/* The connection is established without a further call of the program. */
static void rconnect_nonblocking_completes_without_calls(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 1);
	int client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int served;

	(void)state;
	assert_minus1_errno(rconnect(client, rs_sa(&addr), sizeof(addr)), EINPROGRESS);
	served = rs_accept(listener);
	rs_send_pattern(served, 100, 1);
	assert_true(rs_await(client, POLLIN) & POLLIN);
	rs_receive_pattern(client, 100, 1);
	rs_close(client);
	rs_close(served);
	rs_close(listener);
}

/* More connections than the backlog wait in the daemon, and all are accepted. */
static void rlisten_short_backlog_accepts_many(void **state)
{
	enum { CLIENTS = 12 };
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 2);
	int clients[CLIENTS], served[CLIENTS];
	uint8_t sum = 0;

	(void)state;
	for (uint8_t i = 0; i < CLIENTS; i++) {
		clients[i] = rs_connect(&addr);
		/* The last two entries of the backlog are always in use. */
		if (i >= 1)
			served[i - 1] = rs_accept(listener);
		assert_int_equal(rsend(clients[i], &i, 1, 0), 1);
	}
	served[CLIENTS - 1] = rs_accept(listener);
	for (int i = 0; i < CLIENTS; i++) {
		uint8_t byte;

		assert_int_equal(rrecv(served[i], &byte, 1, 0), 1);
		sum = (uint8_t)(sum + byte);
	}
	assert_int_equal(sum, CLIENTS * (CLIENTS - 1) / 2);
	for (int i = 0; i < CLIENTS; i++) {
		rs_close(clients[i]);
		rs_close(served[i]);
	}
	rs_close(listener);
}

/* A connection in the backlog is reset when the listener is closed. */
static void rclose_listener_resets_pending_connections(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 4);
	int client = rs_connect(&addr);
	char byte;

	(void)state;
	rs_close(listener);
	assert_true(rs_await(client, POLLIN) & POLLERR);
	assert_minus1_errno(rrecv(client, &byte, 1, 0), ECONNRESET);
	rs_close(client);
}

static void *accept_forever(void *arg)
{
	int *listener = arg;

	return raccept(*listener, NULL, NULL) < 0 ? (void *)(intptr_t)errno : NULL;
}

static void rshutdown_listener_wakes_raccept(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 4);
	int client;
	pthread_t thread;
	void *ret;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, accept_forever, &listener), 0);
	assert_int_equal(rshutdown(listener, SHUT_RDWR), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, EINVAL);
	client = rs_stream(AF_INET);
	assert_minus1_errno(rconnect(client, rs_sa(&addr), sizeof(addr)), ECONNREFUSED);
	/* It may listen again at its bound address. */
	assert_int_equal(rlisten(listener, 4), 0);
	assert_int_equal(rconnect(client, rs_sa(&addr), sizeof(addr)), 0);
	rs_close(client);
	rs_close(listener);
}

static void rclose_listener_wakes_raccept(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 4);
	pthread_t thread;
	void *ret;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, accept_forever, &listener), 0);
	rs_close(listener);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, EBADF);
}

/*
 * Another process creates an rsocket, connects it to the address that it reads from its standard
 * input, and returns the result as its exit status. It is a separate program, because
 * ThreadSanitizer does not support threads in a child of fork().
 */
static int connect_when_told(void)
{
	struct sockaddr_storage addr;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	alarm(PATIENCE_MS / 1000);
	if (fd < 0 || read(STDIN_FILENO, &addr, sizeof(addr)) != sizeof(addr))
		return 255;
	return rconnect(fd, rs_sa(&addr), rs_addr_bytes(&addr)) ? errno : 0;
}

/* Starts that process; *address_fd is the other end of its standard input. */
static pid_t start_connector(int *address_fd)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (dup2(ends[0], STDIN_FILENO) == STDIN_FILENO)
			execl("/proc/self/exe", "connector", CONNECTOR_ARGUMENT, NULL);
		_exit(254);
	}
	close(ends[0]);
	*address_fd = ends[1];
	return pid;
}

/* A listener answers every request, also if it has no descriptor for the connection. */
static void raccept_without_descriptor_rejects_peer(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_listen(&addr, 4);
	struct rlimit before, none = {0};
	int address_fd, status, client, served;
	pid_t pid = start_connector(&address_fd);

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(write(address_fd, &addr, sizeof(addr)), sizeof(addr));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), ECONNREFUSED);
	close(address_fd);
	/* It accepts connections again when descriptors are free. */
	client = rs_connect(&addr);
	served = rs_accept(listener);
	rs_close(client);
	rs_close(served);
	rs_close(listener);
}

/* Accepted rsockets inherit the options of the listener, except O_NONBLOCK. */
static void raccept_inherits_options(void **state)
{
	struct sockaddr_storage addr = rs_addr("127.0.0.1", 0);
	int listener = rs_stream(AF_INET);
	int client, served;
	socklen_t bytes = sizeof(addr);

	(void)state;
	rs_set(listener, SOL_SOCKET, SO_RCVBUF, 100000);
	rs_set(listener, IPPROTO_TCP, TCP_NODELAY, 1);
	rs_set(listener, SOL_RDMA, RDMA_SQSIZE, 64);
	rs_nonblocking(listener);
	assert_int_equal(rbind(listener, rs_sa(&addr), rs_addr_bytes(&addr)), 0);
	assert_int_equal(rlisten(listener, 4), 0);
	assert_int_equal(rgetsockname(listener, rs_sa(&addr), &bytes), 0);
	client = rs_connect(&addr);
	served = rs_accept(listener);
	assert_int_equal(rs_get(served, SOL_SOCKET, SO_RCVBUF), 200000);
	assert_int_equal(rs_get(served, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(rs_get(served, SOL_RDMA, RDMA_SQSIZE), 64);
	assert_int_equal(rs_get(served, SOL_SOCKET, SO_ACCEPTCONN), 0);
	assert_false(rfcntl(served, F_GETFL) & O_NONBLOCK);
	rs_close(client);
	rs_close(served);
	rs_close(listener);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsocket_unsupported_type_fails),
		cmocka_unit_test(rsocket_type_flags_are_kept),
		cmocka_unit_test(rbind_other_descriptor_fails),
		cmocka_unit_test(rbind_invalid_address_fails),
		cmocka_unit_test(rbind_reuseaddr_shares_address),
		cmocka_unit_test(rgetsockname_unbound_returns_wildcard),
		cmocka_unit_test(rgetpeername_both_sides_agree),
		cmocka_unit_test(rconnect_interface_address_succeeds),
		cmocka_unit_test(raccept_ipv4_peer_of_ipv6_listener_has_mapped_address),
		cmocka_unit_test(rlisten_v6only_rejects_ipv4),
		cmocka_unit_test(rlisten_in_wrong_state_fails),
		cmocka_unit_test(rlisten_unbound_assigns_port),
		cmocka_unit_test(rconnect_invalid_argument_fails),
		cmocka_unit_test(rconnect_nonblocking_completes_later),
		cmocka_unit_test(rconnect_nonblocking_failure_sets_so_error),
		cmocka_unit_test(rconnect_nonblocking_completes_without_calls),
		cmocka_unit_test(rlisten_short_backlog_accepts_many),
		cmocka_unit_test(rclose_listener_resets_pending_connections),
		cmocka_unit_test(rshutdown_listener_wakes_raccept),
		cmocka_unit_test(rclose_listener_wakes_raccept),
		cmocka_unit_test(raccept_without_descriptor_rejects_peer),
		cmocka_unit_test(raccept_inherits_options),
	};

	if (argc > 1 && !strcmp(argv[1], CONNECTOR_ARGUMENT))
		return connect_when_told();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
