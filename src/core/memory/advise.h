/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_ADVISE_H
#define USRDMA_CORE_MEMORY_ADVISE_H

#include <infiniband/verbs.h>

/* Passes the advice to the kernel, because registered memory is not pinned. 0 or an errno. */
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *sg_list, uint32_t num_sge);

#endif
