/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Enhanced connection establishment: options of one vendor's devices, agreed on while connecting. Our
 * device has none to offer, so there is nothing to set, to learn or to refuse a peer for.
 */

#include <errno.h>
#include <rdma/rdma_cma.h>

static int refused(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return refused();
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return refused();
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	(void)id;
	(void)private_data;
	(void)private_data_len;
	return refused();
}
