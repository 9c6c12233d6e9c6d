/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_POST_H
#define USRDMA_CORE_QUEUE_POST_H

#include "core/object/objects.h"

/*
 * Provider entry points of ibv_post_send() and other calls, called through ibv_context.ops. They
 * return a positive errno.
 */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/*
 * For core/memory/mw.c and core/qp/qp_ex.c. post_check_opcode(): whether the opcode may be posted
 * on this QP now: 0 or -errno: -EINVAL for the state or the opcode, or the error of the fault point
 * wr.post. post_next_wqe(): the entry at head, or NULL: queue full. post_kick(): passes the posted
 * WQEs to the transport. The lock of the QP held.
 */
int post_check_opcode(const struct qp *qp, enum ibv_wr_opcode opcode)
	__attribute__((warn_unused_result));
struct send_wqe *post_next_wqe(struct qp *qp);
void post_kick(struct qp *qp);
/* Sets the destination of a datagram's WQE, which takes a reference to the AH: 0, or -EINVAL. */
int post_address(struct send_wqe *wqe, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
	__attribute__((warn_unused_result));
/*
 * Whether the WQE may have this number of SGEs: fewer are permitted if they receive data (READ,
 * atomics).
 */
bool post_fits_sges(const struct send_queue *sq, const struct send_wqe *wqe, uint32_t num_sge);
/* Sets the number of the remote SRQ of an XRC WQE: 0, or -EINVAL: more than 24 bits. */
int post_name_srq(struct send_wqe *wqe, uint32_t remote_srqn) __attribute__((warn_unused_result));

#endif
