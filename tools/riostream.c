/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * riostream: measures the throughput and latency of riowrite(), which writes directly to the peer's
 * memory.
 *
 * Each side maps one buffer for its peer, and writes from its own buffer to the peer's. A side
 * polls the last byte of its buffer; its turn begins when the byte has the expected number. The
 * client's turns end with even numbers, the server's with odd numbers; the numbers increase. A turn
 * has several transfers; only the last one carries the new number.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "stream.h"
#include "tool.h"

#define SYNC_BYTES	16
#define NO_NUMBER	0xff
#define LOOKS_PER_CHECK 1000 /* number of polls of the buffer between checks of the connection */

/*
 * The peer writes to the buffer while this program reads it. This data race is intended, so
 * ThreadSanitizer is disabled.
 */
#define SHARED_WITH_PEER __attribute__((no_sanitize("thread")))

static struct options {
	const char *server; /* NULL: this program is the server */
	const char *local;
	const char *port;
	int buffer_bytes;
	int inline_bytes; /* -1: keep the default */
	bool is_custom;
	bool has_all_sizes;
	int size_bytes, transfers, iterations; /* of a custom test */
	bool is_async, is_blocking, verifies;
} options = {
	.port = "7471",
	.buffer_bytes = 1 << 19,
	.inline_bytes = -1,
	.size_bytes = 1000,
	.transfers = 1000,
	.iterations = 1,
};

static struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
static int listener = -1;
static int connection = -1;
static uint8_t *buffer;

/* With verification: the next byte in each direction. The sequence continues from turn to turn. */
static uint8_t next_sent, next_received;

/* ---- Transfers ---- */

static int flags(void)
{
	return options.is_blocking ? MSG_WAITALL : MSG_DONTWAIT;
}

static int await(short what)
{
	return options.is_async ? calls_await(&rsocket_calls, connection, what) : 0;
}

/*
 * Sends or receives the bytes that synchronise the start of a test. rdma-core's program receives
 * them into its mapped buffer, so they must differ from all valid numbers.
 */
static int sync_turn(bool is_ours)
{
	uint8_t bytes[SYNC_BYTES];
	ssize_t moved;

	memset(bytes, NO_NUMBER, sizeof(bytes));
	for (int done = 0; done < SYNC_BYTES;) {
		if (await(is_ours ? POLLOUT : POLLIN))
			return -1;
		moved = is_ours ? rsend(connection, bytes, (size_t)(SYNC_BYTES - done), flags()) :
				  rrecv(connection, bytes, (size_t)(SYNC_BYTES - done), flags());
		if (moved > 0)
			done += (int)moved;
		else if (!calls_is_busy(moved))
			return tool_fail(is_ours ? "rsend" : "rrecv");
	}
	return 0;
}

/* One transfer: writes the whole buffer to the peer's buffer. */
static int write_buffer(int size)
{
	ssize_t moved;

	for (int done = 0; done < size;) {
		if (await(POLLOUT))
			return -1;
		moved = (ssize_t)riowrite(connection, buffer + done, (size_t)(size - done), done,
					  flags());
		if (moved > 0)
			done += (int)moved;
		else if (!calls_is_busy(moved))
			return tool_fail("riowrite");
	}
	return 0;
}

SHARED_WITH_PEER static int take_turn(const struct stream_test *test, uint8_t number)
{
	for (int n = 0; n < test->transfers - 1; n++) {
		if (write_buffer(test->size_bytes))
			return -1;
	}
	for (int i = 0; options.verifies && i < test->size_bytes - 1; i++)
		buffer[i] = next_sent++;
	buffer[test->size_bytes - 1] = number;
	return write_buffer(test->size_bytes);
}

/* The peer sends no more data, so POLLIN means that the peer closed the connection. */
static int check_connection(void)
{
	struct pollfd fd = {.fd = connection, .events = POLLIN};

	if (rpoll(&fd, 1, 0) <= 0)
		return 0;
	fprintf(stderr, "the other side closed the connection\n");
	return -1;
}

/* Polls the memory: riowrite() of the peer causes no event here. */
SHARED_WITH_PEER static int await_turn(const struct stream_test *test, uint8_t number)
{
	volatile uint8_t *last = &buffer[test->size_bytes - 1];

	for (int looks = 1; *last != number; looks++) {
		if (looks % LOOKS_PER_CHECK != 0)
			continue;
		if (check_connection())
			return *last == number ? 0 : -1;
		sched_yield();
	}
	__sync_synchronize();
	for (int i = 0; options.verifies && i < test->size_bytes - 1; i++) {
		if (buffer[i] != next_received++) {
			printf("data verification failed byte %d\n", i);
			return -1;
		}
	}
	return 0;
}

/* ---- Tests ---- */

static int run_turns(const struct stream_test *test)
{
	bool is_client = options.server;
	uint8_t number = 0;

	for (int i = 0; i < test->iterations; i++) {
		for (int turn = 0; turn < 2; turn++, number++) {
			if ((turn == 0) == is_client ? take_turn(test, number) :
						       await_turn(test, number))
				return -1;
		}
	}
	return 0;
}

SHARED_WITH_PEER static int run_test(const struct stream_test *test)
{
	bool is_client = options.server;
	uint64_t began_ns;
	int error;

	buffer[test->size_bytes - 1] = NO_NUMBER;
	if (riomap(connection, buffer, (size_t)test->size_bytes, PROT_WRITE, 0, 0) < 0)
		return tool_fail("riomap");
	error = sync_turn(is_client) || sync_turn(!is_client) ? -1 : 0;
	began_ns = tool_now_ns();
	if (!error)
		error = run_turns(test);
	if (!error)
		stream_print_result(test, tool_now_ns() - began_ns);
	riounmap(connection, buffer, (size_t)test->size_bytes);
	return error;
}

/* ---- Connecting ---- */

/*
 * The inline size and the number of mappable buffers are set before the connection; an accepted
 * connection inherits them from the listener.
 */
static int set_queues(int fd)
{
	if (fd == connection && !options.server)
		return 0;
	if (options.inline_bytes >= 0 &&
	    calls_set(&rsocket_calls, fd, SOL_RDMA, RDMA_INLINE, options.inline_bytes))
		return -1;
	return calls_set(&rsocket_calls, fd, SOL_RDMA, RDMA_IOMAPSIZE, 1);
}

static int set_options(int fd)
{
	if (calls_set(&rsocket_calls, fd, SOL_SOCKET, SO_SNDBUF, options.buffer_bytes) ||
	    calls_set(&rsocket_calls, fd, SOL_SOCKET, SO_RCVBUF, options.buffer_bytes) ||
	    calls_set(&rsocket_calls, fd, IPPROTO_TCP, TCP_NODELAY, 1))
		return -1;
	if (set_queues(fd))
		return -1;
	return !options.is_blocking && rsocket_calls.set_nonblocking(fd) ? tool_fail("rfcntl") : 0;
}

static int find(const char *name, const char *port, int more_flags, struct addrinfo **found)
{
	struct addrinfo wanted = hints;
	int error;

	wanted.ai_flags |= more_flags;
	error = getaddrinfo(name, port, &wanted, found);
	if (error)
		printf("getaddrinfo: %s\n", gai_strerror(error));
	return error;
}

static int listen_at(const struct addrinfo *found)
{
	listener = rsocket(found->ai_family, SOCK_STREAM, 0);
	if (listener < 0)
		return tool_fail("rsocket");
	if (calls_set(&rsocket_calls, listener, SOL_SOCKET, SO_REUSEADDR, 1))
		return -1;
	if (rbind(listener, found->ai_addr, found->ai_addrlen))
		return tool_fail("rbind");
	return rlisten(listener, 1) ? tool_fail("rlisten") : set_options(listener);
}

static int server_listen(void)
{
	struct addrinfo *found;
	int error = find(options.local, options.port, AI_PASSIVE, &found);

	if (error)
		return error;
	error = listen_at(found);
	freeaddrinfo(found);
	return error;
}

static int server_accept(void)
{
	connection = calls_accept(&rsocket_calls, listener);
	return connection < 0 ? -1 : set_options(connection);
}

static int bind_local(void)
{
	struct addrinfo *found;
	int error;

	if (!options.local)
		return 0;
	if (find(options.local, NULL, 0, &found))
		return -1;
	error = rbind(connection, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return error ? tool_fail("rbind") : 0;
}

static int connect_to(const struct addrinfo *found)
{
	connection = rsocket(found->ai_family, SOCK_STREAM, 0);
	if (connection < 0)
		return tool_fail("rsocket");
	if (set_options(connection) || bind_local())
		return -1;
	if (!rconnect(connection, found->ai_addr, found->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS || calls_finish_connect(&rsocket_calls, connection))
		return tool_fail("rconnect");
	return 0;
}

static int client_connect(void)
{
	struct addrinfo *found;
	int error = find(options.server, options.port, 0, &found);

	if (error)
		return error;
	error = connect_to(found);
	freeaddrinfo(found);
	return error;
}

/* Establishes one connection and runs its tests. */
static int run_connection(bool is_latency)
{
	struct stream_test custom = {"custom", options.size_bytes, options.transfers,
				     options.iterations};
	int error = options.server ? client_connect() : server_accept();

	if (!error && options.is_custom)
		error = run_test(&custom);
	else if (!error)
		error = stream_run_sizes(options.has_all_sizes, is_latency, run_test);
	if (connection >= 0) {
		rshutdown(connection, SHUT_RDWR);
		rclose(connection);
	}
	return error;
}

static int run(void)
{
	int size = options.is_custom ? options.size_bytes : STREAM_SIZE_MAX_BYTES;
	int error;

	buffer = calloc(1, (size_t)size);
	if (!buffer)
		return tool_fail("riostream");
	stream_print_heading();
	error = options.server ? 0 : server_listen();
	if (!error && !options.is_custom)
		error = run_connection(true);
	if (!error)
		error = run_connection(false);
	if (listener >= 0)
		rclose(listener);
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
	printf("\t[-T test_option]\n");
	printf("\t    a|async - asynchronous operation (use poll)\n");
	printf("\t    b|blocking - use blocking calls\n");
	printf("\t    n|nonblocking - use nonblocking calls\n");
	printf("\t    v|verify - verify data\n");
	return EXIT_FAILURE;
}

/* Parses the argument of -T: a word or its first letter. */
static int parse_test_option(const char *typed)
{
	static const char *const words[] = {"async", "blocking", "nonblocking", "verify", NULL};

	switch (tool_word(typed, words)) {
	case 0:
		options.is_async = true;
		return 0;
	case 1:
		options.is_blocking = true;
		return 0;
	case 2:
		options.is_blocking = false;
		return 0;
	case 3:
		options.verifies = true;
		return 0;
	default:
		return -1;
	}
}

static void parse_format(const char *word)
{
	struct rdma_addrinfo format = {0};

	tool_address_format(word, &format);
	hints.ai_family = format.ai_family;
	hints.ai_flags = format.ai_family ? AI_NUMERICHOST : 0;
}

static void parse_size(const char *word)
{
	if (strcasecmp(word, "all") == 0) {
		options.has_all_sizes = true;
		return;
	}
	options.is_custom = true;
	options.size_bytes = atoi(word);
}

static int parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:f:B:i:I:C:S:p:T:")) != -1) {
		switch (option) {
		case 's':
			options.server = optarg;
			break;
		case 'b':
			options.local = optarg;
			break;
		case 'f':
			parse_format(optarg);
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
			parse_size(optarg);
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
	if (options.size_bytes < 1 || options.transfers < 1 || options.iterations < 1)
		return usage(argv[0]);
	return 0;
}

int main(int argc, char **argv)
{
	int error = parse(argc, argv);

	return error ? error : run();
}
