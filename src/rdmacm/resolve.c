/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rdmacm/event.h"
#include "rdmacm/public.h"
#include "rdmacm/resolve.h"

static int copy_addr(struct sockaddr_storage *to, const struct sockaddr *addr)
{
	socklen_t bytes = rcm_addr_bytes(addr);

	/* As Linux has it: such an address is of a port on an InfiniBand link, and no RoCE device has one. */
	if (addr && addr->sa_family == AF_IB)
		return -ENODEV;
	if (!bytes)
		return -EINVAL;
	memcpy(to, addr, bytes);
	return 0;
}

int rcm_bind(struct rcm_id *id, const struct sockaddr *addr)
{
	struct ipc_cm_bind req = {.hdr.type = IPC_CM_BIND, .id = id->handle};
	struct ipc_cm_route_reply reply;
	int ret = copy_addr(&req.addr, addr);

	if (ret)
		return ret;
	ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));
	return ret ? ret : rcm_id_set_route(id, &reply.route);
}

static int listen_on(struct rcm_id *id, int backlog)
{
	struct ipc_cm_listen req = {
		.hdr.type = IPC_CM_LISTEN,
		.id = id->handle,
		.backlog = backlog > 0 ? (uint32_t)backlog : 0,
	};
	struct ipc_cm_route_reply reply;
	int ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));

	if (ret)
		return ret;
	id->is_listener = true;
	return rcm_id_set_route(id, &reply.route);
}

/*
 * The destination is known from here on. Everything else, which the answer knows too, waits for
 * ADDR_RESOLVED: another thread may have that event before this one has looked at the answer.
 */
int rcm_resolve_addr(struct rcm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		     int timeout_ms)
{
	struct ipc_cm_resolve_addr req = {
		.hdr.type = IPC_CM_RESOLVE_ADDR,
		.id = id->handle,
		.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0,
	};
	struct sockaddr_storage before = id->pub.route.addr.dst_storage;
	struct ipc_cm_route_reply reply;
	int ret;

	ret = copy_addr(&req.dst, dst);
	if (!ret && src)
		ret = copy_addr(&req.src, src);
	if (ret)
		return ret;
	id->pub.route.addr.dst_storage = req.dst;
	ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));
	if (ret) {
		id->pub.route.addr.dst_storage = before;
		return ret;
	}
	return rcm_event_complete(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int rcm_resolve_route(struct rcm_id *id, int timeout_ms)
{
	struct ipc_cm_resolve_route req = {
		.hdr.type = IPC_CM_RESOLVE_ROUTE,
		.id = id->handle,
		.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0,
	};
	int ret = rcm_id_request(id, &req, sizeof(req));

	return ret ? ret : rcm_event_complete(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return rcm_public_result(id ? rcm_bind(rcm_id_of(id), addr) : -EINVAL);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return rcm_public_result(id ? listen_on(rcm_id_of(id), backlog) : -EINVAL);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(rcm_resolve_addr(rcm_id_of(id), src_addr, dst_addr, timeout_ms));
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return rcm_public_result(id ? rcm_resolve_route(rcm_id_of(id), timeout_ms) : -EINVAL);
}
