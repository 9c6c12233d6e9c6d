/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_GRACE_H
#define USRDMA_DAEMON_CMA_GRACE_H

#include <stdbool.h>
#include <stdint.h>

struct cm;

/*
 * Services that somebody is about to listen to: their port was bound, or lost its listener, a
 * moment ago. Programs tell their peer where to connect before they listen there (qperf), or listen
 * anew for the next step (perftest -R); with a NIC the peer's resolving takes longer than that,
 * here it does not. So a REQ that comes in that moment is not refused but left alone, and its
 * sender repeats it.
 *
 * The last CMA_GRACE_SERVICES of them, oldest first from `next`. Owned by the struct cma; the
 * loop's one thread.
 */
#define CMA_GRACE_SERVICES 64u
#define CMA_GRACE_NS	   250000000ull

struct cma_grace {
	struct {
		uint64_t service_id;
		uint64_t until_ns; /* 0: unused */
	} services[CMA_GRACE_SERVICES];
	unsigned next;
};

/* Out of memory the REQ is refused after all. */
void cma_grace_add(struct cma_grace *grace, struct cm *cm, uint64_t service_id, uint64_t now_ns);

/* What was expected has happened: somebody listens. */
void cma_grace_end(struct cma_grace *grace, struct cm *cm, uint64_t service_id);

bool cma_grace_covers(const struct cma_grace *grace, uint64_t service_id, uint64_t now_ns);

#endif
