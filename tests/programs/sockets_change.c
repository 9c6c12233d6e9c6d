/* SPDX-License-Identifier: BSD-2-Clause */

/* Cases of `sockets`: epoll sets with TCP sockets that become rsockets (RDMAV_FORK_SAFE). */

#include "sockets.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void change(int epoll, int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	MUST(!epoll_ctl(epoll, op, fd, &event));
}

static bool is_quiet(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 2) == 0;
}

static bool has_event(int epoll, int fd, uint32_t events)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1 && event.data.fd == fd &&
	       event.events == events;
}

static void *get_x(void *arg)
{
	(void)arg;
	get("x");
	return NULL;
}

/*
 * A one-shot member that was reported stays disabled when its socket becomes an rsocket; other
 * members are reported.
 */
void one_shot_member_stays_disabled_when_its_socket_changes(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), second = dup(client);
	pthread_t thread;

	change(epoll, EPOLL_CTL_ADD, client, EPOLLOUT | EPOLLONESHOT);
	MUST(has_event(epoll, client, EPOLLOUT));
	change(epoll, EPOLL_CTL_ADD, second, EPOLLIN | EPOLLONESHOT);
	MUST(!pthread_create(&thread, NULL, get_x, NULL));
	put("x");
	MUST(!pthread_join(thread, NULL));
	MUST(is_quiet(epoll));
	MUST(send(server, "y", 1, 0) == 1);
	MUST(has_event(epoll, second, EPOLLIN));
	MUST(is_quiet(epoll));
	change(epoll, EPOLL_CTL_MOD, client, EPOLLOUT | EPOLLONESHOT);
	MUST(has_event(epoll, client, EPOLLOUT));
	MUST(is_quiet(epoll));
	MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, client, NULL));
	MUST(!close(second) && !close(epoll));
}

static int use_in_child(int inherited)
{
	int own = epoll_create1(EPOLL_CLOEXEC);

	alarm(PATIENCE_MS / 1000);
	change(own, EPOLL_CTL_ADD, client, EPOLLIN);
	put("x");
	/* The TCP socket, which is open in the parent, is not reported. */
	if (!is_quiet(own) || !is_quiet(inherited))
		return 1;
	put("x");
	if (!has_event(own, client, EPOLLIN) || !has_event(inherited, client, EPOLLIN))
		return 2;
	return 0;
}

static void *response(void *arg)
{
	(void)arg;
	get("x");
	get("x");
	MUST(send(server, "y", 1, 0) == 1);
	return NULL;
}

/*
 * A socket becomes an rsocket in a child. It is a member of a set of the child and of a set of the
 * parent.
 */
void child_gets_events_of_a_socket_that_it_changes(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), status;
	pthread_t thread;
	pid_t child;

	change(epoll, EPOLL_CTL_ADD, client, EPOLLIN);
	child = fork();
	MUST(child >= 0);
	if (!child)
		_exit(use_in_child(epoll));
	MUST(!pthread_create(&thread, NULL, response, NULL));
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
	MUST(!WEXITSTATUS(status));
	MUST(!pthread_join(thread, NULL));
	MUST(!close(epoll));
}
