/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/request.h"

#include <errno.h>

#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/object/opcode.h"
#include "core/queue/sge.h"
#include "local/ring.h"

static const uint8_t cell_types[WR_OPCODE_COUNT] = {
	[IBV_WR_SEND] = CELL_SEND,
	[IBV_WR_SEND_WITH_IMM] = CELL_SEND,
	[IBV_WR_SEND_WITH_INV] = CELL_SEND,
	[IBV_WR_RDMA_WRITE] = CELL_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = CELL_WRITE,
	[IBV_WR_RDMA_READ] = CELL_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = CELL_COMPARE_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = CELL_FETCH_ADD,
	[IBV_WR_ATOMIC_WRITE] = CELL_ATOMIC_WRITE,
	[IBV_WR_FLUSH] = CELL_FLUSH,
};

enum cell_type request_cell_type(const struct send_wqe *wqe)
{
	return cell_types[wqe->opcode];
}

int request_opcode_of_cell(uint8_t cell_type)
{
	for (int opcode = 0; opcode < (int)WR_OPCODE_COUNT; opcode++) {
		if (cell_types[opcode] == cell_type && wr_opcodes[opcode].kind == WR_KIND_REQUEST)
			return opcode;
	}
	return -ENOENT;
}

enum vendor_err request_encode(struct qp *qp, struct send_wqe *wqe, struct cell *cell)
{
	qp_assert_locked(qp);
	cell->bytes = 0;
	cell->flags = CELL_FIRST | CELL_LAST;
	switch (wqe->opcode) {
	case IBV_WR_ATOMIC_WRITE:
		return sge_copy_from(qp, wqe, 0, cell->data, wqe->length_bytes);
	case IBV_WR_FLUSH:
		cell->length = (uint32_t)wqe->flush_length_bytes;
		cell->imm_or_code = cell_flush(wqe->flush_types, wqe->flush_level);
		return VENDOR_ERR_NONE;
	default:
		cell->atomic.compare_add = wqe->compare_add;
		cell->atomic.swap = wqe->swap;
		return VENDOR_ERR_NONE;
	}
}

struct remote_request request_decode(const struct cell *cell, int opcode)
{
	return (struct remote_request){
		.opcode = (enum ibv_wr_opcode)opcode,
		.remote_addr = cell->remote_addr,
		.rkey = cell->rkey,
		.length_bytes = cell->length,
		.compare_add = cell->atomic.compare_add,
		.swap = cell->atomic.swap,
		.data = cell->data,
		.flush_types = cell->imm_or_code & ((1u << CELL_FLUSH_LEVEL_SHIFT) - 1),
		.flush_level = cell->imm_or_code >> CELL_FLUSH_LEVEL_SHIFT,
	};
}

bool request_mtu_admits(const struct qp *qp, const struct cell *cell, uint32_t length_bytes)
{
	return length_bytes <= mtu_code_bytes(min_u32(cell->path_mtu, qp->attr.path_mtu));
}
