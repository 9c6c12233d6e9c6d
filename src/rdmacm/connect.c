/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "rdmacm/connect.h"
#include "rdmacm/event.h"
#include "rdmacm/cm_timeout.h"
#include "rdmacm/public.h"
#include "rdmacm/qp.h"

#define RETRY_MAX 7 /* maximum of the 3-bit fields; as RNR retry count: unlimited */

static bool is_served(uint8_t asked, uint8_t limit, uint8_t means_limit)
{
	return asked == means_limit || asked <= limit;
}

/*
 * Checks the connection parameters against the limits of the device, to which the id must be bound.
 */
static int connect_check_param(const struct rcm_id *id, const struct rdma_conn_param *param)
{
	if (!id->device)
		return -EINVAL;
	if (id->pub.ps != RDMA_PS_TCP)
		return 0;
	if (!param)
		return id->pub.qp ? 0 : -EINVAL;
	if (!is_served(param->responder_resources, id->device->max_responder_resources,
		       RDMA_MAX_RESP_RES) ||
	    !is_served(param->initiator_depth, id->device->max_initiator_depth,
		       RDMA_MAX_INIT_DEPTH))
		return -EINVAL;
	return 0;
}

/*
 * Sets the private data of a message: the endpoint's prefix, then the caller's data. As in
 * rdma-core, the length is ignored if the pointer is NULL.
 */
static int set_private_data(struct ipc_cm_param *to, const void *prefix, size_t prefix_bytes,
			    const void *data, size_t data_bytes)
{
	if (!data)
		data_bytes = 0;
	if (prefix_bytes > sizeof(to->private_data) ||
	    data_bytes > sizeof(to->private_data) - prefix_bytes)
		return -EINVAL;
	if (prefix_bytes)
		memcpy(to->private_data, prefix, prefix_bytes);
	if (data_bytes)
		memcpy(to->private_data + prefix_bytes, data, data_bytes);
	to->private_len = (uint32_t)(prefix_bytes + data_bytes);
	return 0;
}

/*
 * The QP type of a REQ or REP. An id of RDMA_PS_TCP sends RC messages also if its QP is an XRC QP,
 * as with Linux: both applications agree on XRC in the private data. Only ids that were allocated
 * for XRC send messages of the type XRC.
 */
static enum ibv_qp_type type_in_messages(const struct rcm_id *id)
{
	const struct ibv_qp *qp = id->pub.qp;

	if (!qp || qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV)
		return id->pub.qp_type;
	return qp->qp_type;
}

/*
 * Sets the parameters of the QP to connect: the id's QP, or the QP in `param` that the application
 * modifies itself.
 */
static void connect_set_qp(struct ipc_cm_param *to, const struct rcm_id *id,
			   const struct rdma_conn_param *param)
{
	const struct ibv_qp *qp = id->pub.qp;

	to->qp_num = qp ? qp->qp_num : param->qp_num;
	to->srq = qp ? qp->srq != NULL : param->srq != 0;
	to->qp_type = (uint8_t)type_in_messages(id);
	/*
	 * The QPs of this library have no ECE options; local_ece applies to a QP of the
	 * application.
	 */
	to->vendor_id = qp ? 0 : id->local_ece.vendor_id;
	to->vendor_options = qp ? 0 : id->local_ece.options;
}

/*
 * Sends CONNECT or ACCEPT. If the library can determine that the daemon will not reject the
 * request, it does not wait for a reply: when a program sets up thousands of connections, these
 * waits take most of the time.
 */
static int connect_ask(struct rcm_id *id, struct ipc_cm_connect *req)
{
	const struct ibv_qp *qp = id->pub.qp;
	bool is_next = rcm_id_take_next(id, (enum ipc_type)req->hdr.type);
	bool is_plain = qp && (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC) &&
			req->param.private_len <= IPC_CM_PRIVATE_FITS;

	return is_next && is_plain ? rcm_id_send(id, req, sizeof(*req)) :
				     rcm_id_request(id, req, sizeof(*req));
}

static int connect_id(struct rcm_id *id, const struct rdma_conn_param *param)
{
	static const struct rdma_conn_param defaults = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = RETRY_MAX,
		.rnr_retry_count = RETRY_MAX,
	};
	struct ipc_cm_connect req = {
		.hdr.type = IPC_CM_CONNECT,
		.id = id->handle,
		.timeout_ms = rcm_cm_timeout_ms(),
	};
	int ret;

	if (rcm_event_is_awaited(id, RDMA_CM_EVENT_ESTABLISHED))
		return rcm_event_complete(id, RDMA_CM_EVENT_ESTABLISHED);
	ret = connect_check_param(id, param);
	if (ret)
		return ret;
	if (!param)
		param = &defaults;
	connect_set_qp(&req.param, id, param);
	req.param.responder_resources = min_u8(param->responder_resources,
					       id->device->max_responder_resources);
	req.param.initiator_depth = min_u8(param->initiator_depth, id->device->max_initiator_depth);
	req.param.flow_control = param->flow_control;
	req.param.retry_count = min_u8(param->retry_count, RETRY_MAX);
	req.param.rnr_retry_count = min_u8(param->rnr_retry_count, RETRY_MAX);
	ret = set_private_data(&req.param, id->endpoint.prefix, id->endpoint.prefix_bytes,
			       param->private_data, param->private_data_len);
	if (ret)
		return ret;
	ret = connect_ask(id, &req);
	return ret ? ret : rcm_event_complete(id, RDMA_CM_EVENT_ESTABLISHED);
}

/*
 * Computes the responder resources or initiator depth of an accept: the caller's value or the
 * device's limit, but at most the value of the request. The peer's QP supports at most the offered
 * value: a local QP with a higher limit would issue READs that the peer rejects (IBA 1.x §12.7.26,
 * §12.7.27).
 */
static uint8_t settle(bool is_given, uint8_t given, uint8_t means_limit, uint8_t requested,
		      uint8_t limit)
{
	return min_u8(requested, is_given && given != means_limit ? given : limit);
}

/*
 * Moves the QP to RTS before the REP is sent, because the peer may send as soon as it receives the
 * REP. A UD QP is already in RTS.
 */
static int ready_qp(struct rcm_id *id, uint8_t responder_resources, uint8_t initiator_depth)
{
	int ret;

	if (!id->pub.qp || rcm_id_is_datagram(id))
		return 0;
	ret = rcm_qp_to_rtr(id, responder_resources);
	return ret ? ret : rcm_qp_to_rts(id, initiator_depth);
}

/* Fills in the ACCEPT request. -EINVAL: the private data is too long. */
static int make_accept(const struct rcm_id *id, const struct rdma_conn_param *param,
		       struct ipc_cm_connect *req)
{
	static const struct rdma_conn_param defaults = {.rnr_retry_count = RETRY_MAX};
	bool is_given = param != NULL;
	int ret;

	if (!param)
		param = &defaults;
	connect_set_qp(&req->param, id, param);
	req->param.responder_resources = settle(is_given, param->responder_resources,
						RDMA_MAX_RESP_RES, id->responder_resources,
						id->device->max_responder_resources);
	req->param.initiator_depth = settle(is_given, param->initiator_depth, RDMA_MAX_INIT_DEPTH,
					    id->initiator_depth, id->device->max_initiator_depth);
	req->param.flow_control = param->flow_control;
	req->param.rnr_retry_count = min_u8(param->rnr_retry_count, RETRY_MAX);
	ret = set_private_data(&req->param, NULL, 0, param->private_data, param->private_data_len);
	if (ret)
		return ret;
	/* The daemon also checks the length, but only after the QP's state was changed. */
	return req->param.private_len > (rcm_id_is_datagram(id) ? IPC_CM_SIDR_REP_PRIVATE_BYTES :
								  IPC_CM_REP_PRIVATE_BYTES) ?
		       -EINVAL :
		       0;
}

static void connect_stop_qp(struct rcm_id *id)
{
	int ret = rcm_qp_to_err(id);

	if (ret)
		log_debug("cannot move the QP of id %u to ERR: %s", id->handle, strerror(-ret));
}

/*
 * Rejects a request whose private data is too long, as Linux does, or a response whose connection
 * cannot be completed. Also rejects if the QP cannot be moved to ERR: the peer then ends its side,
 * and the daemon refuses rdma_establish().
 */
static void connect_refuse(struct rcm_id *id)
{
	int ret;

	connect_stop_qp(id);
	ret = rcm_connect_reject(id, RCM_REJECT_CONSUMER, NULL, 0);
	if (ret)
		log_debug("cannot reject the connection of id %u: %s", id->handle, strerror(-ret));
}

/*
 * If the accept fails, the QP is moved to ERR, so that it does not respond to the peer. If the
 * daemon refuses it, the daemon has rejected the request.
 */
static int send_accept(struct rcm_id *id, struct ipc_cm_connect *req)
{
	int ret = ready_qp(id, req->param.responder_resources, req->param.initiator_depth);

	if (!ret)
		ret = connect_ask(id, req);
	if (ret)
		connect_stop_qp(id);
	return ret;
}

/* Carries out the action RCM_ACTION_SEND_ACCEPT. */
static int carry_out_accept(struct rcm_id *id, const struct rdma_conn_param *param)
{
	struct ipc_cm_connect req = {
		.hdr.type = IPC_CM_ACCEPT,
		.id = id->handle,
		.timeout_ms = rcm_cm_timeout_ms(),
		.cookie = id->cookie,
	};
	int ret = param || id->pub.qp ? connect_check_param(id, param) : -EINVAL;
	bool is_too_long = false;

	if (!ret) {
		ret = make_accept(id, param, &req);
		is_too_long = ret;
	}
	if (!ret)
		ret = send_accept(id, &req);
	if (ret)
		rcm_id_step(id, RCM_IN_ACCEPT_FAILED);
	if (is_too_long)
		connect_refuse(id);
	return ret;
}

/* The daemon also checks the id's state, but only after the QP's state was changed. */
static int accept_id(struct rcm_id *id, const struct rdma_conn_param *param)
{
	bool is_sync, is_datagram;
	int ret;

	if (rcm_event_is_awaited(id, RDMA_CM_EVENT_ESTABLISHED))
		return rcm_event_complete(id, RDMA_CM_EVENT_ESTABLISHED);
	if (id->session->is_inherited)
		return -ENODEV;
	if (rcm_id_step(id, RCM_IN_ACCEPT) == RCM_ACTION_ILLEGAL)
		return -EINVAL;
	/*
	 * From the request on, another thread may read the next events and disconnect or destroy
	 * the id.
	 */
	is_sync = id->is_sync;
	is_datagram = rcm_id_is_datagram(id);
	ret = carry_out_accept(id, param);
	if (ret)
		return ret;
	if (is_datagram)
		/* The peer does not acknowledge a SIDR_REP, so no event follows. */
		rcm_id_release_event(id);
	else if (is_sync)
		ret = rcm_event_complete(id, RDMA_CM_EVENT_ESTABLISHED);
	return ret;
}

int rcm_connect_complete(struct rcm_id *id)
{
	struct ipc_cm_id req = {.hdr.type = IPC_CM_ESTABLISH, .id = id->handle};
	int ret;

	ret = rcm_qp_to_rtr(id, id->qp_param.max_dest_rd_atomic);
	if (!ret)
		ret = rcm_qp_to_rts(id, id->qp_param.max_rd_atomic);
	if (!ret)
		ret = rcm_id_send(id, &req, sizeof(req));
	if (!ret) {
		rcm_id_step(id, RCM_IN_ESTABLISHED);
		return 0;
	}
	log_warn("id %u cannot complete its connection: %s", id->handle, strerror(-ret));
	connect_refuse(id);
	return ret;
}

int rcm_connect_reject(struct rcm_id *id, enum rcm_reject_reason reason, const void *private_data,
		       size_t private_bytes)
{
	struct ipc_cm_reject req = {
		.hdr.type = IPC_CM_REJECT,
		.id = id->handle,
		.reason = reason,
	};
	int ret;

	if (private_data) {
		if (private_bytes > sizeof(req.private_data))
			return -EINVAL;
		memcpy(req.private_data, private_data, private_bytes);
		req.private_len = (uint32_t)private_bytes;
	}
	ret = rcm_id_request(id, &req, sizeof(req));
	if (!ret)
		rcm_id_step(id, RCM_IN_REJECT);
	return ret;
}

static int connect_establish(struct rcm_id *id)
{
	int ret = id->pub.qp ? -EINVAL : rcm_id_request_plain(id, IPC_CM_ESTABLISH);

	if (!ret)
		rcm_id_step(id, RCM_IN_ESTABLISHED);
	return ret;
}

static int notify(struct rcm_id *id, enum ibv_event_type event)
{
	struct ipc_cm_notify req = {.hdr.type = IPC_CM_NOTIFY, .id = id->handle, .event = event};

	return rcm_id_request(id, &req, sizeof(req));
}

/*
 * Waits for the end of the connection of a synchronous id. If the id has none or its last event was
 * received, no event would end the wait.
 */
static int await_end(struct rcm_id *id)
{
	if (rcm_id_is_datagram(id) || rcm_id_step(id, RCM_IN_DISCONNECT) != RCM_ACTION_AWAIT_END)
		return 0;
	return rcm_event_complete(id, RDMA_CM_EVENT_DISCONNECTED);
}

/*
 * Moves the QP to ERR in every state of the id: an application whose connection failed waits for
 * the flushed WRs. The QP is in ERR before the DREQ is sent, so that it sends nothing after the
 * peer has replied. From the request on, another thread may receive DISCONNECTED and destroy an
 * asynchronous id.
 */
static int disconnect(struct rcm_id *id)
{
	bool is_sync = id->is_sync;
	int ret;

	if (rcm_event_is_awaited(id, RDMA_CM_EVENT_DISCONNECTED))
		return await_end(id);
	if (id->session->is_inherited)
		return -ENODEV;
	ret = rcm_qp_to_err(id);
	if (!ret)
		ret = rcm_id_request_plain(id, IPC_CM_DISCONNECT);
	return ret || !is_sync ? ret : await_end(id);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return rcm_public_call(id ? connect_id(rcm_id_of(id), conn_param) : -EINVAL);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return rcm_public_call(id ? accept_id(rcm_id_of(id), conn_param) : -EINVAL);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(rcm_connect_reject(rcm_id_of(id), RCM_REJECT_CONSUMER, private_data,
						  private_data_len));
}

int rdma_establish(struct rdma_cm_id *id)
{
	return rcm_public_call(id ? connect_establish(rcm_id_of(id)) : -EINVAL);
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return rcm_public_call(id ? notify(rcm_id_of(id), event) : -EINVAL);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return rcm_public_call(id ? disconnect(rcm_id_of(id)) : -EINVAL);
}

/*
 * Enhanced connection establishment (ECE): vendor-specific options that the two sides negotiate
 * when they connect. The QPs of this library have no options (ibv_query_ece()). These functions are
 * for QPs that the application creates and modifies itself, possibly with another library.
 */

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct rcm_ece *local;

	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return rcm_public_result(-EINVAL);
	if (fault_call_fails(__func__))
		return -1;
	local = &rcm_id_of(id)->local_ece;
	local->vendor_id = ece->vendor_id;
	local->options = ece->options;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	const struct rcm_ece *remote;

	if (!id || id->qp || !ece)
		return rcm_public_result(-EINVAL);
	if (fault_call_fails(__func__))
		return -1;
	remote = &rcm_id_of(id)->remote_ece;
	ece->vendor_id = remote->vendor_id;
	ece->options = remote->options;
	ece->comp_mask = 0;
	return 0;
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(rcm_connect_reject(rcm_id_of(id), RCM_REJECT_VENDOR_OPTION,
						  private_data, private_data_len));
}
