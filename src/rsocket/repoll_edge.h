/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_REPOLL_EDGE_H
#define USRDMA_RSOCKET_REPOLL_EDGE_H

#include <stdbool.h>

#include "rsocket/repoll.h"

/*
 * A nested set with EPOLLET is reported once after each arrival in it, as in epoll(7). Of the
 * rsockets in it, rsock_edge.changes shows an arrival. Of its ordinary descriptors, the kernel
 * reports an arrival: the kernel descriptors of the nested set and of the sets in it are members of
 * an epoll descriptor, edge_fd, with EPOLLET. All functions are called with repoll_lock held.
 */

/*
 * Creates edge_fd, or creates it again after a change of the members. 0 or -errno; -ELOOP: the sets
 * are nested too deep.
 */
int repoll_edge_prepare(struct repoll_member *member) __attribute__((warn_unused_result));
/*
 * Reads the arrivals of ordinary descriptors, so that they are not reported again. Returns whether
 * there were any.
 */
bool repoll_edge_take(struct repoll_member *member);
/* The member is added, changed or removed: arrivals are reported again. */
void repoll_edge_close(struct repoll_member *member);

#endif
