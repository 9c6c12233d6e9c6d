/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "daemon/cma_priv.h"

/* Called by the connection managers: converts what they received to rdma_cm events. */

void cma_on_response(struct cma_id *id, struct ipc_cm_event *event)
{
	struct ipc_cm_param *param = &event->param;

	id->responder_resources = min_u8(id->responder_resources, param->responder_resources);
	id->initiator_depth = min_u8(id->initiator_depth, param->initiator_depth);
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	id->qp.remote_qpn = param->qp_num;
	id->qp.qkey = param->qkey;
	id->qp.rnr_retry_count = param->rnr_retry_count;
	id->qp.srq = param->srq;
	event->event = RDMA_CM_EVENT_CONNECT_RESPONSE;
	param->responder_resources = id->responder_resources;
	param->initiator_depth = id->initiator_depth;
	param->qp_type = id->qp_type;
	cma_event_push(id, id, event);
}

void cma_on_established(struct cma_id *id)
{
	id->cma->counters.established++;
	cma_event_status(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

void cma_on_rejected(struct cma_id *id, int reason, const void *private_data, size_t len)
{
	struct ipc_cm_event event = {.event = RDMA_CM_EVENT_REJECTED, .status = reason};
	bool is_accepted = id->state != CMA_REQUESTED;

	id->state = CMA_OVER;
	/*
	 * As in Linux, a requested id has no events before rdma_accept(): its context is still that
	 * of the listener.
	 */
	if (!is_accepted) {
		id->withheld_reason = reason;
		return;
	}
	cma_event_private_data(&event, private_data, len);
	cma_event_push(id, id, &event);
}

void cma_on_unreachable(struct cma_id *id, int status)
{
	id->state = CMA_OVER;
	cma_event_status(id, RDMA_CM_EVENT_UNREACHABLE, status);
}

void cma_on_disconnected(struct cma_id *id, int status)
{
	if (id->is_end_reported)
		return;
	id->is_end_reported = true;
	cma_event_status(id, RDMA_CM_EVENT_DISCONNECTED, status);
}

void cma_on_timewait_exit(struct cma_id *id)
{
	id->state = CMA_OVER;
	cma_event_status(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}
