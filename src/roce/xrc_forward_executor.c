/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/qp/qp.h"
#include "core/qp/xrc.h"
#include "core/report/usage.h"
#include "roce/xrc_forward.h"

/*
 * The process that owns the SRQ executes requests for XRC target QPs of other processes. A process
 * that sends ATTACH must have the id of a domain that is open here, so it has opened the domain's
 * inode. All other data in its messages is untrusted; xrc_forward_decode() has checked what does
 * not depend on the state of the executor.
 */

/*
 * Limit of executors, which use this process's memory; more than the queue pairs that one process
 * can have.
 */
#define EXECUTORS_MAX 16384u

/* Changes the state and returns the action that the caller must perform. */
static enum xrc_executor_action xrc_executor_step(struct xrc_executor *executor,
						  enum xrc_executor_input input)
{
	struct xrc_executor_cell cell = xrc_executor_cell(executor->state, input);

	executor->state = (enum xrc_executor_state)cell.next;
	return (enum xrc_executor_action)cell.action;
}

static struct xrc_executor *xrc_executor_find(const struct roce *roce, uint32_t qpn)
{
	struct hash_node *node;

	hash_for_each(node, &roce->xrc.executors, hash_mix(0, qpn))
	{
		struct xrc_executor *executor = container_of(node, struct xrc_executor, hash_node);

		if (executor->qp.qpn == qpn)
			return executor;
	}
	return NULL;
}

/*
 * Fails the incomplete message, drops pending READ responses, sends a pending ACK (by unbind()) and
 * frees the executor.
 */
static void xrc_executor_free(struct xrc_executor *executor)
{
	struct roce_qp *rqp = roce_qp_of(&executor->qp);
	struct roce *roce = rqp->roce;

	roce_responder_abandon(rqp);
	/* No report is sent any more. */
	xrc_executor_step(executor, XRC_EXECUTOR_IN_DETACH);
	list_del(&executor->waiter.node);
	list_del(&executor->node);
	hash_del(&roce->xrc.executors, &executor->hash_node);
	roce->xrc.executors_of[xrc_slot_of(executor->qp.qpn)]--;
	roce_transport.unbind(&executor->qp);
	free(executor);
}

/* Sets the attributes of the other process's QP. false: the device does not have the GID. */
static bool set_attributes(struct qp *qp, const struct xrc_forward_attach *attach)
{
	struct ibv_global_route *route = &qp->attr.ah_attr.grh;
	int sgid_index = device_gid_index(qp->context->device, attach->local_gid);

	if (sgid_index < 0)
		return false;
	qp->attr.path_mtu = (enum ibv_mtu)attach->path_mtu;
	qp->attr.dest_qp_num = attach->remote_qpn;
	qp->attr.max_dest_rd_atomic = (uint8_t)attach->max_dest_rd_atomic;
	qp->attr.ah_attr.is_global = 1;
	route->sgid_index = (uint8_t)sgid_index;
	route->flow_label = attach->flow_label;
	route->traffic_class = attach->traffic_class;
	route->hop_limit = attach->hop_limit;
	memcpy(route->dgid.raw, attach->remote_gid, sizeof(route->dgid.raw));
	return true;
}

/* Sets the attributes that may change while the QP receives. */
static void update_attributes(struct qp *qp, const struct xrc_forward_attach *attach)
{
	qp->attr.qp_access_flags = attach->access;
	qp->attr.min_rnr_timer = (uint8_t)attach->min_rnr_timer;
}

static void init_qp(struct xrc_executor *executor, uint32_t qpn, struct xrc_domain *domain)
{
	struct qp *qp = &executor->qp;

	qp->context = &executor->context;
	qp->type = IBV_QPT_XRC_RECV;
	qp->state = IBV_QPS_RTR;
	qp->qpn = qpn;
	qp->xrc_domain = domain;
	list_init(&qp->handles);
	list_init(&qp->remote_clients);
	list_init(&qp->handle_node);
	list_init(&qp->waiting_recv_node);
	list_init(&qp->datagram_node);
	list_init(&qp->sent_node);
	list_init(&qp->memberships);
}

static void xrc_executor_on_space(struct xrc_forward_waiter *waiter)
{
	response_set_pending(roce_qp_of(&container_of(waiter, struct xrc_executor, waiter)->qp));
}

static struct xrc_executor *xrc_executor_new(struct roce *roce, uint32_t qpn,
					     struct xrc_domain *domain,
					     const struct xrc_forward_attach *attach)
{
	struct xrc_executor *executor = calloc(1, sizeof(*executor));

	if (!executor)
		return NULL;
	executor->context.engine = roce->engine;
	executor->context.device = domain->device;
	xrc_forward_waiter_init(&executor->waiter, xrc_executor_on_space);
	init_qp(executor, qpn, domain);
	if (!set_attributes(&executor->qp, attach) || roce_transport.bind(&executor->qp)) {
		free(executor);
		return NULL;
	}
	executor->qp.transport = &roce_transport;
	executor->qp.usage = &usage_unread_qp;
	roce_qp_of(&executor->qp)->executor = executor;
	hash_add(&roce->xrc.executors, &executor->hash_node, hash_mix(0, qpn));
	roce->xrc.executors_of[xrc_slot_of(qpn)]++;
	list_add_tail(&executor->node, &roce->xrc.executor_list);
	return executor;
}

/*
 * A process may have fewer executors than are free, so that one process cannot use up all of them.
 */
static bool xrc_executor_is_available(const struct roce *roce, uint32_t slot)
{
	uint32_t left = EXECUTORS_MAX - roce->xrc.executors.count;

	return roce->xrc.executors_of[slot] < left;
}

/* If the executor cannot be created, the next request is rejected with DISPOSITION_SRQ. */
void xrc_executor_attach(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg)
{
	const struct xrc_forward_attach *attach = &msg->attach;
	struct xrc_executor *executor = xrc_executor_find(roce, msg->qpn);
	struct xrc_domain *domain = xrc_domain_of_id(roce->engine, attach->domain_id);

	if (executor && (executor->qp.xrc_domain != domain ||
			 executor->qp.attr.dest_qp_num != attach->remote_qpn)) {
		xrc_executor_free(executor);
		executor = NULL;
	}
	if (!domain || domain->device->dev_id != attach->dev_id)
		return;
	if (!executor && xrc_executor_is_available(roce, slot))
		executor = xrc_executor_new(roce, msg->qpn, domain, attach);
	if (executor)
		update_attributes(&executor->qp, attach);
}

void xrc_executor_detach(struct roce *roce, const struct xrc_forward_msg *msg)
{
	struct xrc_executor *executor = xrc_executor_find(roce, msg->qpn);

	if (executor)
		xrc_executor_free(executor);
}

void xrc_executor_peer_exited(struct roce *roce, uint32_t slot)
{
	struct xrc_executor *executor, *tmp;

	list_for_each_entry_safe(executor, tmp, &roce->xrc.executor_list, node) {
		if (xrc_slot_of(executor->qp.qpn) == slot)
			xrc_executor_free(executor);
	}
}

void xrc_executor_domain_closed(struct engine *engine, const struct xrc_domain *domain)
{
	struct xrc_executor *executor, *tmp;

	list_for_each_entry_safe(executor, tmp, &roce_of(engine)->xrc.executor_list, node) {
		if (executor->qp.xrc_domain == domain)
			xrc_executor_free(executor);
	}
}

/*
 * No executor is attached: reports DISPOSITION_SRQ, so that the target QP process sends a NAK.
 * Without a report it would wait indefinitely.
 */
static void reject_unattached(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg)
{
	const struct xrc_forward_msg report = {
		.type = XRC_FORWARD_REPORT,
		.qpn = msg->qpn,
		.report =
			{
				.burst = msg->request.burst,
				.serial = msg->request.serial,
				.psn = msg->request.packet.psn,
				.msn = msg->request.msn,
				.disposition = DISPOSITION_SRQ,
			},
	};

	if (msg->type == XRC_FORWARD_REQUEST)
		xrc_forward_post(roce->engine, slot, &report);
}

/* Reports the state of the burst to the target QP process, or waits for space. */
static void send_report(struct roce_qp *rqp)
{
	struct xrc_executor *executor = rqp->executor;
	uint32_t slot = xrc_slot_of(executor->qp.qpn);
	const struct xrc_forward_msg msg = {
		.type = XRC_FORWARD_REPORT,
		.qpn = executor->qp.qpn,
		.report =
			{
				.burst = executor->burst,
				.serial = executor->serial,
				.psn = rqp->rx.psn,
				.msn = rqp->rx.msn,
				.disposition = executor->disposition,
				.is_inside = rqp->rx.is_inside,
			},
	};

	if (xrc_forward_send(rqp->roce->engine, slot, &msg) == -EAGAIN)
		xrc_forward_wait(rqp->roce->engine, slot, &executor->waiter);
	else
		xrc_executor_step(executor, XRC_EXECUTOR_IN_REPORTED);
}

void xrc_executor_responded(struct roce_qp *rqp)
{
	if (xrc_executor_step(rqp->executor, XRC_EXECUTOR_IN_RESPONDED) !=
	    XRC_EXECUTOR_ACTION_REPORT)
		return;
	batch_flush(rqp->roce);
	send_report(rqp);
}

void xrc_executor_fail(struct roce_qp *rqp, enum disposition disposition)
{
	rqp->executor->disposition = disposition;
	xrc_executor_step(rqp->executor, XRC_EXECUTOR_IN_ERROR);
}

/*
 * A burst begins at the PSN of its first request. An incomplete message continues if that is its
 * next PSN; else it is abandoned.
 */
static void xrc_executor_begin_burst(struct roce_qp *rqp, const struct xrc_forward_request *request)
{
	struct xrc_executor *executor = rqp->executor;

	executor->burst = request->burst;
	executor->disposition = DISPOSITION_ACCEPTED;
	if (rqp->rx.is_inside && rqp->rx.psn != request->packet.psn)
		roce_responder_abandon(rqp);
	rqp->rx.psn = request->packet.psn;
	rqp->rx.msn = request->msn;
	rqp->rx.fatal = DISPOSITION_ACCEPTED;
}

static void xrc_executor_execute(struct roce_qp *rqp, const struct xrc_forward_request *request)
{
	struct xrc_executor *executor = rqp->executor;

	executor->serial = request->serial;
	executor->disposition = roce_responder_forwarded(rqp, &request->packet);
	response_set_pending(rqp);
	roce_count(rqp->roce, ROCE_XRC_RECEIVED);
	/*
	 * Reports before the RNR NAK is sent, so that the report arrives before the requester
	 * retransmits.
	 */
	if (executor->disposition == DISPOSITION_RNR &&
	    xrc_executor_step(executor, XRC_EXECUTOR_IN_RNR) == XRC_EXECUTOR_ACTION_REPORT)
		send_report(rqp);
}

static void xrc_executor_take_request(struct roce_qp *rqp,
				      const struct xrc_forward_request *request)
{
	struct xrc_executor *executor = rqp->executor;

	if ((executor->state == XRC_EXECUTOR_ATTACHED || executor->burst != request->burst) &&
	    xrc_executor_step(executor, XRC_EXECUTOR_IN_BURST) == XRC_EXECUTOR_ACTION_BEGIN)
		xrc_executor_begin_burst(rqp, request);
	if (request->packet.psn == rqp->rx.psn &&
	    xrc_executor_step(executor, XRC_EXECUTOR_IN_REQUEST) == XRC_EXECUTOR_ACTION_EXECUTE)
		xrc_executor_execute(rqp, request);
}

void xrc_executor_request(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg)
{
	struct xrc_executor *executor = xrc_executor_find(roce, msg->qpn);
	struct roce_qp *rqp;

	if (!executor) {
		reject_unattached(roce, slot, msg);
		return;
	}
	rqp = roce_qp_of(&executor->qp);
	if (msg->type == XRC_FORWARD_REQUEST) {
		xrc_executor_take_request(rqp, &msg->request);
		return;
	}
	if (executor->burst != msg->request.burst)
		rqp->rx.msn = msg->request.msn;
	roce_responder_replay(rqp, &msg->request.packet);
}
