/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "daemon/cma_priv.h"

/* Reports failed events and requests of ids, for `usrdma why`. */

/* A response that is outstanding for this time is reported before the attempt fails. */
#define WAITING_NS (CLOCK_NS_PER_S / 2)

static uint64_t cma_failure_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

void cma_set_failure_sink(struct cma *cma, cma_failure_fn *report, void *ctx)
{
	cma->failures.report = report;
	cma->failures.ctx = ctx;
	cma->failures.last_id = cma_failure_wall_ns();
}

void cma_because(struct cma *cma, enum ipc_failure_reason reason, uint64_t first, uint64_t second)
{
	cma->failures.reason = reason;
	cma->failures.numbers[0] = first;
	cma->failures.numbers[1] = second;
}

void cma_failing_to(struct cma *cma, const struct sockaddr_storage *dst)
{
	cma->failures.dst = *dst;
}

const char *cma_program_of(struct cma_client *client)
{
	if (!client->program[0])
		program_name_read(client->peer.pid, client->program);
	return client->program;
}

static void put_sockaddr(uint8_t ip[16], uint16_t *port, const struct sockaddr_storage *addr)
{
	if (addr->ss_family != AF_INET && addr->ss_family != AF_INET6)
		return;
	(void)gid_from_sockaddr(ip, (const struct sockaddr *)addr);
	*port = cma_addr_port((const struct sockaddr *)addr);
}

static void describe_id(struct ipc_failure *failure, const struct cma_id *id)
{
	const struct netdev *dev = id->route.dev_id ? netdev_by_id(id->route.dev_id) : NULL;

	if (dev)
		memcpy(failure->device, dev->name, strnlen(dev->name, sizeof(failure->device) - 1));
	failure->qpn = id->qp_num;
	failure->qp_type = id->qp_type;
	failure->peer_qpn = id->qp.remote_qpn;
	memcpy(failure->peer_gid, id->route.dgid, sizeof(failure->peer_gid));
	put_sockaddr(failure->local_ip, &failure->local_port, &id->route.src);
	put_sockaddr(failure->remote_ip, &failure->remote_port, &id->route.dst);
}

/*
 * Reports and clears the reason and the destination that cma_because() and cma_failing_to() have
 * set.
 */
static void cma_report_failure(struct cma_client *client, const struct cma_id *id,
			       struct ipc_failure *failure)
{
	struct cma *cma = client->cma;

	failure->time_ns = cma_failure_wall_ns();
	if (!failure->id)
		failure->id = ++cma->failures.last_id;
	failure->reason = cma->failures.reason;
	memcpy(failure->numbers, cma->failures.numbers, sizeof(cma->failures.numbers));
	cma->failures.reason = IPC_REASON_NONE;
	memset(cma->failures.numbers, 0, sizeof(cma->failures.numbers));
	(void)cma_program_of(client);
	memcpy(failure->program, client->program, sizeof(failure->program));
	if (id)
		describe_id(failure, id);
	put_sockaddr(failure->remote_ip, &failure->remote_port, &cma->failures.dst);
	cma->failures.dst.ss_family = AF_UNSPEC;
	if (cma->failures.report)
		cma->failures.report(cma->failures.ctx, &client->peer, failure);
}

static bool is_failed_event(enum rdma_cm_event_type event)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return true;
	default:
		return false;
	}
}

void cma_failed_event(struct cma_id *id, const struct ipc_cm_event *event)
{
	struct ipc_failure failure = {
		.kind = IPC_FAILURE_CM,
		.event = event->event,
		.error = event->status,
		.id = id->failure_id,
		.flags = id->failure_id ? IPC_FAILURE_UPDATES : 0,
	};

	if (!is_failed_event(event->event)) {
		cma_because(id->cma, IPC_REASON_NONE, 0, 0);
		return;
	}
	if (event->event == RDMA_CM_EVENT_DISCONNECTED && !event->status)
		failure.flags |= IPC_FAILURE_NOTE;
	cma_report_failure(id->client, id, &failure);
	id->failure_id = 0;
}

/* The call of librdmacm that makes a request; NULL: its failures are not reported. */
static const char *cma_call_name(uint16_t type)
{
	switch (type) {
	case IPC_CM_BIND:
		return "rdma_bind_addr";
	case IPC_CM_RESOLVE_ADDR:
		return "rdma_resolve_addr";
	case IPC_CM_RESOLVE_ROUTE:
		return "rdma_resolve_route";
	case IPC_CM_LISTEN:
		return "rdma_listen";
	case IPC_CM_CONNECT:
		return "rdma_connect";
	case IPC_CM_ACCEPT:
		return "rdma_accept";
	case IPC_CM_REJECT:
		return "rdma_reject";
	case IPC_CM_ESTABLISH:
		return "rdma_establish";
	case IPC_CM_JOIN:
		return "rdma_join_multicast";
	default:
		return NULL;
	}
}

/* The address in the request: that of the id is not set if the request failed. */
static void describe_request(struct ipc_failure *failure, const struct ipc_hdr *req)
{
	const void *body = req;

	if (req->type == IPC_CM_BIND)
		put_sockaddr(failure->local_ip, &failure->local_port,
			     &((const struct ipc_cm_bind *)body)->addr);
	if (req->type == IPC_CM_RESOLVE_ADDR)
		put_sockaddr(failure->remote_ip, &failure->remote_port,
			     &((const struct ipc_cm_resolve_addr *)body)->dst);
}

void cma_failed_call(struct cma_client *client, const struct cma_id *id, const struct ipc_hdr *req,
		     int error)
{
	const char *name = cma_call_name(req->type);
	struct ipc_failure failure = {
		.kind = IPC_FAILURE_CALL, .error = -error, .event = UINT32_MAX};

	if (!name) {
		cma_because(client->cma, IPC_REASON_NONE, 0, 0);
		return;
	}
	memcpy(failure.call, name, strlen(name));
	if (!id || !id->route.dst.ss_family)
		describe_request(&failure, req);
	cma_report_failure(client, id, &failure);
}

static void report_waiting(struct cma_id *id)
{
	struct ipc_failure failure = {.kind = IPC_FAILURE_WARNING, .event = UINT32_MAX};
	struct cma *cma = id->cma;
	enum ipc_failure_reason reason;
	uint64_t numbers[2];

	if (!id->conn || cma_is_datagram(id) || !id->cm->ops->waiting ||
	    !id->cm->ops->waiting(id, &reason, numbers) || numbers[1] < WAITING_NS)
		return;
	if (id->failure_id)
		failure.flags |= IPC_FAILURE_UPDATES;
	else
		id->failure_id = ++cma->failures.last_id;
	failure.id = id->failure_id;
	cma_because(cma, reason, numbers[0], numbers[1]);
	cma_report_failure(id->client, id, &failure);
}

void cma_report_waiting(struct cma *cma, uid_t reader)
{
	struct cma_client *client;
	struct cma_id *id;

	list_for_each_entry(client, &cma->clients, node) {
		if (reader != 0 && reader != client->peer.uid)
			continue;
		list_for_each_entry(id, &client->ids, node)
			report_waiting(id);
	}
}
