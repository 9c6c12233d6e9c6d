/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"
#include "daemon/neigh.h"

/*
 * The last step of rdma_resolve_addr(): the next hop's entry in the kernel's neighbour table. If the kernel has no
 * valid entry, the id is in CMA_RESOLVING until the kernel resolves the entry or fails, or until the caller's timeout.
 */
struct cma_resolution {
	struct hash_node node; /* cma.resolutions.by_hop */
	struct list_head all;  /* cma.resolutions.list */
	struct timer timer;
	struct cma_id *id; /* the owner (id->resolution) */
	struct neigh_hop hop;
	struct ipc_cm_route before; /* the id's route, which is restored on failure */
};

static uint64_t hash_hop(const struct neigh_hop *hop)
{
	uint64_t words[GID_BYTES / sizeof(uint64_t)];

	memcpy(words, hop->gid, sizeof(words));
	return hash_mix(words[0] ^ hop->ifindex, words[1]);
}

static struct cma_resolution *cma_neigh_find(const struct cma *cma, const struct neigh_hop *hop)
{
	struct hash_node *node;

	hash_for_each(node, &cma->resolutions.by_hop, hash_hop(hop))
	{
		struct cma_resolution *resolution = container_of(node, struct cma_resolution, node);

		if (resolution->hop.ifindex == hop->ifindex &&
		    !memcmp(resolution->hop.gid, hop->gid, GID_BYTES))
			return resolution;
	}
	return NULL;
}

void cma_neigh_cancel(struct cma_id *id)
{
	struct cma_resolution *resolution = id->resolution;
	struct cma *cma = id->cma;

	if (!resolution)
		return;
	id->resolution = NULL;
	hash_del(&cma->resolutions.by_hop, &resolution->node);
	list_del(&resolution->all);
	timer_cancel(&cma->timers, &resolution->timer);
	free(resolution);
	if (list_is_empty(&cma->resolutions.list))
		neigh_watch_stop();
}

static void cma_neigh_finish(struct cma_resolution *resolution, int status)
{
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

static int status_of(enum neigh_state state, int otherwise)
{
	switch (state) {
	case NEIGH_VALID:
		return 0;
	case NEIGH_FAILED:
		return -EHOSTUNREACH;
	default:
		return otherwise;
	}
}

/* Queries the state of all hops after notifications were lost. */
static void look_again(struct cma *cma)
{
	struct cma_resolution *resolution, *next;

	list_for_each_entry_safe(resolution, next, &cma->resolutions.list, all) {
		enum neigh_state state = neigh_state(&resolution->hop);

		if (state != NEIGH_UNKNOWN)
			cma_neigh_finish(resolution, status_of(state, 0));
	}
}

static void on_change(void *ctx, const struct neigh_hop *hop, enum neigh_state state)
{
	struct cma_resolution *resolution;
	struct cma *cma = ctx;

	if (!hop) {
		look_again(cma);
		return;
	}
	while ((resolution = cma_neigh_find(cma, hop)))
		cma_neigh_finish(resolution, status_of(state, 0));
}

static void on_timeout(struct timer *timer, uint64_t now_ns)
{
	struct cma_resolution *resolution = container_of(timer, struct cma_resolution, timer);

	(void)now_ns;
	cma_neigh_finish(resolution, status_of(neigh_state(&resolution->hop), -ETIMEDOUT));
}

static int cma_neigh_wait_for(struct cma_id *id, const struct neigh_hop *hop,
			      const struct ipc_cm_route *before, uint32_t timeout_ms)
{
	struct cma_resolution *resolution = calloc(1, sizeof(*resolution));
	struct cma *cma = id->cma;

	if (!resolution)
		return -ENOMEM;
	resolution->id = id;
	resolution->hop = *hop;
	resolution->before = *before;
	hash_add(&cma->resolutions.by_hop, &resolution->node, hash_hop(hop));
	list_add_tail(&resolution->all, &cma->resolutions.list);
	timer_init(&resolution->timer, on_timeout);
	timer_add(&cma->timers, &resolution->timer, clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS);
	id->resolution = resolution;
	id->state = CMA_RESOLVING;
	cma_wake(cma);
	return -EINPROGRESS;
}

/* Makes the kernel resolve the hop. Only the first resolution of a hop sends; later ones wait for the same result. */
static int solicit(struct cma *cma, const struct sockaddr *dst, const struct sockaddr *src,
		   const struct neigh_hop *hop)
{
	int ret = 0;

	if (list_is_empty(&cma->resolutions.list))
		ret = neigh_watch_start(cma->loop, on_change, cma);
	if (!ret && !cma_neigh_find(cma, hop))
		ret = neigh_solicit(dst, src);
	if (!ret)
		ret = status_of(neigh_state(hop), -EINPROGRESS);
	if (ret != -EINPROGRESS && list_is_empty(&cma->resolutions.list))
		neigh_watch_stop();
	return ret;
}

int cma_neigh_resolve(struct cma_id *id, const struct ipc_cm_route *before, uint32_t timeout_ms)
{
	const struct sockaddr *dst = (const struct sockaddr *)&id->route.dst;
	const struct sockaddr *src = (const struct sockaddr *)&id->route.src;
	struct neigh_hop hop;
	int ret;

	if (!neigh_hop_to(dst, src, &hop) || neigh_state(&hop) == NEIGH_VALID)
		return 0;
	ret = solicit(id->cma, dst, src, &hop);
	return ret == -EINPROGRESS ? cma_neigh_wait_for(id, &hop, before, timeout_ms) : ret;
}

int cma_neigh_open(struct cma *cma)
{
	list_init(&cma->resolutions.list);
	timer_heap_init(&cma->timers);
	return hash_init(&cma->resolutions.by_hop);
}

void cma_neigh_close(struct cma *cma)
{
	hash_fini(&cma->resolutions.by_hop);
	neigh_close();
}
