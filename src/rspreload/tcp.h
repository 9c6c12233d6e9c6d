/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_TCP_H
#define USRDMA_RSPRELOAD_TCP_H

#include "rspreload/sock.h"

/*
 * RDMAV_FORK_SAFE: streams that begin as TCP. A connection is made by TCP as ever, may be inherited
 * by a fork()ed child and by whatever that executes, and becomes an rsocket in the process that first
 * reads or writes it. The accepting side then listens on the same port by RDMA and sends four zero
 * bytes by TCP; the connecting side waits for those, connects by RDMA, and both close the TCP socket.
 * rdma-core's librspreload does the same, so either side may be that.
 *
 * What execve() leaves of a socket is the kernel's part of it: such sockets carry a mark, by which
 * the next program knows them.
 */

/* A TCP socket for a program that asked for a stream. Its number, or -1 with errno. */
int tcp_open(int domain, int type, int protocol);
/* What listen(), connect() and accept() made of one. */
void tcp_listens(struct sock *sock, int fd);
void tcp_connects(struct sock *sock, int fd);
int tcp_accepted(const struct sock *listener, int fd);

/* Before the first byte: it becomes an rsocket, or stays TCP if the peer is no such program. */
void tcp_settle(struct sock *sock);

/* Finds the marked sockets that this program was started with. */
void tcp_inherit(void);

#endif
