/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/dm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/resize.h"
#include "base/syscalls.h"
#include "base/user_copy.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/memory/mr.h"
#include "core/report/call_failed.h"

#define STEP_BYTES 4
#define COPY_BYTES 4096

/*
 * The memory, in engine.tables.dms by its handle. Freed with the last `struct dm` or MR that refers
 * to it. Guarded by engine.lock, except memory and length, which are immutable.
 */
struct dm_body {
	uint8_t *memory;
	int fd; /* the memfd, by which a peer maps the memory; -1: anonymous memory */
	uint64_t length;
	uint32_t handle;
	unsigned int names; /* number of `struct dm`, of dm_alloc() and ibv_import_dm() */
	unsigned int users; /* number of MRs */
	struct engine *engine;
	uint64_t token[2]; /* of the context that created it */
};

/*
 * A reference of the application to device memory. Owned by the application; freed by ibv_free_dm()
 * or ibv_unimport_dm().
 */
struct dm {
	struct ibv_dm pub;
	struct context *context;
	struct dm_body *body;
};

static struct dm *to_dm(struct ibv_dm *dm)
{
	return (struct dm *)dm;
}

/* The address of a range, or NULL if the range exceeds the memory. */
static uint8_t *range_of(struct dm *dm, uint64_t offset, size_t length)
{
	const struct dm_body *body = dm->body;

	if (offset > body->length || length > body->length - offset)
		return NULL;
	return body->memory + offset;
}

static uint8_t *steps_of(struct dm *dm, uint64_t offset, size_t length)
{
	return (offset | length) % STEP_BYTES ? NULL : range_of(dm, offset, length);
}

/*
 * Device memory and the memory of the caller may be accessed by other threads and peers, so that
 * words of both are copied whole, by way of a buffer.
 */
static int dm_copy(uint8_t *to, const uint8_t *from, size_t length)
{
	uint8_t part[COPY_BYTES];

	for (size_t done = 0; done < length; done += sizeof(part)) {
		size_t bytes = min_u64(sizeof(part), length - done);

		if (!user_copy_from(part, from + done, bytes) ||
		    !user_copy_to(to + done, part, bytes))
			return EFAULT;
	}
	return 0;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	uint8_t *at = steps_of(to_dm(dm), offset, length);

	if (!at)
		return EINVAL;
	return dm_copy(at, from, length);
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	const uint8_t *at = steps_of(to_dm(dm), offset, length);

	if (!at)
		return EINVAL;
	return dm_copy(to, at, length);
}

static int dm_attr_check(const struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask)
		return -EINVAL;
	if (!attr->length || attr->length > MAX_DM_BYTES)
		return -EINVAL;
	/* The memory is aligned to a page; the alignment is not visible to the application. */
	if (attr->log_align_req >= 32 ||
	    1ul << attr->log_align_req > (unsigned long)sysconf(_SC_PAGESIZE))
		return -EINVAL;
	return 0;
}

/*
 * A sealed memfd, which peers may map (ADR 0042); -1: not available. With RLIMIT_AS peers do not
 * map memory.
 */
static int dm_memfd(uint64_t length)
{
	int fd;

	if (limit_is_set(RLIMIT_AS))
		return -1;
	fd = memfd_create("usrdma-dm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (!resize_memory(fd, length) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return fd;
	sys_close(fd);
	return -1;
}

static void close_memfd(const struct dm_body *body)
{
	if (body->fd >= 0)
		sys_close(body->fd);
}

static struct dm_body *dm_body_new(struct engine *engine, uint64_t length)
{
	struct dm_body *body = calloc(1, sizeof(*body));

	if (!body)
		return NULL;
	body->fd = dm_memfd(length);
	body->memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    body->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, body->fd, 0);
	if (body->memory == MAP_FAILED) {
		close_memfd(body);
		free(body);
		return NULL;
	}
	body->length = length;
	body->engine = engine;
	return body;
}

static void body_destroy(struct dm_body *body)
{
	munmap(body->memory, body->length);
	close_memfd(body);
	free(body);
}

/* engine.lock held. */
static void body_put(struct dm_body *body)
{
	engine_assert_locked(body->engine);
	if (body->names || body->users)
		return;
	id_table_remove(&body->engine->tables.dms, body->handle);
	body_destroy(body);
}

static struct dm *dm_name_new(struct context *context)
{
	struct dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	dm->pub.context = &context->pub.context;
	dm->pub.memcpy_to_dm = copy_to;
	dm->pub.memcpy_from_dm = copy_from;
	dm->context = context;
	return dm;
}

/* engine.lock held. */
static void dm_name_add(struct dm *dm, struct dm_body *body)
{
	engine_assert_locked(body->engine);
	dm->body = body;
	dm->pub.handle = body->handle;
	body->names++;
	context_get(dm->context);
}

/* engine.lock held. */
static int body_add(struct engine *engine, struct dm_body *body)
{
	uint64_t handle;
	/* A fork()ed child may allocate its own memory on its parent's device, as with a NIC. */
	int ret = engine->is_orphan ? 0 : engine_usable(engine);

	engine_assert_locked(engine);
	if (ret)
		return ret;
	if (id_table_add(&engine->tables.dms, body, &handle))
		return -ENOMEM;
	body->handle = (uint32_t)handle;
	return 0;
}

static int dm_add(struct dm *dm, uint64_t length)
{
	struct engine *engine = dm->context->engine;
	struct dm_body *body = dm_body_new(engine, length);
	int ret;

	if (!body)
		return -ENOMEM;
	memcpy(body->token, dm->context->token, sizeof(body->token));
	engine_lock(engine);
	ret = body_add(engine, body);
	if (!ret)
		dm_name_add(dm, body);
	engine_unlock(engine);
	if (ret)
		body_destroy(body);
	return ret;
}

struct ibv_dm *dm_alloc(struct ibv_context *ibcontext, struct ibv_alloc_dm_attr *attr)
{
	struct dm *dm;
	int ret;

	if (fault_call_fails("ibv_alloc_dm"))
		return NULL;
	ret = dm_attr_check(attr);
	if (ret)
		goto err_attr;
	dm = dm_name_new(to_context(ibcontext));
	if (!dm)
		return NULL;
	ret = dm_add(dm, attr->length);
	if (!ret)
		return &dm->pub;
	free(dm);
err_attr:
	call_failed(to_context(ibcontext), "ibv_alloc_dm", ret);
	errno = -ret;
	return NULL;
}

/* engine.lock held. */
static int dm_add_name(struct dm *dm, uint32_t handle)
{
	struct engine *engine = dm->context->engine;
	struct dm_body *body = id_table_get(&engine->tables.dms, handle);
	int ret = engine_usable(engine);

	engine_assert_locked(engine);
	if (ret)
		return ret;
	if (dm->context->is_foreign)
		return -EOPNOTSUPP;
	if (!body || memcmp(body->token, dm->context->token, sizeof(body->token)))
		return -EINVAL;
	dm_name_add(dm, body);
	return 0;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *ibcontext, uint32_t dm_handle)
{
	struct context *context = to_context(ibcontext);
	struct dm *dm;
	int ret;

	if (fault_call_fails(__func__))
		return NULL;
	dm = dm_name_new(context);
	if (!dm)
		return NULL;
	engine_lock(context->engine);
	ret = dm_add_name(dm, dm_handle);
	engine_unlock(context->engine);
	if (!ret)
		return &dm->pub;
	free(dm);
	call_failed(context, __func__, ret);
	errno = -ret;
	return NULL;
}

/* engine.lock held. */
static void dm_name_end(struct dm *dm)
{
	engine_assert_locked(dm->context->engine);
	dm->body->names--;
	body_put(dm->body);
	context_put(dm->context);
	free(dm);
}

int dm_free(struct ibv_dm *ibdm)
{
	struct dm *dm = to_dm(ibdm);
	struct engine *engine = dm->context->engine;
	unsigned int users;

	if (fault_call_fails("ibv_free_dm"))
		return errno;
	engine_lock(engine);
	users = dm->body->users;
	if (!users)
		dm_name_end(dm);
	engine_unlock(engine);
	return users ? call_failed_busy(to_context(ibdm->context), "ibv_free_dm", users) : 0;
}

void ibv_unimport_dm(struct ibv_dm *ibdm)
{
	struct engine *engine = to_dm(ibdm)->context->engine;

	engine_lock(engine);
	dm_name_end(to_dm(ibdm));
	engine_unlock(engine);
}

void dm_put(struct dm_body *body)
{
	engine_assert_locked(body->engine);
	body->users--;
	body_put(body);
}

struct ibv_mr *dm_reg_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset, size_t length,
			 unsigned int access)
{
	struct dm *dm = to_dm(ibdm);
	uint8_t *at = range_of(dm, offset, length);
	struct ibv_mr *mr;

	if (fault_call_fails("ibv_reg_dm_mr"))
		return NULL;
	/* The address of the memory is not public: the MR must be zero-based. */
	if (!at || !(access & IBV_ACCESS_ZERO_BASED) || pd->context != ibdm->context) {
		call_failed(dm->context, "ibv_reg_dm_mr", -EINVAL);
		errno = EINVAL;
		return NULL;
	}
	mr = ibv_reg_mr_iova2(pd, at, length, 0, access);
	if (!mr)
		return NULL;
	engine_lock(dm->context->engine);
	dm->body->users++;
	to_mr(mr)->dm = dm->body;
	engine_unlock(dm->context->engine);
	return mr;
}
