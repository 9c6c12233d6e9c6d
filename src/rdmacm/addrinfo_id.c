/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/event.h"
#include "rdmacm/public.h"
#include "rdmacm/user_event.h"

/*
 * Address information by way of an id: asked for with rdma_resolve_addrinfo, announced by an event,
 * fetched with rdma_query_addrinfo. The look-up itself is done in the call, since this library has
 * no thread to do it in.
 */

static int status_of(int code)
{
	switch (code) {
	case 0:
		return 0;
	case EAI_SYSTEM:
		return errno ? -errno : -EIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_BADFLAGS:
	case EAI_SOCKTYPE:
		return -EINVAL;
	case EAI_FAMILY:
		return -EAFNOSUPPORT;
	default:
		return -ENOENT;
	}
}

/* One look-up at a time, from the call to the moment its event is taken. */
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

static void finish(struct rcm_id *id, struct rdma_addrinfo *info, bool is_resolving)
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
	status = status_of(rdma_getaddrinfo(node, service, hints, &info));
	outcome = status ? RDMA_CM_EVENT_ADDRINFO_ERROR : RDMA_CM_EVENT_ADDRINFO_RESOLVED;
	finish(id, info, true);
	ret = rcm_user_event_write(id, outcome, status, 0);
	if (ret) {
		finish(id, NULL, false);
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
	return rcm_public_result(resolve_addrinfo(rcm_id_of(id), node, service, hints));
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	if (!id || !info)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(query_addrinfo(rcm_id_of(id), info));
}
