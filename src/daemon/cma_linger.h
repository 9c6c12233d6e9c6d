/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_LINGER_H
#define USRDMA_DAEMON_CMA_LINGER_H

#include <stdbool.h>
#include <stdint.h>

struct cma_cms;

/*
 * Backlog linger: services whose port was bound, or whose listener was destroyed, within the last
 * CMA_LINGER_NS. Some programs request the peer's connection before they listen (qperf). Others
 * listen again for the next step while the peer already connects (perftest -R). With a NIC, address
 * resolution at the peer takes longer than that; here it does not. So REQs for such a service are
 * not rejected at once. They are dropped for CMA_LINGER_HOLD_NS after the first REQ, and the sender
 * repeats them.
 *
 * The table keeps the last CMA_LINGER_SERVICES services, the oldest at `next`. Owned by struct cma;
 * used by the loop's thread.
 */
#define CMA_LINGER_SERVICES 64u
#define CMA_LINGER_NS	    5000000000ull
#define CMA_LINGER_HOLD_NS  1000000000ull

struct cma_linger {
	struct {
		uint64_t service_id;
		uint64_t until_ns; /* 0: unused */
	} services[CMA_LINGER_SERVICES];
	unsigned next;
};

/*
 * Adds a service. If memory is short, the service is not added and its REQs are rejected at once.
 */
void cma_linger_add(struct cma_linger *linger, const struct cma_cms *cms, uint64_t service_id,
		    uint64_t now_ns);

/* Removes a service, because it has a listener now. */
void cma_linger_end(struct cma_linger *linger, const struct cma_cms *cms, uint64_t service_id);

/* Whether to drop a request for a service without a listener instead of rejecting it. */
bool cma_linger_holds(struct cma_linger *linger, uint64_t service_id, uint64_t now_ns);

#endif
