/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/fault_points.h"

#include "core/device/ah.h"
#include "core/object/opcode.h"

void fault_subject_of_qp(struct fault_subject *subject, const struct qp *qp)
{
	subject->device = qp->context->device->pub.name;
	subject->qpn = qp->qpn;
	subject->qp_type = qp->type;
	if (qp->type != IBV_QPT_UD && qp->state >= IBV_QPS_RTR)
		subject->peer = qp->attr.ah_attr.grh.dgid.raw;
}

enum fault_op fault_op_of_wr(unsigned int wr_opcode)
{
	const struct wr_opcode_info *info = &wr_opcodes[wr_opcode % WR_OPCODE_COUNT];

	if (wr_opcode >= WR_OPCODE_COUNT || !info->qp_types)
		return FAULT_OP_NONE;
	switch (info->kind) {
	case WR_KIND_SEND:
		return FAULT_OP_SEND;
	case WR_KIND_WRITE:
		return FAULT_OP_WRITE;
	case WR_KIND_REQUEST:
		return opcode_fault_op(
			opcode_info(opcode_make(OPCODE_TRANSPORT_RC, info->operation)));
	case WR_KIND_LOCAL:
		return FAULT_OP_LOCAL;
	}
	return FAULT_OP_NONE;
}

enum fault_op fault_op_of_wc(unsigned int wc_opcode)
{
	int wr_opcode = wr_opcode_of_wc((enum ibv_wc_opcode)wc_opcode);

	if (wc_opcode == IBV_WC_RECV || wc_opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return FAULT_OP_RECV;
	return wr_opcode < 0 ? FAULT_OP_NONE : fault_op_of_wr((unsigned int)wr_opcode);
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
