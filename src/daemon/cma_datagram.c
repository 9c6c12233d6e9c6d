/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "daemon/cma_priv.h"

/*
 * Ids of datagram QPs. CONNECT resolves a service to a QP (SIDR), and ACCEPT sends the response.
 * There is no connection between the QPs afterwards, so neither side is notified when the other
 * ends.
 */

bool cma_is_datagram(const struct cma_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

int cma_datagram_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns)
{
	const struct cm_ops *ops = id->cm->ops;
	int ret;

	if (!ops->resolve)
		return -EOPNOTSUPP;
	if (param->private_len > ops->private_bytes.sidr_request || param->qp_num > CMA_QPN_MAX)
		return -EINVAL;
	/* A multicast group has no service to resolve. */
	if (gid_is_multicast(id->route.dgid))
		return -EINVAL;
	id->service_id = cma_service_id(id->ps,
					cma_addr_port((const struct sockaddr *)&id->route.dst));
	cma_id_set_qpn(id, param->qp_num);
	ret = ops->resolve(id, param, timeout_ns);
	if (ret)
		return ret;
	id->state = CMA_CONNECTING;
	return 0;
}

/* Sends the response to a request and ends the resolution. */
static int cma_datagram_respond(struct cma_id *id, bool accepts, const struct ipc_cm_param *param)
{
	int ret;

	if (param->private_len > id->cm->ops->private_bytes.sidr_response)
		return -EINVAL;
	ret = id->cm->ops->respond(id, accepts, param);
	if (ret)
		return ret;
	id->conn = NULL;
	cma_id_responded(id);
	return 0;
}

int cma_datagram_accept(struct cma_id *id, uint64_t cookie, const struct ipc_cm_param *req)
{
	struct ipc_cm_param param = *req;
	int ret = cma_check_qpn(id, param.qp_num);

	if (ret)
		return ret;
	if (!param.qkey)
		param.qkey = RDMA_UDP_QKEY;
	ret = cma_datagram_respond(id, true, &param);
	if (ret)
		return ret;
	cma_id_set_qpn(id, param.qp_num);
	id->cookie = cookie;
	id->cma->counters.established++;
	id->state = CMA_CONNECTED;
	return 0;
}

/* The response to a datagram request has no field for the reason. */
int cma_datagram_reject(struct cma_id *id, const struct ipc_cm_reject *req)
{
	struct ipc_cm_param param = {.private_len = req->private_len};
	int ret;

	if (id->state != CMA_REQUESTED)
		return -EINVAL;
	memcpy(param.private_data, req->private_data, sizeof(param.private_data));
	ret = cma_datagram_respond(id, false, &param);
	if (ret)
		return ret;
	id->cma->counters.rejects_sent++;
	id->state = CMA_OVER;
	return 0;
}

/* As in Linux, a rejected resolution is reported as UNREACHABLE with the SIDR status. */
void cma_on_resolved(struct cma_id *id, struct ipc_cm_event *event)
{
	id->conn = NULL;
	id->state = CMA_OVER;
	event->event = RDMA_CM_EVENT_UNREACHABLE;
	event->param.qp_type = IBV_QPT_UD;
	if (!event->status) {
		id->state = CMA_CONNECTED;
		id->cma->counters.established++;
		id->qp.remote_qpn = event->param.qp_num;
		id->qp.qkey = event->param.qkey;
		event->event = RDMA_CM_EVENT_ESTABLISHED;
	}
	cma_event_push(id, id, event);
}

void cma_on_unresolved(struct cma_id *id, int status)
{
	id->conn = NULL;
	id->state = CMA_OVER;
	cma_event_status(id, RDMA_CM_EVENT_UNREACHABLE, status);
}
