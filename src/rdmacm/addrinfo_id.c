/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/addrinfo.h"
#include "rdmacm/event.h"
#include "rdmacm/public.h"
#include "rdmacm/user_event.h"

/*
 * Address information through an id: requested with rdma_resolve_addrinfo(), reported by an event,
 * and read with rdma_query_addrinfo(). The look-up runs in rdma_resolve_addrinfo(), because this
 * library has no thread of its own.
 */

/* An id can have one look-up at a time, from the call until the application gets its event. */
static int claim(struct rcm_id *id)
{
	int ret = 0;

	pthread_mutex_lock(&id->lock);
	if (id->is_resolving)
		ret = -EBUSY;
	id->is_resolving = true;
	pthread_mutex_unlock(&id->lock);
	return ret;
}

static void addrinfo_id_finish(struct rcm_id *id, struct rdma_addrinfo *info, bool is_resolving)
{
	struct rdma_addrinfo *old;

	pthread_mutex_lock(&id->lock);
	old = id->addrinfo;
	id->addrinfo = info;
	id->is_resolving = is_resolving;
	pthread_mutex_unlock(&id->lock);
	rdma_freeaddrinfo(old);
}

static int resolve_addrinfo(struct rcm_id *id, const char *node, const char *service,
			    const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *info = NULL;
	enum rdma_cm_event_type outcome;
	int ret, status;

	if (!node && !service && !hints)
		return -EINVAL;
	if (hints && hints->ai_flags & RAI_SA)
		return -EOPNOTSUPP;
	ret = claim(id);
	if (ret)
		return ret;
	status = -rcm_addrinfo_errno(rdma_getaddrinfo(node, service, hints, &info));
	outcome = status ? RDMA_CM_EVENT_ADDRINFO_ERROR : RDMA_CM_EVENT_ADDRINFO_RESOLVED;
	addrinfo_id_finish(id, info, true);
	ret = rcm_user_event_write(id, outcome, status, 0);
	if (ret) {
		addrinfo_id_finish(id, NULL, false);
		return ret;
	}
	return rcm_event_complete(id, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
}

static int query_addrinfo(struct rcm_id *id, struct rdma_addrinfo **info)
{
	pthread_mutex_lock(&id->lock);
	*info = id->addrinfo;
	id->addrinfo = NULL;
	pthread_mutex_unlock(&id->lock);
	return *info ? 0 : -ENOENT;
}

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(resolve_addrinfo(rcm_id_of(id), node, service, hints));
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	if (!id || !info)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(query_addrinfo(rcm_id_of(id), info));
}
