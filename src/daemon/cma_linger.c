/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_linger.h"

#include "daemon/cm_ops.h"

/*
 * A CM reports only requests for services with a listener. So each entry is a listener of every CM
 * until it is removed or replaced.
 */
void cma_linger_add(struct cma_linger *linger, const struct cma_cms *cms, uint64_t service_id,
		    uint64_t now_ns)
{
	unsigned at = linger->next;

	if (cma_cms_listen(cms, NULL, service_id))
		return;
	if (linger->services[at].until_ns)
		cma_cms_unlisten(cms, NULL, linger->services[at].service_id);
	linger->services[at].service_id = service_id;
	linger->services[at].until_ns = now_ns + CMA_LINGER_NS;
	linger->next = (at + 1) % CMA_LINGER_SERVICES;
}

void cma_linger_end(struct cma_linger *linger, const struct cma_cms *cms, uint64_t service_id)
{
	for (unsigned i = 0; i < CMA_LINGER_SERVICES; i++) {
		if (!linger->services[i].until_ns || linger->services[i].service_id != service_id)
			continue;
		linger->services[i].until_ns = 0;
		cma_cms_unlisten(cms, NULL, service_id);
	}
}

/* The first REQ shortens the remaining time to CMA_LINGER_HOLD_NS. */
bool cma_linger_holds(struct cma_linger *linger, uint64_t service_id, uint64_t now_ns)
{
	bool holds = false;

	for (unsigned i = 0; i < CMA_LINGER_SERVICES; i++) {
		uint64_t *until_ns = &linger->services[i].until_ns;

		if (linger->services[i].service_id != service_id || *until_ns <= now_ns)
			continue;
		if (*until_ns > now_ns + CMA_LINGER_HOLD_NS)
			*until_ns = now_ns + CMA_LINGER_HOLD_NS;
		holds = true;
	}
	return holds;
}
