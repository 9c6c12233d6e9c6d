/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/connect.h"
#include "rdmacm/event.h"
#include "rdmacm/patience.h"
#include "rdmacm/public.h"
#include "rdmacm/qp.h"

#define RETRY_MAX 7 /* a 3-bit field; for RNR it means for ever */

static bool is_served(uint8_t asked, uint8_t limit, uint8_t means_limit)
{
	return asked == means_limit || asked <= limit;
}

/* What a caller may ask of an id that is bound to a device. */
static int check_param(const struct rcm_id *id, const struct rdma_conn_param *param)
{
	if (!id->device)
		return -EINVAL;
	if (!param)
		return id->pub.qp ? 0 : -EINVAL;
	if (!param->private_data && param->private_data_len)
		return -EINVAL;
	if (id->pub.ps != RDMA_PS_TCP)
		return 0;
	if (!is_served(param->responder_resources, id->device->max_responder_resources,
		       RDMA_MAX_RESP_RES) ||
	    !is_served(param->initiator_depth, id->device->max_initiator_depth,
		       RDMA_MAX_INIT_DEPTH))
		return -EINVAL;
	return 0;
}

static uint8_t at_most(uint8_t value, uint8_t limit)
{
	return value < limit ? value : limit;
}

/* Private data of a message: what the endpoint puts in front, then the caller's. */
static int set_private_data(struct ipc_cm_param *to, const void *prefix, size_t prefix_bytes,
			    const void *data, size_t data_bytes)
{
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

/* The QP that is to be connected: the id's own, or the one that the caller moves by hand. */
static void set_qp(struct ipc_cm_param *to, const struct rcm_id *id,
		   const struct rdma_conn_param *param)
{
	const struct ibv_qp *qp = id->pub.qp;

	to->qp_num = qp ? qp->qp_num : param->qp_num;
	to->srq = qp ? qp->srq != NULL : param->srq != 0;
	to->qp_type = (uint8_t)(qp ? qp->qp_type : id->pub.qp_type);
	/* Our own QPs have none to offer, and what is said of another one is not for them. */
	to->vendor_id = qp ? 0 : id->local_ece.vendor_id;
	to->vendor_options = qp ? 0 : id->local_ece.options;
}

/*
 * Asks for a connection, or grants it. Where the library can tell that the daemon has nothing against it, it need not wait
 * to hear so: whoever makes connections by the thousand spends most of the time on waiting.
 */
static int ask(struct rcm_id *id, struct ipc_cm_connect *req)
{
	const struct ibv_qp *qp = id->pub.qp;
	bool is_next = rcm_id_take_next(id, (enum ipc_type)req->hdr.type);
	bool is_plain = qp && (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC) &&
			req->param.private_len <= IPC_CM_PRIVATE_FITS;

	return is_next && is_plain ? rcm_id_tell(id, req, sizeof(*req)) :
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
		.timeout_ms = rcm_patience_ms(),
	};
	int ret = check_param(id, param);

	if (ret)
		return ret;
	if (!param)
		param = &defaults;
	set_qp(&req.param, id, param);
	req.param.responder_resources = at_most(param->responder_resources,
						id->device->max_responder_resources);
	req.param.initiator_depth = at_most(param->initiator_depth,
					    id->device->max_initiator_depth);
	req.param.flow_control = param->flow_control;
	req.param.retry_count = at_most(param->retry_count, RETRY_MAX);
	req.param.rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX);
	ret = set_private_data(&req.param, id->endpoint.prefix, id->endpoint.prefix_bytes,
			       param->private_data, param->private_data_len);
	if (ret)
		return ret;
	ret = ask(id, &req);
	return ret ? ret : rcm_event_complete(id, RDMA_CM_EVENT_ESTABLISHED);
}

/*
 * One of the two limits of an accept: the caller's, or what the request asked for as far as the
 * device goes.
 */
static uint8_t settle(bool is_given, uint8_t given, uint8_t means_limit, uint8_t requested,
		      uint8_t limit)
{
	return is_given && given != means_limit ? given : at_most(requested, limit);
}

/*
 * The QP is ready before the REP is on its way: the peer may send as soon as it has it. A datagram QP is ready all
 * along.
 */
static int ready_qp(struct rcm_id *id, uint8_t responder_resources, uint8_t initiator_depth)
{
	int ret;

	if (!id->pub.qp || rcm_id_is_datagram(id))
		return 0;
	ret = rcm_qp_to_rtr(id, responder_resources);
	return ret ? ret : rcm_qp_to_rts(id, initiator_depth);
}

static int request_accept(struct rcm_id *id, const struct rdma_conn_param *param)
{
	static const struct rdma_conn_param defaults = {.rnr_retry_count = RETRY_MAX};
	struct ipc_cm_connect req = {
		.hdr.type = IPC_CM_ACCEPT,
		.id = id->handle,
		.timeout_ms = rcm_patience_ms(),
		.cookie = id->cookie,
	};
	bool is_given = param != NULL;
	int ret;

	if (!param)
		param = &defaults;
	set_qp(&req.param, id, param);
	req.param.responder_resources = settle(is_given, param->responder_resources,
					       RDMA_MAX_RESP_RES, id->responder_resources,
					       id->device->max_responder_resources);
	req.param.initiator_depth = settle(is_given, param->initiator_depth, RDMA_MAX_INIT_DEPTH,
					   id->initiator_depth, id->device->max_initiator_depth);
	req.param.flow_control = param->flow_control;
	req.param.rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX);
	ret = set_private_data(&req.param, NULL, 0, param->private_data, param->private_data_len);
	if (ret)
		return ret;
	ret = ready_qp(id, req.param.responder_resources, req.param.initiator_depth);
	return ret ? ret : ask(id, &req);
}

/* An accept that fails leaves a QP that must not answer anybody. */
static int accept_id(struct rcm_id *id, const struct rdma_conn_param *param)
{
	int ret = check_param(id, param);
	int err_ret;

	if (ret)
		return ret;
	ret = request_accept(id, param);
	if (!ret && rcm_id_is_datagram(id)) {
		/* Nobody answers an answer: there is no event to wait for. */
		rcm_id_release_event(id);
		return 0;
	}
	if (!ret)
		return rcm_event_complete(id, RDMA_CM_EVENT_ESTABLISHED);
	err_ret = rcm_qp_to_err(id);
	if (err_ret)
		log_debug("QP of id %u does not go to ERR: %s", id->handle, strerror(-err_ret));
	return ret;
}

int rcm_connect_complete(struct rcm_id *id)
{
	struct ipc_cm_id req = {.hdr.type = IPC_CM_ESTABLISH, .id = id->handle};
	int ret, err_ret;

	ret = rcm_qp_to_rtr(id, id->qp_param.max_dest_rd_atomic);
	if (!ret)
		ret = rcm_qp_to_rts(id, id->qp_param.max_rd_atomic);
	if (!ret)
		ret = rcm_id_tell(id, &req, sizeof(req));
	if (!ret)
		return 0;
	log_warn("id %u cannot complete its connection: %s", id->handle, strerror(-ret));
	err_ret = rcm_qp_to_err(id);
	if (!err_ret)
		err_ret = rcm_connect_reject(id, RCM_REJECT_CONSUMER, NULL, 0);
	if (err_ret)
		log_debug("id %u does not end its connection in order: %s", id->handle,
			  strerror(-err_ret));
	return ret;
}

int rcm_connect_reject(struct rcm_id *id, enum rcm_reject_reason reason, const void *private_data,
		       size_t private_bytes)
{
	struct ipc_cm_reject req = {
		.hdr.type = IPC_CM_REJECT,
		.id = id->handle,
		.reason = reason,
		.private_len = (uint32_t)private_bytes,
	};

	if (private_bytes > sizeof(req.private_data) || (private_bytes && !private_data))
		return -EINVAL;
	if (private_bytes)
		memcpy(req.private_data, private_data, private_bytes);
	return rcm_id_request(id, &req, sizeof(req));
}

static int establish(struct rcm_id *id)
{
	return id->pub.qp ? -EINVAL : rcm_id_request_plain(id, IPC_CM_ESTABLISH);
}

static int notify(struct rcm_id *id, enum ibv_event_type event)
{
	struct ipc_cm_notify req = {.hdr.type = IPC_CM_NOTIFY, .id = id->handle, .event = event};

	return rcm_id_request(id, &req, sizeof(req));
}

/* The QP first: nothing of it may reach the peer after the peer agreed to the end. */
static int disconnect(struct rcm_id *id)
{
	int ret = rcm_qp_to_err(id);

	if (!ret)
		ret = rcm_id_request_plain(id, IPC_CM_DISCONNECT);
	if (ret || rcm_id_is_datagram(id))
		return ret;
	return rcm_event_complete(id, RDMA_CM_EVENT_DISCONNECTED);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return rcm_public_result(id ? connect_id(rcm_id_of(id), conn_param) : -EINVAL);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	return rcm_public_result(id ? accept_id(rcm_id_of(id), conn_param) : -EINVAL);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(rcm_connect_reject(rcm_id_of(id), RCM_REJECT_CONSUMER,
						    private_data, private_data_len));
}

int rdma_establish(struct rdma_cm_id *id)
{
	return rcm_public_result(id ? establish(rcm_id_of(id)) : -EINVAL);
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return rcm_public_result(id ? notify(rcm_id_of(id), event) : -EINVAL);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return rcm_public_result(id ? disconnect(rcm_id_of(id)) : -EINVAL);
}
