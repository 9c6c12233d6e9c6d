/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_CQ_H
#define USRDMA_RDMACM_CQ_H

#include "rdmacm/id.h"

/*
 * Creates a completion channel and a CQ on it, with the id as cq_context. The inline functions of rdma_verbs.h wait on such a
 * channel and assert the context. 0 or -errno.
 */
int rcm_cq_create(struct rcm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		  struct ibv_cq **cq) __attribute__((warn_unused_result));

/* Destroy the CQs and channels that were created for the id. rcm_cqs_destroy() keeps the receive CQ if the id's SRQ uses it. */
void rcm_recv_cq_destroy(struct rcm_id *id);
void rcm_cqs_destroy(struct rcm_id *id);

#endif
