/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>

#include "base/timer.h"
#include "daemon/cm_ops.h"
#include "daemon/netdev.h"

/* The list of connection managers: each call is passed on to one or all of them. */

int cma_cms_open(struct cma_cms *cms, struct cma *cma, const struct cm_ops *const ops[])
{
	int ret;

	cms->count = 0;
	for (; *ops; ops++) {
		struct cma_cm *cm;

		assert(cms->count < CMA_CMS_MAX);
		ret = (*ops)->open(cma, &cm);
		if (ret)
			goto err_open;
		cm->ops = *ops;
		cm->cma = cma;
		cms->list[cms->count++] = cm;
	}
	return 0;

err_open:
	cma_cms_close(cms);
	return ret;
}

void cma_cms_close(struct cma_cms *cms)
{
	while (cms->count > 0) {
		struct cma_cm *cm = cms->list[--cms->count];

		cm->ops->close(cm);
	}
}

struct cma_cm *cma_cms_find(const struct cma_cms *cms, const struct cm_ops *ops)
{
	for (unsigned i = 0; i < cms->count; i++) {
		if (cms->list[i]->ops == ops)
			return cms->list[i];
	}
	return NULL;
}

struct cma_cm *cma_cms_of(const struct cma_cms *cms, const struct netdev *dev)
{
	for (unsigned i = 0; i < cms->count; i++) {
		if (cms->list[i]->ops->transport_type == dev->transport->transport_type)
			return cms->list[i];
	}
	return NULL;
}

int cma_cms_listen(const struct cma_cms *cms, struct cma_cm *only, uint64_t service_id)
{
	unsigned i;
	int ret;

	if (only)
		return only->ops->listen(only, service_id);
	for (i = 0; i < cms->count; i++) {
		ret = cms->list[i]->ops->listen(cms->list[i], service_id);
		if (ret)
			goto err_listen;
	}
	return 0;

err_listen:
	while (i-- > 0)
		cms->list[i]->ops->unlisten(cms->list[i], service_id);
	return ret;
}

void cma_cms_unlisten(const struct cma_cms *cms, struct cma_cm *only, uint64_t service_id)
{
	if (only) {
		only->ops->unlisten(only, service_id);
		return;
	}
	for (unsigned i = 0; i < cms->count; i++)
		cms->list[i]->ops->unlisten(cms->list[i], service_id);
}

bool cma_cms_deliver(const struct cma_cms *cms, uint64_t now_ns)
{
	bool is_busy = false;

	for (unsigned i = 0; i < cms->count; i++)
		is_busy |= cms->list[i]->ops->deliver(cms->list[i], now_ns);
	return is_busy;
}

uint64_t cma_cms_next_deadline(const struct cma_cms *cms)
{
	uint64_t first_ns = TIMER_NEVER_NS;

	for (unsigned i = 0; i < cms->count; i++) {
		uint64_t next_ns = cms->list[i]->ops->next_deadline(cms->list[i]);

		if (next_ns < first_ns)
			first_ns = next_ns;
	}
	return first_ns;
}

void cma_cms_run_timers(const struct cma_cms *cms, uint64_t now_ns)
{
	for (unsigned i = 0; i < cms->count; i++)
		cms->list[i]->ops->run_timers(cms->list[i], now_ns);
}

size_t cma_cms_conn_count(const struct cma_cms *cms)
{
	size_t count = 0;

	for (unsigned i = 0; i < cms->count; i++)
		count += cms->list[i]->ops->conn_count(cms->list[i]);
	return count;
}

void cma_cms_report(const struct cma_cms *cms, json_object *out, json_object *counters)
{
	for (unsigned i = 0; i < cms->count; i++)
		cms->list[i]->ops->report(cms->list[i], out, counters);
}
