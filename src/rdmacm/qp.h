/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_QP_H
#define USRDMA_RDMACM_QP_H

#include "rdmacm/id.h"

/*
 * The states that an id's QP is taken through, by name. Each does nothing on an id without a QP and
 * answers 0, or -errno as ibv_modify_qp does. The limits given replace those that the connection
 * managers agreed on.
 */
int rcm_qp_to_init(struct rcm_id *id, struct ibv_qp *qp) __attribute__((warn_unused_result));
/* As far as a new QP goes by itself: INIT, and if it is one for datagrams, which needs no peer, RTS. */
int rcm_qp_to_start(struct rcm_id *id, struct ibv_qp *qp) __attribute__((warn_unused_result));
int rcm_qp_to_rtr(struct rcm_id *id, uint8_t responder_resources)
	__attribute__((warn_unused_result));
int rcm_qp_to_rts(struct rcm_id *id, uint8_t initiator_depth) __attribute__((warn_unused_result));
int rcm_qp_to_err(struct rcm_id *id) __attribute__((warn_unused_result));

/*
 * Between these two id->pub.qp stays what it is. Whoever takes an event of the id may be moving its QP in one thread
 * while the user does away with it in another. Neither waits for anybody but the daemon in between.
 */
void rcm_qp_hold(struct rcm_id *id);
void rcm_qp_release(struct rcm_id *id);

/* The way to a route's other end, from the id. */
void rcm_qp_path(const struct rcm_id *id, const struct ipc_cm_route *route, struct ibv_ah_attr *ah);

/*
 * The attributes that take a QP of that type to attr->qp_state (INIT, RTR or RTS) as the id stands
 * now. 0, or -EINVAL: another state, no device, or no peer yet.
 */
int rcm_qp_attr(const struct rcm_id *id, enum ibv_qp_type type, struct ibv_qp_attr *attr, int *mask)
	__attribute__((warn_unused_result));

#endif
