/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_TCP_H
#define USRDMA_RSPRELOAD_TCP_H

#include "rspreload/sock.h"

/*
 * RDMAV_FORK_SAFE: streams that are TCP sockets at first. A connection is established by TCP and
 * can be inherited across fork() and execve(). It becomes an rsocket in the process that first
 * reads or writes it. The accepting side listens on the same port by RDMA and sends four zero bytes
 * by TCP. The connecting side waits for these bytes and connects by RDMA. Then both sides close the
 * TCP connection. The protocol is compatible with rdma-core's librspreload.
 *
 * After execve() only the kernel's socket remains. Such sockets carry a mark, by which the new
 * program detects them.
 */

/* Creates the TCP socket of a stream. Returns its number, or -1 and errno. */
int tcp_open(int domain, int type, int protocol);
/* Record the result of listen(), connect() and accept() on such a socket. */
void tcp_listens(struct sock *sock, int fd);
void tcp_connects(struct sock *sock, int fd);
int tcp_accepted(const struct sock *listener, int fd);

enum tcp_call {
	TCP_CALL_READ,
	TCP_CALL_READ_NOW, /* MSG_DONTWAIT */
	TCP_CALL_WRITE,
	TCP_CALL_POLL, /* of an accepted socket: poll(), select(), epoll_ctl() */
};

/*
 * To be called before the first byte is read or written. The socket becomes an rsocket, or stays
 * TCP if the peer does not use this protocol. Only a read of a blocking socket waits for the peer
 * without a limit. A peer that is silent for longer than the other calls wait does not use this
 * protocol.
 *
 * Returns 0. If a read on the connecting side finds no byte, returns -EAGAIN if the read must not
 * block, and otherwise the -errno of a wait that failed: the caller must not read, because the
 * first bytes may belong to this procedure.
 *
 * A cancellation point: a thread that is cancelled while it waits for the peer releases the lock of
 * the sock and the caller's reference. The next call continues the procedure.
 */
int tcp_settle(struct sock *sock, enum tcp_call call) __attribute__((warn_unused_result));
/* The same for epoll_ctl(), which is not a cancellation point. */
void tcp_settle_uncancelled(struct sock *sock);

/* Creates socks for the marked sockets that the program inherited across execve(). */
void tcp_inherit(void);

#endif
