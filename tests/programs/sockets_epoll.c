/* SPDX-License-Identifier: BSD-2-Clause */

/* Cases of `sockets`: epoll sets with several descriptor numbers, threads and processes. */

#include "sockets.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void control(int epoll, int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	MUST(!epoll_ctl(epoll, op, fd, &event));
}

/*
 * Waits until each of two descriptors was reported, or only `first` if `second` is -1. No other
 * descriptor may be reported.
 */
static void both(int epoll, int first, int second)
{
	bool has_first = false, has_second = second < 0;

	while (!has_first || !has_second) {
		struct epoll_event events[4];
		int count = epoll_wait(epoll, events, 4, PATIENCE_MS);

		MUST(count > 0);
		for (int i = 0; i < count; i++) {
			MUST(events[i].data.fd == first || events[i].data.fd == second);
			MUST(events[i].events == EPOLLIN);
			has_first = has_first || events[i].data.fd == first;
			has_second = has_second || events[i].data.fd == second;
		}
	}
}

static bool is_quiet(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 2) == 0;
}

/* Returns the next event, which must be of this descriptor. */
static uint32_t next(int epoll, int fd)
{
	struct epoll_event event;

	MUST(epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1 && event.data.fd == fd);
	return event.events;
}

void waiting_by_epoll(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = server}, events[4];
	int ends[2];

	MUST(epoll >= 0 && !pipe(ends));
	control(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event) == -1 && errno == EEXIST);
	MUST(epoll_ctl(epoll, EPOLL_CTL_MOD, client, &event) == -1 && errno == ENOENT);
	MUST(epoll_ctl(ends[0], EPOLL_CTL_ADD, server, &event) == -1 && errno == EINVAL);
	MUST(is_quiet(epoll));
	/* Together with a descriptor that is not a socket. */
	control(epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN);
	put("x");
	MUST(next(epoll, server) == EPOLLIN);
	MUST(next(epoll, server) == EPOLLIN);
	MUST(write(ends[1], "p", 1) == 1);
	MUST(epoll_wait(epoll, events, 4, PATIENCE_MS) == 2);
	MUST(epoll_pwait(epoll, events, 1, PATIENCE_MS, NULL) == 1);
	get("x");
	MUST(next(epoll, ends[0]) == EPOLLIN);
	MUST(read(ends[0], &(char){0}, 1) == 1);
	event.events = EPOLLOUT;
	MUST(!epoll_ctl(epoll, EPOLL_CTL_MOD, server, &event));
	MUST(next(epoll, server) == EPOLLOUT);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, server, NULL));
	MUST(is_quiet(epoll));
	/* A closed socket is removed from the set. */
	control(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	MUST(!close(server));
	MUST(is_quiet(epoll));
	server = dup(client);
	close(epoll);
	close(ends[0]);
	close(ends[1]);
}

void edges_and_single_shots(void)
{
	int epoll = epoll_create(1);
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = server};

	control(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	MUST(next(epoll, server) == EPOLLOUT);
	MUST(is_quiet(epoll));
	put("x");
	MUST(next(epoll, server) & EPOLLIN);
	MUST(is_quiet(epoll));
	get("x");
	MUST(recv(server, &(char){0}, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	MUST(is_quiet(epoll));
	put("y");
	MUST(next(epoll, server) & EPOLLIN);
	get("y");
	MUST(!epoll_ctl(epoll, EPOLL_CTL_MOD, server, &event));
	put("z");
	MUST(next(epoll, server) == EPOLLIN);
	MUST(is_quiet(epoll));
	MUST(!epoll_ctl(epoll, EPOLL_CTL_MOD, server, &event));
	MUST(next(epoll, server) == EPOLLIN);
	get("z");
	event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
	MUST(!epoll_ctl(epoll, EPOLL_CTL_MOD, server, &event));
	MUST(!shutdown(client, SHUT_WR));
	MUST(next(epoll, server) & EPOLLRDHUP);
	close(epoll);
}

/* Each descriptor number of one socket is a separate member of the set. */
void two_numbers_in_one_set(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), second = dup(server);
	struct epoll_event event = {.events = EPOLLIN};

	MUST(epoll >= 0 && second >= 0);
	control(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	control(epoll, EPOLL_CTL_ADD, second, EPOLLIN | EPOLLONESHOT);
	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, second, &event) == -1 && errno == EEXIST);
	MUST(is_quiet(epoll));
	put("x");
	both(epoll, server, second);
	/* The second descriptor is EPOLLONESHOT and has been reported. */
	both(epoll, server, -1);
	control(epoll, EPOLL_CTL_MOD, second, EPOLLIN | EPOLLET);
	both(epoll, server, second);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, server, NULL));
	MUST(is_quiet(epoll));
	put("y");
	both(epoll, second, -1);
	get("xy");
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, second, NULL));
	MUST(epoll_ctl(epoll, EPOLL_CTL_DEL, second, NULL) == -1 && errno == ENOENT);
	put("z");
	MUST(is_quiet(epoll));
	control(epoll, EPOLL_CTL_ADD, second, EPOLLIN);
	MUST(!close(server));
	both(epoll, second, -1);
	server = second;
	get("z");
	close(epoll);
}

static void *wait_for_one(void *arg)
{
	struct epoll_event event;

	MUST(epoll_wait(*(int *)arg, &event, 1, PATIENCE_MS) == 1);
	return (void *)(intptr_t)event.data.fd;
}

void a_member_that_is_added_wakes_a_waiting_thread(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	pthread_t thread;
	void *found;

	control(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	MUST(!pthread_create(&thread, NULL, wait_for_one, &epoll));
	usleep(1000);
	control(epoll, EPOLL_CTL_ADD, client, EPOLLOUT);
	MUST(!pthread_join(thread, &found) && (intptr_t)found == client);
	close(epoll);
}

static int use_copy(int epoll, int ends[2])
{
	struct epoll_event event;

	alarm(PATIENCE_MS / 1000);
	if (write(ends[1], "x", 1) != 1)
		return 1;
	if (epoll_wait(epoll, &event, 1, PATIENCE_MS) != 1 || event.data.fd != ends[0])
		return 2;
	return close(server) || close(client) || close(listener) || close(epoll) ? 3 : 0;
}

/*
 * A child has the kernel's members of its parent's set, and closes its copies without an effect on
 * the parent.
 */
void a_child_uses_its_copy_of_a_set(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;
	pthread_t thread;
	int status, ends[2];
	void *found;
	pid_t child;

	MUST(!pipe(ends));
	control(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
	control(epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLONESHOT);
	child = fork();
	MUST(child >= 0);
	if (!child)
		_exit(use_copy(epoll, ends));
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(!pthread_create(&thread, NULL, wait_for_one, &epoll));
	put("x");
	MUST(!pthread_join(thread, &found) && (intptr_t)found == server);
	MUST(epoll_wait(epoll, &event, 1, 0) == 1 && event.data.fd == server);
	get("x");
	MUST(!close(ends[0]) && !close(ends[1]) && !close(epoll));
}
