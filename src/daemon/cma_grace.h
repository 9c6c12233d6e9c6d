/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_GRACE_H
#define USRDMA_DAEMON_CMA_GRACE_H

#include <stdbool.h>
#include <stdint.h>

struct cm;

/*
 * Services that somebody is about to listen to: their port was bound, or its listener destroyed,
 * not long ago. Programs tell their peer to connect before they listen (qperf), or listen anew for
 * their next step when the peer is there already (perftest -R); with a NIC the peer's resolving
 * takes longer than that, here it does not. So the first REQ for such a port is not refused at
 * once: it is left alone for CMA_GRACE_HOLD_NS, and its sender repeats it.
 *
 * The last CMA_GRACE_SERVICES of them, oldest first from `next`. Owned by the struct cma; the
 * loop's one thread.
 */
#define CMA_GRACE_SERVICES 64u
#define CMA_GRACE_NS	   5000000000ull
#define CMA_GRACE_HOLD_NS  300000000ull

struct cma_grace {
	struct {
		uint64_t service_id;
		uint64_t until_ns; /* 0: unused */
	} services[CMA_GRACE_SERVICES];
	unsigned next;
};

/* Out of memory the REQ is refused at once after all. */
void cma_grace_add(struct cma_grace *grace, struct cm *cm, uint64_t service_id, uint64_t now_ns);

/* What was expected has happened: somebody listens. */
void cma_grace_end(struct cma_grace *grace, struct cm *cm, uint64_t service_id);

/* A REQ came for the service and nobody listens: whether to say nothing. */
bool cma_grace_holds(struct cma_grace *grace, uint64_t service_id, uint64_t now_ns);

#endif
