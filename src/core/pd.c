/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/domain.h"

static int pd_add(struct engine *engine, struct pd *pd)
{
	uint64_t id;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	ret = id_table_add(&engine->pds, pd, &id);
	if (ret)
		return ret == -ENOSPC ? -ENOMEM : ret;
	pd->id = (uint32_t)id;
	pd->pub.handle = pd->id;
	context_get(pd->context);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibcontext)
{
	struct context *context = to_context(ibcontext);
	struct pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return NULL;
	pd->pub.context = ibcontext;
	pd->context = context;
	engine_lock(context->engine);
	ret = pd_add(context->engine, pd);
	engine_unlock(context->engine);
	if (!ret)
		return &pd->pub;
	free(pd);
	errno = -ret;
	return NULL;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;

	engine_lock(engine);
	if (pd->users) {
		engine_unlock(engine);
		return EBUSY;
	}
	if (pd->base)
		parent_domain_release(pd);
	else
		id_table_remove(&engine->pds, pd->id);
	context_put(pd->context);
	engine_unlock(engine);
	free(pd);
	return 0;
}
