/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A TCP program without any use of RDMA: changes epoll sets at random, and prints what each call
 * returns. The output depends on the seed only. The test compares the output with librspreload with
 * the output without it.
 *
 *     epoll_trace SEED STEPS
 *
 * The program has some sockets, pipes and epoll sets, at fixed descriptor numbers. Each socket may
 * have two numbers. A step changes one of them, or calls epoll_wait() or poll() for one set. Data
 * has arrived before the step ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_S 20
#define FIRST	   400

/*
 * Slots of descriptors: the slot s has the number FIRST + s. Odd sockets are the peers of the even
 * ones before them.
 */
enum {
	SOCKETS = 6,
	PIPES = 2,
	SETS = 3,	  /* librspreload nests fewer sets than the kernel */
	SECOND = SOCKETS, /* the second numbers of the sockets */
	PIPE = 2 * SOCKETS,
	SET = PIPE + PIPES,
	SLOTS = SET + SETS,
	SET_SECOND = SLOTS, /* the second number of the first set */
	SLOTS_ALL,
};

#define MUST(truth)                                                                   \
	do {                                                                          \
		if (!(truth)) {                                                       \
			printf("step %d, line %d: %s (%s)\n", step, __LINE__, #truth, \
			       strerror(errno));                                      \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

static int step, listener;
static int writers[PIPES];
static struct sockaddr_in listener_addr;
static uint64_t dice_state;

/* SplitMix64. */
static uint32_t dice(uint32_t sides)
{
	uint64_t z = dice_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) >> 33) % sides;
}

static int number(int slot)
{
	return FIRST + slot;
}

static void place(int fd, int slot)
{
	MUST(fd >= 0 && dup2(fd, number(slot)) == number(slot) && !close(fd));
}

static void open_pair(int first)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, peer;

	MUST(fd >= 0);
	MUST(!connect(fd, (struct sockaddr *)&listener_addr, sizeof(listener_addr)));
	peer = accept(listener, NULL, NULL);
	MUST(peer >= 0);
	MUST(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	MUST(!setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	place(fd, first);
	place(peer, first + 1);
}

static void open_set(int slot)
{
	place(epoll_create1(0), slot);
}

static void open_all(void)
{
	socklen_t bytes = sizeof(listener_addr);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	listener_addr.sin_family = AF_INET;
	listener_addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(!bind(listener, (struct sockaddr *)&listener_addr, bytes) && !listen(listener, 4));
	MUST(!getsockname(listener, (struct sockaddr *)&listener_addr, &bytes));
	for (int i = 0; i < SOCKETS; i += 2)
		open_pair(i);
	for (int i = 0; i < PIPES; i++) {
		int ends[2];

		MUST(!pipe2(ends, O_NONBLOCK));
		writers[i] = ends[1];
		place(ends[0], PIPE + i);
	}
	for (int i = 0; i < SETS; i++)
		open_set(SET + i);
}

static int by_id(const void *first, const void *second)
{
	const struct epoll_event *a = first, *b = second;

	if (a->data.u32 != b->data.u32)
		return a->data.u32 < b->data.u32 ? -1 : 1;
	return a->events < b->events ? -1 : a->events > b->events;
}

/* One number in eight of a set is the second one of the first set, which may be closed. */
static int some_set(void)
{
	return dice(8) ? SET + (int)dice(SETS) : SET_SECOND;
}

/* The number of bytes that a socket has received. */
static int unread[SOCKETS];

static void set_wait(void)
{
	struct epoll_event events[64];
	int set = some_set();
	int count = epoll_wait(number(set), events, 64, 0);

	printf("wait %d:", set);
	if (count < 0)
		printf(" %s", strerror(errno));
	else
		qsort(events, (size_t)count, sizeof(events[0]), by_id);
	for (int i = 0; i < count; i++)
		printf(" %u=%x", events[i].data.u32, events[i].events);
	printf("\n");
}

static void set_poll(void)
{
	struct pollfd fds[] = {{.fd = number(some_set()), .events = POLLIN | POLLOUT},
			       {.fd = number((int)dice(SLOTS_ALL)), .events = POLLIN},
			       {.fd = number(some_set()), .events = POLLIN}};
	int count = poll(fds, 3, 0);

	printf("poll %d %d %d: %d", fds[0].fd - FIRST, fds[1].fd - FIRST, fds[2].fd - FIRST, count);
	printf(" %x %x %x\n", (unsigned)fds[0].revents, (unsigned)fds[1].revents,
	       (unsigned)fds[2].revents);
}

static uint32_t some_events(bool is_set)
{
	static const uint32_t modes[] = {
		0, 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT, EPOLLEXCLUSIVE};
	uint32_t events = dice(6) ? EPOLLIN : 0;

	if (!dice(4))
		events |= EPOLLOUT;
	if (!dice(4))
		events |= EPOLLRDHUP;
	/* Which calls are arrivals for an edge-triggered nested set is not defined (epoll(7)). */
	return events | (is_set ? dice(4) ? 0 : EPOLLONESHOT : modes[dice(6)]);
}

static void set_control(int op)
{
	int set = some_set(), slot = (int)dice(SLOTS_ALL);
	struct epoll_event event = {.events = some_events(slot >= SET),
				    .data.u32 = (uint32_t)(step * 100 + slot)};
	int ret = epoll_ctl(number(set), op, number(slot), &event);

	printf("control %d %d %d %x: %s\n", op, set, slot, event.events,
	       ret ? strerror(errno) : "0");
}

static void write_some(void)
{
	int from = (int)dice(SOCKETS), to = from ^ 1, there = 0;
	struct pollfd pollfd = {.fd = number(to), .events = POLLIN};

	MUST(send(number(from), "x", 1, 0) == 1);
	unread[to]++;
	while (there < unread[to]) {
		MUST(poll(&pollfd, 1, -1) == 1);
		MUST(!ioctl(number(to), FIONREAD, &there));
	}
	printf("write %d\n", from);
}

static void read_some(void)
{
	int to = (int)dice(SOCKETS), least = dice(2) ? 0 : unread[to] / 2;
	char byte;

	while (unread[to] > least) {
		MUST(recv(number(to), &byte, 1, MSG_DONTWAIT) == 1);
		unread[to]--;
	}
	if (!least)
		MUST(recv(number(to), &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	printf("read %d\n", to);
}

static void use_pipe(void)
{
	int i = (int)dice(PIPES);
	char bytes[64];
	bool reads = dice(2);

	if (reads)
		MUST(read(number(PIPE + i), bytes, sizeof(bytes)) > 0 || errno == EAGAIN);
	else
		MUST(write(writers[i], "p", 1) == 1);
	printf("pipe %d %s\n", i, reads ? "read" : "write");
}

static void replace_pair(void)
{
	int first = 2 * (int)dice(SOCKETS / 2);

	for (int i = first; i < first + 2; i++) {
		MUST(!close(number(i)));
		(void)!close(number(SECOND + i));
		unread[i] = 0;
	}
	open_pair(first);
	printf("replace %d\n", first);
}

static void replace_set(void)
{
	int set = SET + (int)dice(SETS);

	MUST(!close(number(set)));
	open_set(set);
	printf("replace %d\n", set);
}

/* Opens or closes a second number of a socket or of the first set. */
static void second_number(void)
{
	int i = (int)dice(SOCKETS + 1), slot = i == SOCKETS ? SET : i;
	int second = i == SOCKETS ? SET_SECOND : SECOND + i;

	if (close(number(second)))
		MUST(dup2(number(slot), number(second)) == number(second));
	printf("second number of %d\n", slot);
}

int main(int argc, char **argv)
{
	int steps = argc == 3 ? atoi(argv[2]) : 0;

	if (!steps)
		return 2;
	alarm(PATIENCE_S);
	dice_state = strtoull(argv[1], NULL, 10);
	open_all();
	for (step = 0; step < steps; step++) {
		uint32_t what = dice(100);

		if (what < 35)
			set_wait();
		else if (what < 45)
			set_poll();
		else if (what < 62)
			set_control(EPOLL_CTL_ADD);
		else if (what < 68)
			set_control(EPOLL_CTL_MOD);
		else if (what < 72)
			set_control(EPOLL_CTL_DEL);
		else if (what < 82)
			write_some();
		else if (what < 90)
			read_some();
		else if (what < 95)
			use_pipe();
		else if (what < 97)
			second_number();
		else if (what < 98)
			replace_set();
		else
			replace_pair();
	}
	printf("end\n");
	return 0;
}
