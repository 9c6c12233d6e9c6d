/* SPDX-License-Identifier: BSD-2-Clause */

/* The names below are those of the C library's own symbols: none may be renamed by what asks for large files. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <rdma/rsocket.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rspreload/real.h"
#include "rspreload/wrap.h"

/* Reading and writing. */

EXPORT ssize_t read(int fd, void *buf, size_t count)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.read(fd, buf, count);
	return wrap_has_read(sock, rread(sock->rsocket, buf, count));
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int count)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.readv(fd, iov, count);
	return wrap_has_read(sock, rreadv(sock->rsocket, iov, count));
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.recv(fd, buf, len, flags);
	return wrap_has_read(sock, rrecv(sock->rsocket, buf, len, flags));
}

static ssize_t receive_from(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			    socklen_t *bytes)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.recvfrom(fd, buf, len, flags, addr, bytes);
	return wrap_has_read(sock, rrecvfrom(sock->rsocket, buf, len, flags, addr, bytes));
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, __SOCKADDR_ARG addr,
			socklen_t *bytes)
{
	return receive_from(fd, buf, len, flags, addr.__sockaddr__, bytes);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.recvmsg(fd, msg, flags);
	return wrap_has_read(sock, rrecvmsg(sock->rsocket, msg, flags));
}

/* One after the other; only the first is waited for if that is asked. */
static int receive_many(const struct sock *sock, struct mmsghdr *msgs, unsigned count, int flags)
{
	unsigned done = 0;

	while (done < count) {
		ssize_t ret = rrecvmsg(sock->rsocket, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);

		if (ret < 0)
			return done ? (int)done : -1;
		msgs[done++].msg_len = (unsigned)ret;
		if (!ret)
			break;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	}
	return (int)done;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags,
		    struct timespec *timeout)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.recvmmsg(fd, msgs, count, flags, timeout);
	return (int)wrap_has_read(sock, receive_many(sock, msgs, count, flags));
}

EXPORT ssize_t write(int fd, const void *buf, size_t count)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.write(fd, buf, count);
	return wrap_has_written(sock, rwrite(sock->rsocket, buf, count));
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int count)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.writev(fd, iov, count);
	return wrap_has_written(sock, rwritev(sock->rsocket, iov, count));
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.send(fd, buf, len, flags);
	return wrap_has_written(sock, rsend(sock->rsocket, buf, len, flags));
}

/* TCP does not look at an address that it does not need, where rsockets refuse one. */
static ssize_t send_to(const struct sock *sock, const void *buf, size_t len, int flags,
		       const struct sockaddr *addr, socklen_t bytes)
{
	if (sock->type == SOCK_STREAM)
		return rsend(sock->rsocket, buf, len, flags);
	return rsendto(sock->rsocket, buf, len, flags, addr, bytes);
}

static ssize_t send_message(const struct sock *sock, const struct msghdr *msg, int flags)
{
	struct msghdr bare;

	if (!msg || sock->type != SOCK_STREAM)
		return rsendmsg(sock->rsocket, msg, flags);
	bare = *msg;
	bare.msg_name = NULL;
	bare.msg_namelen = 0;
	return rsendmsg(sock->rsocket, &bare, flags);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, __CONST_SOCKADDR_ARG addr,
		      socklen_t bytes)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.sendto(fd, buf, len, flags, addr.__sockaddr__, bytes);
	return wrap_has_written(sock, send_to(sock, buf, len, flags, addr.__sockaddr__, bytes));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.sendmsg(fd, msg, flags);
	return wrap_has_written(sock, send_message(sock, msg, flags));
}

static int send_many(const struct sock *sock, struct mmsghdr *msgs, unsigned count, int flags)
{
	unsigned done = 0;

	while (done < count) {
		ssize_t ret = send_message(sock, &msgs[done].msg_hdr, flags);

		if (ret < 0)
			return done ? (int)done : -1;
		msgs[done++].msg_len = (unsigned)ret;
	}
	return (int)done;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags)
{
	struct sock *sock = wrap_find_settled(fd);

	if (!sock)
		return real.sendmmsg(fd, msgs, count, flags);
	return (int)wrap_has_written(sock, send_many(sock, msgs, count, flags));
}

#define FILE_PIECE 65536

/*
 * From the file's place, or from *offset, which moves on by what was sent. Part of it only if the
 * rsocket does not take more or the file ends.
 */
static ssize_t send_file(int rsocket, int in, off64_t *offset, size_t count)
{
	off64_t at = offset ? *offset : lseek64(in, 0, SEEK_CUR);
	char piece[FILE_PIECE];
	size_t sent = 0;
	ssize_t ret = 0;

	if (at < 0)
		return -1;
	while (sent < count) {
		size_t wanted = count - sent < sizeof(piece) ? count - sent : sizeof(piece);
		ssize_t got = pread64(in, piece, wanted, at);

		ret = got > 0 ? rsend(rsocket, piece, (size_t)got, 0) : got;
		if (ret <= 0)
			break;
		sent += (size_t)ret;
		at += ret;
		if (ret < got)
			break;
	}
	if (offset)
		*offset = at;
	else if (sent)
		lseek64(in, at, SEEK_SET);
	return sent ? (ssize_t)sent : ret;
}

static ssize_t send_file_to(int out, int in, off64_t *offset, size_t count)
{
	struct sock *sock = wrap_find_settled(out);

	if (!sock)
		return real.sendfile(out, in, offset, count);
	return wrap_has_written(sock, send_file(sock->rsocket, in, offset, count));
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	return send_file_to(out, in, offset, count);
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	off64_t at = offset ? *offset : 0;
	ssize_t ret = send_file_to(out, in, offset ? &at : NULL, count);

	if (offset)
		*offset = (off_t)at;
	return ret;
}

/* What fortified programs call instead: the last number is the size of the buffer. */
void __chk_fail(void) __attribute__((noreturn));
ssize_t __read_chk(int fd, void *buf, size_t count, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags, __SOCKADDR_ARG addr,
		       socklen_t *bytes);

EXPORT ssize_t __read_chk(int fd, void *buf, size_t count, size_t room)
{
	if (count > room)
		__chk_fail();
	return read(fd, buf, count);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	if (len > room)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags,
			      __SOCKADDR_ARG addr, socklen_t *bytes)
{
	if (len > room)
		__chk_fail();
	return receive_from(fd, buf, len, flags, addr.__sockaddr__, bytes);
}
