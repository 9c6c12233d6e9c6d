/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets over RDMA: calls that look and behave like those of <sys/socket.h>, with an r in front,
 * for streams (over RC) and datagrams (over UD).
 *
 * usrdma does not offer them yet. Every call answers -1 (riowrite: (size_t)-1) with errno
 * EOPNOTSUPP, whatever it is given, does not block and may be made by any thread. What stands at
 * each says what it is for; parameters are as in the call of the same name without the r,
 * descriptors are those of rsocket().
 *
 * Since RDMACM_1.0, all of them. Source: rsocket(7).
 */
#ifndef RDMA_RSOCKET_H
#define RDMA_RSOCKET_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Public names are visible, also in a library built with -fvisibility=hidden. */
#pragma GCC visibility push(default)

/**
 * Makes an rsocket.
 *
 * *domain*: AF_INET or AF_INET6. *type*: SOCK_STREAM or SOCK_DGRAM. *protocol*: 0, or that of the
 * type.
 * Returns -1 with errno EOPNOTSUPP. See also: socket(2).
 */
int rsocket(int domain, int type, int protocol);

/**
 * Binds an rsocket to a local address.
 *
 * Returns -1 with errno EOPNOTSUPP. See also: bind(2), rdma_bind_addr().
 */
int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);

/**
 * Lets an rsocket wait for connections.
 *
 * Returns -1 with errno EOPNOTSUPP. See also: listen(2), rdma_listen().
 */
int rlisten(int socket, int backlog);

/**
 * Takes the next connection off a listening rsocket.
 *
 * Returns -1 with errno EOPNOTSUPP. See also: accept(2).
 */
int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);

/**
 * Connects an rsocket.
 *
 * Returns -1 with errno EOPNOTSUPP. See also: connect(2), rdma_connect().
 */
int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);

/**
 * Ends one or both directions of a connection.
 *
 * Returns -1 with errno EOPNOTSUPP. See also: shutdown(2).
 */
int rshutdown(int socket, int how);

/**
 * Closes an rsocket.
 *
 * Returns -1 with errno EOPNOTSUPP. See also: close(2).
 */
int rclose(int socket);

/**
 * Receives, like recv(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rrecv(int socket, void *buf, size_t len, int flags);

/**
 * Receives with the sender's address, like recvfrom(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen);

/**
 * Receives into several buffers, like recvmsg(2), without control messages.
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);

/**
 * Sends, like send(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rsend(int socket, const void *buf, size_t len, int flags);

/**
 * Sends to an address, like sendto(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen);

/**
 * Sends from several buffers, like sendmsg(2), without control messages.
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);

/**
 * Receives, like read(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rread(int socket, void *buf, size_t count);

/**
 * Receives into several buffers, like readv(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);

/**
 * Sends, like write(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rwrite(int socket, const void *buf, size_t count);

/**
 * Sends from several buffers, like writev(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);

/**
 * Waits for rsockets and ordinary descriptors, like poll(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);

/**
 * Waits for rsockets and ordinary descriptors, like select(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout);

/**
 * Tells the peer's address, like getpeername(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);

/**
 * Tells the local address, like getsockname(2).
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);

/* The level of options that only rsockets have. */
#define SOL_RDMA 0x10000

/* Options of SOL_RDMA: all int, but RDMA_ROUTE, which is an array of struct ibv_path_data. */
enum {
	RDMA_SQSIZE,	/* entries of the send queue */
	RDMA_RQSIZE,	/* entries of the receive queue */
	RDMA_INLINE,	/* bytes that are sent inline */
	RDMA_IOMAPSIZE, /* how many riomap() may be in force */
	RDMA_ROUTE
};

/**
 * Sets an option of an rsocket, like setsockopt(2), or one of SOL_RDMA.
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);

/**
 * Reads an option of an rsocket, like getsockopt(2), or one of SOL_RDMA.
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);

/**
 * Reads or sets O_NONBLOCK of an rsocket, like fcntl(2) with F_GETFL and F_SETFL.
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int rfcntl(int socket, int cmd, ...);

/**
 * Lets the peer write into local memory by riowrite().
 *
 * *buf*, *len*: the memory. *prot*: PROT_WRITE. *flags*: 0.
 * *offset*: under which offset the peer finds it; -1 leaves the choice.
 * Returns -1 with errno EOPNOTSUPP. See also: mmap(2).
 */
off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);

/**
 * Ends what riomap() began, for the same memory.
 *
 * Returns -1 with errno EOPNOTSUPP.
 */
int riounmap(int socket, void *buf, size_t len);

/**
 * Writes into memory that the peer mapped by riomap().
 *
 * *buf*, *count*: the bytes. *offset*: that of the peer's mapping. *flags*: 0.
 * Returns (size_t)-1 with errno EOPNOTSUPP.
 */
size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* RDMA_RSOCKET_H */
