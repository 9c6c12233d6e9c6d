/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FDPASS_H
#define USRDMA_BASE_FDPASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * SCM_RIGHTS helpers: messages with descriptors over AF_UNIX sockets. `flags` are those of
 * sendmsg() and recvmsg() (MSG_DONTWAIT). FDPASS_MAX is the limit of descriptors in one message:
 * the kernel's SCM_MAX_FD.
 */
#define FDPASS_MAX 253

/*
 * Value of *nfds if descriptors were lost, because this process has reached its limit of
 * descriptors (EMFILE).
 */
#define FDPASS_LOST (-1)

/*
 * Sends one message with nfds descriptors, which the caller still owns. Never raises SIGPIPE. The
 * socket must be of type SOCK_DGRAM or SOCK_SEQPACKET, which send a message as a whole. Returns 0
 * or -errno.
 */
int fdpass_send(int sock, const void *data, size_t len, const int *fds, int nfds, int flags)
	__attribute__((warn_unused_result));

/*
 * Receives one message of at most max bytes and at most fds_max descriptors, which are
 * close-on-exec and owned by the caller. Returns the message's length and sets *nfds; 0 is the end
 * of the stream. *nfds is FDPASS_LOST if a descriptor of the message was lost; the others are then
 * closed. On failure all received descriptors are closed. Errors: -EMSGSIZE (longer than max),
 * -EPROTO (more descriptors than fds_max, or descriptors with an empty message), or -errno of
 * recvmsg().
 */
ssize_t fdpass_recv(int sock, void *data, size_t max, int *fds, int fds_max, int *nfds, int flags)
	__attribute__((warn_unused_result));

/*
 * The same for a receiver that must not close descriptors of a hostile sender: it closes none. The
 * caller owns the *nfds descriptors in fds, also on failure. *is_cut: descriptors were lost.
 */
ssize_t fdpass_recv_all(int sock, void *data, size_t max, int fds[FDPASS_MAX], int *nfds,
			bool *is_cut, int flags) __attribute__((warn_unused_result));

/*
 * From now on the kernel fails sends of descriptors to this socket (SO_PASSRIGHTS, Linux 6.16).
 * Returns whether it does; the state of the socket, which all its descriptors share, is what
 * fdpass_is_refused() returns.
 */
bool fdpass_refuse(int sock);
bool fdpass_is_refused(int sock);

/*
 * Whether the next message of the socket has descriptors. They stay in its queue: recv() without
 * space for them would close them in the calling thread, and the sender controls how long this
 * takes. Does not block.
 */
bool fdpass_has_fds(int sock);

/* Closes all descriptors that are not -1. */
void fdpass_close(const int *fds, int nfds);

#endif
