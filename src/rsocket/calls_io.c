/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <rdma/rsocket.h>

#include "rsocket/calls.h"
#include "rsocket/iov.h"
#include "rsocket/socket.h"
#include "rsocket/stream_iomap.h"

/* The public calls that transfer data. */

static ssize_t transfer(int socket, struct rsock_io *io, bool is_send)
{
	struct rsock *sock;
	ssize_t ret = iov_bytes(io->iov, io->iov_count, &io->bytes);

	if (ret)
		return call_result(ret);
	ret = call_begin(socket, &sock);
	if (ret)
		return call_result(ret);
	ret = is_send ? sock->ops->send(sock, io) : sock->ops->receive(sock, io);
	rsock_put(sock);
	return call_result(ret);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct rsock_io io = {.iov = &iov, .iov_count = 1, .flags = flags};
	ssize_t ret;

	if (src_addr && !addrlen)
		return call_result(-EFAULT);
	io.from = src_addr;
	io.from_bytes = addrlen;
	ret = transfer(socket, &io, false);
	return ret >= 0 && flags & MSG_TRUNC && io.whole_bytes ? (ssize_t)io.whole_bytes : ret;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	struct rsock_io io = {.flags = flags};
	ssize_t ret;

	if (!msg)
		return call_result(-EFAULT);
	if (msg->msg_iovlen > IOV_MAX)
		return call_result(-EMSGSIZE);
	io.iov = msg->msg_iov;
	io.iov_count = (int)msg->msg_iovlen;
	io.from = msg->msg_name;
	io.from_bytes = msg->msg_name ? &msg->msg_namelen : NULL;
	ret = transfer(socket, &io, false);
	if (ret < 0)
		return ret;
	msg->msg_controllen = 0;
	msg->msg_flags = io.whole_bytes > io.bytes ? MSG_TRUNC : 0;
	return flags & MSG_TRUNC && io.whole_bytes ? (ssize_t)io.whole_bytes : ret;
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	struct rsock_io io = {.iov = iov, .iov_count = iovcnt};

	return transfer(socket, &io, false);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct rsock_io io = {.iov = &iov, .iov_count = 1, .flags = flags};

	io.to = dest_addr;
	io.to_bytes = addrlen;
	return transfer(socket, &io, true);
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	struct rsock_io io = {.flags = flags};

	if (!msg)
		return call_result(-EFAULT);
	if (msg->msg_control && msg->msg_controllen)
		return call_result(-ENOTSUP);
	if (msg->msg_iovlen > IOV_MAX)
		return call_result(-EMSGSIZE);
	io.iov = msg->msg_iov;
	io.iov_count = (int)msg->msg_iovlen;
	io.to = msg->msg_name;
	io.to_bytes = msg->msg_name ? msg->msg_namelen : 0;
	return transfer(socket, &io, true);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	struct rsock_io io = {.iov = iov, .iov_count = iovcnt};

	return transfer(socket, &io, true);
}

/* Memory can be mapped on streams only. */
static int find_stream(int socket, struct rsock **sock)
{
	int ret = call_begin(socket, sock);

	if (ret || (*sock)->type == SOCK_STREAM)
		return ret;
	rsock_put(*sock);
	return -EOPNOTSUPP;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rsock *sock;
	int ret = find_stream(socket, &sock);

	(void)flags;
	if (ret)
		return (off_t)call_result(ret);
	ret = stream_riomap(sock, buf, len, prot, &offset);
	rsock_put(sock);
	return ret ? (off_t)call_result(ret) : offset;
}

int riounmap(int socket, void *buf, size_t len)
{
	struct rsock *sock;
	int ret = find_stream(socket, &sock);

	if (ret)
		return (int)call_result(ret);
	ret = stream_riounmap(sock, buf, len);
	rsock_put(sock);
	return (int)call_result(ret);
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rsock *sock;
	ssize_t ret = find_stream(socket, &sock);

	if (ret)
		return (size_t)call_result(ret);
	ret = stream_riowrite(sock, buf, count, offset, flags);
	rsock_put(sock);
	return (size_t)call_result(ret);
}
