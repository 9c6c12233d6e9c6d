/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/wrap.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/select.h"
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

static bool by_value(struct sock *sock, struct wrap_rsocket *rsocket)
{
	if (!sock)
		return false;
	*rsocket = (struct wrap_rsocket){
		.fd = sock->rsocket,
		.domain = sock->domain,
		.type = sock->type,
	};
	sock_put(sock);
	return true;
}

bool wrap_is_rsocket(int number, struct wrap_rsocket *rsocket)
{
	return by_value(wrap_find(number), rsocket);
}

static bool wrap_settle(int number, enum tcp_call call, struct wrap_rsocket *rsocket)
{
	struct sock *sock = sock_find(number);

	rsocket->error = sock && sock_kind_of(sock) != SOCK_RDMA ? -tcp_settle(sock, call) : 0;
	return by_value(only_rdma(sock), rsocket);
}

bool wrap_is_rsocket_settled(int number, struct wrap_rsocket *rsocket)
{
	return wrap_settle(number, TCP_CALL_WRITE, rsocket);
}

bool wrap_is_rsocket_to_read(int number, int flags, struct wrap_rsocket *rsocket)
{
	return wrap_settle(number, flags & MSG_DONTWAIT ? TCP_CALL_READ_NOW : TCP_CALL_READ,
			   rsocket);
}

int wrap_fail(int error)
{
	errno = error;
	return -1;
}

int wrap_timeout_ms(const struct timespec *time, int *timeout_ms)
{
	int ret = select_timeout_ms(time, timeout_ms);

	return ret ? wrap_fail(-ret) : 0;
}

ssize_t wrap_done(struct sock *sock, ssize_t ret)
{
	int error = errno;

	sock_put(sock);
	errno = error;
	return ret;
}

void wrap_cancelled(void *sock)
{
	sock_put(sock);
}
