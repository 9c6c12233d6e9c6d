/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/trace_points.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/memory/dm.h"
#include "core/memory/memory.h"
#include "core/memory/pd.h"
#include "core/queue/failure_call.h"
#include "core/report/call_failed.h"

#define ACCESS_BUILT                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_FLUSH_GLOBAL)
/*
 * Writes to process memory are not persistent. For a mapped file, persistence would require waiting
 * for its disk.
 */
#define ACCESS_NOT_BUILT IBV_ACCESS_FLUSH_PERSISTENT

/* Parameters of a new or changed MR. */
struct mr_range {
	uint8_t *addr;
	uint64_t length;
	uint64_t iova;
	unsigned int access;
};

struct mr *mr_find(struct engine *engine, uint32_t key)
{
	engine_assert_any_locked(engine);
	return id_table_get(&engine->tables.mrs, key);
}

uint8_t *mr_translate(const struct mr *mr, uint64_t iova, uint64_t length)
{
	static uint8_t nothing;
	uint64_t offset = iova - mr->iova;

	if (!length)
		return &nothing;
	if (offset >= mr->length || length > mr->length - offset)
		return NULL;
	/* Computed as an integer: an implicit on-demand MR starts at NULL. */
	return (uint8_t *)((uintptr_t)mr->addr + offset);
}

static void mr_publish(struct engine *engine, const struct mr *mr)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->publish_mr)
			transports[i]->publish_mr(engine, mr);
	}
}

/*
 * 0: no peer accesses the memory any more. -EBUSY: a peer may still do so; the MR remains
 * published.
 */
static int mr_revoke(struct engine *engine, const struct mr *mr)
{
	int ret = 0;

	for (int i = 0; !ret && transports[i]; i++) {
		if (transports[i]->revoke_mr)
			ret = transports[i]->revoke_mr(engine, mr);
	}
	return ret;
}

/*
 * IBA 1.x §10.6.3: remote write and atomic access require local write access. Flags of the optional
 * range are hints.
 */
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

/* The whole address space, including later mappings: implicit on-demand paging (ibv_reg_mr(3)). */
static bool is_implicit(const struct mr_range *range)
{
	return !range->addr && !range->iova && range->length == SIZE_MAX &&
	       (range->access & IBV_ACCESS_ON_DEMAND);
}

static int mr_range_check(const struct device *device, const struct mr_range *range)
{
	uint64_t max_bytes = profile_limit(device->profile, PROFILE_MAX_MR_SIZE, MAX_MR_BYTES);
	int ret = access_check(range->access);

	if (ret || is_implicit(range))
		return ret;
	if (range->length > max_bytes || range->iova + range->length < range->iova)
		return -EINVAL;
	/* Drivers of adapters map whole pages (ibv_reg_mr_iova(3)). */
	if (!(range->access & IBV_ACCESS_ZERO_BASED) &&
	    ((uintptr_t)range->addr ^ range->iova) % (uintptr_t)sysconf(_SC_PAGESIZE))
		return -EINVAL;
	/* With on-demand paging the pages may be mapped later (ibv_reg_mr(3)). */
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

/* Adds an MR to the table. All locks held. */
static int mr_add(struct engine *engine, struct mr *mr)
{
	uint64_t handle;
	int ret = engine_usable(engine);

	engine_assert_all_locked(engine);
	if (ret)
		return ret;
	ret = device_count_add(mr->pd->context->engine, mr->pd->context->device, DEVICE_MR);
	if (ret)
		return ret;
	ret = id_table_add(&engine->tables.mrs, mr, &handle);
	if (ret) {
		device_count_drop(mr->pd->context->engine, mr->pd->context->device, DEVICE_MR);
		return ret == -ENOSPC ? -ENOMEM : ret;
	}
	mr->key = (uint32_t)handle;
	mr->pub.handle = mr->key;
	mr->pub.lkey = mr->key;
	mr->pub.rkey = mr->key;
	mr->pd->users++;
	mr_publish(engine, mr);
	return 0;
}

/* Properties of a new MR that is not of the application's memory. */
struct mr_kind {
	bool is_null;
	const struct mr_mapping *mapping; /* mapping owned by the MR, or NULL */
};

static struct ibv_mr *mr_register(struct ibv_pd *ibpd, const struct mr_range *range,
				  const struct mr_kind *kind)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;
	struct mr *mr;
	int ret = fault_call("ibv_reg_mr");

	if (!ret)
		ret = mr_range_check(pd->context->device, range);
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
	failure_reg_mr(pd->context, (uintptr_t)range->addr, range->length, range->access, ret);
	errno = -ret;
	trace_call_failed("ibv_reg_mr", -ret, 0);
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

/* verbs.h defines the next two as macros, which call a shorter path if the flags are constant. */
struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *(ibv_reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

/* The range that ibv_rereg_mr() with these arguments would set. -errno: not permitted. */
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
	return mr_range_check(mr->pd->context->device, range);
}

static int rereg_input_check(const struct mr *mr, int flags, const struct ibv_pd *pd,
			     const void *addr, size_t length, int access)
{
	if (mr->is_null || (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)))
		return -EINVAL;
	if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
		return -EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return -EINVAL;
	if (mr->original || mr->mapping)
		return -EOPNOTSUPP;
	if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->pub.context))
		return -EINVAL;
	return 0;
}

/*
 * Unpublishes the MR, changes it and publishes it again with the same key. -EBUSY, -EINVAL: the MR
 * is unchanged. mr_revoke() releases engine.lock while it waits. In that time no other thread may
 * deregister the MR through another handle, because the MR is published again here.
 */
static int mr_change(struct engine *engine, struct mr *mr, struct pd *pd,
		     const struct mr_range *range)
{
	int ret;

	if (mr->is_revoked)
		return -EINVAL;
	if (mr->windows || mr->is_changing)
		return -EBUSY;
	mr->is_changing = true;
	ret = mr_revoke(engine, mr);
	mr->is_changing = false;
	if (ret)
		return ret;
	/* Another thread bound a window to the unchanged MR. */
	if (mr->windows) {
		mr_publish(engine, mr);
		return -EBUSY;
	}
	if (pd) {
		pd->users++;
		pd_put(mr->pd);
		mr->pd = pd;
		mr->pub.pd = &pd->pub;
	}
	mr_set_range(mr, range);
	engine->tables.mr_changes++;
	mr_publish(engine, mr);
	return 0;
}

int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		 int access)
{
	struct mr *mr = to_mr(ibmr);
	struct engine *engine = mr->pd->context->engine;
	struct mr_range range;
	int ret;

	if (fault_call_fails(__func__))
		return IBV_REREG_MR_ERR_INPUT;
	ret = rereg_input_check(mr, flags, ibpd, addr, length, access);
	if (!ret)
		ret = rereg_range(mr, flags, addr, length, access, &range);
	if (ret) {
		/* All checks precede the change: the MR is unchanged. */
		call_failed(mr->pd->context, __func__, ret);
		errno = -ret;
		return IBV_REREG_MR_ERR_INPUT;
	}
	engine_lock(engine);
	ret = engine_usable(engine);
	if (!ret)
		ret = mr_change(engine, mr, flags & IBV_REREG_MR_CHANGE_PD ? to_pd(ibpd) : NULL,
				&range);
	engine_unlock(engine);
	if (!ret)
		return 0;
	call_failed(mr->pd->context, __func__, ret);
	errno = -ret;
	return ret == -EBUSY || ret == -EINVAL ? IBV_REREG_MR_ERR_INPUT : IBV_REREG_MR_ERR_CMD;
}

/*
 * Waits for the end of the peers' accesses, without engine.lock. In that time is_revoked makes
 * calls on other handles fail. Another thread may bind a window; then the deregistration fails with
 * EBUSY.
 */
static int mr_end_peers(struct engine *engine, struct mr *mr)
{
	int error;

	mr->is_revoked = true;
	error = mr_revoke(engine, mr);
	mr->is_revoked = false;
	if (error || !mr->windows)
		return error;
	mr_publish(engine, mr);
	return -EBUSY;
}

static void mr_forget(struct engine *engine, struct mr *mr)
{
	id_table_remove(&engine->tables.mrs, mr->key);
	engine->tables.mr_changes++;
	device_count_drop(mr->pd->context->engine, mr->pd->context->device, DEVICE_MR);
}

/* Deregisters the MR itself, also if it has other handles. engine.lock held. */
static int mr_end(struct engine *engine, struct mr *mr)
{
	engine_assert_all_locked(engine);
	if (mr->is_revoked)
		return -EINVAL;
	if (mr->windows || mr->is_changing)
		return -EBUSY;
	/* Revoked already if its context was closed before. */
	if (mr_find(engine, mr->key) == mr) {
		int error = engine->is_orphan ? 0 : mr_end_peers(engine, mr);

		if (error)
			return error;
		mr_forget(engine, mr);
	}
	mr->is_revoked = true;
	if (mr->dm)
		dm_put(mr->dm);
	if (mr->mapping)
		munmap(mr->mapping, mr->mapping_bytes);
	return 0;
}

/* The application releases its pointer to an MR or to a handle of one. engine.lock held. */
static void mr_let_go(struct mr *mr)
{
	struct mr *original = mr->original ? mr->original : mr;

	engine_assert_locked(mr->pd->context->engine);
	if (mr->original) {
		original->names--;
		pd_put(mr->pd);
		free(mr);
	} else {
		mr->is_let_go = true;
	}
	if (!original->is_let_go || !original->is_revoked)
		return;
	/* The MR is deregistered; the struct remains until its last handle is released. */
	if (original->pd)
		pd_put(original->pd);
	original->pd = NULL;
	if (!original->names)
		free(original);
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct mr *mr = to_mr(ibmr);
	struct context *context = to_context(ibmr->context);
	struct engine *engine = context->engine;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	ret = mr_end(engine, mr->original ? mr->original : mr);
	if (!ret)
		mr_let_go(mr);
	engine_unlock(engine);
	return call_result(context, __func__, ret);
}

/* engine.lock held. */
static int mr_add_name(struct mr *name, uint32_t handle)
{
	struct engine *engine = name->pd->context->engine;
	struct mr *mr = mr_find(engine, handle);
	int ret = engine_usable(engine);

	engine_assert_all_locked(name->pd->context->engine);
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
	struct engine *engine = to_pd(ibpd)->context->engine;
	struct mr *name;
	int ret;

	if (fault_call_fails(__func__))
		return NULL;
	name = calloc(1, sizeof(*name));
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

	engine_assert_all_locked(context->engine);
	while ((mr = id_table_next(&engine->tables.mrs, &cursor))) {
		if (!context_is_kin(mr->pd->context, context))
			continue;
		/* If a peer may still access the MR, ibv_dereg_mr() revokes it later. */
		if (!mr_revoke(engine, mr))
			mr_forget(engine, mr);
	}
}
