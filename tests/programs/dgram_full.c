/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram rsocket whose UDP send buffer is full. The caller lets the kernel keep all datagrams
 * to ADDRESS until the program prints "a thread waits", and then lets the kernel send them.
 *
 *	dgram_full ADDRESS PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DATAGRAM_BYTES 1000
#define DATAGRAMS_MAX  1000
#define PATIENCE_MS    60000

#define MUST(truth)                                                                      \
	do {                                                                             \
		if (!(truth)) {                                                          \
			printf("line %d: %s (%s)\n", __LINE__, #truth, strerror(errno)); \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

static struct sockaddr_in to = {.sin_family = AF_INET};
static int sock;
static pid_t sender;

static ssize_t send_one(int flags)
{
	char bytes[DATAGRAM_BYTES] = {0};

	return rsendto(sock, bytes, sizeof(bytes), flags, (struct sockaddr *)&to, sizeof(to));
}

static short events_within(int timeout_ms)
{
	struct pollfd pollfd = {.fd = sock, .events = POLLOUT};

	MUST(rpoll(&pollfd, 1, timeout_ms) >= 0);
	return pollfd.revents;
}

static void *send_blocking(void *arg)
{
	(void)arg;
	__atomic_store_n(&sender, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	return (void *)(intptr_t)send_one(0);
}

/* Whether the sender is blocked in the kernel. */
static bool sender_is_asleep(void)
{
	pid_t thread = __atomic_load_n(&sender, __ATOMIC_ACQUIRE);
	char path[64], line[256] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = thread ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	fclose(file);
	state = strrchr(line, ')');
	return state && state[2] == 'S';
}

int main(int argc, char **argv)
{
	int few_bytes = 4096, count = 0;
	pthread_t thread;
	void *sent = NULL;

	MUST(argc == 3 && inet_pton(AF_INET, argv[1], &to.sin_addr) == 1);
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	sock = rsocket(AF_INET, SOCK_DGRAM, 0);
	MUST(sock >= 0);
	MUST(!rsetsockopt(sock, SOL_SOCKET, SO_SNDBUF, &few_bytes, sizeof(few_bytes)));
	MUST(events_within(0) == POLLOUT);
	while (send_one(MSG_DONTWAIT) == DATAGRAM_BYTES)
		MUST(count++ < DATAGRAMS_MAX);
	MUST(errno == EAGAIN && !events_within(0));
	MUST(!pthread_create(&thread, NULL, send_blocking, NULL));
	while (!sender_is_asleep()) {
		MUST(pthread_tryjoin_np(thread, &sent) == EBUSY);
		usleep(1000);
	}
	printf("a thread waits\n");
	fflush(stdout);
	MUST(!pthread_join(thread, &sent) && (intptr_t)sent == DATAGRAM_BYTES);
	MUST(events_within(PATIENCE_MS) == POLLOUT);
	printf("sent\n");
	return 0;
}
