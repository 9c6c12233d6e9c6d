/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/domain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/memory/pd.h"
#include "core/report/call_failed.h"

/* Queues of at least this size are mapped, so that unused entries take no memory. */
#define MAP_THRESHOLD_BYTES (64u * 1024)

#define QUEUE_ALIGNMENT 64

#define KNOWN_MASK                                                                         \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | \
	 IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC)

/*
 * Owned by the application; freed by ibv_dealloc_td(), which fails while a parent domain uses it.
 * Guarded by engine.lock.
 */
struct td {
	struct ibv_td pub;
	uint32_t shard;
	unsigned int users;
};

static struct td *to_td(struct ibv_td *td)
{
	return (struct td *)td;
}

static int context_use(struct context *context)
{
	int ret;

	engine_lock(context->engine);
	ret = engine_usable(context->engine);
	if (!ret)
		context_get(context);
	engine_unlock(context->engine);
	return ret;
}

uint32_t td_shard(struct ibv_td *td)
{
	return to_td(td)->shard;
}

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	static atomic_uint domains;
	struct td *td;
	int ret;

	if (fault_call_fails("ibv_alloc_td"))
		return NULL;
	if (attr->comp_mask) {
		call_failed(to_context(context), "ibv_alloc_td", -EINVAL);
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->pub.context = context;
	/* Not shard 0, which QPs without a thread domain use. */
	td->shard = 1 + atomic_fetch_add(&domains, 1) % (SHARDS - 1);
	ret = context_use(to_context(context));
	if (!ret)
		return &td->pub;
	free(td);
	call_failed(to_context(context), "ibv_alloc_td", ret);
	errno = -ret;
	return NULL;
}

int td_dealloc(struct ibv_td *ibtd)
{
	struct td *td = to_td(ibtd);
	struct context *context = to_context(ibtd->context);
	struct engine *engine = context->engine;

	if (fault_call_fails("ibv_dealloc_td"))
		return errno;
	engine_lock(engine);
	if (td->users) {
		engine_unlock(engine);
		return call_failed_busy(context, "ibv_dealloc_td", td->users);
	}
	context_put(context);
	engine_unlock(engine);
	free(td);
	return 0;
}

static int domain_attr_check(const struct ibv_context *context,
			     const struct ibv_parent_domain_init_attr *attr)
{
	if (attr->comp_mask & ~(uint32_t)KNOWN_MASK)
		return -EINVAL;
	if (!attr->pd || attr->pd->context != context || to_pd(attr->pd)->base)
		return -EINVAL;
	if (attr->td && attr->td->context != context)
		return -EINVAL;
	/* Both functions or none. */
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free))
		return -EINVAL;
	return 0;
}

static int parent_domain_add(struct pd *pd, struct ibv_td *td)
{
	int ret = context_use(pd->context);

	if (ret)
		return ret;
	engine_lock(pd->context->engine);
	pd->id = pd->base->id;
	pd->pub.handle = pd->base->pub.handle;
	pd->base->users++;
	pd->td = td;
	if (td)
		to_td(td)->users++;
	engine_unlock(pd->context->engine);
	return 0;
}

struct ibv_pd *parent_domain_alloc(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr)
{
	struct pd *pd;
	int ret;

	if (fault_call_fails("ibv_alloc_parent_domain"))
		return NULL;
	ret = domain_attr_check(context, attr);
	if (ret)
		goto err_attr;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pub.context = context;
	pd->context = to_context(context);
	pd->base = to_pd(attr->pd);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	ret = parent_domain_add(pd, attr->td);
	if (!ret)
		return &pd->pub;
	free(pd);
err_attr:
	call_failed(to_context(context), "ibv_alloc_parent_domain", ret);
	errno = -ret;
	return NULL;
}

void parent_domain_release(struct pd *pd)
{
	engine_assert_locked(pd->context->engine);
	pd_put(pd->base);
	if (pd->td)
		to_td(pd->td)->users--;
}

static void *own_alloc(size_t bytes)
{
	void *memory;

	if (bytes < MAP_THRESHOLD_BYTES)
		return calloc(1, bytes);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void *queue_memory_alloc(struct pd *pd, size_t bytes, enum queue_kind kind, struct pd **owner)
{
	void *memory;

	*owner = NULL;
	if (!pd || !pd->alloc)
		return own_alloc(bytes);
	engine_assert_unlocked(pd->context->engine);
	memory = pd->alloc(&pd->pub, pd->pd_context, bytes, QUEUE_ALIGNMENT, kind);
	if (memory == IBV_ALLOCATOR_USE_DEFAULT)
		return own_alloc(bytes);
	if (!memory)
		return NULL;
	*owner = pd;
	memset(memory, 0, bytes);
	return memory;
}

void queue_memory_free(struct pd *owner, void *memory, size_t bytes, enum queue_kind kind)
{
	if (!memory)
		return;
	if (owner)
		owner->free(&owner->pub, owner->pd_context, memory, kind);
	else if (bytes < MAP_THRESHOLD_BYTES)
		free(memory);
	else
		munmap(memory, bytes);
}
