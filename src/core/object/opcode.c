/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/opcode.h"

#include <errno.h>

/* Bits of device_cap_flags_ex that have names only in the kernel's uapi headers. */
#define DEVICE_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

/* An XRC send QP supports the same operations as RC (IBA A14), without those of IBA A19. */
#define TYPES_RC	(1u << IBV_QPT_RC)
#define TYPES_RELIABLE	(TYPES_RC | 1u << IBV_QPT_XRC_SEND)
#define TYPES_CONNECTED (TYPES_RELIABLE | 1u << IBV_QPT_UC)
#define TYPES_ALL	(TYPES_CONNECTED | 1u << IBV_QPT_UD)

const struct wr_opcode_info wr_opcodes[WR_OPCODE_COUNT] = {
	[IBV_WR_RDMA_WRITE] = {.kind = WR_KIND_WRITE,
			       .data = WR_DATA_GATHER,
			       .qp_types = TYPES_CONNECTED,
			       .wc_opcode = IBV_WC_RDMA_WRITE,
			       .remote_access = IBV_ACCESS_REMOTE_WRITE,
			       .comp_cntr_op = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
			       .is_onesided = true,
			       .send_ops_flag = IBV_QP_EX_WITH_RDMA_WRITE,
			       .odp_cap = IBV_ODP_SUPPORT_WRITE,
			       .name = "rdma-write",
			       .title = "RDMA WRITE"},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {.kind = WR_KIND_WRITE,
					.data = WR_DATA_GATHER,
					.extra = OPCODE_WITH_IMM,
					.qp_types = TYPES_CONNECTED,
					.wc_opcode = IBV_WC_RDMA_WRITE,
					.remote_access = IBV_ACCESS_REMOTE_WRITE,
					.comp_cntr_op = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
					.is_onesided = true,
					.send_ops_flag = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
					.odp_cap = IBV_ODP_SUPPORT_WRITE,
					.name = "rdma-write-with-imm",
					.title = "RDMA WRITE with immediate"},
	[IBV_WR_SEND] = {.kind = WR_KIND_SEND,
			 .data = WR_DATA_GATHER,
			 .qp_types = TYPES_ALL,
			 .wc_opcode = IBV_WC_SEND,
			 .comp_cntr_op = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
			 .send_ops_flag = IBV_QP_EX_WITH_SEND,
			 .odp_cap = IBV_ODP_SUPPORT_SEND,
			 .name = "send",
			 .title = "SEND"},
	[IBV_WR_SEND_WITH_IMM] = {.kind = WR_KIND_SEND,
				  .data = WR_DATA_GATHER,
				  .extra = OPCODE_WITH_IMM,
				  .qp_types = TYPES_ALL,
				  .wc_opcode = IBV_WC_SEND,
				  .comp_cntr_op = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
				  .send_ops_flag = IBV_QP_EX_WITH_SEND_WITH_IMM,
				  .odp_cap = IBV_ODP_SUPPORT_SEND,
				  .name = "send-with-imm",
				  .title = "SEND with immediate"},
	[IBV_WR_SEND_WITH_INV] = {.kind = WR_KIND_SEND,
				  .data = WR_DATA_GATHER,
				  .extra = OPCODE_WITH_INV,
				  .qp_types = TYPES_RELIABLE,
				  .wc_opcode = IBV_WC_SEND,
				  .comp_cntr_op = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
				  .send_ops_flag = IBV_QP_EX_WITH_SEND_WITH_INV,
				  .odp_cap = IBV_ODP_SUPPORT_SEND,
				  .name = "send-with-inv",
				  .title = "SEND with invalidate"},
	[IBV_WR_RDMA_READ] = {.kind = WR_KIND_REQUEST,
			      .data = WR_DATA_SCATTER,
			      .response = WR_RESPONSE_READ,
			      .operation = OPCODE_READ_REQUEST,
			      .qp_types = TYPES_RELIABLE,
			      .wc_opcode = IBV_WC_RDMA_READ,
			      .remote_access = IBV_ACCESS_REMOTE_READ,
			      .comp_cntr_op = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
			      .is_onesided = true,
			      .send_ops_flag = IBV_QP_EX_WITH_RDMA_READ,
			      .odp_cap = IBV_ODP_SUPPORT_READ,
			      .name = "rdma-read",
			      .title = "RDMA READ"},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {.kind = WR_KIND_REQUEST,
				       .data = WR_DATA_SCATTER,
				       .response = WR_RESPONSE_ATOMIC,
				       .operation = OPCODE_COMPARE_SWAP,
				       .exact_bytes = sizeof(uint64_t),
				       .qp_types = TYPES_RELIABLE,
				       .wc_opcode = IBV_WC_COMP_SWAP,
				       .remote_access = IBV_ACCESS_REMOTE_ATOMIC,
				       .has_compare = true,
				       .send_ops_flag = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
				       .odp_cap = IBV_ODP_SUPPORT_ATOMIC,
				       .name = "atomic-cmp-and-swp",
				       .title = "COMPARE AND SWAP"},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {.kind = WR_KIND_REQUEST,
					 .data = WR_DATA_SCATTER,
					 .response = WR_RESPONSE_ATOMIC,
					 .operation = OPCODE_FETCH_ADD,
					 .exact_bytes = sizeof(uint64_t),
					 .qp_types = TYPES_RELIABLE,
					 .wc_opcode = IBV_WC_FETCH_ADD,
					 .remote_access = IBV_ACCESS_REMOTE_ATOMIC,
					 .send_ops_flag = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
					 .odp_cap = IBV_ODP_SUPPORT_ATOMIC,
					 .name = "atomic-fetch-and-add",
					 .title = "FETCH AND ADD"},
	[IBV_WR_LOCAL_INV] = {.kind = WR_KIND_LOCAL,
			      .qp_types = TYPES_CONNECTED,
			      .wc_opcode = IBV_WC_LOCAL_INV,
			      .send_ops_flag = IBV_QP_EX_WITH_LOCAL_INV,
			      .name = "local-inv",
			      .title = "local invalidate"},
	[IBV_WR_BIND_MW] = {.kind = WR_KIND_LOCAL,
			    .qp_types = TYPES_CONNECTED,
			    .wc_opcode = IBV_WC_BIND_MW,
			    .send_ops_flag = IBV_QP_EX_WITH_BIND_MW,
			    .name = "bind-mw",
			    .title = "bind of a memory window"},
	[IBV_WR_TSO] = {.wc_opcode = IBV_WC_TSO, .name = "tso", .title = "TSO"},
	[IBV_WR_DRIVER1] = {.wc_opcode = IBV_WC_DRIVER1, .name = "driver1", .title = "driver1"},
	/* IBA A19 */
	[IBV_WR_FLUSH] = {.kind = WR_KIND_REQUEST,
			  .data = WR_DATA_OPERAND,
			  .response = WR_RESPONSE_EMPTY,
			  .operation = OPCODE_FLUSH,
			  .qp_types = TYPES_RC,
			  .wc_opcode = IBV_WC_FLUSH,
			  .needs_ex = true, /* struct ibv_send_wr has no fields for it */
			  .send_ops_flag = IBV_QP_EX_WITH_FLUSH,
			  .device_cap_ex = DEVICE_FLUSH_GLOBAL,
			  .odp_cap = IBV_ODP_SUPPORT_FLUSH,
			  .name = "flush",
			  .title = "FLUSH"},
	[IBV_WR_ATOMIC_WRITE] = {.kind = WR_KIND_REQUEST,
				 .data = WR_DATA_OPERAND,
				 .response = WR_RESPONSE_EMPTY,
				 .operation = OPCODE_ATOMIC_WRITE,
				 .exact_bytes = sizeof(uint64_t),
				 .qp_types = TYPES_RC,
				 .wc_opcode = IBV_WC_ATOMIC_WRITE,
				 .remote_access = IBV_ACCESS_REMOTE_WRITE,
				 .send_ops_flag = IBV_QP_EX_WITH_ATOMIC_WRITE,
				 .device_cap_ex = DEVICE_ATOMIC_WRITE,
				 .odp_cap = IBV_ODP_SUPPORT_ATOMIC_WRITE,
				 .name = "atomic-write",
				 .title = "ATOMIC WRITE"},
};

static bool wr_supports_type(const struct wr_opcode_info *info, enum ibv_qp_type type)
{
	return (unsigned int)type < 8 * sizeof(info->qp_types) && info->qp_types >> type & 1;
}

const struct wr_opcode_info *wr_opcode_of_qp(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
	const struct wr_opcode_info *info = &wr_opcodes[opcode % WR_OPCODE_COUNT];

	return (unsigned int)opcode < WR_OPCODE_COUNT && wr_supports_type(info, type) ? info : NULL;
}

int wr_opcode_of_operation(enum opcode_operation operation)
{
	for (int opcode = 0; opcode < (int)WR_OPCODE_COUNT; opcode++) {
		if (wr_opcodes[opcode].kind == WR_KIND_REQUEST &&
		    wr_opcodes[opcode].operation == operation)
			return opcode;
	}
	return -ENOENT;
}

int wr_opcode_of_wc(enum ibv_wc_opcode wc_opcode)
{
	for (int opcode = 0; opcode < (int)WR_OPCODE_COUNT; opcode++) {
		if (wr_opcodes[opcode].qp_types && wr_opcodes[opcode].wc_opcode == wc_opcode)
			return opcode;
	}
	return -ENOENT;
}

const char *wr_title(unsigned int opcode)
{
	const char *title = opcode < WR_OPCODE_COUNT ? wr_opcodes[opcode].title : NULL;

	return title ? title : "unknown";
}

const char *wr_title_of_wc(enum ibv_wc_opcode wc_opcode)
{
	int opcode = wr_opcode_of_wc(wc_opcode);

	if (wc_opcode == IBV_WC_RECV)
		return "receive";
	if (wc_opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return "receive of RDMA WRITE with immediate";
	return opcode < 0 ? "unknown" : wr_title((unsigned int)opcode);
}

uint64_t wr_send_ops(enum ibv_qp_type type)
{
	uint64_t flags = 0;

	for (size_t i = 0; i < WR_OPCODE_COUNT; i++) {
		if (wr_supports_type(&wr_opcodes[i], type))
			flags |= wr_opcodes[i].send_ops_flag;
	}
	return flags;
}

uint64_t wr_device_caps_ex(void)
{
	uint64_t caps = 0;

	for (size_t i = 0; i < WR_OPCODE_COUNT; i++)
		caps |= wr_opcodes[i].device_cap_ex;
	return caps;
}

uint32_t wr_odp_caps(enum ibv_qp_type type)
{
	uint32_t caps = 0;

	for (size_t i = 0; i < WR_OPCODE_COUNT; i++) {
		if (wr_supports_type(&wr_opcodes[i], type))
			caps |= wr_opcodes[i].odp_cap;
	}
	return caps;
}
