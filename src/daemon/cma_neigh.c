/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "daemon/cma_priv.h"
#include "daemon/neigh_wait.h"

/*
 * The last step of rdma_resolve_addr(): the next hop's entry in the kernel's neighbour table. If
 * the kernel has no valid entry, the id is in CMA_RESOLVING until the kernel resolves the entry or
 * fails, or until the caller's timeout.
 */
struct cma_resolution {
	struct neigh_wait wait;
	struct cma_id *id;	    /* the owner (id->resolution) */
	struct ipc_cm_route before; /* the id's route, which is restored on failure */
};

void cma_neigh_cancel(struct cma_id *id)
{
	struct cma_resolution *resolution = id->resolution;

	if (!resolution)
		return;
	id->resolution = NULL;
	neigh_wait_cancel(&resolution->wait);
	free(resolution);
}

static void cma_neigh_on_done(struct neigh_wait *wait, int status)
{
	struct cma_resolution *resolution = container_of(wait, struct cma_resolution, wait);
	struct cma_id *id = resolution->id;

	id->state = status ? CMA_BOUND : CMA_ADDR_RESOLVED;
	if (status) {
		cma_failing_to(id->cma, &id->route.dst);
		id->route = resolution->before;
	}
	cma_neigh_cancel(id);
	cma_event_status(id, status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
			 status);
}

void cma_neigh_port_down(struct cma_id *id)
{
	if (id->resolution)
		cma_neigh_on_done(&id->resolution->wait, -ENETDOWN);
}

int cma_neigh_resolve(struct cma_id *id, const struct ipc_cm_route *before, uint32_t timeout_ms)
{
	struct cma_resolution *resolution = calloc(1, sizeof(*resolution));
	int ret;

	if (!resolution)
		return -ENOMEM;
	ret = neigh_wait_begin(&resolution->wait, (const struct sockaddr *)&id->route.dst,
			       (const struct sockaddr *)&id->route.src, timeout_ms,
			       cma_neigh_on_done);
	if (ret != -EINPROGRESS) {
		free(resolution);
		return ret;
	}
	resolution->id = id;
	resolution->before = *before;
	id->resolution = resolution;
	id->state = CMA_RESOLVING;
	return ret;
}
