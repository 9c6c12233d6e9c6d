/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_REQUEST_H
#define USRDMA_LOCAL_REQUEST_H

#include "core/object/vendor_err.h"
#include "core/queue/execute.h"
#include "local/ring.h"

/* The format of requests in FIFO elements. */

/* The element type of the WQE's messages or request. */
enum cell_type request_cell_type(const struct send_wqe *wqe);

/*
 * The opcode (enum ibv_wr_opcode) of an element with a request that has a response of its own;
 * -ENOENT: another element.
 */
int request_opcode_of_cell(uint8_t cell_type) __attribute__((warn_unused_result));

/*
 * Encodes the operands of a request that has a response of its own. Returns 0, or the vendor error
 * of an invalid SGE. The lock of the QP held.
 */
enum vendor_err request_encode(struct qp *qp, struct send_wqe *wqe, struct cell *cell);

/* Of request_mtu_fits(), if the path MTUs differ. */
bool request_mtu_admits(const struct qp *qp, const struct cell *cell, uint32_t length_bytes);

/*
 * Whether the packets of a message or of READ data would fit the path MTU of the QP. A packet that
 * another one follows must have exactly that payload (IBA 1.x §9.7.4.1). Messages are not divided
 * into packets here. So the path MTU of the sender's QP is compared, which the first element
 * contains if it has CELL_FAR. Without CELL_FAR the message is shorter than any path MTU.
 */
static inline bool request_mtu_fits(const struct qp *qp, const struct cell *cell,
				    uint32_t length_bytes)
{
	return __builtin_expect(cell->path_mtu == qp->attr.path_mtu, 1) ||
	       request_mtu_admits(qp, cell, length_bytes);
}

/* The request in an element of this opcode; refers to the element's data. */
struct remote_request request_decode(const struct cell *cell, int opcode);

#endif
