/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FDPASS_H
#define USRDMA_BASE_FDPASS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Datagrams with descriptors over AF_UNIX sockets. `flags` go to sendmsg/recvmsg (MSG_DONTWAIT).
 * FDPASS_MAX bounds what one message may carry in either direction.
 */
#define FDPASS_MAX 16

/*
 * Sends one message with nfds descriptors, which stay the caller's. Never raises SIGPIPE; a partial
 * send cannot happen on the datagram and SEQPACKET sockets this is for. Returns 0 or -errno.
 */
int fdpass_send(int sock, const void *data, size_t len, const int *fds, int nfds, int flags)
	__attribute__((warn_unused_result));

/*
 * Receives one message of at most max bytes and at most fds_max descriptors, all close-on-exec.
 * Returns its length and sets *nfds; 0 is the end of the stream. Otherwise nothing is kept open and
 * the answer is -EMSGSIZE (longer than max), -EPROTO (more descriptors than fds_max, more than
 * this process could take, or any with an empty message), or what recvmsg failed with.
 */
ssize_t fdpass_recv(int sock, void *data, size_t max, int *fds, int fds_max, int *nfds, int flags)
	__attribute__((warn_unused_result));

/*
 * Closes what was passed and is not wanted, but for those that are -1. Whoever passed a socket of a network may have had it
 * linger, so that closing it would wait for its peer: it does not linger any more.
 */
void fdpass_close(const int *fds, int nfds);

#endif
