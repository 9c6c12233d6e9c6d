/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_ib.h"

/*
 * Service ID resolution: SIDR_REQ and SIDR_REP of an id's parameters, and the results of
 * resolutions.
 */

int cma_ib_resolve(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns)
{
	const struct sockaddr *dst = (const struct sockaddr *)&id->route.dst;
	struct cm_sidr_req req = {.service_id = id->service_id, .pkey = id->route.pkey};
	struct cm_ip_hdr ip;
	struct cm_path path;
	struct cm_tag tag;
	int ret;

	ret = cm_ip_hdr_from_addrs(&ip, (const struct sockaddr *)&id->route.src, dst);
	if (ret)
		return ret;
	id->conn = cm_sidr_new(cma_ib_of(id->cm)->cm, id);
	if (!id->conn)
		return -ENOMEM;
	cma_ib_tag(id, &tag);
	cm_sidr_set_tag(id->conn, &tag);
	cm_ip_hdr_build(&ip, req.private_data);
	memcpy(req.private_data + CM_IP_HDR_BYTES, param->private_data, param->private_len);
	cma_ib_path(id, &path);
	ret = cm_sidr_resolve(id->conn, &path, &req, cma_ib_timeout(timeout_ns), clock_now_ns());
	if (ret)
		goto err_resolve;
	return 0;

err_resolve:
	cm_sidr_destroy(id->conn, clock_now_ns());
	id->conn = NULL;
	return ret;
}

/* A SIDR_REP has no field for the reason of a rejection. */
int cma_ib_respond(struct cma_id *id, bool accepts, const struct ipc_cm_param *param)
{
	struct cm_sidr_rep rep = {.status = accepts ? CM_SIDR_VALID : CM_SIDR_REJECTED};

	if (accepts) {
		rep.qpn = param->qp_num;
		rep.qkey = param->qkey;
	}
	memcpy(rep.private_data, param->private_data, param->private_len);
	return cm_sidr_reply(id->conn, &rep, clock_now_ns());
}

void *cma_ib_on_sidr_request(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	struct cma_request request;
	struct cma_id *id;
	struct cm_tag tag;
	int ret;

	cma_ib_request_init(&request, ctx, sidr, path, req->service_id, req->private_data);
	request.event.param.qp_type = IBV_QPT_UD;
	cma_event_private_data(&request.event, req->private_data + CM_IP_HDR_BYTES,
			       CMA_IB_SIDR_REQ_PRIVATE_BYTES);
	ret = cma_on_request(&request, &id);
	if (!ret) {
		cma_ib_tag(id, &tag);
		cm_sidr_set_tag(sidr, &tag);
		return id;
	}
	if (ret != -EAGAIN)
		*status = CM_SIDR_UNSUPPORTED;
	return NULL;
}

void cma_ib_on_sidr_event(void *ctx, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep, uint64_t now_ns)
{
	struct ipc_cm_event event = {0};

	(void)ctx;
	(void)now_ns;
	if (!rep) {
		cma_on_unresolved(owner, cm_sidr_error(sidr));
		return;
	}
	cma_event_private_data(&event, rep->private_data, CM_SIDR_REP_PRIVATE_BYTES);
	event.status = rep->status;
	if (rep->status == CM_SIDR_VALID) {
		event.param.qp_num = rep->qpn;
		event.param.qkey = rep->qkey;
	}
	cma_on_resolved(owner, &event);
}
