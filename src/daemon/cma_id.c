/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cma_priv.h"

static const char *const state_names[] = {
	[CMA_IDLE] = "idle",
	[CMA_BOUND] = "bound",
	[CMA_LISTENING] = "listening",
	[CMA_RESOLVING] = "resolving address",
	[CMA_ADDR_RESOLVED] = "address resolved",
	[CMA_ROUTE_RESOLVED] = "route resolved",
	[CMA_CONNECTING] = "connecting",
	[CMA_REQUESTED] = "requested",
	[CMA_CONNECTED] = "connected",
	[CMA_OVER] = "over",
	[CMA_REMOVED] = "device removed",
};
static_assert(sizeof(state_names) / sizeof(state_names[0]) == CMA_STATE_COUNT,
	      "every state has a name");

const char *cma_state_name(enum cma_state state)
{
	return (unsigned)state < CMA_STATE_COUNT ? state_names[state] : "?";
}

int cma_id_create(struct cma_client *client, struct cma_channel *channel, uint32_t ps,
		  uint8_t qp_type, uint64_t cookie, struct cma_id **out)
{
	struct cma_id *id;
	uint64_t handle;
	int ret;

	if (client->id_count >= CMA_IDS_PER_CLIENT || !cma_user_may_add_id(client))
		return -EDQUOT;
	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	ret = id_table_add(&client->cma->ids, id, &handle);
	if (ret) {
		free(id);
		return ret;
	}
	id->cma = client->cma;
	id->client = client;
	id->channel = channel;
	id->handle = (uint32_t)handle;
	id->cookie = cookie;
	id->state = CMA_IDLE;
	id->ps = ps;
	id->qp_type = qp_type;
	list_init(&id->unpushed);
	list_init(&id->memberships);
	list_init(&id->of_slot);
	list_add_tail(&id->of_channel, &channel->ids);
	list_add_tail(&id->node, &client->ids);
	client->id_count++;
	*out = id;
	return 0;
}

struct cma_id *cma_id_of(struct cma_client *client, uint32_t handle)
{
	struct cma_id *id = id_table_get(&client->cma->ids, handle);

	return id && id->client == client ? id : NULL;
}

void cma_id_responded(struct cma_id *id)
{
	struct cma_id *listener = id->listener ? cma_id_of(id->client, id->listener) : NULL;

	id->listener = 0;
	if (listener && listener->unread > 0)
		listener->unread--;
}

void cma_id_set_qpn(struct cma_id *id, uint32_t qpn)
{
	id->qp_num = qpn;
	list_move_tail(&id->of_slot, &id->cma->by_slot[qpn >> IPC_SLOT_SHIFT]);
}

void cma_id_let_go(struct cma_id *id)
{
	if (id->conn)
		id->cm->ops->destroy(id);
	id->conn = NULL;
}

/*
 * Frees an id. The CM sends the message that ends the connection in its state. The port is
 * released, and queued events are removed.
 */
void cma_id_destroy(struct cma_id *id)
{
	struct cma *cma = id->cma;

	cma_event_purge(id);
	cma_id_responded(id);
	if (id->state == CMA_LISTENING)
		cma_unlisten(id);
	cma_neigh_cancel(id);
	cma_port_release(&cma->ports, &id->binding);
	cma_id_let_go(id);
	cma_leave_all(id);
	list_del(&id->of_channel);
	list_del(&id->of_slot);
	list_del(&id->node);
	id->client->id_count--;
	id_table_remove(&cma->ids, id->handle);
	free(id);
	cma_wake(cma);
}

static int set_reuse(struct cma_id *id, int value)
{
	/*
	 * As in Linux: the option may be set until the id listens, and cleared only before the id
	 * is bound.
	 */
	if (value ? id->state == CMA_LISTENING : id->state != CMA_IDLE)
		return -EINVAL;
	cma_port_set_reuse(&id->binding, value != 0);
	return 0;
}

static int set_family_only(struct cma_id *id, int value)
{
	if (id->state != CMA_IDLE && id->state != CMA_BOUND)
		return -EINVAL;
	id->has_family_only = true;
	cma_port_set_family_only(&id->binding, value != 0);
	return 0;
}

/* The ACK timeout has 5 bits in a REQ. */
#define ACK_TIMEOUT_MAX 31

/* As in Linux: only the QPs that send requests and wait for responses have the option. */
static bool cma_id_has_ack_timeout(const struct cma_id *id)
{
	return id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND;
}

static int set_id_option(struct cma_id *id, const struct ipc_cm_set_option *req)
{
	int value;

	switch (req->name) {
	case RDMA_OPTION_ID_TOS:
		if (req->value_len != sizeof(uint8_t))
			return -EINVAL;
		id->tos = req->value[0];
		id->has_tos = true;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (req->value_len != sizeof(uint8_t) || req->value[0] > ACK_TIMEOUT_MAX ||
		    !cma_id_has_ack_timeout(id))
			return -EINVAL;
		id->ack_timeout = req->value[0];
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (req->value_len != sizeof(value))
			return -EINVAL;
		memcpy(&value, req->value, sizeof(value));
		return req->name == RDMA_OPTION_ID_AFONLY ? set_family_only(id, value) :
							    set_reuse(id, value);
	default:
		return -ENOSYS;
	}
}

/* RDMA_OPTION_IB_PATH: the client selects a path record. */
static int set_ib_option(struct cma_id *id, const struct ipc_cm_set_option *req)
{
	struct ibv_path_record record;

	if (req->name != RDMA_OPTION_IB_PATH)
		return -ENOSYS;
	if (req->value_len != sizeof(record))
		return -EINVAL;
	memcpy(&record, req->value, sizeof(record));
	return cma_set_path(id, &record);
}
static_assert(sizeof(struct ibv_path_record) <= sizeof(((struct ipc_cm_set_option *)0)->value),
	      "a path record is the longest value");

int cma_set_option(struct cma_id *id, const struct ipc_cm_set_option *req)
{
	if (req->value_len > sizeof(req->value))
		return -EINVAL;
	switch (req->level) {
	case RDMA_OPTION_ID:
		return set_id_option(id, req);
	case RDMA_OPTION_IB:
		return set_ib_option(id, req);
	default:
		return -ENOSYS;
	}
}
