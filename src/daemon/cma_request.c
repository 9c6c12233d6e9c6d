/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"

/*
 * A request whose format has been checked, and the id that it names, in a state in which the
 * request is valid.
 */
struct cma_call {
	struct cma_client *client;
	struct cma_id *id;
	bool is_in_place; /* the request is valid in the id's state */
	const void *req;
	int *client_end; /* out: descriptor to pass with the reply */
	void *reply;
};

static int do_channel_create(const struct cma_call *call)
{
	struct ipc_cm_channel_reply *reply = call->reply;
	struct cma_channel *channel;
	int ret = cma_channel_create(call->client, call->client_end, &channel);

	if (!ret)
		reply->channel = channel->handle;
	return ret;
}

/* Destroys an id at the request of its client. */
static void end_id(struct cma_id *id)
{
	if (id->state == CMA_LISTENING)
		cma_linger_add(&id->cma->linger, &id->cma->cms, id->service_id, clock_now_ns());
	cma_id_destroy(id);
}

/*
 * As in Linux, the ids of the channel are destroyed with it. They include requests that the client
 * has not read.
 */
static int do_channel_destroy(const struct cma_call *call)
{
	const struct ipc_cm_channel *req = call->req;
	struct cma_channel *channel = cma_channel_of(call->client, req->channel);

	if (!channel)
		return -EBADF;
	if (channel->is_held)
		return -EBUSY;
	while (!list_is_empty(&channel->ids))
		end_id(list_first_entry(&channel->ids, struct cma_id, of_channel));
	cma_channel_destroy(channel);
	return 0;
}

/* Checks whether a port space supports a QP type. */
static int check_kind(uint32_t ps, uint32_t qp_type)
{
	bool is_datagram = qp_type == IBV_QPT_UD;

	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		break;
	default:
		return -EINVAL;
	}
	switch (ps) {
	case RDMA_PS_TCP:
		return is_datagram ? -EINVAL : 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return is_datagram ? 0 : -EINVAL;
	case RDMA_PS_IB:
		return 0;
	default:
		return -EINVAL;
	}
}

static int do_create(const struct cma_call *call)
{
	const struct ipc_cm_create *req = call->req;
	struct ipc_cm_create_reply *reply = call->reply;
	struct cma_channel *channel = cma_channel_of(call->client, req->channel);
	struct cma_id *id;
	int ret;

	if (!channel)
		return -EBADF;
	ret = check_kind(req->ps, req->qp_type);
	if (ret)
		return ret;
	ret = cma_id_create(call->client, channel, req->ps, (uint8_t)req->qp_type, req->cookie,
			    &id);
	if (!ret)
		reply->id = id->handle;
	return ret;
}

static int do_destroy(const struct cma_call *call)
{
	struct ipc_cm_destroy_reply *reply = call->reply;

	cma_event_purge(call->id);
	reply->events_sent = call->id->events_sent;
	end_id(call->id);
	return 0;
}

static int give_route(const struct cma_call *call, int ret)
{
	struct ipc_cm_route_reply *reply = call->reply;

	if (!ret)
		reply->route = call->id->route;
	return ret;
}

static int do_bind(const struct cma_call *call)
{
	const struct ipc_cm_bind *req = call->req;

	return give_route(call, cma_bind(call->id, &req->addr));
}

/*
 * Both can fail repeatedly, each time with an event. So they are refused while too many events are
 * unread.
 */
static int do_resolve_addr(const struct cma_call *call)
{
	if (cma_client_is_unresponsive(call->client, 1))
		return -EDQUOT;
	return give_route(call, cma_resolve_addr(call->id, call->req));
}

static int do_resolve_route(const struct cma_call *call)
{
	return cma_client_is_unresponsive(call->client, 1) ? -EDQUOT : cma_resolve_route(call->id);
}

static int do_listen(const struct cma_call *call)
{
	const struct ipc_cm_listen *req = call->req;

	return give_route(call, cma_listen(call->id, req->backlog));
}

static int do_connect(const struct cma_call *call)
{
	return cma_connect(call->id, call->req);
}

static int do_accept(const struct cma_call *call)
{
	return cma_accept(call->id, call->req);
}

static int do_reject(const struct cma_call *call)
{
	return cma_reject(call->id, call->req);
}

static int do_establish(const struct cma_call *call)
{
	return cma_establish(call->id);
}

static int do_disconnect(const struct cma_call *call)
{
	return cma_disconnect(call->id);
}

static int do_notify(const struct cma_call *call)
{
	const struct ipc_cm_notify *req = call->req;

	return cma_notify(call->id, req->event);
}

static int do_set_option(const struct cma_call *call)
{
	return cma_set_option(call->id, call->req);
}

static int do_migrate_begin(const struct cma_call *call)
{
	return cma_migrate_begin(call->client, call->req);
}

static int do_migrate_end(const struct cma_call *call)
{
	return cma_migrate_end(call->client, call->req);
}

static int do_write_event(const struct cma_call *call)
{
	return cma_write_event(call->id, call->req);
}

static int do_join(const struct cma_call *call)
{
	return cma_join(call->id, call->req);
}

static int do_leave(const struct cma_call *call)
{
	const struct ipc_cm_leave *req = call->req;

	return cma_leave(call->id, req->cookie);
}

/* Every request that names an id has it directly after the header. */
static uint32_t named_id(const void *req)
{
	return ((const struct ipc_cm_id *)req)->id;
}
static_assert(offsetof(struct ipc_cm_id, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_bind, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_resolve_addr, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_resolve_route, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_listen, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_connect, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_reject, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_notify, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_set_option, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_write_event, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_join, id) == sizeof(struct ipc_hdr) &&
		      offsetof(struct ipc_cm_leave, id) == sizeof(struct ipc_hdr),
	      "named_id() reads the id without knowing the request");

#define IN(state)   (1u << CMA_##state)
#define IN_ANY	    ((1u << CMA_STATE_COUNT) - 1)
#define NAMES_NO_ID 0u
#define HAS_CONN    (IN(CONNECTING) | IN(REQUESTED) | IN(CONNECTED) | IN(OVER))

/*
 * The handler of each request and the states in which it is valid; in other states the result is
 * -EINVAL.
 */
static const struct {
	int (*call)(const struct cma_call *call);
	uint32_t states;
} requests[IPC_TYPE_COUNT] = {
	[IPC_CM_CHANNEL_CREATE] = {do_channel_create, NAMES_NO_ID},
	[IPC_CM_CHANNEL_DESTROY] = {do_channel_destroy, NAMES_NO_ID},
	[IPC_CM_CREATE] = {do_create, NAMES_NO_ID},
	[IPC_CM_DESTROY] = {do_destroy, IN_ANY},
	[IPC_CM_BIND] = {do_bind, IN(IDLE)},
	[IPC_CM_RESOLVE_ADDR] = {do_resolve_addr, IN(IDLE) | IN(BOUND)},
	[IPC_CM_RESOLVE_ROUTE] = {do_resolve_route, IN(ADDR_RESOLVED)},
	[IPC_CM_LISTEN] = {do_listen, IN(IDLE) | IN(BOUND)},
	[IPC_CM_CONNECT] = {do_connect, IN(ROUTE_RESOLVED)},
	[IPC_CM_ACCEPT] = {do_accept, IN(REQUESTED)},
	[IPC_CM_REJECT] = {do_reject, IN(CONNECTING) | IN(REQUESTED)},
	[IPC_CM_ESTABLISH] = {do_establish, IN(CONNECTING)},
	[IPC_CM_DISCONNECT] = {do_disconnect, HAS_CONN},
	[IPC_CM_NOTIFY] = {do_notify, HAS_CONN},
	[IPC_CM_SET_OPTION] = {do_set_option, IN_ANY},
	[IPC_CM_MIGRATE_BEGIN] = {do_migrate_begin, NAMES_NO_ID},
	[IPC_CM_MIGRATE_END] = {do_migrate_end, NAMES_NO_ID},
	[IPC_CM_WRITE_EVENT] = {do_write_event, IN_ANY},
	[IPC_CM_JOIN] = {do_join, IN(BOUND) | IN(ADDR_RESOLVED)},
	[IPC_CM_LEAVE] = {do_leave, IN_ANY},
};

static int cma_request_carry_out(struct cma_call *call, const struct ipc_hdr *req)
{
	uint32_t states;

	if (ipc_request_check(req, req->len, 0) || !requests[req->type].call)
		return -EINVAL;
	states = requests[req->type].states;
	if (states != NAMES_NO_ID) {
		call->id = cma_id_of(call->client, named_id(req));
		if (!call->id)
			return -EBADF;
		if (!(states & 1u << call->id->state)) {
			cma_because(call->client->cma, IPC_REASON_CM_STATE, call->id->state, 0);
			return -EINVAL;
		}
		call->is_in_place = true;
	}
	return requests[req->type].call(call);
}

/*
 * Reports the failure of a request with IPC_UNANSWERED by CONNECT_ERROR. Not if the request was
 * invalid in the id's state or the end of the connection was reported: an earlier event then had
 * the cause. Not if the client has too many unread events. An ACCEPT of a request that has ended
 * fails with the event that was withheld until then.
 */
static void notify_refusal(const struct cma_call *call, int status)
{
	const struct ipc_hdr *req = call->req;
	struct cma_id *id = call->id;

	if (id && req->type == IPC_CM_ACCEPT && id->withheld_reason) {
		id->cookie = ((const struct ipc_cm_connect *)call->req)->cookie;
		cma_event_status(id, RDMA_CM_EVENT_REJECTED, id->withheld_reason);
		id->withheld_reason = 0;
		return;
	}
	if (call->is_in_place && !call->id->is_end_reported &&
	    !cma_client_is_unresponsive(call->client, 1))
		cma_event_status(call->id, RDMA_CM_EVENT_CONNECT_ERROR, status);
}

uint32_t cma_request(struct cma_client *client, const struct ipc_hdr *req, void *reply,
		     int *client_end)
{
	struct cma_call call = {
		.client = client, .req = req, .client_end = client_end, .reply = reply};
	const struct ipc_type_info *info = ipc_type_info(req->type);
	struct ipc_hdr *hdr = reply;
	int ret;

	memset(reply, 0, info && info->reply_bytes ? info->reply_bytes : sizeof(*hdr));
	*client_end = -1;
	client->cma->counters.requests++;
	ret = cma_request_carry_out(&call, req);
	if (ret)
		cma_failed_call(client, call.id, req, ret);
	if (ret && req->flags & IPC_UNANSWERED)
		notify_refusal(&call, ret);
	*hdr = (struct ipc_hdr){.type = req->type, .seq = req->seq, .status = ret};
	hdr->len = ret ? (uint32_t)sizeof(*hdr) : info->reply_bytes;
	return hdr->len;
}
