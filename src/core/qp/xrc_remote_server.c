/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/engine.h"
#include "core/engine/qp_table.h"
#include "core/qp/qp.h"
#include "core/qp/xrc_remote.h"

/*
 * Remote open of an XRC target QP, server side: executes the operations of other processes'
 * handles, and sends the QP's events to these processes.
 */

/*
 * Another process with handles of a QP of this process. It holds a reference to the QP and its
 * domain. Freed with the last handle or when that process exits.
 */
struct xrc_remote_client {
	struct list_head node;	  /* xrc_remote.clients */
	struct list_head qp_node; /* qp.remote_clients */
	struct qp *qp;
	uint32_t slot;
	uint32_t handles;
};

static struct xrc_remote_client *remote_client_find(const struct qp *qp, uint32_t slot)
{
	struct xrc_remote_client *client;

	list_for_each_entry(client, &qp->remote_clients, qp_node) {
		if (client->slot == slot)
			return client;
	}
	return NULL;
}

static int remote_client_get(struct engine *engine, struct qp *qp, uint32_t slot)
{
	struct xrc_remote_client *client = remote_client_find(qp, slot);

	if (!client) {
		client = calloc(1, sizeof(*client));
		if (!client)
			return -ENOMEM;
		client->qp = qp;
		client->slot = slot;
		list_add_tail(&client->node, &engine->xrc_remote.clients);
		list_add_tail(&client->qp_node, &qp->remote_clients);
		qp->xrc_domain->xrcds++;
	}
	client->handles++;
	return 0;
}

/*
 * Releases the references of a client without handles: frees the QP and closes the domain if these
 * were the last.
 */
static void remote_client_free(struct engine *engine, struct xrc_remote_client *client)
{
	struct qp *qp = client->qp;
	struct xrc_domain *domain = qp->xrc_domain;

	list_del(&client->node);
	list_del(&client->qp_node);
	free(client);
	if (xrc_qp_is_orphaned(qp))
		qp_free_orphaned(qp);
	domain = xrc_domain_put(engine, domain);
	if (domain)
		xrc_domain_close_later(engine, domain);
}

static int execute_open(struct engine *engine, uint32_t slot, struct qp *qp,
			const struct xrc_remote_open *open, struct ibv_qp_attr *attr)
{
	if (qp->xrc_domain->id != open->domain_id)
		return -EINVAL;
	qp_fill_attr(qp, attr);
	return remote_client_get(engine, qp, slot);
}

/* Executes an operation of a handle that is open. */
static int execute_on_handle(struct engine *engine, uint32_t slot, struct qp *qp,
			     const struct xrc_forward_msg *msg, struct ibv_qp_attr *attr)
{
	struct xrc_remote_client *client = remote_client_find(qp, slot);

	if (!client)
		return -EINVAL;
	switch (msg->type) {
	case XRC_REMOTE_CLOSE:
		if (!--client->handles)
			remote_client_free(engine, client);
		return 0;
	case XRC_REMOTE_QUERY:
		qp_fill_attr(qp, attr);
		return 0;
	case XRC_REMOTE_MODIFY:
		return qp_modify_of_handle(qp, &msg->modify.attr, msg->modify.mask);
	default:
		return -EINVAL;
	}
}

static int execute_operation(struct engine *engine, uint32_t slot,
			     const struct xrc_forward_msg *msg, struct ibv_qp_attr *attr)
{
	struct qp *qp = qp_find(engine, msg->qpn);
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (!qp || qp->type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	if (msg->type == XRC_REMOTE_OPEN)
		return execute_open(engine, slot, qp, &msg->open, attr);
	return execute_on_handle(engine, slot, qp, msg, attr);
}

static uint32_t operation_serial(const struct xrc_forward_msg *msg)
{
	switch (msg->type) {
	case XRC_REMOTE_OPEN:
		return msg->open.serial;
	case XRC_REMOTE_MODIFY:
		return msg->modify.serial;
	default:
		return msg->operation.serial;
	}
}

void xrc_remote_execute(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg)
{
	struct xrc_forward_msg reply;

	/* Also clears the padding of the attributes, which is sent. */
	memset(&reply, 0, sizeof(reply));
	reply.type = XRC_REMOTE_RESULT;
	reply.qpn = msg->qpn;
	reply.result.serial = operation_serial(msg);
	reply.result.error = (uint32_t)-execute_operation(engine, slot, msg, &reply.result.attr);
	xrc_forward_post(engine, slot, &reply);
}

void xrc_remote_post_event(struct qp *qp, enum ibv_event_type event)
{
	const struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_EVENT, .qpn = qp->qpn, .event.event = event};
	struct xrc_remote_client *client;

	list_for_each_entry(client, &qp->remote_clients, qp_node)
		xrc_forward_post(qp->context->engine, client->slot, &msg);
}

void xrc_remote_client_exited(struct engine *engine, uint32_t slot)
{
	struct xrc_remote_client *client, *tmp;

	list_for_each_entry_safe(client, tmp, &engine->xrc_remote.clients, node) {
		if (client->slot == slot)
			remote_client_free(engine, client);
	}
}
