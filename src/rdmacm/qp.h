/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_QP_H
#define USRDMA_RDMACM_QP_H

#include "rdmacm/id.h"

/*
 * Move an id's QP to a state. Each function returns 0, also for an id without a QP, or the -errno
 * of ibv_modify_qp(). The given responder resources and initiator depth replace the negotiated
 * ones.
 */
int rcm_qp_to_init(struct rcm_id *id, struct ibv_qp *qp) __attribute__((warn_unused_result));
/* Moves a new QP to INIT; a UD QP, which needs no peer, to RTS. */
int rcm_qp_to_start(struct rcm_id *id, struct ibv_qp *qp) __attribute__((warn_unused_result));
int rcm_qp_to_rtr(struct rcm_id *id, uint8_t responder_resources)
	__attribute__((warn_unused_result));
int rcm_qp_to_rts(struct rcm_id *id, uint8_t initiator_depth) __attribute__((warn_unused_result));
int rcm_qp_to_err(struct rcm_id *id) __attribute__((warn_unused_result));

/*
 * Acquire and release the lock that keeps id->pub.qp unchanged: one thread may modify the QP
 * because of an event while another one destroys the QP. A thread with this lock waits only for
 * replies of the daemon.
 */
void rcm_qp_hold(struct rcm_id *id);
void rcm_qp_release(struct rcm_id *id);

/* Fills in the address vector of a route's destination. */
void rcm_qp_path(const struct rcm_id *id, const struct ipc_cm_route *route, struct ibv_ah_attr *ah);

/*
 * Sets the attributes and the mask that move a QP of that type to attr->qp_state (INIT, RTR or
 * RTS), from the current state of the id. 0, or -EINVAL: another QP state, no device, or no remote
 * QP yet.
 */
int rcm_qp_attr(const struct rcm_id *id, enum ibv_qp_type type, struct ibv_qp_attr *attr, int *mask)
	__attribute__((warn_unused_result));

/*
 * Creates a completion channel and a CQ on it, with the id as cq_context. The inline functions of
 * rdma_verbs.h wait on such a channel and assert the context. 0 or -errno.
 */
int rcm_cq_create(struct rcm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		  struct ibv_cq **cq) __attribute__((warn_unused_result));

/*
 * Destroy the CQs and channels that were created for the id. rcm_cqs_destroy() keeps the receive CQ
 * if the id's SRQ uses it.
 */
void rcm_recv_cq_destroy(struct rcm_id *id);
void rcm_cqs_destroy(struct rcm_id *id);

#endif
