/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Enhanced connection establishment (ECE): vendor-specific options that the two sides negotiate when they connect. The QPs of this
 * library have no options (ibv_query_ece()). These functions are for QPs that the application creates and modifies itself,
 * possibly with another library.
 */

#include <errno.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/connect.h"
#include "rdmacm/public.h"

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct rcm_ece *local;

	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return rcm_public_result(-EINVAL);
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
	return rcm_public_result(rcm_connect_reject(rcm_id_of(id), RCM_REJECT_VENDOR_OPTION,
						    private_data, private_data_len));
}
