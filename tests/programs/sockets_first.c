/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Cases of `sockets`: threads that already wait for an epoll descriptor when it, or a set in it,
 * gets its first socket.
 */

#include "sockets.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

/* A thread that waits for one event of an epoll descriptor. */
struct first_wait {
	pthread_t thread;
	int epoll;
	int (*call)(int epoll,
		    int *fd); /* returns the number of events, and the member that has one */
	pid_t tid;
	int fd;
};

static int new_set(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	MUST(epoll >= 0);
	return epoll;
}

static void change(int epoll, int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	MUST(!epoll_ctl(epoll, op, fd, &event));
}

static int by_epoll_wait(int epoll, int *fd)
{
	struct epoll_event event;
	int ret = epoll_wait(epoll, &event, 1, PATIENCE_MS);

	*fd = event.data.fd;
	return ret;
}

static int by_epoll_wait_without_timeout(int epoll, int *fd)
{
	struct epoll_event events[8];
	int ret = epoll_wait(epoll, events, 8, -1);

	*fd = events[0].data.fd;
	return ret;
}

static int by_epoll_pwait(int epoll, int *fd)
{
	struct epoll_event event;
	sigset_t none;
	int ret;

	sigemptyset(&none);
	ret = epoll_pwait(epoll, &event, 1, PATIENCE_MS, &none);
	*fd = event.data.fd;
	return ret;
}

static int by_epoll_pwait2(int epoll, int *fd)
{
	const struct timespec time = {.tv_sec = PATIENCE_MS / 1000};
	struct epoll_event event;
	int ret = epoll_pwait2(epoll, &event, 1, &time, NULL);

	*fd = event.data.fd;
	return ret;
}

/* The calls that wait for the epoll descriptor itself. An event must be there when they return. */
static int next_now(int epoll, int *fd)
{
	struct epoll_event event;
	int ret = epoll_wait(epoll, &event, 1, 0);

	*fd = event.data.fd;
	return ret;
}

static int by_poll(int epoll, int *fd)
{
	struct pollfd fds[] = {{.fd = -1}, {.fd = epoll, .events = POLLIN | POLLOUT}};

	MUST(poll(fds, 2, PATIENCE_MS) == 1 && fds[1].revents == POLLIN && !fds[0].revents);
	return next_now(epoll, fd);
}

static int by_ppoll(int epoll, int *fd)
{
	struct pollfd pollfd = {.fd = epoll, .events = POLLIN | POLLRDNORM};

	MUST(ppoll(&pollfd, 1, NULL, NULL) == 1 && pollfd.revents == (POLLIN | POLLRDNORM));
	return next_now(epoll, fd);
}

static int by_select(int epoll, int *fd)
{
	struct timeval time = {.tv_sec = PATIENCE_MS / 1000};
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(epoll, &in);
	FD_SET(epoll, &out);
	MUST(select(epoll + 1, &in, &out, NULL, &time) == 1 && FD_ISSET(epoll, &in));
	return next_now(epoll, fd);
}

static int by_pselect(int epoll, int *fd)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(epoll, &in);
	MUST(pselect(epoll + 1, &in, NULL, NULL, NULL, NULL) == 1 && FD_ISSET(epoll, &in));
	return next_now(epoll, fd);
}

static void *first_wait_run(void *arg)
{
	struct first_wait *wait = arg;

	__atomic_store_n(&wait->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	MUST(wait->call(wait->epoll, &wait->fd) == 1);
	return NULL;
}

static void first_wait_begin(struct first_wait *wait)
{
	wait->tid = 0;
	MUST(!pthread_create(&wait->thread, NULL, first_wait_run, wait));
	while (!__atomic_load_n(&wait->tid, __ATOMIC_ACQUIRE) || !is_asleep(wait->tid))
		usleep(1000);
}

static int first_wait_end(struct first_wait *wait)
{
	MUST(!pthread_join(wait->thread, NULL));
	return wait->fd;
}

static bool is_quiet(int epoll)
{
	struct pollfd pollfd = {.fd = epoll, .events = POLLIN};
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 2) == 0 && poll(&pollfd, 1, 0) == 0;
}

static int (*const ways[])(int epoll, int *fd) = {
	by_epoll_wait,	by_epoll_wait_without_timeout,
	by_epoll_pwait, by_epoll_pwait2,
	by_poll,	by_ppoll,
	by_select,	by_pselect,
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

void first_socket_wakes_a_thread_that_waits(void)
{
	for (size_t i = 0; i < WAYS; i++) {
		struct first_wait wait = {.epoll = new_set(), .call = ways[i]};

		first_wait_begin(&wait);
		change(wait.epoll, EPOLL_CTL_ADD, server, EPOLLIN);
		put("x");
		MUST(first_wait_end(&wait) == server);
		get("x");
		MUST(is_quiet(wait.epoll));
		MUST(!close(wait.epoll));
	}
}

/*
 * Level-triggered: each thread finds the event. The number by which the socket is added was
 * duplicated after the waits began.
 */
void first_socket_wakes_all_threads_that_wait(void)
{
	struct first_wait waits[THREADS];
	int epoll = new_set(), second;

	for (size_t i = 0; i < THREADS; i++) {
		waits[i] = (struct first_wait){.epoll = epoll, .call = by_epoll_wait};
		first_wait_begin(&waits[i]);
	}
	second = dup(epoll);
	MUST(second >= 0);
	change(second, EPOLL_CTL_ADD, client, EPOLLOUT);
	for (size_t i = 0; i < THREADS; i++)
		MUST(first_wait_end(&waits[i]) == client);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, client, NULL));
	MUST(is_quiet(epoll) && is_quiet(second));
	MUST(!close(epoll) && !close(second));
}

/*
 * The event of another descriptor ends the wait at the same time. Neither event is lost, and no
 * third one is reported.
 */
void first_socket_and_a_pipe_are_reported(void)
{
	for (int round = 0; round < 50; round++) {
		struct first_wait wait = {.epoll = new_set(), .call = by_epoll_wait};
		struct epoll_event events[4];
		int ends[2], fd, other;

		MUST(!pipe(ends));
		change(wait.epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET);
		first_wait_begin(&wait);
		if (round % 2)
			MUST(write(ends[1], "p", 1) == 1);
		change(wait.epoll, EPOLL_CTL_ADD, client, EPOLLOUT | EPOLLET);
		if (!(round % 2))
			MUST(write(ends[1], "p", 1) == 1);
		fd = first_wait_end(&wait);
		MUST(fd == client || fd == ends[0]);
		other = fd == client ? ends[0] : client;
		MUST(epoll_wait(wait.epoll, events, 4, PATIENCE_MS) == 1);
		MUST(events[0].data.fd == other && is_quiet(wait.epoll));
		MUST(!close(wait.epoll) && !close(ends[0]) && !close(ends[1]));
	}
}

/* A thread that was cancelled in its wait does not disturb the set. */
void first_socket_after_a_cancelled_wait(void)
{
	struct first_wait wait = {.epoll = new_set(), .call = by_epoll_wait_without_timeout};
	struct first_wait second = wait;
	void *result;

	first_wait_begin(&wait);
	MUST(!pthread_cancel(wait.thread) && !pthread_join(wait.thread, &result));
	MUST(result == PTHREAD_CANCELED);
	wait.call = by_poll;
	first_wait_begin(&wait);
	MUST(!pthread_cancel(wait.thread) && !pthread_join(wait.thread, &result));
	MUST(result == PTHREAD_CANCELED);
	first_wait_begin(&second);
	change(second.epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	MUST(is_quiet(second.epoll));
	put("x");
	MUST(first_wait_end(&second) == server);
	get("x");
	MUST(is_quiet(second.epoll) && !close(second.epoll));
}

static int wait_in_child(int epoll, int out)
{
	struct epoll_event event;

	alarm(PATIENCE_MS / 1000);
	if (write(out, "c", 1) != 1)
		return 1;
	return epoll_wait(epoll, &event, 1, PATIENCE_MS) != 1 || event.data.u64 != 4711;
}

/*
 * A child waits in its copy of the set, too. Both processes receive the event of the pipe and no
 * other one.
 */
void first_socket_of_a_set_that_a_child_has(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 4711};
	struct first_wait wait = {.epoll = new_set(), .call = by_epoll_wait};
	int ends[2], started[2], status;
	char byte;
	pid_t child;

	MUST(!pipe(ends) && !pipe(started));
	first_wait_begin(&wait);
	child = fork();
	MUST(child >= 0);
	if (!child)
		_exit(wait_in_child(wait.epoll, started[1]));
	MUST(read(started[0], &byte, 1) == 1);
	change(wait.epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	MUST(!epoll_ctl(wait.epoll, EPOLL_CTL_ADD, ends[0], &event) && write(ends[1], "p", 1) == 1);
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
	MUST(!WEXITSTATUS(status));
	(void)first_wait_end(&wait);
	MUST(!close(wait.epoll) && !close(ends[0]) && !close(ends[1]));
	MUST(!close(started[0]) && !close(started[1]));
}

/* A thread waits for the outer of several nested sets. */
void first_socket_of_an_inner_set_wakes_a_thread_that_waits(void)
{
	for (size_t i = 0; i < WAYS; i++) {
		struct first_wait wait = {.epoll = new_set(), .call = ways[i]};
		int middle = new_set(), inner = new_set();

		change(middle, EPOLL_CTL_ADD, inner, EPOLLIN);
		change(wait.epoll, EPOLL_CTL_ADD, middle, EPOLLIN);
		first_wait_begin(&wait);
		change(inner, EPOLL_CTL_ADD, server, EPOLLIN);
		put("x");
		MUST(first_wait_end(&wait) == middle);
		MUST(!is_quiet(middle) && !is_quiet(inner));
		get("x");
		MUST(is_quiet(wait.epoll) && is_quiet(middle) && is_quiet(inner));
		MUST(!close(wait.epoll) && !close(middle) && !close(inner));
	}
}
