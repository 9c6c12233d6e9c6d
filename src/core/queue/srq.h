/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_SRQ_H
#define USRDMA_CORE_QUEUE_SRQ_H

#include "core/object/objects.h"

/* Provider entry points, called through verbs_context. */
struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init_attr);
int get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);

#endif
