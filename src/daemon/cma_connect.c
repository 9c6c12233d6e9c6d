/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/clock.h"
#include "base/util.h"
#include "daemon/cma_priv.h"
#include "wire/cm_msg.h"

/* Retry counts have 3 bits in REQ and REP. */
#define RETRY_MAX 7

uint64_t cma_service_id(uint32_t ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}

int cma_check_qpn(const struct cma_id *id, uint32_t qpn)
{
	const struct cma *cma = id->cma;

	if (qpn > CMA_QPN_MAX)
		return -EINVAL;
	return cma->qpn_check ? cma->qpn_check(cma->qpn_ctx, &id->client->peer, qpn) : 0;
}

uint8_t cma_retry_count(uint8_t value)
{
	return min_u8(value, RETRY_MAX);
}

/* xrc_half: the XRC QP type that is valid for this side of the connection. */
static int cma_connect_check_param(const struct cma_id *id, const struct ipc_cm_param *param,
				   size_t private_max, enum ibv_qp_type xrc_half)
{
	if (param->private_len > private_max) {
		cma_because(id->cma, IPC_REASON_CM_PRIVATE_DATA, param->private_len, private_max);
		return -EINVAL;
	}
	if (param->qp_type != IBV_QPT_RC && param->qp_type != IBV_QPT_UC &&
	    param->qp_type != xrc_half)
		return -EINVAL;
	return cma_check_qpn(id, param->qp_num);
}

/* Twice the life time of a packet (IBA 1.x §12.7.34); the ACK delay of the peer is negligible. */
uint8_t cma_ack_timeout_of(const struct cma_id *id)
{
	return (uint8_t)(id->route.packet_life_time + 1);
}

/* Stores the client's parameters until the response arrives. */
static void keep_param(struct cma_id *id, const struct ipc_cm_param *param)
{
	cma_id_set_qpn(id, param->qp_num);
	id->qp_type = param->qp_type;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->qp.retry_count = cma_retry_count(param->retry_count);
	id->qp.timeout = cma_ack_timeout_of(id);
	id->qp.path_mtu = id->route.mtu;
}

/* The client's timeout for a response; 0: the default of the CM. */
static uint64_t client_timeout_ns(const struct ipc_cm_connect *req)
{
	return req->timeout_ms * CLOCK_NS_PER_MS;
}

int cma_connect(struct cma_id *id, const struct ipc_cm_connect *req)
{
	const struct ipc_cm_param *param = &req->param;
	const struct sockaddr *dst = (const struct sockaddr *)&id->route.dst;
	int ret;

	if (cma_is_datagram(id))
		return cma_datagram_connect(id, param, client_timeout_ns(req));
	ret = cma_connect_check_param(id, param, id->cm->ops->private_bytes.request,
				      IBV_QPT_XRC_SEND);
	if (ret)
		return ret;
	id->service_id = cma_service_id(id->ps, cma_addr_port(dst));
	keep_param(id, param);
	ret = id->cm->ops->connect(id, param, client_timeout_ns(req));
	if (ret)
		return ret;
	id->state = CMA_CONNECTING;
	return 0;
}

static int connect_accept(struct cma_id *id, const struct ipc_cm_connect *req)
{
	const struct ipc_cm_param *param = &req->param;
	int ret;

	if (cma_is_datagram(id))
		return cma_datagram_accept(id, req->cookie, param);
	ret = cma_connect_check_param(id, param, id->cm->ops->private_bytes.accept,
				      IBV_QPT_XRC_RECV);
	if (ret)
		return ret;
	/* An XRC request must be accepted with an XRC target QP, other requests with other QPs. */
	if ((param->qp_type == IBV_QPT_XRC_RECV) != (id->qp_type == IBV_QPT_XRC_RECV))
		return -EINVAL;
	/* Neither value may exceed what the other side offered (IBA 1.x §12.7.26, §12.7.27). */
	id->responder_resources = min_u8(param->responder_resources, id->responder_resources);
	id->initiator_depth = min_u8(param->initiator_depth, id->initiator_depth);
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	cma_id_set_qpn(id, param->qp_num);
	ret = id->cm->ops->accept(id, param, client_timeout_ns(req));
	if (ret)
		return ret;
	id->cookie = req->cookie;
	cma_id_responded(id);
	id->state = CMA_CONNECTED;
	return 0;
}

/*
 * As in Linux, an accept that fails rejects the request, so that the peer does not wait for another
 * accept.
 */
int cma_accept(struct cma_id *id, const struct ipc_cm_connect *req)
{
	const struct ipc_cm_reject reject = {.reason = CM_REJ_CONSUMER};
	int ret = connect_accept(id, req);

	if (ret)
		(void)cma_reject(id, &reject);
	return ret;
}

int cma_reject(struct cma_id *id, const struct ipc_cm_reject *req)
{
	int ret;

	if (cma_is_datagram(id))
		return cma_datagram_reject(id, req);
	if (req->private_len > id->cm->ops->private_bytes.reject) {
		cma_because(id->cma, IPC_REASON_CM_PRIVATE_DATA, req->private_len,
			    id->cm->ops->private_bytes.reject);
		return -EINVAL;
	}
	ret = id->cm->ops->reject(id, req);
	if (ret)
		return ret;
	cma_id_responded(id);
	id->cma->counters.rejects_sent++;
	id->state = CMA_OVER;
	return 0;
}

int cma_establish(struct cma_id *id)
{
	int ret;

	if (cma_is_datagram(id))
		return -EINVAL;
	ret = id->cm->ops->establish(id);
	if (ret)
		return ret;
	id->cma->counters.established++;
	id->state = CMA_CONNECTED;
	return 0;
}

int cma_disconnect(struct cma_id *id)
{
	/* Datagram QPs have no connection to end. As in Linux, this is not an error. */
	if (cma_is_datagram(id))
		return 0;
	/*
	 * After DISCONNECTED was reported, the client may still confirm it. In other states there
	 * is no connection to end: the attempt continues or has failed. As in Linux, this is not an
	 * error.
	 */
	if (id->state != CMA_CONNECTED && !id->is_end_reported)
		return 0;
	return id->cm->ops->disconnect(id);
}

/*
 * A DREQ ends a connection that has a REP, and DISCONNECTED follows. Otherwise a REJ withdraws the
 * REQ.
 */
static void connection_revoke(struct cma_id *id)
{
	if (id->state == CMA_CONNECTED && id->cm->ops->disconnect(id) == 0)
		return;
	cma_id_let_go(id);
	cma_on_unreachable(id, -EPERM);
}

void cma_claim_qpns(struct cma *cma, uid_t uid, uint32_t slot)
{
	struct cma_id *id, *next;

	list_for_each_entry_safe(id, next, &cma->by_slot[slot], of_slot) {
		if ((id->state != CMA_CONNECTING && id->state != CMA_CONNECTED) ||
		    cma_is_datagram(id) || id->client->peer.uid == uid)
			continue;
		connection_revoke(id);
		cma_wake(cma);
	}
}

int cma_notify(struct cma_id *id, uint32_t event)
{
	if (event != IBV_EVENT_COMM_EST || cma_is_datagram(id))
		return -EINVAL;
	return id->cm->ops->notify(id);
}
