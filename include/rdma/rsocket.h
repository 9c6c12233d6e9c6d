/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets over RDMA: calls with the parameters and the behaviour of those of <sys/socket.h>, and
 * with names that begin with r. A stream uses one RC queue pair, which the rdma_cm connects. A
 * datagram socket has a UDP socket for its address, and UD queue pairs that carry the datagrams
 * when both sides know the queue pair of the other. Both use the protocol of rdma-core's rsockets,
 * so that either peer may run rdma-core. Ports of streams are ports of RDMA_PS_TCP, which are
 * independent of TCP ports. Ports of datagram sockets are UDP ports.
 *
 * A descriptor that rsocket() or raccept() returned may be used with these calls only, including
 * rclose(). It is a file descriptor. poll(2) reports it readable when the library has data to
 * process, which need not be data for the application. Use rpoll() or rselect(), which accept
 * rsockets and other descriptors.
 *
 * All calls may be made by any thread at any time. On one rsocket one thread may send while another
 * thread receives and others poll. Threads that send on one rsocket at the same time are
 * serialized. A call that would block returns at once if the rsocket is O_NONBLOCK (rfcntl(), or
 * SOCK_NONBLOCK in rsocket()) or if its flags contain MSG_DONTWAIT. A signal ends a blocking call
 * with EINTR, unless all signal handlers of the process have SA_RESTART. No call raises SIGPIPE.
 *
 * If the peer process ends without rclose(), or its host is lost, the next call fails once with
 * ECONNRESET. Data that was received before can still be read. A process that ends by exit(3)
 * closes its rsockets, which takes at most two seconds. A process that is killed resets its
 * connections.
 *
 * After fork() the rsockets belong to the parent. In the child every call on such an rsocket fails
 * with ENODEV, except rpoll(), which reports POLLNVAL, rselect(), which fails with EBADF, and
 * rclose(), which closes the copy of the child. The calls of the child, and its end, do not affect
 * the connection. A connection ends with the process that made it, also while a child has copies of
 * its descriptors.
 *
 * No call is async-signal-safe (signal-safety(7)). A call from a signal handler on the rsocket
 * whose call was interrupted fails with EDEADLK where the library detects this.
 *
 * Each call fails with EBADF if the descriptor is not an rsocket; rpoll() and rselect() are
 * exceptions. Errors of the corresponding call of <sys/socket.h> that are not listed on a page do
 * not occur.
 *
 * An administrator can set the initial values of rsockets in files of the directory
 * /etc/rdma/rsocket, each of which contains one number: mem_default and wmem_default (bytes of the
 * receive and send buffers; 131072), sqsize_default and rqsize_default (entries of the queues;
 * 384), inline_default (maximum number of bytes that are sent inline; 64), iomap_size (entries for
 * riomap(); 0), polling_time (microseconds that a call polls before it sleeps; 10; after calls that
 * ended soon, a call polls up to 80, unless the value is 0), wake_up_interval (maximum milliseconds
 * of sleep in rpoll() before it polls again; 500). The library reads them at the first rsocket().
 *
 * With LD_PRELOAD=librspreload.so, which is in the directory rsocket beside this library, the
 * socket calls of an unmodified program use rsockets.
 *
 * Since RDMACM_1.0, all of them. Source: rsocket(7), socket(7), tcp(7), udp(7).
 */
#ifndef RDMA_RSOCKET_H
#define RDMA_RSOCKET_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Public names are visible, also in a library built with -fvisibility=hidden. */
#pragma GCC visibility push(default)

/**
 * Creates an rsocket.
 *
 * *domain*: AF_INET or AF_INET6.
 * *type*: SOCK_STREAM or SOCK_DGRAM; SOCK_NONBLOCK and SOCK_CLOEXEC may be added. Releases of
 * rdma-core up to v56 refuse these flags with EOPNOTSUPP; rfcntl() is portable.
 * *protocol*: 0; or IPPROTO_TCP for a stream, IPPROTO_UDP for a datagram socket.
 * Returns a descriptor, which the caller passes to rclose(), or -1 with errno.
 * Errors: EOPNOTSUPP: other domain, other type, or a protocol that does not fit the type; ENODEV:
 * no daemon and therefore no device for a stream (a datagram socket is created, and rsendto()
 * fails); EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: any. Blocks for a reply of the daemon only.
 * State: the rsocket has no address, and a stream is not connected.
 * Since RDMACM_1.0. Source: rsocket(7). See also: socket(2), rconnect(), rlisten().
 */
int rsocket(int domain, int type, int protocol);

/**
 * Binds an rsocket to a local address and port.
 *
 * *socket*: an rsocket that is not bound.
 * *addr*: an address of the domain of the rsocket. The wildcard address means all addresses of this
 * host; port 0 selects a free port. An IPv4-mapped IPv6 address is accepted.
 * *addrlen*: size of *addr* in bytes.
 * Returns 0, or -1 with errno.
 * Errors: EAFNOSUPPORT: other address family; EINVAL: *addrlen* is too small, or the rsocket is
 * bound or connected already; EADDRINUSE: the port is in use; EADDRNOTAVAIL: this host does not
 * have the address; ENODEV: the daemon has ended; EACCES: the port is privileged.
 * Threads: any. Does not block.
 * State: rgetsockname() returns the address.
 * Since RDMACM_1.0. Source: rsocket(7). See also: bind(2), rdma_bind_addr().
 */
int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);

/**
 * Starts to listen for connections on a stream. A thread of the library completes connections while
 * the application does other work; raccept() returns them.
 *
 * *socket*: a stream that is not connected. If it is not bound, the library selects a free port.
 * *backlog*: maximum number of completed connections that wait for raccept(), at least 1. The
 * daemon holds further requests, up to the same number. A second call changes the value.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the stream is connected; EADDRINUSE: another id listens at the address;
 * EOPNOTSUPP: not a stream; EAGAIN: no thread can be created; ENOMEM: no memory.
 * Threads: any. Does not block. The first call of a process creates the thread that completes
 * connections.
 * State: the stream listens. rpoll() reports POLLIN when a connection waits for raccept().
 * Since RDMACM_1.0. Source: rsocket(7). See also: listen(2), raccept(), rdma_listen().
 */
int rlisten(int socket, int backlog);

/**
 * Accepts the oldest connection that waits on a listening stream.
 *
 * *socket*: a stream that listens.
 * *addr*: set to the address of the peer; may be NULL.
 * *addrlen*: in: size of *addr* in bytes; out: size of the whole address. NULL if *addr* is NULL.
 * Returns the descriptor of a new stream, or -1 with errno.
 * Errors: EAGAIN: no connection waits and the call must not block, or SO_RCVTIMEO expired; EINVAL:
 * the stream does not listen, or was shut down; ENETDOWN: the daemon has ended, or the interface of
 * the address was removed; EOPNOTSUPP: not a stream; EFAULT: *addr* without *addrlen*; EINTR: a
 * signal interrupted the wait; EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: any. Blocks until a connection is available, at most for SO_RCVTIMEO.
 * State: the new stream is connected and has the options of the listening stream, except
 * O_NONBLOCK.
 * Since RDMACM_1.0. Source: rsocket(7). See also: accept(2), rlisten().
 */
int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);

/**
 * Connects a stream to a listening stream, or sets the peer of a datagram socket.
 *
 * *socket*: a stream that is not connected, or a datagram socket.
 * *addr*: an address of the domain of the rsocket. AF_UNSPEC removes the peer of a datagram socket.
 * *addrlen*: size of *addr* in bytes.
 * Returns 0, or -1 with errno.
 * Errors: EINPROGRESS: the call must not block, or SO_SNDTIMEO expired; rpoll() reports POLLOUT at
 * the end of the attempt, and SO_ERROR has its result; EALREADY: the same for a repeated call;
 * EISCONN: the rsocket is connected, or listens; ECONNREFUSED: no stream listens at the address, or
 * the peer rejected the connection; ETIMEDOUT: the peer did not reply; ENETUNREACH, EHOSTUNREACH:
 * no route to the address; ENETDOWN: the daemon has ended, or the interface of the route was
 * removed; EAFNOSUPPORT, EINVAL: invalid *addr* or *addrlen*; EINTR: a signal interrupted the wait;
 * the attempt continues; EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: any. Blocks on a stream, unless the call must not block. In that case a thread of the
 * library completes the connection.
 * State: the rsocket is connected. After a failure the call may be repeated. After EINTR a repeated
 * call continues the wait.
 * Since RDMACM_1.0. Source: rsocket(7). See also: connect(2), rdma_connect().
 */
int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);

/**
 * Ends one or both directions of a connection.
 *
 * *socket*: a connected stream, a listening stream, or a connected datagram socket.
 * *how*: SHUT_RD, SHUT_WR or SHUT_RDWR.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: other *how*; ENOTCONN: the rsocket is not connected.
 * Threads: any. Blocks until the device of the peer has received enough of the preceding data to
 * accept the shutdown message.
 * State: after SHUT_WR the peer reads the remaining data and then the end of the stream; sending
 * fails with EPIPE. After SHUT_RD receiving returns 0 when the data that has arrived is read. On a
 * listening stream SHUT_RD and SHUT_RDWR end listening, and raccept() fails with EINVAL.
 * Since RDMACM_1.0. Source: rsocket(7). See also: shutdown(2), rclose().
 */
int rshutdown(int socket, int how);

/**
 * Closes an rsocket. Data that was sent on a stream is delivered first.
 *
 * *socket*: any rsocket.
 * Returns 0, or -1 with errno.
 * Errors: EBADF: not an rsocket.
 * Threads: any. A call that blocks in another thread fails with EBADF. Blocks until the device of
 * the peer has received all data, at most for ten seconds or the time of SO_LINGER. With a linger
 * time of 0 it does not block and resets the connection.
 * State: the descriptor is closed. A descriptor that is not an rsocket stays open.
 * Notes: for a descriptor that is not an rsocket, rclose() of rdma-core returns 9 and leaves errno
 * unchanged. A portable program checks for any value but 0.
 * Since RDMACM_1.0. Source: rsocket(7). See also: close(2).
 */
int rclose(int socket);

/**
 * Receives data.
 *
 * *socket*: a connected stream, or a datagram socket.
 * *buf*: set to the data.
 * *len*: maximum number of bytes. The remainder of a longer datagram is discarded.
 * *flags*: MSG_DONTWAIT; MSG_PEEK; MSG_WAITALL: a stream waits for all *len* bytes; MSG_TRUNC: a
 * datagram socket returns the whole length of the datagram, and a stream discards the bytes. Other
 * flags have no effect.
 * Returns the number of bytes, 0 at the end of a stream, or -1 with errno.
 * Errors: EAGAIN: no data is available and the call must not block, or SO_RCVTIMEO expired;
 * ENOTCONN: the stream was never connected; ECONNRESET: the peer process has ended, or its host no
 * longer replies; EPROTO: the peer violates the protocol; ENETDOWN: the daemon has ended
 * (ECONNRESET if the connection broke first); ETIMEDOUT: a non-blocking rconnect() received no
 * reply; its other errors are reported in the same way; ECONNREFUSED: an ICMP error for a preceding
 * datagram; EFAULT: *buf* cannot be written; the data of a stream remains, a datagram is lost;
 * EOPNOTSUPP: MSG_OOB or MSG_ERRQUEUE; EINTR: a signal interrupted the wait; EMFILE, ENFILE: too
 * many open descriptors; ENOMEM: no memory.
 * Threads: any. Blocks until data is available.
 * Since RDMACM_1.0. Source: rsocket(7). See also: recv(2), rpoll().
 */
ssize_t rrecv(int socket, void *buf, size_t len, int flags);

/**
 * Receives data and returns the address of the sender.
 *
 * *socket*, *buf*, *len*, *flags*: as in rrecv().
 * *src_addr*: set to the address of the sender, of a stream that of the peer; may be NULL.
 * *addrlen*: in: size of *src_addr* in bytes; out: size of the whole address.
 * Returns as rrecv().
 * Errors: as rrecv(); EFAULT: *src_addr* without *addrlen*.
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: recvfrom(2).
 */
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen);

/**
 * Receives data into several buffers.
 *
 * *socket*, *flags*: as in rrecv().
 * *msg*: msg_iov and msg_iovlen are the buffers; msg_name and msg_namelen are as in rrecvfrom().
 * msg_controllen becomes 0, because rsockets have no control messages. msg_flags becomes MSG_TRUNC
 * if a datagram was longer than the buffers, otherwise 0.
 * Returns as rrecv().
 * Errors: as rrecv(); EFAULT: *msg* or the buffers are NULL; EMSGSIZE: too many buffers; EINVAL:
 * the buffers are too long.
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: recvmsg(2).
 */
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);

/**
 * Sends data to the peer.
 *
 * *socket*: a connected stream, or a connected datagram socket.
 * *buf*: the data. It may be changed as soon as the call returns.
 * *len*: number of bytes. A datagram has at most 2032 bytes (IPv6: 2020).
 * *flags*: MSG_DONTWAIT. Other flags have no effect.
 * Returns the number of bytes that were queued; of a datagram all. Of a stream it is less than
 * *len* only if the call must not block or an error occurred, which the next call reports. -1 with
 * errno.
 * Errors: EAGAIN: the send buffer is full and the call must not block, or SO_SNDTIMEO expired;
 * ENOTCONN: the stream was never connected; EDESTADDRREQ: the datagram socket has no peer; EPIPE:
 * this side shut the stream down, or an error was reported before; ECONNRESET: the peer closed the
 * stream, or its process ended; ETIMEDOUT, EPROTO, ENETDOWN, ECONNREFUSED: as rrecv(); EMSGSIZE:
 * the datagram is too long; EFAULT: *buf* cannot be read, and nothing was sent; EOPNOTSUPP:
 * MSG_OOB; EINTR: a signal interrupted the wait; EMFILE, ENFILE: too many open descriptors; ENOMEM:
 * no memory.
 * Threads: any. Blocks until the send buffer has space, but not until the data has arrived.
 * Since RDMACM_1.0. Source: rsocket(7). See also: send(2), rpoll().
 */
ssize_t rsend(int socket, const void *buf, size_t len, int flags);

/**
 * Sends data to an address.
 *
 * *socket*, *buf*, *len*, *flags*: as in rsend().
 * *dest_addr*: an address of the domain of the rsocket. NULL: the peer.
 * *addrlen*: size of *dest_addr* in bytes.
 * Returns as rsend().
 * Errors: as rsend(); EISCONN: a stream is connected to its peer; EAFNOSUPPORT, EINVAL: invalid
 * *dest_addr* or *addrlen*; ENODEV: no daemon and therefore no device; ENETUNREACH: no route to the
 * address.
 * Threads: any. Blocks as rsend().
 * State: an rsocket without a port gets one. The first datagrams to an address use UDP, until both
 * sides know the queue pair of the other.
 * Since RDMACM_1.0. Source: rsocket(7). See also: sendto(2).
 */
ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen);

/**
 * Sends data from several buffers.
 *
 * *socket*, *flags*: as in rsend().
 * *msg*: msg_iov and msg_iovlen are the buffers; msg_name and msg_namelen are as in rsendto().
 * Returns as rsend().
 * Errors: as rsendto(); ENOTSUP: control messages; EFAULT: *msg* or the buffers are NULL; EMSGSIZE:
 * too many buffers; EINVAL: the buffers are too long.
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: sendmsg(2).
 */
ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);

/**
 * Receives data, as rrecv() without flags.
 *
 * *socket*, *buf*, *count*: as *socket*, *buf* and *len* of rrecv().
 * Returns as rrecv().
 * Errors: as rrecv().
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: read(2).
 */
ssize_t rread(int socket, void *buf, size_t count);

/**
 * Receives data into several buffers, without flags.
 *
 * *socket*: as in rrecv().
 * *iov*, *iovcnt*: the buffers and their number. They are filled in order.
 * Returns as rrecv().
 * Errors: as rrecv(); EFAULT: *iov* is NULL; EINVAL: too many buffers, or the buffers are too long.
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: readv(2).
 */
ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);

/**
 * Sends data, as rsend() without flags.
 *
 * *socket*, *buf*, *count*: as *socket*, *buf* and *len* of rsend().
 * Returns as rsend().
 * Errors: as rsend().
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: write(2).
 */
ssize_t rwrite(int socket, const void *buf, size_t count);

/**
 * Sends data from several buffers, without flags.
 *
 * *socket*: as in rsend().
 * *iov*, *iovcnt*: the buffers and their number. Together they are one datagram, or consecutive
 * bytes of a stream.
 * Returns as rsend().
 * Errors: as rsend(); EFAULT: *iov* is NULL; EINVAL: too many buffers, or the buffers are too long.
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: writev(2).
 */
ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);

/**
 * Waits for events of rsockets and other descriptors.
 *
 * *fds*: as in poll(2): fd is an rsocket, another descriptor, or negative; events is the request;
 * revents is filled in.
 * *nfds*: number of entries.
 * *timeout*: milliseconds. 0: returns at once; negative: waits indefinitely.
 * Returns the number of entries with events, 0 after *timeout*, or -1 with errno.
 * Errors: EINTR: a signal interrupted the wait; EINVAL: *nfds* is too large; EFAULT: *fds* is NULL;
 * EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: any. Several threads may wait for the same rsocket.
 * State: for a stream POLLIN reports data, a connection for raccept() or the end of the stream;
 * POLLOUT reports space for at least 2048 bytes, or the end of rconnect(); POLLRDHUP reports that
 * the peer sends no more data; POLLHUP reports that both directions have ended, and that no data
 * remains or the local side shut down writing; POLLERR reports that SO_ERROR has an error. POLLERR,
 * POLLHUP and POLLNVAL are reported without being requested.
 * Since RDMACM_1.0. Source: rsocket(7). See also: poll(2), rselect().
 */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);

/**
 * Waits for events of rsockets and other descriptors in sets.
 *
 * *nfds*: the highest descriptor in the sets plus 1.
 * *readfds*, *writefds*, *exceptfds*: sets of rsockets and other descriptors, or NULL. On return
 * they contain the descriptors with events. An rsocket never has an exceptional condition.
 * *timeout*: maximum time. NULL: waits indefinitely. On return it is the remaining time.
 * Returns the number of descriptors in all sets, 0 after *timeout*, or -1 with errno.
 * Errors: EBADF: a descriptor in a set is not open; EINTR: a signal interrupted the wait; EINVAL:
 * *nfds* or *timeout* is invalid; EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: as rpoll().
 * Since RDMACM_1.0. Source: rsocket(7). See also: select(2), rpoll().
 */
int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout);

/**
 * Gets the address of the peer.
 *
 * *socket*: a connected rsocket.
 * *addr*: set to the address, truncated to *addrlen* bytes.
 * *addrlen*: in: size of *addr* in bytes; out: size of the whole address.
 * Returns 0, or -1 with errno.
 * Errors: ENOTCONN: the rsocket is not connected; EFAULT: *addrlen* is NULL, or *addr* is NULL and
 * *addrlen* is not 0.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: getpeername(2).
 */
int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);

/**
 * Gets the local address.
 *
 * *socket*: any rsocket. If it is not bound, the address is the wildcard with port 0.
 * *addr*: set to the address, truncated to *addrlen* bytes.
 * *addrlen*: in: size of *addr* in bytes; out: size of the whole address.
 * Returns 0, or -1 with errno.
 * Errors: EFAULT: *addrlen* is NULL, or *addr* is NULL and *addrlen* is not 0.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: getsockname(2).
 */
int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);

/* The level of options that only rsockets have. */
#define SOL_RDMA 0x10000

/* Options of SOL_RDMA: all int, but RDMA_ROUTE, which is an array of struct ibv_path_data. */
enum {
	RDMA_SQSIZE,	/* entries of the send queue */
	RDMA_RQSIZE,	/* entries of the receive queue */
	RDMA_INLINE,	/* bytes that are sent inline */
	RDMA_IOMAPSIZE, /* how many riomap() of the peer's may be in force */
	RDMA_ROUTE
};

/**
 * Sets an option of an rsocket.
 *
 * *socket*: any rsocket.
 * *level*: SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 or SOL_RDMA.
 * *optname*: the option:
 *
 * - SOL_SOCKET: SO_REUSEADDR (before rbind()), SO_RCVBUF and SO_SNDBUF (before the rsocket is
 * connected; twice the value is used, at least 4096), SO_RCVTIMEO, SO_SNDTIMEO, SO_LINGER,
 * SO_KEEPALIVE
 * - IPPROTO_TCP: TCP_KEEPIDLE
 * - IPPROTO_IP: IP_TOS
 * - IPPROTO_IPV6: IPV6_V6ONLY and IPV6_TCLASS (before rbind())
 * - SOL_RDMA: RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE, RDMA_IOMAPSIZE and RDMA_ROUTE, before the
 * rsocket is connected. A value outside of the possible range is replaced by the nearest possible
 * value.
 * - Stored without effect: SO_OOBINLINE, SO_RCVLOWAT, SO_PRIORITY, SO_BROADCAST, SO_DONTROUTE,
 * SO_BUSY_POLL, TCP_NODELAY, TCP_CORK, TCP_QUICKACK, TCP_DEFER_ACCEPT, TCP_FASTOPEN,
 * TCP_USER_TIMEOUT, TCP_SYNCNT, TCP_MAXSEG, TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_NOTSENT_LOWAT,
 * TCP_KEEPINTVL, TCP_KEEPCNT, TCP_CONGESTION, IP_BIND_ADDRESS_NO_PORT
 *
 * The options of a datagram socket, except those of SOL_RDMA, are set on its UDP socket.
 *
 * *optval*, *optlen*: the value and its size, as in setsockopt(2). Options of SOL_RDMA are int,
 * except RDMA_ROUTE, which is an array of struct ibv_path_data.
 * Returns 0, or -1 with errno.
 * Errors: ENOTSUP: unknown option; ENOPROTOOPT: the option is read-only, or does not apply to the
 * domain; EINVAL: invalid length or value, or the state no longer permits the option; EDOM: invalid
 * time; EFAULT: *optval* is NULL; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: with SO_KEEPALIVE the library probes an idle peer every TCP_KEEPIDLE seconds. If the peer
 * does not reply, calls fail with ECONNRESET.
 * Since RDMACM_1.0. Source: rsocket(7). See also: setsockopt(2), socket(7), tcp(7), ip(7), ipv6(7).
 */
int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);

/**
 * Reads an option of an rsocket.
 *
 * *socket*: any rsocket.
 * *level*, *optname*: as in rsetsockopt(). In addition SO_ERROR, which the call resets to 0,
 * SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, and TCP_INFO (state, segment sizes and window;
 * other members are 0). RDMA_ROUTE returns the paths that were set or resolved.
 * *optval*: set to the value.
 * *optlen*: in: size of *optval* in bytes; out: size of the value.
 * Returns 0, or -1 with errno.
 * Errors: ENOTSUP: unknown option; EINVAL: *optval* is too small for RDMA_ROUTE; EFAULT: *optval*
 * or *optlen* is NULL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: getsockopt(2).
 */
int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);

/**
 * Reads or sets flags of an rsocket.
 *
 * *socket*: any rsocket.
 * *cmd*: F_GETFL; F_SETFL: O_NONBLOCK takes effect, other flags are stored without effect; F_GETFD;
 * F_SETFD: stored without effect, because rsockets end at execve(2). F_SETFL and F_SETFD need an
 * int as third argument.
 * Returns the flags or 0, or -1 with errno.
 * Errors: ENOTSUP: other *cmd*.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: fcntl(2).
 */
int rfcntl(int socket, int cmd, ...);

/**
 * Creates a set of rsockets and other descriptors to wait for. It has the semantics of epoll(7).
 *
 * *flags*: 0 or EPOLL_CLOEXEC. O_NONBLOCK is accepted and has no effect.
 * Returns the descriptor of the set, or -1 with errno. rclose() destroys the set; threads that wait
 * for the set then return with EBADF.
 * Errors: EINVAL: unknown *flags*; EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: in a fork()ed child the copy of the set does not contain the rsockets of the parent.
 * rpoll() and rselect() report the descriptor of the set as readable while repoll_wait() would
 * return an event; poll(2) and select(2) know the ordinary descriptors only. A set that is a member
 * of another set reports events of all of its members.
 * Since RDMACM_1.5. Source: epoll_create1(2), epoll(7). See also: repoll_ctl(), repoll_wait().
 */
int repoll_create(int flags);

/**
 * Adds, changes or removes a member of a set. A member is an rsocket, another set, or any
 * descriptor that epoll_ctl(2) accepts. rclose() removes an rsocket from all sets.
 *
 * *epfd*: the set, created by repoll_create().
 * *op*: EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL.
 * *fd*: the member.
 * *event*: the events to wait for, and data that repoll_wait() returns with them; ignored by
 * EPOLL_CTL_DEL. EPOLLIN, EPOLLOUT, EPOLLPRI and EPOLLRDHUP are as in epoll_ctl(2). EPOLLERR and
 * EPOLLHUP are always included. EPOLLET: an rsocket reports after each change of its state, with
 * EPOLLIN after each arrival, and with EPOLLOUT when there is room again after a send that found no
 * room; the report has all events that are true then, also those that were reported before. A set
 * that is a member reports after each arrival in it. EPOLLONESHOT: after one report the member is
 * disabled until EPOLL_CTL_MOD. EPOLLEXCLUSIVE and EPOLLWAKEUP have no effect on rsockets, but
 * EPOLLEXCLUSIVE is accepted only where epoll_ctl(2) accepts it.
 * Returns 0, or a positive errno, as in rdma-core. (epoll_ctl(2) returns -1.) errno is not set.
 * Errors: EBADF: *fd* is not open; EINVAL: *epfd* is not a set, *op* is unknown, *fd* is the set
 * itself, or EPOLLEXCLUSIVE is combined with EPOLL_CTL_MOD, with a set as member, or with other
 * events than EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLWAKEUP and EPOLLET; EEXIST: *fd* is a
 * member already; ENOENT: *fd* is not a member; EFAULT: *event* is NULL;
 * EPERM: epoll(7) does not support *fd*, for example a regular file; ENODEV: *fd* is an rsocket of
 * the process that forked this one; ELOOP: sets would contain one another, or would be nested more
 * than 5 levels deep; ENOMEM: no memory.
 * Threads: any. A repoll_wait() in progress in another thread includes the change. Does not block.
 * Since RDMACM_1.5. Source: epoll_ctl(2). See also: repoll_create(), repoll_wait().
 */
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

/**
 * Waits for events of the members of a set.
 *
 * *epfd*: the set, created by repoll_create().
 * *events*: set to the events and the data of their members.
 * *maxevents*: number of entries of *events*, 1 to INT_MAX / sizeof(struct epoll_event).
 * *timeout*: milliseconds. 0: returns at once; -1: waits indefinitely.
 * Returns the number of events, 0 after *timeout*, or -1 with errno. If *epfd* is not a set, the
 * call returns EINVAL as a positive number, as in rdma-core, which cannot be distinguished from a
 * number of events. Further events are reported by the next calls; rsockets and ordinary
 * descriptors are reported in turn.
 * Errors: EBADF: another thread closed the set; EINVAL: *epfd* is not a set (returned, see above),
 * or *maxevents* is less than 1 or above INT_MAX / sizeof(struct epoll_event) (errno); EFAULT:
 * *events* is NULL, or the kernel cannot store the event of an ordinary descriptor there; EINTR: a
 * signal interrupted the wait; EMFILE, ENFILE: too many open descriptors; ENOMEM: no memory.
 * Threads: any, several for one set. A one-shot event is reported to one thread, an edge-triggered
 * event to at least one. Blocks at most for *timeout*. The time of a call grows with the number of
 * rsockets in the set.
 * Since RDMACM_1.5. Source: epoll_wait(2). See also: repoll_ctl(), rpoll().
 */
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

/**
 * Opens memory for riowrite() of the peer. The peer needs a free entry (RDMA_IOMAPSIZE). It
 * receives the mapping before the data that is sent next.
 *
 * *socket*: a connected stream.
 * *buf*, *len*: the memory and its size, less than 4 GiB. It must remain mapped until riounmap() or
 * rclose().
 * *prot*: PROT_WRITE; PROT_NONE: the memory is registered only.
 * *flags*: 0.
 * *offset*: the offset at which the peer addresses the memory; -1: the address of the memory.
 * Mappings with overlapping offsets are not distinguished.
 * Returns the offset, or -1 with errno.
 * Errors: EINVAL: invalid *prot*, *len* or *offset*; ENOMEM: the peer has no free entry; ENOTCONN:
 * the stream was never connected; ECONNRESET: the connection has ended; EOPNOTSUPP: not a stream;
 * EFAULT: the memory is not mapped.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: mmap(2), riounmap(), riowrite().
 */
off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);

/**
 * Closes memory that riomap() opened.
 *
 * *socket*: the stream of riomap().
 * *buf*, *len*: the memory of riomap().
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the memory is not mapped by riomap(); EOPNOTSUPP: not a stream.
 * Threads: any. Blocks only while a write of the peer is in progress.
 * State: the peer can no longer write to the memory. An attempt ends the connection.
 * Since RDMACM_1.0. Source: rsocket(7). See also: riomap().
 */
int riounmap(int socket, void *buf, size_t len);

/**
 * Writes to memory that the peer opened by riomap(). The application of the peer is not notified.
 * Data that is sent afterwards arrives after the write.
 *
 * *socket*: a connected stream.
 * *buf*: the data. It may be changed as soon as the call returns.
 * *count*: number of bytes.
 * *offset*: offset of the first byte, as returned by riomap() at the peer.
 * *flags*: MSG_DONTWAIT.
 * Returns the number of bytes that were queued, less than *count* at the end of the memory of the
 * peer or as rsend(), or (size_t)-1 with errno.
 * Errors: EINVAL: the peer has no mapping at *offset*; EOPNOTSUPP: not a stream; else as rsend().
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: riomap(), rwrite().
 */
size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* RDMA_RSOCKET_H */
