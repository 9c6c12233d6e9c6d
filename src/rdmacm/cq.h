/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_CQ_H
#define USRDMA_RDMACM_CQ_H

#include "rdmacm/id.h"

/*
 * A channel and a CQ on it whose context is the id: what the inline functions of rdma_verbs.h wait
 * on and assert. 0 or -errno.
 */
int rcm_cq_create(struct rcm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		  struct ibv_cq **cq) __attribute__((warn_unused_result));

/* Those that were made so for the id; rcm_cqs_destroy() leaves the one that its SRQ completes in. */
void rcm_recv_cq_destroy(struct rcm_id *id);
void rcm_cqs_destroy(struct rcm_id *id);

#endif
