/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/fault_points.h"

#include "core/ah.h"
#include "core/opcode.h"

void fault_subject_of_qp(struct fault_subject *subject, const struct qp *qp)
{
	subject->device = qp->context->device->pub.name;
	subject->qpn = qp->qpn;
	subject->qp_type = qp->type;
	if (qp->type != IBV_QPT_UD && qp->state >= IBV_QPS_RTR)
		subject->peer = qp->attr.ah_attr.grh.dgid.raw;
}

enum fault_op fault_op_of_wc(unsigned int wc_opcode)
{
	switch (wc_opcode) {
	case IBV_WC_SEND:
		return FAULT_OP_SEND;
	case IBV_WC_RDMA_WRITE:
		return FAULT_OP_WRITE;
	case IBV_WC_RDMA_READ:
		return FAULT_OP_READ;
	case IBV_WC_COMP_SWAP:
	case IBV_WC_FETCH_ADD:
		return FAULT_OP_ATOMIC;
	case IBV_WC_ATOMIC_WRITE:
		return FAULT_OP_ATOMIC_WRITE;
	case IBV_WC_FLUSH:
		return FAULT_OP_FLUSH;
	case IBV_WC_BIND_MW:
	case IBV_WC_LOCAL_INV:
		return FAULT_OP_LOCAL;
	case IBV_WC_RECV:
	case IBV_WC_RECV_RDMA_WITH_IMM:
		return FAULT_OP_RECV;
	default:
		return FAULT_OP_NONE;
	}
}

enum fault_op fault_op_of_wr(unsigned int wr_opcode)
{
	return wr_opcode < WR_OPCODE_COUNT ? fault_op_of_wc(wr_opcodes[wr_opcode].wc_opcode) :
					     FAULT_OP_NONE;
}

int fault_wr_post_cold(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	struct fault_subject subject = {.op = fault_op_of_wr(opcode)};

	fault_subject_of_qp(&subject, qp);
	return fault_decide_code(FAULT_WR_POST, &subject);
}

int fault_wr_execute(const struct qp *qp, const struct send_wqe *wqe)
{
	struct fault_subject subject = {.op = fault_op_of_wr(wqe->opcode)};

	if (!probe_is_on(PROBE_FAULT))
		return 0;
	fault_subject_of_qp(&subject, qp);
	if (qp->type == IBV_QPT_UD && wqe->ah)
		subject.peer = wqe->ah->attr.grh.dgid.raw;
	return fault_decide_code(FAULT_WR_EXECUTE, &subject);
}

int fault_qp_modify_cold(const struct qp *qp)
{
	struct fault_subject subject = {0};

	fault_subject_of_qp(&subject, qp);
	return fault_decide_code(FAULT_QP_MODIFY, &subject);
}

bool fault_receive_cold(const struct qp *qp)
{
	struct fault_subject subject = {.op = FAULT_OP_RECV};
	struct fault fault;

	fault_subject_of_qp(&subject, qp);
	return fault_due(FAULT_RECEIVE, &subject, &fault);
}

bool fault_access_cold(const struct qp *qp, unsigned int access)
{
	struct fault_subject subject = {
		.op = access & IBV_ACCESS_REMOTE_ATOMIC ? FAULT_OP_ATOMIC :
		      access & IBV_ACCESS_REMOTE_WRITE	? FAULT_OP_WRITE :
							  FAULT_OP_READ,
	};
	struct fault fault;

	fault_subject_of_qp(&subject, qp);
	return fault_due(FAULT_ACCESS, &subject, &fault);
}
