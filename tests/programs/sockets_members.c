/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Cases of `sockets`: members of epoll sets whose numbers are duplicated, closed or reused, and
 * sets in sets.
 */

#include "sockets.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 50

/* Limit of the third argument of epoll_wait(). */
#define EVENTS_MAX ((int)(INT_MAX / sizeof(struct epoll_event)))

static int new_set(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	MUST(epoll >= 0);
	return epoll;
}

static int change(int epoll, int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(epoll, op, fd, &event);
}

/*
 * Waits until all these descriptors were reported, in any order. No other descriptor may be
 * reported.
 */
static void await_members(int epoll, const int *fds, int count)
{
	unsigned seen = 0;

	while (seen != (1u << count) - 1) {
		struct epoll_event event;
		int i = 0;

		MUST(epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1);
		while (i < count && fds[i] != event.data.fd)
			i++;
		MUST(i < count);
		seen |= 1u << i;
	}
}

static void await_member(int epoll, int fd)
{
	await_members(epoll, &fd, 1);
}

static bool is_quiet(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 2) == 0;
}

/* A closed number stays a member while the socket has another number (epoll(7)). */
void epoll_adds_second_number_after_close_of_first(void)
{
	int epoll = new_set(), first = server, second = dup(server);

	MUST(second >= 0);
	MUST(!change(epoll, EPOLL_CTL_ADD, first, EPOLLIN));
	MUST(!close(first));
	MUST(change(epoll, EPOLL_CTL_MOD, first, EPOLLIN) == -1 && errno == EBADF);
	MUST(!change(epoll, EPOLL_CTL_ADD, second, EPOLLIN));
	server = second;
	put("x");
	await_members(epoll, (int[]){first, second}, 2);
	get("x");
	MUST(dup2(second, first) == first);
	MUST(change(epoll, EPOLL_CTL_ADD, first, EPOLLIN) == -1 && errno == EEXIST);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, first, NULL) && !close(first));
	put("y");
	await_member(epoll, second);
	get("y");
	MUST(!close(epoll));
}

/*
 * The numbers of one epoll descriptor refer to the same set, also if they were duplicated before
 * the first socket.
 */
void duplicates_of_an_epoll_descriptor_are_one_set(void)
{
	int epoll = new_set(), second = dup(epoll), third = fcntl(epoll, F_DUPFD_CLOEXEC, 0);
	int fourth = dup(epoll);

	MUST(second >= 0 && third >= 0 && dup2(epoll, fourth) == fourth);
	MUST(!change(second, EPOLL_CTL_ADD, server, EPOLLOUT));
	MUST(!change(third, EPOLL_CTL_ADD, client, EPOLLOUT));
	MUST(change(epoll, EPOLL_CTL_ADD, server, EPOLLOUT) == -1 && errno == EEXIST);
	await_members(epoll, (int[]){server, client}, 2);
	await_members(fourth, (int[]){server, client}, 2);
	MUST(!close(epoll) && !close(second));
	await_members(third, (int[]){server, client}, 2);
	MUST(!epoll_ctl(third, EPOLL_CTL_DEL, server, NULL));
	await_member(fourth, client);
	MUST(!close(third) && !close(fourth));
}

struct adding {
	pthread_barrier_t *barrier;
	int epoll;
	int fd;
};

static void *add_one(void *arg)
{
	const struct adding *adding = arg;

	pthread_barrier_wait(adding->barrier);
	MUST(!change(adding->epoll, EPOLL_CTL_ADD, adding->fd, EPOLLOUT));
	return NULL;
}

void two_threads_add_the_first_sockets_of_a_set(void)
{
	pthread_barrier_t barrier;

	MUST(!pthread_barrier_init(&barrier, NULL, 2));
	for (int round = 0; round < ROUNDS; round++) {
		struct adding first = {&barrier, new_set(), server};
		struct adding second = {&barrier, first.epoll, client};
		pthread_t thread;

		MUST(!pthread_create(&thread, NULL, add_one, &first));
		add_one(&second);
		MUST(!pthread_join(thread, NULL));
		await_members(first.epoll, (int[]){server, client}, 2);
		MUST(!close(first.epoll));
	}
	pthread_barrier_destroy(&barrier);
}

/* Called through a pointer, because the compiler refuses invalid arguments of epoll_wait(). */
static int (*volatile invalid_wait)(int, struct epoll_event *, int, int) = epoll_wait;

void epoll_wait_refuses_invalid_arguments(void)
{
	struct epoll_event *nowhere = (struct epoll_event *)(uintptr_t)16, event;
	int epoll = new_set(), ends[2];

	MUST(!pipe(ends));
	MUST(!change(epoll, EPOLL_CTL_ADD, server, EPOLLIN));
	MUST(!change(epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN));
	MUST(invalid_wait(epoll, &event, 0, 0) == -1 && errno == EINVAL);
	MUST(invalid_wait(epoll, &event, INT_MIN, 0) == -1 && errno == EINVAL);
	MUST(invalid_wait(epoll, &event, EVENTS_MAX + 1, 0) == -1 && errno == EINVAL);
	MUST(write(ends[1], "x", 1) == 1);
	MUST(invalid_wait(epoll, &event, INT_MAX, PATIENCE_MS) == -1 && errno == EINVAL);
	MUST(invalid_wait(epoll, nowhere, 1, PATIENCE_MS) == -1 && errno == EFAULT);
	await_member(epoll, ends[0]);
	MUST(!close(ends[0]) && !close(ends[1]) && !close(epoll));
}

/* EPOLLHUP is reported without a request, also while received data is unread. */
void epoll_reports_a_hang_up_that_was_not_requested(void)
{
	int epoll = new_set();
	struct epoll_event event;

	MUST(!change(epoll, EPOLL_CTL_ADD, server, 0));
	MUST(!change(epoll, EPOLL_CTL_ADD, client, EPOLLET));
	put("x");
	MUST(is_quiet(epoll));
	MUST(!shutdown(server, SHUT_RDWR));
	MUST(epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1);
	while (event.data.fd != server)
		MUST(epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1);
	MUST(event.events == EPOLLHUP);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, server, NULL));
	MUST(!shutdown(client, SHUT_RDWR));
	MUST(!change(epoll, EPOLL_CTL_MOD, client, EPOLLET));
	do
		MUST(epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1 && event.data.fd == client);
	while (!(event.events & EPOLLHUP));
	MUST(!close(epoll));
}

/* An epoll set with sockets is a member of another one. */
void epoll_set_is_a_member_of_a_set(void)
{
	int outer = new_set(), inner = new_set(), ends[2];

	MUST(!pipe(ends));
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	MUST(!change(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN));
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	MUST(change(outer, EPOLL_CTL_ADD, inner, EPOLLIN) == -1 && errno == EEXIST);
	MUST(change(inner, EPOLL_CTL_ADD, outer, EPOLLIN) == -1 && errno == ELOOP);
	MUST(change(inner, EPOLL_CTL_ADD, inner, EPOLLIN) == -1 && errno == EINVAL);
	MUST(is_quiet(outer));
	put("x");
	await_member(outer, inner);
	await_member(inner, server);
	get("x");
	MUST(is_quiet(outer));
	MUST(write(ends[1], "p", 1) == 1);
	await_member(outer, inner);
	MUST(!change(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLONESHOT));
	await_member(outer, inner);
	MUST(is_quiet(outer));
	MUST(!epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL));
	MUST(epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL) == -1 && errno == ENOENT);
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	await_member(outer, inner);
	MUST(!close(inner));
	MUST(is_quiet(outer));
	MUST(!close(outer) && !close(ends[0]) && !close(ends[1]));
}

/*
 * A set without sockets is added first. EPOLL_CTL_DEL and EPOLL_CTL_MOD find it after it has got
 * its first socket.
 */
void epoll_set_gets_its_first_socket_in_a_set(void)
{
	int outer = new_set(), inner = new_set();

	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	MUST(change(outer, EPOLL_CTL_ADD, inner, EPOLLIN) == -1 && errno == EEXIST);
	MUST(!change(outer, EPOLL_CTL_MOD, inner, EPOLLIN));
	put("x");
	await_member(outer, inner);
	MUST(!epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL));
	MUST(is_quiet(outer));
	get("x");
	MUST(!close(inner) && !close(outer));
}

/* The socket becomes a TCP socket of the kernel, and a closed number of it refers to a pipe. */
void fallback_to_tcp_adds_no_reused_number(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_port = htons(1),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int epoll = new_set(), first = socket(AF_INET, SOCK_STREAM, 0), second = dup(first);
	struct epoll_event event;
	int ends[2];

	MUST(first >= 0 && second >= 0 && !pipe(ends));
	MUST(!change(epoll, EPOLL_CTL_ADD, first, EPOLLIN));
	MUST(dup2(ends[0], first) == first && write(ends[1], "x", 1) == 1);
	MUST(connect(second, (struct sockaddr *)&addr, sizeof(addr)) == -1);
	MUST(errno == ECONNREFUSED);
	/* The socket itself may be reported with EPOLLHUP; the pipe would be reported without. */
	for (int i = 0; i < ROUNDS; i++)
		MUST(epoll_wait(epoll, &event, 1, 0) == 0 || event.events & EPOLLHUP);
	MUST(!close(epoll) && !close(first) && !close(second) && !close(ends[0]) &&
	     !close(ends[1]));
}
