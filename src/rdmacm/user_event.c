/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/public.h"
#include "rdmacm/user_event.h"

/*
 * The event is sent through the daemon, because only the daemon can make the channel's fd readable.
 */
int rcm_user_event_write(struct rcm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	struct ipc_cm_write_event req = {
		.hdr.type = IPC_CM_WRITE_EVENT,
		.id = id->handle,
		.event = event,
		.status = status,
		.arg = arg,
	};

	return rcm_id_request(id, &req, sizeof(req));
}

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg)
{
	if (!id || event != RDMA_CM_EVENT_USER)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(rcm_user_event_write(rcm_id_of(id), event, status, arg));
}
