/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A TCP program without any use of RDMA: an echo server and its clients in one process. The
 * server's threads wait in nested epoll sets while other threads add, change, move and remove
 * connections and sets at random. The clients check each byte. The test runs the program with and
 * without librspreload.
 *
 *     epoll_random SEED CONNECTIONS
 *
 * The program ends when all connections have been served. If a connection makes no progress for
 * PATIENCE_MS, an event was lost: the program prints the connection and fails.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "epoll_random.h"

#define PATIENCE_MS   20000
#define CLIENTS	      3
#define WORKERS	      4
#define CHUNK_MAX     40000
#define MESSAGES_MAX  12
#define WAITED_EVENTS 4

static struct sockaddr_in listener_addr;
static int listener;
static atomic_uint accepted, served;
static unsigned connections;
static uint64_t seed;

/* The byte of a connection at an offset, in both directions. */
static uint8_t byte_at(uint32_t connection, uint64_t offset)
{
	return (uint8_t)(connection * 41 + offset * 7 + (offset >> 8));
}

static void await(int fd, short events, uint32_t connection, uint64_t offset)
{
	struct pollfd pollfd = {.fd = fd, .events = events};

	if (poll(&pollfd, 1, PATIENCE_MS) == 1)
		return;
	printf("connection %u waits at byte %lu: an event was lost\n", connection,
	       (unsigned long)offset);
	random_print_sets();
	exit(1);
}

/* Sends a chunk and receives it again. */
static void echo(int fd, uint32_t connection, uint64_t *offset, size_t bytes)
{
	static __thread uint8_t out[CHUNK_MAX], in[CHUNK_MAX];
	size_t sent = 0, received = 0;

	for (size_t i = 0; i < bytes; i++)
		out[i] = byte_at(connection, *offset + i);
	while (received < bytes) {
		ssize_t ret = 0;

		if (sent < bytes)
			ret = send(fd, out + sent, bytes - sent, MSG_DONTWAIT);
		MUST(ret >= 0 || errno == EAGAIN);
		sent += ret > 0 ? (size_t)ret : 0;
		ret = recv(fd, in + received, bytes - received, MSG_DONTWAIT);
		MUST(ret > 0 || (ret < 0 && errno == EAGAIN));
		received += ret > 0 ? (size_t)ret : 0;
		if (ret < 0)
			await(fd, POLLIN | (sent < bytes ? POLLOUT : 0), connection,
			      *offset + received);
	}
	MUST(!memcmp(out, in, bytes));
	*offset += bytes;
}

static void one_connection(uint64_t *dice)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, messages;
	uint64_t offset = 0;
	uint32_t number;
	char byte;

	MUST(fd >= 0 && !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	MUST(!connect(fd, (struct sockaddr *)&listener_addr, sizeof(listener_addr)));
	/* The first four bytes are not echoed: the server sends the number of the connection. */
	await(fd, POLLIN, ~0u, 0);
	MUST(recv(fd, &number, sizeof(number), MSG_WAITALL) == sizeof(number));
	messages = 1 + (int)random_dice(dice, MESSAGES_MAX);
	for (int i = 0; i < messages; i++) {
		echo(fd, number, &offset,
		     1 + random_dice(dice, random_dice(dice, 4) ? 100 : CHUNK_MAX));
		if (!random_dice(dice, 4))
			usleep(random_dice(dice, 3000));
	}
	MUST(!shutdown(fd, SHUT_WR));
	await(fd, POLLIN, number, offset);
	MUST(recv(fd, &byte, 1, 0) == 0);
	MUST(!close(fd));
}

static void *client(void *arg)
{
	uint64_t dice = seed + (uintptr_t)arg;

	while (atomic_fetch_add(&accepted, 1) < connections) {
		one_connection(&dice);
		atomic_fetch_add(&served, 1);
	}
	return NULL;
}

/* Accepts connections and adds each to a set, in which no socket may have been before. */
static void *acceptor(void *arg)
{
	uint64_t dice = seed + (uintptr_t)arg;

	for (unsigned i = 0; i < connections; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		uint32_t number = i;
		int on = 1;

		MUST(fd >= 0 && !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
		MUST(send(fd, &number, sizeof(number), 0) == sizeof(number));
		random_add_connection(&dice, number, fd);
	}
	return NULL;
}

static void *mover(void *arg)
{
	uint64_t dice = seed + (uintptr_t)arg;

	while (atomic_load(&served) < connections) {
		random_change(&dice);
		usleep(random_dice(&dice, 2000));
	}
	return NULL;
}

static int (*const waits[])(int root, struct epoll_event *events, int most) = {
	random_by_epoll_wait, random_by_epoll_pwait, random_by_epoll_pwait2,
	random_by_poll,	      random_by_select,
};

static void *worker(void *arg)
{
	uint64_t dice = seed + (uintptr_t)arg;

	while (atomic_load(&served) < connections) {
		size_t way = random_dice(&dice, sizeof(waits) / sizeof(waits[0]));
		struct epoll_event events[WAITED_EVENTS];
		int root = (int)random_dice(&dice, ROOTS);
		int most = 1 + (int)random_dice(&dice, WAITED_EVENTS);
		int count = waits[way](random_root(root), events, most);

		MUST(count >= 0);
		random_serve(&dice, events, count);
	}
	return NULL;
}

static void start(void)
{
	socklen_t bytes = sizeof(listener_addr);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	listener_addr.sin_family = AF_INET;
	listener_addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(listener >= 0 && !bind(listener, (struct sockaddr *)&listener_addr, bytes));
	MUST(!listen(listener, 64) &&
	     !getsockname(listener, (struct sockaddr *)&listener_addr, &bytes));
	random_open(connections);
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS + CLIENTS + 2];
	uintptr_t count = 0;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 10) << 8;
	connections = (unsigned)atoi(argv[2]);
	start();
	/* The workers wait before the first socket exists. */
	for (int i = 0; i < WORKERS; i++, count++)
		MUST(!pthread_create(&threads[count], NULL, worker, (void *)count));
	MUST(!pthread_create(&threads[count], NULL, acceptor, (void *)count));
	count++;
	MUST(!pthread_create(&threads[count], NULL, mover, (void *)count));
	count++;
	for (int i = 0; i < CLIENTS; i++, count++)
		MUST(!pthread_create(&threads[count], NULL, client, (void *)count));
	for (uintptr_t i = WORKERS; i < count; i++)
		MUST(!pthread_join(threads[i], NULL));
	random_stop();
	for (uintptr_t i = 0; i < WORKERS; i++)
		MUST(!pthread_join(threads[i], NULL));
	printf("%u connections: good\n", connections);
	return 0;
}
