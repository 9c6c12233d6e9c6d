/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_RESERVE_H
#define USRDMA_DAEMON_RESERVE_H

#include <stdbool.h>

/*
 * Descriptor numbers that must not be used for long-lived descriptors. If a received message has
 * more descriptors than the process can accept, the kernel closes the others before recvmsg()
 * returns. The sender can make such a close() block (daemon/closer.h). So there must always be free
 * numbers for the descriptors of one message, at most SCM_MAX_FD.
 */

/*
 * Reads the process's descriptor limit. If it is below RESERVE_LIMIT_LEAST, an eighth of it is
 * reserved, otherwise RESERVE_NUMBERS.
 */
void reserve_init(void);
#define RESERVE_NUMBERS	    1024
#define RESERVE_LIMIT_LEAST 8192

/*
 * Whether fd is a reserved number. A caller that wanted to keep fd must then fail as with -EMFILE.
 * The kernel assigns the lowest free number, so a reserved number means that all lower numbers are
 * in use.
 */
bool reserve_holds(int fd);

/*
 * The lowest reserved number, and so the number of descriptors that can be used; INT_MAX before
 * reserve_init().
 */
int reserve_first(void);

#endif
