/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_POST_H
#define USRDMA_CORE_POST_H

#include "core/objects.h"

/* Provider entry points: what ibv_post_send and friends call through ibv_context.ops. Public conventions. */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/*
 * For qp_ex, engine.lock held: whether an opcode may be posted on this QP now (0 or the errno that post_send would
 * answer: EINVAL state, opcode or too many SGEs, ENOMEM queue full), and handing what was queued to the transport.
 */
int post_check_opcode(const struct qp *qp, enum ibv_wr_opcode opcode)
	__attribute__((warn_unused_result));
struct send_wqe *post_next_wqe(struct qp *qp); /* the slot at head, or NULL: queue full */
void post_kick(struct qp *qp);
/* Where a datagram's WQE goes, which takes a reference: 0, or EINVAL. */
int post_address(struct send_wqe *wqe, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
	__attribute__((warn_unused_result));
/* Which SRQ of the peer's an XRC WQE is for: 0, or EINVAL: more than 24 bits. */
int post_name_srq(struct send_wqe *wqe, uint32_t remote_srqn) __attribute__((warn_unused_result));

#endif
