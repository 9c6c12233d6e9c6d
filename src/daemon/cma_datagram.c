/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"

/*
 * Ids of datagram QPs: connecting is asking for the QP behind a service (SIDR_REQ), accepting is answering (SIDR_REP), and
 * that is all there is to it. Nothing stands between the two QPs afterwards, so neither side hears of the other's end.
 */

bool cma_is_datagram(const struct cma_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

int cma_datagram_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t patience_ns)
{
	const struct sockaddr *dst = (const struct sockaddr *)&id->route.dst;
	struct cm_sidr_req req = {.pkey = id->route.pkey};
	struct cm_ip_hdr ip;
	struct cm_path path;
	int ret;

	if (param->private_len > CMA_SIDR_REQ_PRIVATE_BYTES || param->qp_num > CMA_QPN_MAX)
		return -EINVAL;
	/* A group has members, and none of them is the service. */
	if (gid_is_multicast(id->route.dgid))
		return -EINVAL;
	ret = cm_ip_hdr_from_addrs(&ip, (const struct sockaddr *)&id->route.src, dst);
	if (ret)
		return ret;
	id->sidr = cm_sidr_new(id->cma->cm, id);
	if (!id->sidr)
		return -ENOMEM;
	id->service_id = cma_service_id(id->ps, cma_addr_port(dst));
	id->qp_num = param->qp_num;
	req.service_id = id->service_id;
	cm_ip_hdr_build(&ip, req.private_data);
	memcpy(req.private_data + CM_IP_HDR_BYTES, param->private_data, param->private_len);
	cma_cm_path(id, &path);
	ret = cm_sidr_resolve(id->sidr, &path, &req, patience_ns, clock_now_ns());
	if (ret)
		goto err_resolve;
	id->state = CMA_CONNECTING;
	return 0;

err_resolve:
	cm_sidr_destroy(id->sidr, clock_now_ns());
	id->sidr = NULL;
	return ret;
}

int cma_datagram_accept(struct cma_id *id, uint64_t cookie, const struct ipc_cm_param *param)
{
	struct cm_sidr_rep rep = {
		.status = CM_SIDR_VALID,
		.qpn = param->qp_num,
		.qkey = param->qkey ? param->qkey : RDMA_UDP_QKEY,
	};
	int ret;

	if (param->private_len > CM_SIDR_REP_PRIVATE_BYTES)
		return -EINVAL;
	ret = cma_check_qpn(id, param->qp_num);
	if (ret)
		return ret;
	memcpy(rep.private_data, param->private_data, param->private_len);
	ret = cm_sidr_answer(id->sidr, &rep, clock_now_ns());
	if (ret)
		return ret;
	id->sidr = NULL;
	id->qp_num = param->qp_num;
	id->cookie = cookie;
	cma_id_answered(id);
	id->cma->counters.established++;
	id->state = CMA_CONNECTED;
	return 0;
}

/* Its peer hears that it was rejected, and the words; a reason has no place in a SIDR_REP. */
int cma_datagram_reject(struct cma_id *id, const struct ipc_cm_reject *req)
{
	struct cm_sidr_rep rep = {.status = CM_SIDR_REJECTED};
	int ret;

	if (req->private_len > CM_SIDR_REP_PRIVATE_BYTES || id->state != CMA_REQUESTED)
		return -EINVAL;
	memcpy(rep.private_data, req->private_data, req->private_len);
	ret = cm_sidr_answer(id->sidr, &rep, clock_now_ns());
	if (ret)
		return ret;
	id->sidr = NULL;
	cma_id_answered(id);
	id->cma->counters.rejects_sent++;
	id->state = CMA_OVER;
	return 0;
}

void *cma_on_sidr_request(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			  const struct cm_sidr_req *req, uint8_t *status)
{
	struct ipc_cm_event event = {.param.qp_type = IBV_QPT_UD};
	const struct netdev *dev = netdev_by_id(path->dev_id);
	struct cma *cma = ctx;
	struct cma_addrs addrs;
	struct cma_id *listener, *id;

	listener = cma_find_listener(cma, path, req->service_id, req->private_data, &addrs);
	if (!listener && cma_grace_holds(&cma->grace, req->service_id, clock_now_ns()))
		return NULL;
	if (!listener || !dev || !cma_is_datagram(listener)) {
		*status = CM_SIDR_UNSUPPORTED;
		return NULL;
	}
	id = cma_request_child(listener, IBV_QPT_UD);
	if (!id)
		return NULL;
	/* The way back to the sender is known, but not to which of its QPs. */
	id->state = CMA_REQUESTED;
	id->sidr = sidr;
	id->service_id = req->service_id;
	cma_request_place(id, path, &addrs, dev, cma_mtu_of(dev));
	cma_event_private_data(&event, req->private_data + CM_IP_HDR_BYTES,
			       CMA_SIDR_REQ_PRIVATE_BYTES);
	cma_request_push(id, listener, &event);
	return id;
}

/* As Linux has it, whoever is refused is unreachable, for the reason that its status says. */
void cma_on_sidr_event(void *ctx, struct cm_sidr *sidr, void *owner, const struct cm_sidr_rep *rep,
		       uint64_t now_ns)
{
	struct ipc_cm_event event = {.event = RDMA_CM_EVENT_UNREACHABLE};
	struct cma_id *id = owner;

	(void)ctx;
	(void)now_ns;
	id->sidr = NULL;
	id->state = CMA_OVER;
	if (!rep) {
		cma_event_status(id, RDMA_CM_EVENT_UNREACHABLE, cm_sidr_error(sidr));
		return;
	}
	cma_event_private_data(&event, rep->private_data, CM_SIDR_REP_PRIVATE_BYTES);
	event.status = rep->status;
	event.param.qp_type = IBV_QPT_UD;
	if (rep->status == CM_SIDR_VALID) {
		id->state = CMA_CONNECTED;
		id->cma->counters.established++;
		id->qp.remote_qpn = rep->qpn;
		id->qp.qkey = rep->qkey;
		event.event = RDMA_CM_EVENT_ESTABLISHED;
		event.param.qp_num = rep->qpn;
		event.param.qkey = rep->qkey;
	}
	cma_event_push(id, id, &event);
}
