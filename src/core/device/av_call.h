/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_AV_CALL_H
#define USRDMA_CORE_DEVICE_AV_CALL_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ipc/msg.h"

struct engine;

/*
 * Resolution of the addresses of a verbs call: the daemon finds out whether the kernel has a route
 * to the destination and the link-layer address of the next hop (docs/adr/0066).
 */

/* The engine's state. Guarded by engine.lock; the threads that wait own their entries. */
struct av_calls {
	struct list_head list; /* struct av_call: resolutions whose result was not received yet */
	uint32_t serial;       /* of the last resolution */
	_Atomic uint32_t
		changes; /* incremented when a result arrived or the daemon has ended; a futex */
};

static inline void av_calls_init(struct av_calls *calls)
{
	list_init(&calls->list);
}

/* Registers the handler of AV_RESOLVED. 0 or -errno. engine.lock held. */
int av_calls_open(struct engine *engine) __attribute__((warn_unused_result));

/* The engine is fatal: wakes all threads that wait. */
void av_calls_end(struct engine *engine);

/*
 * Resolves dgid from the source GID. 0: packets can be sent; *is_local: a device of this host has
 * the GID; *hop_limit: that of the route, not changed for a group and for an address of this host.
 * -ENETUNREACH or another error of the kernel: no route. -EHOSTUNREACH, -ETIMEDOUT: the next hop
 * did not reply. -EAGAIN: the user has as many resolutions in progress as the daemon permits. -EIO:
 * in a fork()ed child, and after the daemon has ended. Called without locks; blocks until the
 * daemon and, for at most a second, the kernel have replied. route_only: neither resolves the next
 * hop nor waits for the kernel.
 */
int av_call_resolve(struct engine *engine, const struct ipc_gid *source, const union ibv_gid *dgid,
		    bool route_only, bool *is_local, uint8_t *hop_limit)
	__attribute__((warn_unused_result));

#endif
