/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/memory/domain.h"
#include "core/report/call_failed.h"

/*
 * A protection domain, stored in engine.tables.pds under its id. Its handles (struct pd, "names")
 * come from ibv_alloc_pd() and ibv_import_pd(). Freed with its last handle. Guarded by engine.lock.
 */
struct pd_body {
	uint32_t id;
	struct device *device;
	struct list_head names; /* pd.name_node */
};

static void body_free(struct engine *engine, struct pd_body *body)
{
	id_table_remove(&engine->tables.pds, body->id);
	device_count_drop(engine, body->device, DEVICE_PD);
	free(body);
}

static struct pd_body *pd_body_new(struct engine *engine, struct device *device, int *error)
{
	struct pd_body *body = calloc(1, sizeof(*body));
	uint64_t id;

	*error = -ENOMEM;
	if (!body || device_count_add(engine, device, DEVICE_PD))
		goto err_count;
	if (id_table_add(&engine->tables.pds, body, &id))
		goto err_id;
	*error = 0;
	body->device = device;
	body->id = (uint32_t)id;
	list_init(&body->names);
	return body;

err_id:
	device_count_drop(engine, device, DEVICE_PD);
err_count:
	free(body);
	return NULL;
}

static void pd_name_add(struct pd *pd, struct pd_body *body)
{
	pd->body = body;
	pd->id = body->id;
	pd->pub.handle = body->id;
	list_add_tail(&pd->name_node, &body->names);
	context_get(pd->context);
}

/* Frees one handle, and the protection domain with its last handle. */
static void pd_name_end(struct pd *pd)
{
	list_del(&pd->name_node);
	if (list_is_empty(&pd->body->names))
		body_free(pd->context->engine, pd->body);
	context_put(pd->context);
	free(pd);
}

static bool is_used(const struct pd *pd)
{
	const struct pd *name;

	if (!pd->body)
		return pd->users;
	list_for_each_entry(name, &pd->body->names, name_node) {
		if (name->users)
			return true;
	}
	return false;
}

static int pd_add(struct engine *engine, struct pd *pd)
{
	struct pd_body *body;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	body = pd_body_new(engine, pd->context->device, &ret);
	if (body)
		pd_name_add(pd, body);
	return ret;
}

/* engine.lock held. */
static int pd_add_name(struct engine *engine, struct pd *pd, uint32_t handle)
{
	struct pd_body *body;
	const struct pd *other;
	int ret = engine_usable(engine);

	engine_assert_locked(engine);
	if (ret)
		return ret;
	if (pd->context->is_foreign)
		return -EOPNOTSUPP;
	body = id_table_get(&engine->tables.pds, handle);
	if (!body)
		return -EINVAL;
	other = list_first_entry(&body->names, struct pd, name_node);
	if (!context_is_kin(other->context, pd->context))
		return -EINVAL;
	pd_name_add(pd, body);
	return 0;
}

/* handle: NULL allocates a new protection domain; else the handle of the domain to import. */
static struct ibv_pd *pd_make(struct ibv_context *ibcontext, const uint32_t *handle)
{
	struct context *context = to_context(ibcontext);
	struct pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return NULL;
	pd->pub.context = ibcontext;
	pd->context = context;
	engine_lock(context->engine);
	ret = handle ? pd_add_name(context->engine, pd, *handle) : pd_add(context->engine, pd);
	engine_unlock(context->engine);
	if (!ret)
		return &pd->pub;
	free(pd);
	call_failed(context, handle ? "ibv_import_pd" : "ibv_alloc_pd", ret);
	errno = -ret;
	return NULL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	if (fault_call_fails(__func__))
		return NULL;
	return pd_make(context, NULL);
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	if (fault_call_fails(__func__))
		return NULL;
	return pd_make(context, &pd_handle);
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	if (is_used(pd)) {
		engine_unlock(engine);
		return call_failed_busy(pd->context, __func__, pd->users);
	}
	if (pd->base) {
		parent_domain_release(pd);
		context_put(pd->context);
		free(pd);
	} else {
		pd_name_end(pd);
	}
	engine_unlock(engine);
	return 0;
}

void ibv_unimport_pd(struct ibv_pd *ibpd)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;

	engine_lock(engine);
	/*
	 * A parent domain cannot be imported: ibv_import_pd() with its handle imports its base PD.
	 */
	pd->is_unimported = pd->body;
	if (pd->is_unimported && !pd->users)
		pd_name_end(pd);
	engine_unlock(engine);
}

void pd_put(struct pd *pd)
{
	engine_assert_locked(pd->context->engine);
	pd->users--;
	if (pd->is_unimported && !pd->users)
		pd_name_end(pd);
}
