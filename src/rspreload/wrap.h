/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_WRAP_H
#define USRDMA_RSPRELOAD_WRAP_H

#include <sys/types.h>

#include "rspreload/sock.h"

/* What the files with functions of the C library's names share. */

/* The rsocket that a number is, with a reference; NULL: the call is for the kernel. */
struct sock *wrap_find(int number);
/* The same before something is read or written: a TCP socket that is to become one does. */
struct sock *wrap_find_settled(int number);

/* In the child of a fork(): streams of the library can be opened and closed again. */
void stdio_after_fork(void);

/* The end of a call: gives the reference back, and leaves errno as it is. */
ssize_t wrap_done(struct sock *sock, ssize_t ret);
/* … that has read, or written. */
ssize_t wrap_has_read(struct sock *sock, ssize_t ret);
ssize_t wrap_has_written(struct sock *sock, ssize_t ret);

#endif
