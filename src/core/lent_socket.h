/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_LENT_SOCKET_H
#define USRDMA_CORE_LENT_SOCKET_H

/*
 * Gives up a socket that a daemon lent which is dead: it is one of those of port 4791 among which the kernel would
 * count the next daemon's (ADR 0010). Its number, which a link has, becomes that of a socket to which nobody sends. -1
 * is none.
 */
void lent_socket_leave(int fd);

#endif
