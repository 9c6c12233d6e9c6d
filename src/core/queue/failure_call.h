/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_FAILURE_CALL_H
#define USRDMA_CORE_QUEUE_FAILURE_CALL_H

#include "base/probe.h"
#include "core/object/objects.h"
#include "ipc/msg_failure.h"

/* Reports failed calls. All functions with a `struct qp` are called with its lock held. */

/*
 * ibv_modify_qp(), ibv_post_send(), ibv_post_recv() and others failed with -errno: finds out the
 * reason (failure_call.c). The last two take all locks. unreachable: the source GID if the address
 * vector could not be resolved from it; otherwise NULL.
 */
PROBE_COLD void failure_modify(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
			       int error, const struct ipc_gid *unreachable);
PROBE_COLD void failure_post_send(struct qp *qp, const struct ibv_send_wr *wr, int error);
/* ibv_wr_complete(): the first WR of the batch that was invalid. */
PROBE_COLD void failure_wr_complete(struct qp *qp, uint64_t wr_id, enum ibv_wr_opcode opcode,
				    int error);
PROBE_COLD void failure_post_recv(struct qp *qp, const struct ibv_recv_wr *wr, int error);
PROBE_COLD void failure_reg_mr(const struct context *context, uint64_t addr, uint64_t length,
			       unsigned int access, int error);
PROBE_COLD void failure_create_qp(const struct context *context,
				  const struct ibv_qp_init_attr_ex *attr, int error);

#endif
