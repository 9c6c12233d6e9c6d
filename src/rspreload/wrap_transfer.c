/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The functions below must have the symbol names of the C library. _FILE_OFFSET_BITS=64 would
 * rename some of them.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <rdma/rsocket.h>
#include <sys/sendfile.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rspreload/epoll.h"
#include "rspreload/real.h"
#include "rspreload/wrap.h"

/* Calls that read and write. */

EXPORT ssize_t read(int fd, void *buf, size_t count)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_to_read(fd, 0, &rsocket))
		return rsocket.error ? wrap_fail(rsocket.error) : real.read(fd, buf, count);
	return rread(rsocket.fd, buf, count);
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int count)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_to_read(fd, 0, &rsocket))
		return rsocket.error ? wrap_fail(rsocket.error) : real.readv(fd, iov, count);
	return rreadv(rsocket.fd, iov, count);
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_to_read(fd, flags, &rsocket))
		return rsocket.error ? wrap_fail(rsocket.error) : real.recv(fd, buf, len, flags);
	return rrecv(rsocket.fd, buf, len, flags);
}

static ssize_t receive_from(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			    socklen_t *bytes)
{
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_to_read(fd, flags, &rsocket))
		return rsocket.error ? wrap_fail(rsocket.error) :
				       real.recvfrom(fd, buf, len, flags, addr, bytes);
	return rrecvfrom(rsocket.fd, buf, len, flags, addr, bytes);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, __SOCKADDR_ARG addr,
			socklen_t *bytes)
{
	DEFERS_CANCEL;

	return receive_from(fd, buf, len, flags, addr.__sockaddr__, bytes);
}

/* Descriptors received by SCM_RIGHTS have new numbers. */
static void descriptors_came(struct msghdr *msg, const void *caller)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t bytes = cmsg->cmsg_len - CMSG_LEN(0);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
			int number;

			memcpy(&number, CMSG_DATA(cmsg) + at, sizeof(number));
			sock_number_reused(number, caller);
			epoll_mark_received(number);
		}
	}
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_to_read(fd, flags, &rsocket)) {
		ssize_t ret = rsocket.error ? wrap_fail(rsocket.error) :
					      real.recvmsg(fd, msg, flags);

		if (ret >= 0 && msg->msg_controllen)
			descriptors_came(msg, __builtin_return_address(0));
		return ret;
	}
	return rrecvmsg(rsocket.fd, msg, flags);
}

/* Receives the messages one by one. With MSG_WAITFORONE it waits only for the first message. */
static int receive_many(struct wrap_rsocket rsocket, struct mmsghdr *msgs, unsigned count,
			int flags)
{
	unsigned done = 0;

	while (done < count) {
		ssize_t ret = rrecvmsg(rsocket.fd, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);

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
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_to_read(fd, flags, &rsocket)) {
		int ret = rsocket.error ? wrap_fail(rsocket.error) :
					  real.recvmmsg(fd, msgs, count, flags, timeout);

		for (int i = 0; i < ret; i++)
			if (msgs[i].msg_hdr.msg_controllen)
				descriptors_came(&msgs[i].msg_hdr, __builtin_return_address(0));
		return ret;
	}
	return receive_many(rsocket, msgs, count, flags);
}

EXPORT ssize_t write(int fd, const void *buf, size_t count)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.write(fd, buf, count);
	return rwrite(rsocket.fd, buf, count);
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int count)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.writev(fd, iov, count);
	return rwritev(rsocket.fd, iov, count);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.send(fd, buf, len, flags);
	return rsend(rsocket.fd, buf, len, flags);
}

/*
 * TCP ignores the address of a connected stream; rsockets reject it. Therefore the address is not
 * passed.
 */
static ssize_t send_to(struct wrap_rsocket rsocket, const void *buf, size_t len, int flags,
		       const struct sockaddr *addr, socklen_t bytes)
{
	if (rsocket.type == SOCK_STREAM)
		return rsend(rsocket.fd, buf, len, flags);
	return rsendto(rsocket.fd, buf, len, flags, addr, bytes);
}

static ssize_t send_message(struct wrap_rsocket rsocket, const struct msghdr *msg, int flags)
{
	struct msghdr bare;

	if (!msg || rsocket.type != SOCK_STREAM)
		return rsendmsg(rsocket.fd, msg, flags);
	bare = *msg;
	bare.msg_name = NULL;
	bare.msg_namelen = 0;
	return rsendmsg(rsocket.fd, &bare, flags);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, __CONST_SOCKADDR_ARG addr,
		      socklen_t bytes)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.sendto(fd, buf, len, flags, addr.__sockaddr__, bytes);
	return send_to(rsocket, buf, len, flags, addr.__sockaddr__, bytes);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.sendmsg(fd, msg, flags);
	return send_message(rsocket, msg, flags);
}

static int send_many(struct wrap_rsocket rsocket, struct mmsghdr *msgs, unsigned count, int flags)
{
	unsigned done = 0;

	while (done < count) {
		ssize_t ret = send_message(rsocket, &msgs[done].msg_hdr, flags);

		if (ret < 0)
			return done ? (int)done : -1;
		msgs[done++].msg_len = (unsigned)ret;
	}
	return (int)done;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags)
{
	DEFERS_CANCEL;
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(fd, &rsocket))
		return real.sendmmsg(fd, msgs, count, flags);
	return send_many(rsocket, msgs, count, flags);
}

#define FILE_PIECE 65536

/*
 * Sends from *offset or, if offset is NULL, from the file position, and advances it by the number
 * of sent bytes. Sends less than `count` only if the rsocket accepts no more data, the file ends or
 * an error occurs.
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
	struct wrap_rsocket rsocket;

	if (!wrap_is_rsocket_settled(out, &rsocket))
		return real.sendfile(out, in, offset, count);
	return send_file(rsocket.fd, in, offset, count);
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	DEFERS_CANCEL;

	return send_file_to(out, in, offset, count);
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	DEFERS_CANCEL;
	off64_t at = offset ? *offset : 0;
	ssize_t ret = send_file_to(out, in, offset ? &at : NULL, count);

	if (offset)
		*offset = (off_t)at;
	return ret;
}

/* Programs compiled with _FORTIFY_SOURCE call these functions. `room` is the size of the buffer. */
void __chk_fail(void) __attribute__((noreturn));
ssize_t __read_chk(int fd, void *buf, size_t count, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags, __SOCKADDR_ARG addr,
		       socklen_t *bytes);

EXPORT ssize_t __read_chk(int fd, void *buf, size_t count, size_t room)
{
	DEFERS_CANCEL;

	if (count > room)
		__chk_fail();
	return read(fd, buf, count);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	DEFERS_CANCEL;

	if (len > room)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags,
			      __SOCKADDR_ARG addr, socklen_t *bytes)
{
	DEFERS_CANCEL;

	if (len > room)
		__chk_fail();
	return receive_from(fd, buf, len, flags, addr.__sockaddr__, bytes);
}
