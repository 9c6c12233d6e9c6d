/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ping-pong of UDP datagrams between two processes that poll nonblocking sockets. Prints the median
 * of half of the round-trip time, as perftest's latency tests do (t_typical).
 *
 *	bench-udp PORT					the server, for one client
 *	bench-udp PORT HOST BYTES ROUND-TRIPS		the client
 *
 * The client ends the server with an empty datagram. Datagrams are not sent again: the client fails
 * if no reply arrives within a second.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BYTES_MAX  65507u
#define WARM_UP	   1000u
#define TIMEOUT_NS 1000000000u

static uint8_t datagram[BYTES_MAX];

static void require(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void server(uint16_t port)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)}, client;
	socklen_t client_bytes = sizeof(client);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	ssize_t n;

	require(!bind(fd, (struct sockaddr *)&own, sizeof(own)), "bind");
	n = recvfrom(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&client, &client_bytes);
	require(n >= 0 && !connect(fd, (struct sockaddr *)&client, client_bytes), "connect");
	while (n) {
		require(send(fd, datagram, (size_t)n, 0) == n, "send");
		do {
			n = recv(fd, datagram, sizeof(datagram), MSG_DONTWAIT);
		} while (n < 0 && errno == EAGAIN);
		require(n >= 0, "recv");
	}
}

/* Sends one datagram and polls for the reply. Returns the time of the round trip. */
static uint64_t round_trip_ns(int fd, size_t bytes)
{
	uint64_t start_ns = now_ns();
	ssize_t n;

	require(send(fd, datagram, bytes, 0) == (ssize_t)bytes, "send");
	for (;;) {
		n = recv(fd, datagram, sizeof(datagram), MSG_DONTWAIT);
		if (n >= 0)
			break;
		require(errno == EAGAIN, "recv");
		if (now_ns() - start_ns > TIMEOUT_NS) {
			errno = ETIMEDOUT;
			require(false, "the reply");
		}
	}
	require(n == (ssize_t)bytes, "the length of the reply");
	return now_ns() - start_ns;
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void client(uint16_t port, char **argv)
{
	struct sockaddr_in server_address = {.sin_family = AF_INET, .sin_port = htons(port)};
	size_t bytes = (size_t)atoi(argv[1]), count = (size_t)atoi(argv[2]);
	uint64_t *times_ns = calloc(count, sizeof(*times_ns));
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	errno = EINVAL;
	require(times_ns && count && bytes && bytes <= BYTES_MAX &&
			inet_pton(AF_INET, argv[0], &server_address.sin_addr) == 1,
		"HOST, BYTES (1 to 65507) or ROUND-TRIPS");
	require(!connect(fd, (struct sockaddr *)&server_address, sizeof(server_address)),
		"connect");
	for (size_t i = 0; i < WARM_UP; i++)
		round_trip_ns(fd, bytes);
	for (size_t i = 0; i < count; i++)
		times_ns[i] = round_trip_ns(fd, bytes);
	require(!send(fd, datagram, 0, 0), "send");
	qsort(times_ns, count, sizeof(*times_ns), compare_times);
	printf("latency_ns %.0f\n", (double)times_ns[count / 2] / 2);
	free(times_ns);
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 5) {
		fprintf(stderr, "usage: %s PORT [HOST BYTES ROUND-TRIPS]\n", argv[0]);
		return 2;
	}
	if (argc == 2)
		server((uint16_t)atoi(argv[1]));
	else
		client((uint16_t)atoi(argv[1]), argv + 2);
	return 0;
}
