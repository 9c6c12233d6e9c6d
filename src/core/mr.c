/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/context.h"
#include "core/dm.h"
#include "core/memory.h"
#include "core/pd.h"
#include "core/transport.h"

#define ACCESS_BUILT                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_FLUSH_GLOBAL)
/*
 * A process's memory is what it is while there is power; of a mapped file nobody can say it without waiting for its
 * disk.
 */
#define ACCESS_NOT_BUILT IBV_ACCESS_FLUSH_PERSISTENT

/* What an MR is made or changed with. */
struct mr_range {
	uint8_t *addr;
	uint64_t length;
	uint64_t iova;
	unsigned int access;
};

struct mr *mr_find(struct engine *engine, uint32_t key)
{
	return id_table_get(&engine->mrs, key);
}

uint8_t *mr_translate(const struct mr *mr, uint64_t iova, uint64_t length)
{
	static uint8_t nothing;
	uint64_t offset = iova - mr->iova;

	if (!length)
		return &nothing;
	if (offset >= mr->length || length > mr->length - offset)
		return NULL;
	/* By number: what is registered on demand as a whole begins at NULL. */
	return (uint8_t *)((uintptr_t)mr->addr + offset);
}

bool mr_is_there(const struct mr *mr, const void *at, uint64_t length, bool is_written)
{
	bool may_be_gone = mr->access & IBV_ACCESS_ON_DEMAND || mr->mapping;

	return !may_be_gone || !memory_check(at, length, is_written);
}

static void mr_publish(struct engine *engine, const struct mr *mr)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->publish_mr)
			transports[i]->publish_mr(engine, mr);
	}
}

/* Returns when no peer can touch the memory any more. */
static void mr_revoke(struct engine *engine, const struct mr *mr)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->revoke_mr)
			transports[i]->revoke_mr(engine, mr);
	}
}

/* IBA 1.x §10.6.3: who may let a peer write must be allowed to write itself. Flags of the optional range are hints. */
static int access_check(unsigned int access)
{
	if (access & ~(ACCESS_BUILT | ACCESS_NOT_BUILT | (unsigned int)IBV_ACCESS_OPTIONAL_RANGE))
		return -EINVAL;
	if (access & ACCESS_NOT_BUILT)
		return -EOPNOTSUPP;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/* The whole address space, whatever will be mapped where: implicit on-demand paging (ibv_reg_mr(3)). */
static bool is_implicit(const struct mr_range *range)
{
	return !range->addr && !range->iova && range->length == SIZE_MAX &&
	       (range->access & IBV_ACCESS_ON_DEMAND);
}

static int range_check(const struct mr_range *range)
{
	int ret = access_check(range->access);

	if (ret || is_implicit(range))
		return ret;
	if (range->length > MAX_MR_BYTES || range->iova + range->length < range->iova)
		return -EINVAL;
	/* On demand means that pages may come later (ibv_reg_mr(3)). */
	if (range->access & IBV_ACCESS_ON_DEMAND)
		return 0;
	return memory_check(range->addr, range->length, range->access & IBV_ACCESS_LOCAL_WRITE);
}

static void mr_set_range(struct mr *mr, const struct mr_range *range)
{
	mr->addr = range->addr;
	mr->length = range->length;
	mr->iova = range->iova;
	mr->access = range->access;
	mr->pub.addr = range->addr;
	mr->pub.length = (size_t)range->length;
}

static int mr_add(struct engine *engine, struct mr *mr)
{
	uint64_t handle;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	ret = id_table_add(&engine->mrs, mr, &handle);
	if (ret)
		return ret == -ENOSPC ? -ENOMEM : ret;
	mr->key = (uint32_t)handle;
	mr->pub.handle = mr->key;
	mr->pub.lkey = mr->key;
	mr->pub.rkey = mr->key;
	mr->pd->users++;
	mr_publish(engine, mr);
	return 0;
}

/* How an MR that is being made differs from one of the application's memory. */
struct mr_kind {
	bool is_null;
	const struct mr_mapping *mapping; /* of its own, or NULL */
};

static struct ibv_mr *mr_register(struct ibv_pd *ibpd, const struct mr_range *range,
				  const struct mr_kind *kind)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;
	struct mr *mr;
	int ret = range_check(range);

	if (ret)
		goto err_range;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->pub.context = ibpd->context;
	mr->pub.pd = ibpd;
	mr->pd = pd;
	mr_set_range(mr, range);
	mr->is_null = kind->is_null;
	if (kind->mapping) {
		mr->mapping = kind->mapping->start;
		mr->mapping_bytes = kind->mapping->bytes;
		mr->is_unreachable = !kind->mapping->is_reachable;
		mr->pub.addr = NULL;
	}
	engine_lock(engine);
	ret = mr_add(engine, mr);
	engine_unlock(engine);
	if (!ret)
		return &mr->pub;
	free(mr);
err_range:
	errno = -ret;
	return NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct mr_range range = {.addr = addr, .length = length, .iova = iova, .access = access};

	if (access & IBV_ACCESS_ZERO_BASED)
		range.iova = 0;
	return mr_register(pd, &range, &(const struct mr_kind){0});
}

struct ibv_mr *mr_register_null(struct ibv_pd *pd)
{
	const struct mr_range nothing = {.access = IBV_ACCESS_LOCAL_WRITE};

	return mr_register(pd, &nothing, &(const struct mr_kind){.is_null = true});
}

struct ibv_mr *mr_register_mapping(struct ibv_pd *pd, const struct mr_mapping *mapping,
				   size_t length, uint64_t iova, unsigned int access)
{
	struct mr_range range = {
		.addr = mapping->addr, .length = length, .iova = iova, .access = access};

	if (access & IBV_ACCESS_ZERO_BASED)
		range.iova = 0;
	return mr_register(pd, &range, &(const struct mr_kind){.mapping = mapping});
}

/* verbs.h makes the next two macros, which take the shorter way to them when the flags are known. */
struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *(ibv_reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

/* What MR and PD an input of ibv_rereg_mr would make: -errno if that may not be. */
static int rereg_range(const struct mr *mr, int flags, void *addr, size_t length, int access,
		       struct mr_range *range)
{
	range->addr = mr->addr;
	range->length = mr->length;
	range->iova = mr->iova;
	range->access = mr->access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		range->addr = addr;
		range->length = length;
		range->iova = (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		range->access = (unsigned int)access;
	if (range->access & IBV_ACCESS_ZERO_BASED)
		range->iova = 0;
	return range_check(range);
}

static int rereg_input_check(const struct mr *mr, int flags, const struct ibv_pd *pd,
			     const void *addr, size_t length)
{
	if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
		return -EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return -EINVAL;
	if (mr->original || mr->mapping)
		return -EOPNOTSUPP;
	if (mr->windows)
		return -EBUSY;
	if (mr->is_revoked)
		return -EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->pub.context))
		return -EINVAL;
	return 0;
}

/* Peers lose the MR as it was and get the one that it becomes, under the same key. */
static void mr_change(struct engine *engine, struct mr *mr, struct pd *pd,
		      const struct mr_range *range)
{
	mr_revoke(engine, mr);
	if (pd) {
		pd->users++;
		pd_put(mr->pd);
		mr->pd = pd;
		mr->pub.pd = &pd->pub;
	}
	mr_set_range(mr, range);
	mr_publish(engine, mr);
}

int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		 int access)
{
	struct mr *mr = to_mr(ibmr);
	struct engine *engine = mr->pd->context->engine;
	struct mr_range range;
	int ret = rereg_input_check(mr, flags, ibpd, addr, length);

	if (!ret)
		ret = rereg_range(mr, flags, addr, length, access, &range);
	if (ret) {
		/* Everything that can fail does so before anything changed: the MR is as it was. */
		errno = -ret;
		return IBV_REREG_MR_ERR_INPUT;
	}
	engine_lock(engine);
	ret = engine_usable(engine);
	if (!ret)
		mr_change(engine, mr, flags & IBV_REREG_MR_CHANGE_PD ? to_pd(ibpd) : NULL, &range);
	engine_unlock(engine);
	if (!ret)
		return 0;
	errno = -ret;
	return IBV_REREG_MR_ERR_CMD;
}

/* Ends the region itself, whoever has names of it. engine.lock held. */
static int mr_end(struct engine *engine, struct mr *mr)
{
	if (mr->is_revoked)
		return EINVAL;
	if (mr->windows)
		return EBUSY;
	/* From here on its other names have nothing to end, also while the lock is let go for revoking. */
	mr->is_revoked = true;
	/* Already revoked if its context was closed before it. */
	if (id_table_remove(&engine->mrs, mr->key) == mr && !engine->is_orphan)
		mr_revoke(engine, mr);
	if (mr->dm)
		dm_put(mr->dm);
	if (mr->mapping)
		munmap(mr->mapping, mr->mapping_bytes);
	return 0;
}

/* The application gives up its pointer, to a region or to a name of one. engine.lock held. */
static void mr_let_go(struct mr *mr)
{
	struct mr *original = mr->original ? mr->original : mr;

	if (mr->original) {
		original->names--;
		pd_put(mr->pd);
		free(mr);
	} else {
		mr->is_let_go = true;
	}
	if (!original->is_let_go || !original->is_revoked)
		return;
	/* Nothing is left of it but for its names to see that. */
	if (original->pd)
		pd_put(original->pd);
	original->pd = NULL;
	if (!original->names)
		free(original);
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct mr *mr = to_mr(ibmr);
	struct engine *engine = to_context(ibmr->context)->engine;
	int ret;

	engine_lock(engine);
	ret = mr_end(engine, mr->original ? mr->original : mr);
	if (!ret)
		mr_let_go(mr);
	engine_unlock(engine);
	return ret;
}

/* engine.lock held. */
static int mr_add_name(struct mr *name, uint32_t handle)
{
	struct engine *engine = name->pd->context->engine;
	struct mr *mr = mr_find(engine, handle);
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (name->pd->context->is_foreign)
		return -EOPNOTSUPP;
	if (!mr || mr->pd->id != name->pd->id)
		return -EINVAL;
	name->original = mr;
	name->pub.length = mr->pub.length;
	name->pub.handle = mr->pub.handle;
	name->pub.lkey = mr->pub.lkey;
	name->pub.rkey = mr->pub.rkey;
	name->pd->users++;
	mr->names++;
	return 0;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *ibpd, uint32_t mr_handle)
{
	struct mr *name = calloc(1, sizeof(*name));
	struct engine *engine = to_pd(ibpd)->context->engine;
	int ret;

	if (!name)
		return NULL;
	name->pd = to_pd(ibpd);
	name->pub.pd = ibpd;
	name->pub.context = ibpd->context;
	engine_lock(engine);
	ret = mr_add_name(name, mr_handle);
	engine_unlock(engine);
	if (!ret)
		return &name->pub;
	free(name);
	errno = -ret;
	return NULL;
}

void ibv_unimport_mr(struct ibv_mr *ibmr)
{
	struct engine *engine = to_context(ibmr->context)->engine;

	engine_lock(engine);
	mr_let_go(to_mr(ibmr));
	engine_unlock(engine);
}

void mr_revoke_all(struct context *context)
{
	struct engine *engine = context->engine;
	uint32_t cursor = 0;
	struct mr *mr;

	while ((mr = id_table_next(&engine->mrs, &cursor))) {
		if (!context_is_kin(mr->pd->context, context))
			continue;
		id_table_remove(&engine->mrs, mr->key);
		mr_revoke(engine, mr);
	}
}
