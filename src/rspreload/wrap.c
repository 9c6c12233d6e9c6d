/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/wrap.h"

#include <errno.h>

#include "rspreload/epoll.h"
#include "rspreload/tcp.h"

static struct sock *only_rdma(struct sock *sock)
{
	if (!sock || sock_kind_of(sock) == SOCK_RDMA)
		return sock;
	sock_put(sock);
	return NULL;
}

struct sock *wrap_find(int number)
{
	return only_rdma(sock_find(number));
}

struct sock *wrap_find_settled(int number)
{
	struct sock *sock = sock_find(number);

	if (sock && sock_kind_of(sock) != SOCK_RDMA)
		tcp_settle(sock);
	return only_rdma(sock);
}

ssize_t wrap_done(struct sock *sock, ssize_t ret)
{
	int error = errno;

	sock_put(sock);
	errno = error;
	return ret;
}

ssize_t wrap_has_read(struct sock *sock, ssize_t ret)
{
	int error = errno;

	epoll_touched(sock, true);
	errno = error;
	return wrap_done(sock, ret);
}

ssize_t wrap_has_written(struct sock *sock, ssize_t ret)
{
	int error = errno;

	epoll_touched(sock, false);
	errno = error;
	return wrap_done(sock, ret);
}
