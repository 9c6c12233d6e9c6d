/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CALLS_H
#define TOOLS_CALLS_H

/*
 * The functions of sockets and of rsockets with the same interface, so that a program can use
 * either.
 */

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct calls {
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *address, socklen_t length);
	int (*listen)(int fd, int backlog);
	int (*accept)(int fd, struct sockaddr *address, socklen_t *length);
	int (*connect)(int fd, const struct sockaddr *address, socklen_t length);
	int (*shutdown)(int fd, int how);
	int (*close)(int fd);
	ssize_t (*recv)(int fd, void *buf, size_t length, int flags);
	ssize_t (*recvfrom)(int fd, void *buf, size_t length, int flags, struct sockaddr *address,
			    socklen_t *address_length);
	ssize_t (*send)(int fd, const void *buf, size_t length, int flags);
	ssize_t (*sendto)(int fd, const void *buf, size_t length, int flags,
			  const struct sockaddr *address, socklen_t address_length);
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout_ms);
	int (*setsockopt)(int fd, int level, int option, const void *value, socklen_t length);
	int (*getsockopt)(int fd, int level, int option, void *value, socklen_t *length);
	int (*set_nonblocking)(int fd);
};

extern const struct calls socket_calls;
extern const struct calls rsocket_calls;

/* Whether a call that transferred no data is to be repeated. */
bool calls_is_busy(ssize_t moved);

/* Waits for one of the events. 0, or -1 after an error message. */
int calls_await(const struct calls *calls, int fd, short events);

/*
 * Waits for a connection and accepts it; the listener may be non-blocking. -1 after an error
 * message.
 */
int calls_accept(const struct calls *calls, int listener);

/* Waits for the end of a connect() on a non-blocking descriptor. 0, or -1 with errno. */
int calls_finish_connect(const struct calls *calls, int fd);

/* Sets an option of type int. 0, or -1 after an error message. */
int calls_set(const struct calls *calls, int fd, int level, int option, int value);

#endif /* TOOLS_CALLS_H */
