/* SPDX-License-Identifier: BSD-2-Clause */
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "tool.h"

static int socket_set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK);
}

static int rsocket_set_nonblocking(int fd)
{
	return rfcntl(fd, F_SETFL, O_NONBLOCK);
}

const struct calls socket_calls = {
	.socket = socket,
	.bind = bind,
	.listen = listen,
	.accept = accept,
	.connect = connect,
	.shutdown = shutdown,
	.close = close,
	.recv = recv,
	.recvfrom = recvfrom,
	.send = send,
	.sendto = sendto,
	.poll = poll,
	.setsockopt = setsockopt,
	.getsockopt = getsockopt,
	.set_nonblocking = socket_set_nonblocking,
};

const struct calls rsocket_calls = {
	.socket = rsocket,
	.bind = rbind,
	.listen = rlisten,
	.accept = raccept,
	.connect = rconnect,
	.shutdown = rshutdown,
	.close = rclose,
	.recv = rrecv,
	.recvfrom = rrecvfrom,
	.send = rsend,
	.sendto = rsendto,
	.poll = rpoll,
	.setsockopt = rsetsockopt,
	.getsockopt = rgetsockopt,
	.set_nonblocking = rsocket_set_nonblocking,
};

bool calls_is_busy(ssize_t moved)
{
	return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

int calls_await(const struct calls *calls, int fd, short events)
{
	struct pollfd pollfd = {.fd = fd, .events = events};

	return calls->poll(&pollfd, 1, -1) < 0 ? tool_fail("rpoll") : 0;
}

int calls_accept(const struct calls *calls, int listener)
{
	int accepted = calls->accept(listener, NULL, NULL);

	while (calls_is_busy(accepted)) {
		if (calls_await(calls, listener, POLLIN))
			return -1;
		accepted = calls->accept(listener, NULL, NULL);
	}
	return accepted < 0 ? tool_fail("raccept") : accepted;
}

int calls_finish_connect(const struct calls *calls, int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
	socklen_t length = sizeof(int);
	int error;

	if (calls->poll(&pollfd, 1, -1) < 0)
		return -1;
	if (calls->getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -1;
	errno = error;
	return error ? -1 : 0;
}

int calls_set(const struct calls *calls, int fd, int level, int option, int value)
{
	return calls->setsockopt(fd, level, option, &value, sizeof(value)) ?
		       tool_fail("setsockopt") :
		       0;
}
