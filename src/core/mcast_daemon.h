/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MCAST_DAEMON_H
#define USRDMA_CORE_MCAST_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/gid.h"

struct engine;
struct ipc_queued;

/*
 * The membership of the daemon's socket in one multicast group, if the daemon owns the socket that receives for this
 * engine (IPC_RING). The daemon processes the requests of an engine in the order in which they are sent. A join and the
 * leave that follows it are therefore decided under engine.lock, and a leave is sent before every later join
 * (engine_send_in_order()).
 */
struct mcast_daemon {
	/*
	 * Held over the request to join, so that each group is requested once. A thread that holds engine.lock between
	 * ibv_wr_start() and ibv_wr_complete() may wait for it: its holder takes no lock of the engine.
	 */
	pthread_mutex_t lock;
	bool is_joined;		  /* guarded by `lock` */
	struct ipc_queued *leave; /* memory of the request to leave, which therefore cannot fail */
};

/* 0 or -ENOMEM. */
int mcast_daemon_init(struct mcast_daemon *membership) __attribute__((warn_unused_result));
void mcast_daemon_fini(struct mcast_daemon *membership);

/*
 * Waits for the daemon's reply unless the socket is a member already. Called without engine.lock. 0, or the -errno of
 * IPC_GROUP_JOIN.
 */
int mcast_daemon_join(struct engine *engine, struct mcast_daemon *membership, uint32_t ifindex,
		      const uint8_t gid[GID_BYTES]) __attribute__((warn_unused_result));

/* To be called once after a join. Never blocks. engine.lock held. */
void mcast_daemon_leave(struct engine *engine, struct mcast_daemon *membership, uint32_t ifindex,
			const uint8_t gid[GID_BYTES]);

#endif
