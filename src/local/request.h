/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_REQUEST_H
#define USRDMA_LOCAL_REQUEST_H

#include "core/execute.h"
#include "core/vendor_err.h"
#include "local/ring.h"

/* The format of requests in FIFO elements. The caller holds engine.lock. */

/* The element type of the WQE's messages or request. */
enum cell_type request_cell_type(const struct send_wqe *wqe);

/* The opcode (enum ibv_wr_opcode) of an element with a request that has a response of its own; -ENOENT: another element. */
int request_opcode_of_cell(uint8_t cell_type) __attribute__((warn_unused_result));

/* Encodes the operands of a request that has a response of its own. Returns 0, or the vendor error of an invalid SGE. */
enum vendor_err request_encode(struct qp *qp, struct send_wqe *wqe, struct cell *cell);

/* The request in an element of this opcode; refers to the element's data. */
struct remote_request request_decode(const struct cell *cell, int opcode);

#endif
