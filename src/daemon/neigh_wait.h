/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NEIGH_WAIT_H
#define USRDMA_DAEMON_NEIGH_WAIT_H

#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "daemon/neigh.h"

/*
 * Waits for entries of the kernel's neighbour table (neigh.h), for rdma_resolve_addr() and for the
 * address vectors of verbs calls. Waits for the same next hop share one solicitation. One thread:
 * the loop's, which does not block.
 */

/*
 * One wait. Owned by the object that embeds it, which calls neigh_wait_cancel() before it is freed.
 * Zeroes: does not wait.
 */
struct neigh_wait {
	struct hash_node node; /* by hop */
	struct list_head all;
	struct timer timer;
	struct neigh_hop hop;
	void (*done)(struct neigh_wait *wait, int status);
};

int neigh_waits_open(uv_loop_t *loop) __attribute__((warn_unused_result));

/* No wait may be left. The libuv handles close in the loop's next iterations. */
void neigh_waits_close(void);

/*
 * Resolves the next hop from src to dst. 0: its link-layer address is known, or none is needed
 * (neigh_hop_to()). -EINPROGRESS: the kernel resolves it; done() is called within timeout_ms,
 * unless neigh_wait_cancel() is called before. Its status is 0; -EHOSTUNREACH: the kernel received
 * no reply; or -ETIMEDOUT: no result within timeout_ms. Other -errno: the kernel does not send to
 * dst. When done() is called, the wait has ended; done() may free it, but must not cancel other
 * waits.
 */
int neigh_wait_begin(struct neigh_wait *wait, const struct sockaddr *dst,
		     const struct sockaddr *src, uint32_t timeout_ms,
		     void (*done)(struct neigh_wait *wait, int status))
	__attribute__((warn_unused_result));

/* No effect if it does not wait. */
void neigh_wait_cancel(struct neigh_wait *wait);

#endif
