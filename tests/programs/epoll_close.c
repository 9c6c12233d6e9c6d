/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A TCP program for librspreload: one thread adds a socket to an epoll set while another thread
 * closes the socket. The program replaces rclose() and repoll_ctl(), which librspreload calls, to
 * order the threads: the socket is added after librspreload has removed the closed socket from its
 * sets, and before rclose().
 */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sockets.h"

#define ROUNDS 20

const char *running = "a socket is closed while it is added";

static int epoll, number;
static sem_t is_adding, is_added;
static _Thread_local bool is_adder, is_closer;
static atomic_bool is_in_rclose;
static atomic_int closer;

int rclose(int socket);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

/* The closing thread: after librspreload has removed the socket from its sets. */
__attribute__((visibility("default"))) int rclose(int socket)
{
	__typeof__(&rclose) next = (__typeof__(next))dlsym(RTLD_NEXT, "rclose");

	if (is_closer) {
		is_closer = false;
		is_in_rclose = true;
		sem_wait(&is_added);
	}
	return next(socket);
}

static bool is_waiting(pid_t thread)
{
	char path[64], line[256] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = fopen(path, "re");
	MUST(file && fgets(line, sizeof(line), file));
	fclose(file);
	state = strrchr(line, ')');
	return state && state[2] == 'S';
}

/*
 * The adding thread: waits until the other thread is in rclose(), or waits for a lock that this
 * thread holds.
 */
__attribute__((visibility("default"))) int repoll_ctl(int epfd, int op, int fd,
						      struct epoll_event *event)
{
	__typeof__(&repoll_ctl) next = (__typeof__(next))dlsym(RTLD_NEXT, "repoll_ctl");

	if (is_adder) {
		is_adder = false;
		sem_post(&is_adding);
		while (!is_in_rclose && !(closer && is_waiting(closer)))
			usleep(100);
	}
	return next(epfd, op, fd, event);
}

static void *add(void *arg)
{
	struct epoll_event event = {.events = EPOLLIN};

	(void)arg;
	is_adder = true;
	MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event) || errno == EBADF);
	sem_post(&is_added);
	return NULL;
}

/* A new socket with the number of the closed one is not a member. */
static void add_another(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fds[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		MUST(fds[i] >= 0);
		if (fds[i] != number)
			MUST(dup2(fds[i], number) == number);
		MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event));
		MUST(!epoll_ctl(epoll, EPOLL_CTL_DEL, number, NULL));
	}
	for (int i = 0; i < ROUNDS; i++)
		close(fds[i]);
	close(number);
}

static void close_while_adding(void)
{
	struct epoll_event event = {.events = EPOLLOUT};
	int other = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;

	epoll = epoll_create1(EPOLL_CLOEXEC);
	number = socket(AF_INET, SOCK_STREAM, 0);
	MUST(other >= 0 && epoll >= 0 && number >= 0);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, other, &event));
	is_in_rclose = false;
	closer = 0;
	MUST(!pthread_create(&thread, NULL, add, NULL));
	while (sem_wait(&is_adding))
		;
	is_closer = true;
	closer = (int)syscall(SYS_gettid);
	MUST(!close(number));
	is_closer = false;
	MUST(!pthread_join(thread, NULL));
	if (!is_in_rclose)
		sem_trywait(&is_added);
	add_another();
	MUST(epoll_wait(epoll, &event, 1, 0) == 1);
	MUST(!close(epoll) && !close(other));
}

int main(void)
{
	MUST(!sem_init(&is_adding, 0, 0) && !sem_init(&is_added, 0, 0));
	for (int i = 0; i < ROUNDS; i++)
		close_while_adding();
	printf("%s: good\n", running);
	return 0;
}
