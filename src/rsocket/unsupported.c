/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Sockets over RDMA are not built yet: no rsocket can be made, and no other call finds one. All say
 * EOPNOTSUPP, rpoll() and rselect() too, whatever descriptors they are given.
 */

#include <errno.h>
#include <rdma/rsocket.h>

/* One call: -1 in its type, and errno. No parameter is looked at. */
#define REFUSED(type, name, parameters) \
	type name parameters            \
	{                               \
		errno = EOPNOTSUPP;     \
		return (type)-1;        \
	}

#define UNUSED __attribute__((unused))

REFUSED(int, rsocket, (UNUSED int domain, UNUSED int type, UNUSED int protocol))
REFUSED(int, rbind,
	(UNUSED int socket, UNUSED const struct sockaddr *addr, UNUSED socklen_t addrlen))
REFUSED(int, rlisten, (UNUSED int socket, UNUSED int backlog))
REFUSED(int, raccept, (UNUSED int socket, UNUSED struct sockaddr *addr, UNUSED socklen_t *addrlen))
REFUSED(int, rconnect,
	(UNUSED int socket, UNUSED const struct sockaddr *addr, UNUSED socklen_t addrlen))
REFUSED(int, rshutdown, (UNUSED int socket, UNUSED int how))
REFUSED(int, rclose, (UNUSED int socket))
REFUSED(ssize_t, rrecv, (UNUSED int socket, UNUSED void *buf, UNUSED size_t len, UNUSED int flags))
REFUSED(ssize_t, rrecvfrom,
	(UNUSED int socket, UNUSED void *buf, UNUSED size_t len, UNUSED int flags,
	 UNUSED struct sockaddr *src_addr, UNUSED socklen_t *addrlen))
REFUSED(ssize_t, rrecvmsg, (UNUSED int socket, UNUSED struct msghdr *msg, UNUSED int flags))
REFUSED(ssize_t, rsend,
	(UNUSED int socket, UNUSED const void *buf, UNUSED size_t len, UNUSED int flags))
REFUSED(ssize_t, rsendto,
	(UNUSED int socket, UNUSED const void *buf, UNUSED size_t len, UNUSED int flags,
	 UNUSED const struct sockaddr *dest_addr, UNUSED socklen_t addrlen))
REFUSED(ssize_t, rsendmsg, (UNUSED int socket, UNUSED const struct msghdr *msg, UNUSED int flags))
REFUSED(ssize_t, rread, (UNUSED int socket, UNUSED void *buf, UNUSED size_t count))
REFUSED(ssize_t, rreadv, (UNUSED int socket, UNUSED const struct iovec *iov, UNUSED int iovcnt))
REFUSED(ssize_t, rwrite, (UNUSED int socket, UNUSED const void *buf, UNUSED size_t count))
REFUSED(ssize_t, rwritev, (UNUSED int socket, UNUSED const struct iovec *iov, UNUSED int iovcnt))
REFUSED(int, rpoll, (UNUSED struct pollfd * fds, UNUSED nfds_t nfds, UNUSED int timeout))
REFUSED(int, rselect,
	(UNUSED int nfds, UNUSED fd_set *readfds, UNUSED fd_set *writefds, UNUSED fd_set *exceptfds,
	 UNUSED struct timeval *timeout))
REFUSED(int, rgetpeername,
	(UNUSED int socket, UNUSED struct sockaddr *addr, UNUSED socklen_t *addrlen))
REFUSED(int, rgetsockname,
	(UNUSED int socket, UNUSED struct sockaddr *addr, UNUSED socklen_t *addrlen))
REFUSED(int, rsetsockopt,
	(UNUSED int socket, UNUSED int level, UNUSED int optname, UNUSED const void *optval,
	 UNUSED socklen_t optlen))
REFUSED(int, rgetsockopt,
	(UNUSED int socket, UNUSED int level, UNUSED int optname, UNUSED void *optval,
	 UNUSED socklen_t *optlen))
REFUSED(int, rfcntl, (UNUSED int socket, UNUSED int cmd, ...))
REFUSED(off_t, riomap,
	(UNUSED int socket, UNUSED void *buf, UNUSED size_t len, UNUSED int prot, UNUSED int flags,
	 UNUSED off_t offset))
REFUSED(int, riounmap, (UNUSED int socket, UNUSED void *buf, UNUSED size_t len))
REFUSED(size_t, riowrite,
	(UNUSED int socket, UNUSED const void *buf, UNUSED size_t count, UNUSED off_t offset,
	 UNUSED int flags))
