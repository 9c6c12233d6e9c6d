/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_grace.h"

#include "cm/cm.h"

/*
 * The CM passes on the REQs of services that are listened to, so each one here is, until its place
 * is needed.
 */
void cma_grace_add(struct cma_grace *grace, struct cm *cm, uint64_t service_id, uint64_t now_ns)
{
	unsigned at = grace->next;

	if (cm_listen(cm, service_id))
		return;
	if (grace->services[at].until_ns)
		cm_unlisten(cm, grace->services[at].service_id);
	grace->services[at].service_id = service_id;
	grace->services[at].until_ns = now_ns + CMA_GRACE_NS;
	grace->next = (at + 1) % CMA_GRACE_SERVICES;
}

void cma_grace_end(struct cma_grace *grace, struct cm *cm, uint64_t service_id)
{
	for (unsigned i = 0; i < CMA_GRACE_SERVICES; i++) {
		if (!grace->services[i].until_ns || grace->services[i].service_id != service_id)
			continue;
		grace->services[i].until_ns = 0;
		cm_unlisten(cm, service_id);
	}
}

/* From the first REQ on there is no more than the time to hold it. */
bool cma_grace_holds(struct cma_grace *grace, uint64_t service_id, uint64_t now_ns)
{
	bool holds = false;

	for (unsigned i = 0; i < CMA_GRACE_SERVICES; i++) {
		uint64_t *until_ns = &grace->services[i].until_ns;

		if (grace->services[i].service_id != service_id || *until_ns <= now_ns)
			continue;
		if (*until_ns > now_ns + CMA_GRACE_HOLD_NS)
			*until_ns = now_ns + CMA_GRACE_HOLD_NS;
		holds = true;
	}
	return holds;
}
