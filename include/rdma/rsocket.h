/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets over RDMA: calls that look and behave like those of <sys/socket.h>, with an r in front. A
 * stream is carried by one RC queue pair and connected by the rdma_cm; a datagram socket has a UDP
 * socket, by which it has its address, and UD queue pairs, by which datagrams go once both sides
 * know each other's. Both speak the protocol of rdma-core's rsockets, so that either end may be
 * that. Ports of streams are those of RDMA_PS_TCP, which have nothing to do with TCP's; ports of
 * datagram sockets are UDP's.
 *
 * A descriptor that rsocket() or raccept() gave belongs to these calls alone, rclose() included. It
 * is a real descriptor, which poll(2) says to be readable when there is something for the library
 * to take, whether or not that is something for the application: rpoll() and rselect() know, and
 * take rsockets and other descriptors side by side.
 *
 * All calls may be made by any thread at any time. On one rsocket, one thread may send while
 * another receives and others poll; those that send the same way at once take turns. A call that
 * would wait does not if the rsocket is O_NONBLOCK (rfcntl(), or SOCK_NONBLOCK in rsocket()) or its
 * flags say MSG_DONTWAIT. A signal ends a wait with EINTR, unless all handlers of the process were
 * installed with SA_RESTART. No call raises SIGPIPE.
 *
 * A peer that dies, or whose host is lost, is ECONNRESET once, in whichever call comes next; what had
 * been received before can still be read. A process that ends by exit(3) closes what it left open, for which it waits two seconds at most; one that is killed resets it.
 *
 * After fork() the rsockets stay the parent's. In the child every call on one answers ENODEV,
 * except rclose(), which closes the child's copy and does not disturb the connection.
 *
 * No call is for signal handlers (signal-safety(7)). One on the rsocket whose call the handler
 * interrupted answers EDEADLK where that is noticed.
 *
 * Each call answers -1 with errno EBADF for a descriptor that is no rsocket (rpoll() and rselect()
 * excepted), and whatever else is named with it. Errors that the call of the same name without the
 * r may have, and that are not named here, do not occur.
 *
 * What rsockets begin with, an administrator says in files of /etc/rdma/rsocket, each with one
 * number: mem_default and wmem_default (bytes of the receive and send buffers; 131072),
 * sqsize_default and rqsize_default (entries of the queues; 384), inline_default (bytes that are
 * sent inline; 64), iomap_size (entries for riomap(); 0), polling_time (microseconds that a call
 * looks before it sleeps; 10), wake_up_interval (milliseconds that rpoll() sleeps at most before it
 * looks again; 500). They are read at the first rsocket().
 *
 * With LD_PRELOAD=librspreload.so, which lies in the directory rsocket beside this library, a
 * program's own socket calls become these.
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
 * *domain*: AF_INET or AF_INET6.
 * *type*: SOCK_STREAM or SOCK_DGRAM; SOCK_NONBLOCK and SOCK_CLOEXEC may be added.
 * *protocol*: 0, or IPPROTO_TCP and IPPROTO_UDP respectively.
 * Returns its descriptor, which the caller gives back to rclose(), or -1 with errno.
 * Errors: EAFNOSUPPORT: another domain; ESOCKTNOSUPPORT: another type; EPROTONOSUPPORT: a protocol
 * of another type; ENODEV: no daemon, so no device; EMFILE, ENFILE: too many descriptors; ENOMEM:
 * no memory.
 * Threads: any. Waits for nothing but the daemon's answer.
 * State: no address; a stream is not connected.
 * Since RDMACM_1.0. Source: rsocket(7). See also: socket(2), rconnect(), rlisten().
 */
int rsocket(int domain, int type, int protocol);

/**
 * Gives an rsocket its local address.
 *
 * *socket*: one that has none.
 * *addr*: of the socket's domain; a wildcard address is any of this host's, port 0 any that is
 * free. IPv4 may be given within IPv6.
 * *addrlen*: bytes of it.
 * Returns 0, or -1 with errno.
 * Errors: EAFNOSUPPORT: another family; EINVAL: too short, or the socket has an address or a peer
 * already; EADDRINUSE: the port is taken; EADDRNOTAVAIL: no address of this host; ENODEV: the
 * daemon died; EACCES: a port that is not for everybody.
 * Threads: any. Does not block.
 * State: bound; rgetsockname() says where.
 * Since RDMACM_1.0. Source: rsocket(7). See also: bind(2), rdma_bind_addr().
 */
int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);

/**
 * Has a stream wait for connections. They are completed while the program does other things, and
 * then wait for raccept().
 *
 * *socket*: a stream without a peer; one without an address gets a port that is free.
 * *backlog*: how many may wait, at least 1; further ones wait with the daemon, which has a limit of
 * the same size. A second call changes it.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: it has a peer; EADDRINUSE: somebody listens there; EOPNOTSUPP: no stream; EAGAIN:
 * no thread can be made; ENOMEM: no memory.
 * Threads: any. Does not block. The first call starts the thread that does this for the process.
 * State: listening; rpoll() reports POLLIN when a connection waits.
 * Since RDMACM_1.0. Source: rsocket(7). See also: listen(2), raccept(), rdma_listen().
 */
int rlisten(int socket, int backlog);

/**
 * Takes the connection that waits for longest off a listening stream.
 *
 * *socket*: one that listens.
 * *addr*: becomes the peer's address; may be NULL.
 * *addrlen*: bytes of *addr*; becomes what the whole address has. NULL if *addr* is.
 * Returns the descriptor of a new stream, or -1 with errno.
 * Errors: EAGAIN: none waits, and the call must not; EINVAL: it does not listen, or was shut down;
 * ENETDOWN: the daemon died, or the interface that has its address went; EOPNOTSUPP: no stream;
 * EFAULT: *addr* without *addrlen*; EINTR: a signal came; ENOMEM: no memory.
 * Threads: any. Blocks until there is one, or as long as SO_RCVTIMEO says.
 * State: connected, with the listener's options; O_NONBLOCK is not inherited.
 * Since RDMACM_1.0. Source: rsocket(7). See also: accept(2), rlisten().
 */
int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);

/**
 * Connects a stream to a listener, or says to and from whom a datagram socket sends and receives.
 *
 * *socket*: a stream without a peer, or a datagram socket.
 * *addr*: of the socket's domain. AF_UNSPEC takes the peer of a datagram socket away.
 * *addrlen*: bytes of it.
 * Returns 0, or -1 with errno.
 * Errors: EINPROGRESS: it must not wait, or SO_SNDTIMEO is over; rpoll() reports POLLOUT at the
 * end, and SO_ERROR how it ended; EALREADY: the same, and this is not the first call; EISCONN: it has a peer, or listens;
 * ECONNREFUSED: nobody listens there, or he does not want to; ETIMEDOUT: no answer; ENETUNREACH,
 * EHOSTUNREACH: no way there; ENETDOWN: the daemon died, or the interface that leads there went;
 * EAFNOSUPPORT, EINVAL: the address; EINTR: the connection is being made all the same; ENOMEM: no
 * memory.
 * Threads: any. Blocks for a stream, unless it must not; then the library completes it by itself.
 * State: connected; after a failure it may be called again, and after EINTR to wait further.
 * Since RDMACM_1.0. Source: rsocket(7). See also: connect(2), rdma_connect().
 */
int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);

/**
 * Ends one or both directions of a connection.
 *
 * *socket*: a connected stream, one that listens, or a connected datagram socket.
 * *how*: SHUT_RD, SHUT_WR or SHUT_RDWR.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: another *how*; ENOTCONN: not connected.
 * Threads: any. Waits until the peer's device took enough of what was sent before to take this too.
 * State: after SHUT_WR the peer reads what was sent and then finds the end; sending answers EPIPE.
 * After SHUT_RD receiving answers 0 once what is there was read. Of a stream that listens, SHUT_RD
 * and SHUT_RDWR end that, and raccept() answers EINVAL.
 * Since RDMACM_1.0. Source: rsocket(7). See also: shutdown(2), rclose().
 */
int rshutdown(int socket, int how);

/**
 * Closes an rsocket. Of a stream, what was sent arrives first.
 *
 * *socket*: any.
 * Returns 0, or -1 with errno.
 * Errors: EBADF: no rsocket.
 * Threads: any; a call that waits in another thread ends with EBADF. Blocks until the peer's device
 * has everything: for at most ten seconds, or as long as SO_LINGER says; with a linger time of 0
 * not at all, and the peer's connection is reset.
 * State: the descriptor is no more.
 * Since RDMACM_1.0. Source: rsocket(7). See also: close(2).
 */
int rclose(int socket);

/**
 * Receives.
 *
 * *socket*: a connected stream, or a datagram socket.
 * *buf*, *len*: where to, and how many bytes at most. Of a datagram that is longer, the rest is
 * lost.
 * *flags*: MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL (a stream waits for all *len* bytes), MSG_TRUNC (a
 * datagram's whole length is answered; a stream's bytes are thrown away). Others change nothing.
 * Returns how many bytes, 0 at the end of a stream, or -1 with errno.
 * Errors: EAGAIN: nothing is there, and the call must not wait, or SO_RCVTIMEO is over; ENOTCONN:
 * the stream was never connected; ECONNRESET: the peer died, or its host does not answer any more;
 * EPROTO: it does not keep to the protocol; ENETDOWN: the daemon died (ECONNRESET if the connection
 * broke first); ETIMEDOUT: an rconnect() that did not wait had no answer (and its other errors in
 * the same way); ECONNREFUSED: as told of a datagram; EOPNOTSUPP: MSG_OOB or MSG_ERRQUEUE; EINTR: a
 * signal came; ENOMEM: no memory.
 * Threads: any. Blocks until something is there.
 * Since RDMACM_1.0. Source: rsocket(7). See also: recv(2), rpoll().
 */
ssize_t rrecv(int socket, void *buf, size_t len, int flags);

/**
 * Receives, and tells from whom.
 *
 * *socket*, *buf*, *len*, *flags*: as rrecv().
 * *src_addr*: becomes the sender's address, of a stream its peer's; may be NULL.
 * *addrlen*: bytes of *src_addr*; becomes what the whole address has.
 * Returns as rrecv().
 * Errors: as rrecv(); EFAULT: *src_addr* without *addrlen*.
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: recvfrom(2).
 */
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen);

/**
 * Receives into several buffers.
 *
 * *socket*, *flags*: as rrecv().
 * *msg*: msg_iov and msg_iovlen are the buffers, msg_name and msg_namelen as in rrecvfrom().
 * msg_controllen becomes 0: there are no control messages. msg_flags becomes MSG_TRUNC for a
 * datagram that was longer, else 0.
 * Returns as rrecv().
 * Errors: as rrecv(); EFAULT: no *msg* or no buffers; EMSGSIZE: too many buffers; EINVAL: too
 * long ones.
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: recvmsg(2).
 */
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);

/**
 * Sends to the peer.
 *
 * *socket*: a connected stream, or a connected datagram socket.
 * *buf*, *len*: the bytes, which are the caller's again when the call returns. A datagram has at
 * most 2032 (IPv6: 2020).
 * *flags*: MSG_DONTWAIT. Others change nothing.
 * Returns how many bytes were taken, of a datagram all; of a stream fewer than *len* only if the
 * call must not wait for more or an error came up, which the next call tells. -1 with errno.
 * Errors: EAGAIN: there is no room, and the call must not wait, or SO_SNDTIMEO is over; ENOTCONN:
 * the stream was never connected; EDESTADDRREQ: the datagram socket has no peer; EPIPE: shut down
 * by this side, or an error was told before; ECONNRESET: the peer closed, or died; ETIMEDOUT,
 * EPROTO, ENETDOWN, ECONNREFUSED: as rrecv(); EMSGSIZE: too long for a datagram; EOPNOTSUPP:
 * MSG_OOB; EINTR: a signal came; ENOMEM: no memory.
 * Threads: any. Blocks until there is room; not until anything has arrived.
 * Since RDMACM_1.0. Source: rsocket(7). See also: send(2), rpoll().
 */
ssize_t rsend(int socket, const void *buf, size_t len, int flags);

/**
 * Sends, to whom the call says.
 *
 * *socket*, *buf*, *len*, *flags*: as rsend().
 * *dest_addr*: of the socket's domain; NULL: its peer.
 * *addrlen*: bytes of it.
 * Returns as rsend().
 * Errors: as rsend(); EISCONN: a stream has its peer; EAFNOSUPPORT, EINVAL: the address; ENODEV: no daemon, so no
 * device; ENETUNREACH: nothing leads there.
 * Threads: any. Blocks as rsend().
 * State: the first datagrams to somebody go over UDP; a socket without a port gets one.
 * Since RDMACM_1.0. Source: rsocket(7). See also: sendto(2).
 */
ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen);

/**
 * Sends from several buffers.
 *
 * *socket*, *flags*: as rsend().
 * *msg*: msg_iov and msg_iovlen are the buffers, msg_name and msg_namelen as in rsendto().
 * Returns as rsend().
 * Errors: as rsendto(); ENOTSUP: control messages; EFAULT: no *msg* or no buffers; EMSGSIZE:
 * too many buffers; EINVAL: too long ones.
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: sendmsg(2).
 */
ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);

/**
 * Receives: rrecv() without flags.
 *
 * *socket*, *buf*, *count*: as there.
 * Returns as rrecv().
 * Errors: as rrecv().
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: read(2).
 */
ssize_t rread(int socket, void *buf, size_t count);

/**
 * Receives into several buffers, without flags.
 *
 * *socket*: as rrecv().
 * *iov*, *iovcnt*: the buffers; they are filled one after the other.
 * Returns as rrecv().
 * Errors: as rrecv(); EFAULT: no buffers; EINVAL: too many buffers, or too long ones.
 * Threads: any. Blocks as rrecv().
 * Since RDMACM_1.0. Source: rsocket(7). See also: readv(2).
 */
ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);

/**
 * Sends: rsend() without flags.
 *
 * *socket*, *buf*, *count*: as there.
 * Returns as rsend().
 * Errors: as rsend().
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: write(2).
 */
ssize_t rwrite(int socket, const void *buf, size_t count);

/**
 * Sends from several buffers, without flags.
 *
 * *socket*: as rsend().
 * *iov*, *iovcnt*: the buffers, which make one datagram, or one piece of a stream.
 * Returns as rsend().
 * Errors: as rsend(); EFAULT: no buffers; EINVAL: too many buffers, or too long ones.
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: writev(2).
 */
ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);

/**
 * Waits for rsockets and other descriptors.
 *
 * *fds*: as in poll(2): fd, which may be of either sort, or negative; events; revents is filled in.
 * *nfds*: how many.
 * *timeout*: milliseconds; 0: looks only; negative: for ever.
 * Returns how many have something to say, 0 after *timeout*, or -1 with errno.
 * Errors: EINTR: a signal came; EINVAL: too many; EFAULT: no *fds*; ENOMEM: no memory.
 * Threads: any. Several may wait for the same rsocket.
 * State: of a stream POLLIN means data, a connection to accept or the end; POLLOUT room for at
 * least 2048 bytes, or the outcome of rconnect(); POLLRDHUP that the peer sends no more; POLLHUP
 * that nothing is left to be read and both directions are over; POLLERR that SO_ERROR has something
 * to say. What was not asked for comes only of POLLERR, POLLHUP and POLLNVAL.
 * Since RDMACM_1.0. Source: rsocket(7). See also: poll(2), rselect().
 */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);

/**
 * Waits for rsockets and other descriptors, in sets.
 *
 * *nfds*: one more than the highest descriptor in the sets.
 * *readfds*, *writefds*, *exceptfds*: sets of descriptors of either sort, or NULL; what holds for
 * them stays in. No rsocket is ever exceptional.
 * *timeout*: NULL: for ever. Becomes what is left of it.
 * Returns how many are left in all sets, 0 after *timeout*, or -1 with errno.
 * Errors: EBADF: a descriptor that is none; EINTR: a signal came; EINVAL: *nfds* or *timeout* is
 * none; ENOMEM: no memory.
 * Threads: as rpoll().
 * Since RDMACM_1.0. Source: rsocket(7). See also: select(2), rpoll().
 */
int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout);

/**
 * Tells the peer's address.
 *
 * *socket*: a connected rsocket.
 * *addr*: becomes the address, as much of it as there is room for.
 * *addrlen*: bytes of *addr*; becomes what the whole address has.
 * Returns 0, or -1 with errno.
 * Errors: ENOTCONN: it has no peer; EFAULT: *addrlen* is NULL, or *addr* and there is room.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: getpeername(2).
 */
int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);

/**
 * Tells the local address.
 *
 * *socket*: any; one that has no address says so with a wildcard and port 0.
 * *addr*: becomes the address, as much of it as there is room for.
 * *addrlen*: bytes of *addr*; becomes what the whole address has.
 * Returns 0, or -1 with errno.
 * Errors: EFAULT: *addrlen* is NULL, or *addr* and there is room.
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
 * Sets an option.
 *
 * *socket*: any.
 * *level*: SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 or SOL_RDMA.
 * *optname*: of SOL_SOCKET: SO_REUSEADDR (before rbind()), SO_RCVBUF and SO_SNDBUF (before there is
 * a peer; twice the value is used, at least 4096), SO_RCVTIMEO, SO_SNDTIMEO, SO_LINGER,
 * SO_KEEPALIVE. Of IPPROTO_TCP: TCP_KEEPIDLE. Of IPPROTO_IP: IP_TOS; of IPPROTO_IPV6: IPV6_V6ONLY,
 * IPV6_TCLASS (before rbind()). Of SOL_RDMA: RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE, RDMA_IOMAPSIZE
 * and RDMA_ROUTE, before there is a peer; values are brought to what is possible. SO_OOBINLINE,
 * SO_RCVLOWAT, SO_PRIORITY, SO_BROADCAST, SO_DONTROUTE, SO_BUSY_POLL, TCP_NODELAY, TCP_CORK,
 * TCP_QUICKACK, TCP_DEFER_ACCEPT, TCP_FASTOPEN, TCP_USER_TIMEOUT, TCP_SYNCNT, TCP_MAXSEG,
 * TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_NOTSENT_LOWAT, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_CONGESTION and
 * IP_BIND_ADDRESS_NO_PORT are remembered and change nothing. Options of a datagram socket, but for SOL_RDMA, are those of its
 * UDP socket.
 * *optval*, *optlen*: the value, as in setsockopt(2); int for SOL_RDMA, but an array of struct
 * ibv_path_data for RDMA_ROUTE.
 * Returns 0, or -1 with errno.
 * Errors: ENOTSUP: no such option; ENOPROTOOPT: it can only be read, or is not for this domain;
 * EINVAL: the length or the value, or too late; EDOM: a time that is none; EFAULT: *optval* is
 * NULL; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: with SO_KEEPALIVE a quiet peer is asked every TCP_KEEPIDLE seconds; one that does not
 * answer is ECONNRESET.
 * Since RDMACM_1.0. Source: rsocket(7). See also: setsockopt(2), socket(7), tcp(7), ip(7), ipv6(7).
 */
int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);

/**
 * Reads an option.
 *
 * *socket*: any.
 * *level*, *optname*: as rsetsockopt(); also SO_ERROR (which is 0 afterwards), SO_TYPE, SO_DOMAIN,
 * SO_PROTOCOL, SO_ACCEPTCONN, and TCP_INFO (state, segment sizes and window; the rest is 0).
 * RDMA_ROUTE tells what was set, or the paths that were found.
 * *optval*, *optlen*: where to, and how many bytes at most, which become as many as there are.
 * Returns 0, or -1 with errno.
 * Errors: ENOTSUP: no such option; EINVAL: too little room for RDMA_ROUTE; EFAULT: *optval* or
 * *optlen* is NULL.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: getsockopt(2).
 */
int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);

/**
 * Reads or sets flags.
 *
 * *socket*: any.
 * *cmd*: F_GETFL, F_SETFL (O_NONBLOCK counts, others are remembered), F_GETFD or F_SETFD
 * (remembered: no rsocket outlives execve(2)); the two that set take an int.
 * Returns the flags or 0, or -1 with errno.
 * Errors: ENOTSUP: another *cmd*.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: fcntl(2).
 */
int rfcntl(int socket, int cmd, ...);

/**
 * Opens memory to the peer's riowrite(). The peer has to have room for it (RDMA_IOMAPSIZE), and
 * learns of it in front of the data that is sent next.
 *
 * *socket*: a connected stream.
 * *buf*, *len*: the memory, less than 4 GiB, which stays the caller's and must stay there until
 * riounmap() or rclose().
 * *prot*: PROT_WRITE; PROT_NONE: only registers it.
 * *flags*: 0.
 * *offset*: under which offset the peer finds it; -1: its address. Two that overlap are not told
 * apart.
 * Returns the offset, or -1 with errno.
 * Errors: EINVAL: *prot*, *len* or *offset*; ENOMEM: the peer has no room for another; ENOTCONN: it
 * never was connected; ECONNRESET: it is over; EOPNOTSUPP: no stream; EFAULT: no memory.
 * Threads: any. Does not block.
 * Since RDMACM_1.0. Source: rsocket(7). See also: mmap(2), riounmap(), riowrite().
 */
off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);

/**
 * Ends what riomap() began.
 *
 * *socket*: the same stream.
 * *buf*, *len*: the same memory.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: it is not mapped; EOPNOTSUPP: no stream.
 * Threads: any. Does not block, but for a write of the peer's that is being carried out.
 * State: the peer cannot write there any more; if it tries, the connection breaks.
 * Since RDMACM_1.0. Source: rsocket(7). See also: riomap().
 */
int riounmap(int socket, void *buf, size_t len);

/**
 * Writes into memory that the peer opened by riomap(). The peer's application does not hear of it;
 * data that is sent afterwards arrives after it.
 *
 * *socket*: a connected stream.
 * *buf*, *count*: the bytes, which are the caller's again when the call returns.
 * *offset*: of the first byte, as the peer's riomap() said.
 * *flags*: MSG_DONTWAIT.
 * Returns how many bytes were taken, fewer than *count* where the peer's memory ends or as rsend(),
 * or (size_t)-1 with errno.
 * Errors: EINVAL: the peer told of no memory there; EOPNOTSUPP: no stream; else as rsend().
 * Threads: any. Blocks as rsend().
 * Since RDMACM_1.0. Source: rsocket(7). See also: riomap(), rwrite().
 */
size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* RDMA_RSOCKET_H */
