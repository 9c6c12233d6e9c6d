/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_FAULT_POINTS_H
#define USRDMA_CORE_REPORT_FAULT_POINTS_H

#include "base/fault.h"
#include "core/object/objects.h"

/* Fault points of the verbs, and the subjects of fault points that concern a QP. */

/* Fills in the device, the QPN, the type and, if the QP is connected, the peer. */
PROBE_COLD void fault_subject_of_qp(struct fault_subject *subject, const struct qp *qp);

/* The operation for the condition `op`. */
enum fault_op fault_op_of_wr(unsigned int wr_opcode);
enum fault_op fault_op_of_wc(unsigned int wc_opcode);

/* Out-of-line parts of the points: the code, or 0. */
PROBE_COLD int fault_wr_post_cold(const struct qp *qp, enum ibv_wr_opcode opcode);
PROBE_COLD int fault_wr_execute(const struct qp *qp, const struct send_wqe *wqe);
PROBE_COLD int fault_qp_modify_cold(const struct qp *qp);
PROBE_COLD bool fault_receive_cold(const struct qp *qp);
PROBE_COLD bool fault_access_cold(const struct qp *qp, unsigned int access);

/* The errno of wr.post, or 0. */
static inline int fault_wr_post(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	return probe_is_on(PROBE_FAULT) ? fault_wr_post_cold(qp, opcode) : 0;
}

/* The errno of qp.modify, or 0. */
static inline int fault_qp_modify(const struct qp *qp)
{
	return probe_is_on(PROBE_FAULT) ? fault_qp_modify_cold(qp) : 0;
}

/* The point receive: whether a message that needs a receive WQE of the QP finds none. */
static inline bool fault_receive(const struct qp *qp)
{
	return probe_is_on(PROBE_FAULT) && fault_receive_cold(qp);
}

/*
 * The point access: whether the rkey of a request to the QP is invalid. `access`: enum
 * ibv_access_flags.
 */
static inline bool fault_access(const struct qp *qp, unsigned int access)
{
	return probe_is_on(PROBE_FAULT) && fault_access_cold(qp, access);
}

#endif
