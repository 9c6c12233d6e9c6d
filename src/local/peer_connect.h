/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PEER_CONNECT_H
#define USRDMA_LOCAL_PEER_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct local;
struct peer;
struct timer;

/*
 * A request to the daemon to connect this process with the owner of one slot (connect peer,
 * IPC_CONNECT_PEER).
 */
struct peer_connect {
	uint64_t began_ns; /* 0: no request is outstanding */
	/* IPC_CONNECT_PEER was sent; the daemon will push IPC_PEER or IPC_CONNECT_PEER_FAILED */
	bool is_asked;
	/* the last request failed; the next one is sent after this time */
	uint64_t unresolved_until_ns;
};

/*
 * Finds the peer of that slot. 0: *found is set. -EAGAIN: a request to the daemon is outstanding;
 * when it ends, the requesters on local.seeking run, and xrc_forward_space() and datagram_resume()
 * are called. -ENOENT: no process has that slot. Never blocks.
 */
int peer_get(struct engine *engine, uint32_t slot, struct peer **found)
	__attribute__((warn_unused_result));

/*
 * Whether the outstanding connect-peer request was first sent less than wait_ns ago. If so,
 * datagram_resume() is called when wait_ns has passed.
 */
bool peer_connect_may_wait(struct local *local, uint32_t slot, uint64_t wait_ns);

/*
 * The peer of that slot is connected, or the daemon's request failed. No effect if no request is
 * outstanding.
 */
void peer_connect_end(struct local *local, uint32_t slot, bool has_failed);

void peer_connect_timer(struct timer *timer, uint64_t now_ns);

#endif
