/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udpong: measures the throughput and latency of datagrams over rsockets or UDP sockets.
 *
 * Each datagram begins with a struct header. The client logs in, and begins and ends each test with
 * a message that the server sends back. The client repeats a message without a response. During the
 * test the client sends datagrams that the server counts, or waits for the echo of each datagram.
 * The response to END contains the number that the server counted.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "tool.h"

#define DATAGRAM_MAX_BYTES (64 << 10)
#define REPEAT_MS	   500

enum operation { LOGIN, START, COUNT, ECHO, END };

struct header {
	uint8_t operation;
	uint8_t version;  /* 0 */
	uint8_t sequence; /* of messages with a response, which has the same sequence number */
	uint8_t reserved;
	__be32 count; /* in the response to END */
	uint64_t padding;
};

static struct options {
	const char *server; /* NULL: this program is the server */
	const char *local;
	const char *port;
	int buffer_bytes;
	bool is_custom;
	int size_bytes, transfers; /* of a custom test */
	bool is_async, is_blocking, echoes;
} options = {.port = "7174", .buffer_bytes = 1 << 19, .size_bytes = 1000, .transfers = 1000};

static const struct calls *calls = &rsocket_calls;
static int fd = -1;

static union {
	struct header header;
	uint8_t bytes[DATAGRAM_MAX_BYTES];
} out, in;

static int flags(void)
{
	return options.is_blocking ? 0 : MSG_DONTWAIT;
}

/* Waits for a datagram. 1: the socket is readable; 0: timeout; -1: error. */
static int wait_readable(int timeout_ms)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return calls->poll(&pollfd, 1, timeout_ms);
}

static int send_out(int size)
{
	ssize_t moved;

	do {
		if (options.is_async && calls_await(calls, fd, POLLOUT))
			return -1;
		moved = calls->send(fd, &out, (size_t)size, flags());
	} while (calls_is_busy(moved));
	return moved < 0 ? tool_fail("rsend") : 0;
}

/* ---- The client ---- */

/*
 * Waits for the response to the last message; late responses are ignored. 0: received; 1: timeout;
 * -1: error.
 */
static int take_answer(void)
{
	uint64_t deadline_ns = tool_now_ns() + REPEAT_MS * 1000000ull;
	ssize_t length;

	for (;;) {
		if (options.is_async && wait_readable(REPEAT_MS) < 0)
			return tool_fail("rpoll");
		length = calls->recv(fd, &in, sizeof(in), MSG_DONTWAIT);
		if (length >= (ssize_t)sizeof(in.header) &&
		    in.header.operation == out.header.operation &&
		    in.header.sequence == out.header.sequence)
			return 0;
		/* ECONNREFUSED is an ICMP error: the server's socket is not bound yet. */
		if (length < 0 && !calls_is_busy(length) && errno != ECONNREFUSED)
			return tool_fail("rrecv");
		if (tool_now_ns() > deadline_ns)
			return 1;
	}
}

/* Sends a message repeatedly until its response arrives. */
static int ask(enum operation operation, int size)
{
	int missing;

	out.header.operation = (uint8_t)operation;
	do {
		if (send_out(size) && errno != ECONNREFUSED)
			return -1;
		missing = take_answer();
	} while (missing > 0);
	return missing;
}

static int ask_next(enum operation operation, int size)
{
	out.header.sequence++;
	return ask(operation, size);
}

static void print_result(const char *name, int size_bytes, uint64_t transfers, uint64_t elapsed_ns)
{
	char size[TOOL_AMOUNT_BYTES], count[TOOL_AMOUNT_BYTES], total[TOOL_AMOUNT_BYTES];
	double seconds = (double)elapsed_ns / 1e9;

	tool_amount(size, (uint64_t)size_bytes, 1024);
	tool_amount(count, transfers, 1000);
	tool_amount(total, (uint64_t)size_bytes * transfers, 1024);
	printf("%-10s%-8s%-8s%-8s%8.2fs%10.2f%11.2f\n", name, size, count, total, seconds,
	       (double)transfers * size_bytes * 8 / seconds / 1e9,
	       seconds * 1e6 / (double)transfers);
	fflush(stdout);
}

static int run_test(const char *name, int size_bytes, int transfers, bool echoes)
{
	uint64_t began_ns, arrived;

	if (ask_next(START, sizeof(struct header)))
		return -1;
	began_ns = tool_now_ns();
	for (int i = 0; i < transfers; i++) {
		out.header.operation = COUNT;
		if (echoes ? ask_next(ECHO, size_bytes) : send_out(size_bytes))
			return -1;
	}
	if (ask_next(END, sizeof(struct header)))
		return -1;
	arrived = be32toh(in.header.count);
	print_result(name, size_bytes, echoes ? 2 * (uint64_t)transfers : arrived,
		     tool_now_ns() - began_ns);
	return 0;
}

/* Runs the latency tests with all sizes, then the throughput tests. */
static int run_sizes(void)
{
	static const int sizes[] = {64, 128, 192, 256, 384, 512, 768, 1024, 1536};
	char amount[TOOL_AMOUNT_BYTES], name[16];
	int count, size;

	for (int echoes = 1; echoes >= 0; echoes--) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			size = sizes[i];
			count = size < 1024 ? 100000 : 10000;
			tool_amount(amount, (uint64_t)size, 1024);
			snprintf(name, sizeof(name), "%.9s_%s", amount, echoes ? "lat" : "bw");
			if (run_test(name, size, echoes ? count / 10 : count, echoes))
				return -1;
		}
	}
	return 0;
}

/* Opens a socket for a resolved address and sets its options. */
static int open_socket(const struct addrinfo *found)
{
	fd = calls->socket(found->ai_family, SOCK_DGRAM, 0);
	if (fd < 0)
		return tool_fail("rsocket");
	if (calls_set(calls, fd, SOL_SOCKET, SO_SNDBUF, options.buffer_bytes) ||
	    calls_set(calls, fd, SOL_SOCKET, SO_RCVBUF, options.buffer_bytes))
		return -1;
	if (!options.is_blocking && calls->set_nonblocking(fd))
		return tool_fail("fcntl");
	return 0;
}

static int find(const char *name, int family, int find_flags, struct addrinfo **found)
{
	struct addrinfo hints = {
		.ai_family = family, .ai_socktype = SOCK_DGRAM, .ai_flags = find_flags};
	int error = getaddrinfo(name, options.port, &hints, found);

	if (!error)
		return 0;
	printf("getaddrinfo: %s\n", gai_strerror(error));
	return -1;
}

static int client_bind(int family)
{
	struct addrinfo *found;
	int error;

	if (find(options.local, family, 0, &found))
		return -1;
	((struct sockaddr_in *)found->ai_addr)->sin_port = 0;
	error = calls->bind(fd, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return error ? tool_fail("rbind") : 0;
}

static int client_connect(void)
{
	struct addrinfo *found;
	int error;

	if (find(options.server, AF_UNSPEC, 0, &found))
		return -1;
	error = open_socket(found);
	if (!error && options.local)
		error = client_bind(found->ai_family);
	if (!error && calls->connect(fd, found->ai_addr, found->ai_addrlen))
		error = tool_fail("rconnect");
	freeaddrinfo(found);
	return error;
}

static int client(void)
{
	if (client_connect() || ask(LOGIN, sizeof(struct header)))
		return -1;
	printf("name      bytes   xfers   total       time     Gb/sec    usec/xfer\n");
	fflush(stdout);
	if (!options.is_custom)
		return run_sizes();
	return run_test("custom", options.size_bytes, options.transfers, options.echoes);
}

/* ---- The server ---- */

/*
 * Sends the datagram back to its sender. If that is not possible now, it is dropped: the client
 * repeats its message.
 */
static int response(ssize_t length, const struct sockaddr_storage *client_address,
		    socklen_t address_length)
{
	ssize_t moved = calls->sendto(fd, &in, (size_t)length, flags(),
				      (const struct sockaddr *)client_address, address_length);

	return moved < 0 && !calls_is_busy(moved) && errno != ECONNREFUSED ? tool_fail("rsendto") :
									     0;
}

static int serve(void)
{
	struct sockaddr_storage client_address;
	socklen_t address_length;
	uint32_t count = 0;
	ssize_t length;

	for (;;) {
		address_length = sizeof(client_address);
		length = calls->recvfrom(fd, &in, sizeof(in), flags(),
					 (struct sockaddr *)&client_address, &address_length);
		if (calls_is_busy(length)) {
			wait_readable(-1);
			continue;
		}
		if (length < 0 && errno != ECONNREFUSED)
			return tool_fail("rrecvfrom");
		if (length < (ssize_t)sizeof(in.header) || in.header.version != 0)
			continue;
		if (in.header.operation == COUNT) {
			count++;
			continue;
		}
		if (in.header.operation == START)
			count = 0;
		if (in.header.operation == END)
			in.header.count = htobe32(count);
		if (response(length, &client_address, address_length))
			return -1;
	}
}

static int server(void)
{
	struct addrinfo *found;
	int error;

	if (find(options.local, AF_UNSPEC, AI_PASSIVE, &found))
		return -1;
	error = open_socket(found);
	if (!error && calls->bind(fd, found->ai_addr, found->ai_addrlen))
		error = tool_fail("rbind");
	freeaddrinfo(found);
	return error ? error : serve();
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage: %s\n", program);
	printf("\t[-s server_address]\n");
	printf("\t[-b bind_address]\n");
	printf("\t[-B buffer_size]\n");
	printf("\t[-C transfer_count]\n");
	printf("\t[-S transfer_size]\n");
	printf("\t[-p port_number]\n");
	printf("\t[-T test_option]\n");
	printf("\t    s|sockets - use standard tcp/ip sockets\n");
	printf("\t    a|async - asynchronous operation (use poll)\n");
	printf("\t    b|blocking - use blocking calls\n");
	printf("\t    n|nonblocking - use nonblocking calls\n");
	printf("\t    e|echo - server echoes all messages\n");
	return EXIT_FAILURE;
}

/* Parses the argument of -T: a word or its first letter. */
static int parse_test_option(const char *typed)
{
	static const char *const words[] = {"sockets",	   "async", "blocking",
					    "nonblocking", "echo",  NULL};

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
		options.is_blocking = false;
		return 0;
	case 4:
		options.echoes = true;
		return 0;
	default:
		return -1;
	}
}

static int parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:B:C:S:p:T:")) != -1) {
		switch (option) {
		case 's':
			options.server = optarg;
			break;
		case 'b':
			options.local = optarg;
			break;
		case 'B':
			options.buffer_bytes = atoi(optarg);
			break;
		case 'C':
			options.is_custom = true;
			options.transfers = atoi(optarg);
			break;
		case 'S':
			options.is_custom = true;
			options.size_bytes = atoi(optarg);
			break;
		case 'p':
			options.port = optarg;
			break;
		case 'T':
			if (!parse_test_option(optarg))
				break;
			/* fall through */
		default:
			return usage(argv[0]);
		}
	}
	if (options.size_bytes < (int)sizeof(struct header))
		options.size_bytes = sizeof(struct header);
	if (options.size_bytes > DATAGRAM_MAX_BYTES || options.transfers < 1)
		return usage(argv[0]);
	return 0;
}

int main(int argc, char **argv)
{
	int error = parse(argc, argv);

	if (error)
		return error;
	error = options.server ? client() : server();
	if (fd >= 0)
		calls->close(fd);
	return error;
}
