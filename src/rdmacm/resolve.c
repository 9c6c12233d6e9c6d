/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rdmacm/addrinfo.h"
#include "rdmacm/event.h"
#include "rdmacm/public.h"
#include "rdmacm/resolve.h"

static int resolve_copy_addr(struct sockaddr_storage *to, const struct sockaddr *addr)
{
	socklen_t bytes = rcm_addr_bytes(addr);

	/*
	 * As in Linux: an AF_IB address belongs to a port with InfiniBand link layer, which RoCE
	 * devices do not have.
	 */
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
	int ret = resolve_copy_addr(&req.addr, addr);
	bool is_mapped;

	if (ret)
		return ret;
	is_mapped = rcm_addr_unmap(&req.addr);
	ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));
	if (ret)
		return ret;
	id->is_src_mapped = is_mapped;
	return rcm_id_set_route(id, &reply.route);
}

static bool is_loopback_port0(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;

	if (addr && addr->sa_family == AF_INET)
		return !in->sin_port && ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return addr && addr->sa_family == AF_INET6 && !in6->sin6_port &&
	       IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/*
 * libfabric binds a synchronous id to the result of rdma_getaddrinfo() for "localhost" to enumerate
 * the devices. If id->verbs is then set, libfabric offers only that device (ADR 0027). Such an id
 * therefore gets its device when the device is first needed.
 */
static int bind_addr(struct rcm_id *id, const struct sockaddr *addr)
{
	bool defers_before = id->defers_device;
	int ret;

	id->defers_device = id->is_sync && !rcm_id_is_datagram(id) && is_loopback_port0(addr) &&
			    rcm_addrinfo_is_localhost(addr);
	ret = rcm_bind(id, addr);
	if (ret)
		id->defers_device = defers_before;
	return ret;
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
	rcm_id_step(id, RCM_IN_LISTENS);
	id->defers_device = false;
	return rcm_id_set_route(id, &reply.route);
}

/* The id's addresses as reported to the application. */
struct shown {
	struct sockaddr_storage dst;
	bool is_src_mapped;
	bool is_dst_mapped;
};

static struct shown shown_of(const struct rcm_id *id)
{
	return (struct shown){
		.dst = id->pub.route.addr.dst_storage,
		.is_src_mapped = id->is_src_mapped,
		.is_dst_mapped = id->is_dst_mapped,
	};
}

static void show(struct rcm_id *id, const struct shown *shown)
{
	id->pub.route.addr.dst_storage = shown->dst;
	id->is_src_mapped = shown->is_src_mapped;
	id->is_dst_mapped = shown->is_dst_mapped;
}

static bool is_wildcard6(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/*
 * Converts the addresses of RESOLVE_ADDR for the daemon, and sets `shown` to the forms that the
 * application reads. A missing or wildcard source address gets the family and the form of the
 * destination.
 */
static int set_ends(struct rcm_id *id, struct ipc_cm_resolve_addr *req, struct shown *shown)
{
	const struct sockaddr_storage *bound = &id->pub.route.addr.src_storage;
	bool is_unbound = !bound->ss_family;

	shown->dst = req->dst;
	shown->is_dst_mapped = rcm_addr_unmap(&req->dst);
	if (is_unbound && req->src.ss_family)
		shown->is_src_mapped = rcm_addr_unmap(&req->src);
	if (!shown->is_dst_mapped)
		return bound->ss_family == AF_INET6 && !id->is_src_mapped &&
				       req->dst.ss_family == AF_INET ?
			       -EINVAL :
			       0;
	if (is_unbound && is_wildcard6(&req->src)) {
		in_port_t port = ((const struct sockaddr_in6 *)&req->src)->sin6_port;

		memset(&req->src, 0, sizeof(req->src));
		req->src.ss_family = AF_INET;
		((struct sockaddr_in *)&req->src)->sin_port = port;
		shown->is_src_mapped = true;
	} else if ((is_unbound && !req->src.ss_family) || is_wildcard6(bound)) {
		shown->is_src_mapped = true;
	}
	return 0;
}

/*
 * Only the destination is set here. The rest of the route is also in the reply, but it is set from
 * the event ADDR_RESOLVED, which another thread may get before this one has processed the reply.
 */
int rcm_resolve_addr(struct rcm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		     int timeout_ms)
{
	struct ipc_cm_resolve_addr req = {
		.hdr.type = IPC_CM_RESOLVE_ADDR,
		.id = id->handle,
		.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0,
	};
	struct shown before = shown_of(id), shown = before;
	bool deferred = id->defers_device;
	struct ipc_cm_route_reply reply;
	int ret;

	if (rcm_event_is_awaited(id, RDMA_CM_EVENT_ADDR_RESOLVED))
		return rcm_event_complete(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	ret = resolve_copy_addr(&req.dst, dst);
	if (!ret && src)
		ret = resolve_copy_addr(&req.src, src);
	if (!ret)
		ret = set_ends(id, &req, &shown);
	if (ret)
		return ret;
	show(id, &shown);
	id->defers_device = false;
	ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));
	if (ret) {
		show(id, &before);
		id->defers_device = deferred;
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
	int ret = 0;

	/* As Linux does; the daemon ignores the timeout. */
	if (!timeout_ms)
		return -EINVAL;
	if (!rcm_event_is_awaited(id, RDMA_CM_EVENT_ROUTE_RESOLVED))
		ret = rcm_id_request(id, &req, sizeof(req));
	return ret ? ret : rcm_event_complete(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return rcm_public_call(id ? bind_addr(rcm_id_of(id), addr) : -EINVAL);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return rcm_public_call(id ? listen_on(rcm_id_of(id), backlog) : -EINVAL);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(rcm_resolve_addr(rcm_id_of(id), src_addr, dst_addr, timeout_ms));
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return rcm_public_call(id ? rcm_resolve_route(rcm_id_of(id), timeout_ms) : -EINVAL);
}
