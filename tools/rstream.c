/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rstream: measures the throughput and latency of rsockets or sockets.
 *
 * The parameters of a test are a size, a number of transfers and a number of iterations. In each
 * iteration the client sends that many transfers of that size, and the server sends as many back.
 * Before each test both sides exchange a few bytes to synchronise. Without a custom test, rstream
 * uses two connections: the first to measure the latency of single transfers (lat), the second for
 * the throughput of consecutive transfers (bw), both with several sizes.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "stream.h"
#include "tool.h"

#define SYNC_BYTES 16

static struct options {
	const char *server; /* NULL: this program is the server */
	const char *local;
	const char *port;
	int buffer_bytes;
	int inline_bytes; /* -1: keep the default */
	int keepalive_s;  /* 0: no keepalive */
	bool is_custom;
	bool has_all_sizes;
	int size_bytes, transfers, iterations; /* of a custom test */
	bool is_async, is_blocking, forks, resolves_by_rdma, verifies;
} options = {
	.port = "7471",
	.buffer_bytes = 1 << 19,
	.inline_bytes = -1,
	.size_bytes = 1000,
	.transfers = 1000,
	.iterations = 1,
};

static const struct calls *calls = &rsocket_calls;
static struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
static struct rdma_addrinfo rdma_hints = {.ai_port_space = RDMA_PS_TCP};
static int listener = -1;
static int connection;
static uint8_t *buffer;

/* With verification: the next byte in each direction. The sequence continues from test to test. */
static uint8_t next_sent, next_received;

/* ---- Transfers ---- */

static int flags(void)
{
	return options.is_blocking ? MSG_WAITALL : MSG_DONTWAIT;
}

static int await(short what)
{
	return options.is_async ? calls_await(calls, connection, what) : 0;
}

static int send_bytes(int size)
{
	ssize_t moved;

	for (int i = 0; options.verifies && i < size; i++)
		buffer[i] = next_sent++;
	for (int done = 0; done < size;) {
		if (await(POLLOUT))
			return -1;
		moved = calls->send(connection, buffer + done, (size_t)(size - done), flags());
		if (moved > 0)
			done += (int)moved;
		else if (!calls_is_busy(moved))
			return tool_fail("rsend");
	}
	return 0;
}

static int receive_bytes(int size)
{
	ssize_t moved;

	for (int done = 0; done < size;) {
		if (await(POLLIN))
			return -1;
		moved = calls->recv(connection, buffer + done, (size_t)(size - done), flags());
		if (moved > 0) {
			done += (int)moved;
		} else if (moved == 0) {
			fprintf(stderr, "rrecv: the other side closed the connection\n");
			return -1;
		} else if (!calls_is_busy(moved)) {
			return tool_fail("rrecv");
		}
	}
	for (int i = 0; options.verifies && i < size; i++) {
		if (buffer[i] != next_received++) {
			printf("data verification failed byte %d\n", i);
			return -1;
		}
	}
	return 0;
}

/* Sends or receives one transfer. */
static int transfer(bool is_ours, int size)
{
	return is_ours ? send_bytes(size) : receive_bytes(size);
}

/* ---- Tests ---- */

static int run_test(const struct stream_test *test)
{
	bool is_client = options.server;
	uint64_t began_ns;

	if (transfer(is_client, SYNC_BYTES) || transfer(!is_client, SYNC_BYTES))
		return -1;
	began_ns = tool_now_ns();
	for (int i = 0; i < test->iterations; i++) {
		for (int n = 0; n < test->transfers; n++) {
			if (transfer(is_client, test->size_bytes))
				return -1;
		}
		for (int n = 0; n < test->transfers; n++) {
			if (transfer(!is_client, test->size_bytes))
				return -1;
		}
	}
	stream_print_result(test, tool_now_ns() - began_ns);
	return 0;
}

/* ---- Connecting ---- */

static int show_keepalive(int fd)
{
	socklen_t length = sizeof(int);
	int is_on = 0, time_s = 0;

	if (calls->getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is_on, &length) ||
	    calls->getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &time_s, &length))
		return tool_fail("getsockopt");
	printf("Keepalive: %s\n  time: %i\n", is_on ? "ON" : "OFF", time_s);
	return 0;
}

/*
 * The inline size is set before the connection; an accepted connection inherits it from the
 * listener.
 */
static int set_inline(int fd)
{
	bool is_accepted = fd == connection && !options.server;

	if (calls != &rsocket_calls || options.inline_bytes < 0 || is_accepted)
		return 0;
	return calls_set(calls, fd, SOL_RDMA, RDMA_INLINE, options.inline_bytes);
}

static int set_options(int fd)
{
	if (calls_set(calls, fd, SOL_SOCKET, SO_SNDBUF, options.buffer_bytes) ||
	    calls_set(calls, fd, SOL_SOCKET, SO_RCVBUF, options.buffer_bytes) ||
	    calls_set(calls, fd, IPPROTO_TCP, TCP_NODELAY, 1))
		return -1;
	if (!options.is_blocking && calls->set_nonblocking(fd))
		return tool_fail("fcntl");
	if (set_inline(fd))
		return -1;
	if (!options.keepalive_s)
		return 0;
	if (calls_set(calls, fd, SOL_SOCKET, SO_KEEPALIVE, 1) ||
	    calls_set(calls, fd, IPPROTO_TCP, TCP_KEEPIDLE, options.keepalive_s))
		return -1;
	return show_keepalive(fd);
}

/*
 * Resolves the address to listen on or to connect to. 0, or the error of getaddrinfo() or
 * rdma_getaddrinfo().
 */
static int address_find(struct sockaddr_storage *address, socklen_t *length)
{
	struct rdma_addrinfo *rdma_found;
	struct addrinfo *found;
	int error;

	memset(address, 0, sizeof(*address));
	if (options.resolves_by_rdma) {
		error = tool_endpoint(options.server, options.server ? NULL : options.local,
				      options.port, &rdma_hints, &rdma_found);
		if (!error) {
			*length = options.server ? rdma_found->ai_dst_len : rdma_found->ai_src_len;
			memcpy(address,
			       options.server ? rdma_found->ai_dst_addr : rdma_found->ai_src_addr,
			       *length);
			rdma_freeaddrinfo(rdma_found);
		}
	} else {
		hints.ai_flags |= options.server ? 0 : AI_PASSIVE;
		error = getaddrinfo(options.server ? options.server : options.local, options.port,
				    &hints, &found);
		if (!error) {
			*length = found->ai_addrlen;
			memcpy(address, found->ai_addr, found->ai_addrlen);
			freeaddrinfo(found);
		}
	}
	if (error)
		printf("getaddrinfo: %s\n", error == -1 ? strerror(errno) : gai_strerror(error));
	return error;
}

static int server_listen(void)
{
	struct sockaddr_storage address;
	socklen_t length;
	int error = address_find(&address, &length);

	if (error)
		return error;
	listener = calls->socket(address.ss_family, SOCK_STREAM, 0);
	if (listener < 0)
		return tool_fail("rsocket");
	if (calls_set(calls, listener, SOL_SOCKET, SO_REUSEADDR, 1))
		return -1;
	if (calls->bind(listener, (struct sockaddr *)&address, length))
		return tool_fail("rbind");
	return calls->listen(listener, 1) ? tool_fail("rlisten") : set_options(listener);
}

/* Accepts a connection. Returns 1 in the parent process if a child process serves the client. */
static int server_accept(void)
{
	pid_t child;

	connection = calls_accept(calls, listener);
	if (connection < 0)
		return -1;
	if (options.forks) {
		child = fork();
		if (child < 0)
			return tool_fail("fork");
		if (child > 0) {
			waitpid(child, NULL, 0);
			calls->close(connection);
			return 1;
		}
	}
	return set_options(connection);
}

static int bind_local(int fd, int family)
{
	struct addrinfo wanted = {.ai_family = family, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int error = getaddrinfo(options.local, NULL, &wanted, &found);

	if (error) {
		printf("getaddrinfo: %s\n", gai_strerror(error));
		return -1;
	}
	error = calls->bind(fd, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return error ? tool_fail("rbind") : 0;
}

static int client_connect(void)
{
	struct sockaddr_storage address;
	socklen_t length;
	int error = address_find(&address, &length);

	if (error)
		return error;
	connection = calls->socket(address.ss_family, SOCK_STREAM, 0);
	if (connection < 0)
		return tool_fail("rsocket");
	if (set_options(connection) || (options.local && bind_local(connection, address.ss_family)))
		return -1;
	if (!calls->connect(connection, (struct sockaddr *)&address, length))
		return 0;
	if (errno != EINPROGRESS || calls_finish_connect(calls, connection))
		return tool_fail("rconnect");
	return 0;
}

/* Establishes one connection and runs its tests. */
static int run_connection(bool is_latency)
{
	struct stream_test custom = {"custom", options.size_bytes, options.transfers,
				     options.iterations};
	int error = options.server ? client_connect() : server_accept();

	if (error > 0)
		return 0;
	if (!error && options.is_custom)
		error = run_test(&custom);
	else if (!error)
		error = stream_run_sizes(options.has_all_sizes, is_latency, run_test);
	if (connection >= 0) {
		calls->shutdown(connection, SHUT_RDWR);
		calls->close(connection);
	}
	if (options.forks && !options.server)
		exit(error ? EXIT_FAILURE : EXIT_SUCCESS);
	return error;
}

static int run(void)
{
	int size = options.is_custom ? options.size_bytes : STREAM_SIZE_MAX_BYTES;
	int error;

	buffer = calloc(1, (size_t)(size > SYNC_BYTES ? size : SYNC_BYTES));
	if (!buffer)
		return tool_fail("rstream");
	stream_print_heading();
	error = options.server ? 0 : server_listen();
	if (!error && !options.is_custom)
		error = run_connection(true);
	if (!error)
		error = run_connection(false);
	if (listener >= 0)
		calls->close(listener);
	free(buffer);
	return error;
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-s server_address]\n");
	printf("\t[-b bind_address]\n");
	printf("\t[-f address_format]\n\t    name, ip, ipv6, or gid\n");
	printf("\t[-B buffer_size]\n");
	printf("\t[-i inline_size]\n");
	printf("\t[-I iterations]\n");
	printf("\t[-C transfer_count]\n");
	printf("\t[-S transfer_size or all]\n");
	printf("\t[-p port_number]\n");
	printf("\t[-k keepalive_time]\n");
	printf("\t[-T test_option]\n");
	printf("\t    s|sockets - use standard tcp/ip sockets\n");
	printf("\t    a|async - asynchronous operation (use poll)\n");
	printf("\t    b|blocking - use blocking calls\n");
	printf("\t    f|fork - fork server processing\n");
	printf("\t    n|nonblocking - use nonblocking calls\n");
	printf("\t    r|resolve - use rdma cm to resolve address\n");
	printf("\t    v|verify - verify data\n");
	return EXIT_FAILURE;
}

/* Parses the argument of -T: a word or its first letter. */
static int parse_test_option(const char *typed)
{
	static const char *const words[] = {"sockets",	   "async",   "blocking", "fork",
					    "nonblocking", "resolve", "verify",	  NULL};

	switch (tool_word(typed, words)) {
	case 0:
		calls = &socket_calls;
		return 0;
	case 1:
		options.is_async = true;
		return 0;
	case 2:
		options.is_blocking = true;
		return 0;
	case 3:
		options.forks = true;
		calls = &socket_calls;
		return 0;
	case 4:
		options.is_blocking = false;
		return 0;
	case 5:
		options.resolves_by_rdma = true;
		return 0;
	case 6:
		options.verifies = true;
		return 0;
	default:
		return -1;
	}
}

static int parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:f:B:i:I:C:S:p:k:T:")) != -1) {
		switch (option) {
		case 's':
			options.server = optarg;
			break;
		case 'b':
			options.local = optarg;
			break;
		case 'f':
			tool_address_format(optarg, &rdma_hints);
			hints.ai_family = rdma_hints.ai_family;
			if (hints.ai_family)
				hints.ai_flags = AI_NUMERICHOST;
			break;
		case 'B':
			options.buffer_bytes = atoi(optarg);
			break;
		case 'i':
			options.inline_bytes = atoi(optarg);
			break;
		case 'I':
			options.is_custom = true;
			options.iterations = atoi(optarg);
			break;
		case 'C':
			options.is_custom = true;
			options.transfers = atoi(optarg);
			break;
		case 'S':
			if (strcasecmp(optarg, "all") == 0) {
				options.has_all_sizes = true;
				break;
			}
			options.is_custom = true;
			options.size_bytes = atoi(optarg);
			break;
		case 'p':
			options.port = optarg;
			break;
		case 'k':
			options.keepalive_s = atoi(optarg);
			break;
		case 'T':
			if (!parse_test_option(optarg))
				break;
			/* fall through */
		default:
			return usage(argv[0]);
		}
	}
	if (options.size_bytes < 1 || options.transfers < 1 || options.iterations < 1)
		return usage(argv[0]);
	return 0;
}

int main(int argc, char **argv)
{
	int error = parse(argc, argv);

	/* A disconnected peer is reported as EPIPE, not by SIGPIPE. */
	signal(SIGPIPE, SIG_IGN);
	return error ? error : run();
}
