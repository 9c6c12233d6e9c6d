/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PROBE_H
#define USRDMA_LOCAL_PROBE_H

#include "base/fault.h"
#include "base/trace.h"
#include "core/object/wqe.h"
#include "core/queue/execute.h"
#include "local/counters.h"
#include "local/ring.h"

struct local_qp;
struct peer;

/* Trace and fault points of the shared-memory FIFOs. */

/*
 * `payload` has cell->bytes bytes; NULL: unknown. A received `cell` is a copy: the peer can change
 * the element in the FIFO.
 */
PROBE_COLD void emit_fifo(enum trace_type type, const struct cell *cell, const uint8_t *payload,
			  uint64_t wr_id);
PROBE_COLD void emit_one_sided(struct local_qp *lqp, struct send_wqe *wqe,
			       enum access_result result);
/* Emits a drop if the receiver of the element has increased a counter of drops since `before`. */
PROBE_COLD void local_emit_drop(const struct peer *peer, const uint64_t before[LOCAL_COUNTER_COUNT],
				const struct cell *cell);

/*
 * Whether the events of an element are emitted while trace_is_on(): always if it reports an error.
 */
static inline bool trace_wants_element(const struct cell *cell)
{
	return trace_packets_are_on() || cell->type == CELL_FAULT || cell->type == CELL_NAK ||
	       cell->type == CELL_RNR || cell->type == CELL_NOT_READY;
}

/* The next element is a request of this WQE. */
static inline void trace_request(struct ring_writer *writer, const struct send_wqe *wqe)
{
	if (trace_packets_are_on())
		writer->traced_wr_id = wqe->wr_id;
}

/* A one-sided operation was carried out, or refused after the requester's checks. */
static inline void trace_one_sided(struct local_qp *lqp, struct send_wqe *wqe,
				   enum access_result result)
{
	if (trace_is_on() && (trace_packets_are_on() || result != ACCESS_OK))
		emit_one_sided(lqp, wqe, result);
}

#endif
