/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_QP_STATE_H
#define USRDMA_CORE_OBJECT_QP_STATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * Whether Modify QP permits the transition `from` -> `to` with these attributes (IBA 1.x §11.2.5.2,
 * table of QP attributes): 0, or -EINVAL. If IBV_QP_STATE is not in the mask, to == from. No side
 * effects.
 */
int qp_state_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		   int attr_mask) __attribute__((warn_unused_result));

/*
 * Sets *missing and *surplus to the attributes that the transition requires and lacks, and that it
 * does not permit. false: no attributes make the transition valid.
 */
bool qp_state_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		   int attr_mask, int *missing, int *surplus);

/*
 * Whether a QP in this state takes messages of its peer. In SQE only sending has stopped (IBA 1.x
 * §10.3.1.6).
 */
static inline bool qp_state_receives(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

const char *qp_state_name(enum ibv_qp_state state);

#endif
