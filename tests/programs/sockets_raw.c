/* SPDX-License-Identifier: BSD-2-Clause */

/* Cases of `sockets`: programs that close descriptors without calling close(). */

#include "sockets.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBERS_MAX 256

/* libuv, and thus Node.js, closes descriptors in this way. */
void system_call_close_ends_the_connection(void)
{
	char byte;

	MUST(!syscall(SYS_close, client));
	MUST(read(server, &byte, 1) == 0);
	client = open("/dev/null", O_RDONLY);
	MUST(client >= 0);
}

/* Calls the C library's syscall() itself, so that no preloaded library sees the close. */
static void close_unseen(int fd)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	long (*unseen_syscall)(long number, ...) = NULL;

	MUST(libc);
	*(void **)&unseen_syscall = dlsym(libc, "syscall");
	MUST(unseen_syscall && !unseen_syscall(SYS_close, fd));
	dlclose(libc);
}

static int new_eventfd(void)
{
	return eventfd(0, 0);
}

static int new_epoll(void)
{
	return epoll_create1(0);
}

/* Creates descriptors until one has this number, and closes the others. */
static void create_with_number(int (*create)(void), int number)
{
	int others[NUMBERS_MAX];
	size_t count = 0;
	int fd;

	while ((fd = create()) != number) {
		MUST(fd >= 0 && count < NUMBERS_MAX);
		others[count++] = fd;
	}
	while (count)
		close(others[--count]);
}

void number_closed_unseen_belongs_to_its_next_descriptor(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
	uint64_t value = 5;
	char byte;

	close_unseen(client);
	close_unseen(listener);
	create_with_number(new_eventfd, client);
	create_with_number(new_epoll, listener);
	MUST(write(client, &value, sizeof(value)) == sizeof(value));
	MUST(!epoll_ctl(listener, EPOLL_CTL_ADD, client, &event));
	event = (struct epoll_event){0};
	MUST(epoll_wait(listener, &event, 1, PATIENCE_MS) == 1 && event.data.u64 == 7);
	value = 0;
	MUST(read(client, &value, sizeof(value)) == sizeof(value) && value == 5);
	/* The connection ended when its last descriptor was closed. */
	MUST(read(server, &byte, 1) == 0);
}
