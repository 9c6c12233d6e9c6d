/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/dm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/context.h"
#include "core/mr.h"

#define STEP_BYTES 4

/* Owned by the application; dies in ibv_free_dm, when no MR uses it. `users` is guarded by engine.lock. */
struct dm {
	struct ibv_dm pub;
	struct context *context;
	uint8_t *memory;
	uint64_t length;
	unsigned int users;
};

static struct dm *to_dm(struct ibv_dm *dm)
{
	return (struct dm *)dm;
}

/* Where a range lies, or NULL if it is not all inside. */
static uint8_t *range_of(struct dm *dm, uint64_t offset, size_t length)
{
	if (offset > dm->length || length > dm->length - offset)
		return NULL;
	return dm->memory + offset;
}

static uint8_t *steps_of(struct dm *dm, uint64_t offset, size_t length)
{
	return (offset | length) % STEP_BYTES ? NULL : range_of(dm, offset, length);
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	uint8_t *at = steps_of(to_dm(dm), offset, length);

	if (!at)
		return EINVAL;
	memcpy(at, from, length);
	return 0;
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	const uint8_t *at = steps_of(to_dm(dm), offset, length);

	if (!at)
		return EINVAL;
	memcpy(to, at, length);
	return 0;
}

static int attr_check(const struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask)
		return -EINVAL;
	if (!attr->length || attr->length > MAX_DM_BYTES)
		return -EINVAL;
	/* A mapping is aligned to a page, and the address is the application's nowhere. */
	if (attr->log_align_req >= 32 ||
	    1ul << attr->log_align_req > (unsigned long)sysconf(_SC_PAGESIZE))
		return -EINVAL;
	return 0;
}

static struct dm *dm_new(struct context *context, uint64_t length)
{
	struct dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	dm->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dm->memory == MAP_FAILED) {
		free(dm);
		return NULL;
	}
	dm->pub.context = &context->pub.context;
	dm->pub.memcpy_to_dm = copy_to;
	dm->pub.memcpy_from_dm = copy_from;
	dm->context = context;
	dm->length = length;
	return dm;
}

static void dm_destroy(struct dm *dm)
{
	munmap(dm->memory, dm->length);
	free(dm);
}

struct ibv_dm *dm_alloc(struct ibv_context *ibcontext, struct ibv_alloc_dm_attr *attr)
{
	struct context *context = to_context(ibcontext);
	struct dm *dm;
	int ret = attr_check(attr);

	if (ret)
		goto err_attr;
	ret = -ENOMEM;
	dm = dm_new(context, attr->length);
	if (!dm)
		goto err_attr;
	engine_lock(context->engine);
	/* A fork()ed child may have memory of its own on its parent's device, as it would from a NIC. */
	ret = context->engine->is_orphan ? 0 : engine_usable(context->engine);
	if (!ret)
		context_get(context);
	engine_unlock(context->engine);
	if (!ret)
		return &dm->pub;
	dm_destroy(dm);
err_attr:
	errno = -ret;
	return NULL;
}

int dm_free(struct ibv_dm *ibdm)
{
	struct dm *dm = to_dm(ibdm);
	struct engine *engine = dm->context->engine;

	engine_lock(engine);
	if (dm->users) {
		engine_unlock(engine);
		return EBUSY;
	}
	context_put(dm->context);
	engine_unlock(engine);
	dm_destroy(dm);
	return 0;
}

void dm_put(struct dm *dm)
{
	dm->users--;
}

struct ibv_mr *dm_reg_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset, size_t length,
			 unsigned int access)
{
	struct dm *dm = to_dm(ibdm);
	uint8_t *at = range_of(dm, offset, length);
	struct ibv_mr *mr;

	/* Its addresses mean nothing to the application: they count from 0. */
	if (!at || !(access & IBV_ACCESS_ZERO_BASED) || pd->context != ibdm->context) {
		errno = EINVAL;
		return NULL;
	}
	mr = ibv_reg_mr_iova2(pd, at, length, 0, access);
	if (!mr)
		return NULL;
	engine_lock(dm->context->engine);
	dm->users++;
	to_mr(mr)->dm = dm;
	engine_unlock(dm->context->engine);
	return mr;
}
