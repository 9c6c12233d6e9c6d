/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_PROBE_H
#define USRDMA_ROCE_PROBE_H

#include "base/fault.h"
#include "base/trace.h"
#include "roce/qp.h"

/*
 * Trace and fault points of the RoCEv2 transport. Delayed packets use the engine's timers, so a
 * simulation delays them in virtual time.
 */

/* Cause of a change of the congestion window: trace_window.cause. */
enum roce_window_cause {
	ROCE_WINDOW_ACK,
	ROCE_WINDOW_LOSS,
	ROCE_WINDOW_ECN,
	ROCE_WINDOW_TIMEOUT,
	ROCE_WINDOW_CAUSE_COUNT
};

/*
 * Out-of-line parts of the points below; called only while tracing or fault injection is enabled.
 */
PROBE_COLD int roce_probe_send(struct roce *roce, const struct link_tx *tx, int n);
PROBE_COLD void roce_probe_receive(struct roce *roce, const struct link_rx *rx);
PROBE_COLD void roce_emit_retransmit(const struct roce_qp *rqp, uint32_t psn);
PROBE_COLD void roce_emit_recovery(const struct roce_qp *rqp, enum recovery_state from,
				   enum recovery_input input);
PROBE_COLD void roce_emit_window(struct roce_qp *rqp, enum roce_window_cause cause);

/* link_send() with the trace point "packet sent" only. */
int roce_probe_send_traced(struct roce *roce, const struct link_tx *tx, int n);
/* roce_receive() with the trace point "drop" only. */
void roce_receive_traced(struct roce *roce, const struct link_rx *rx);

/*
 * fault.c: link_send() of one packet with the points packet.send and "packet sent", and
 * roce_receive() with the points packet.receive and "drop".
 */
PROBE_COLD int roce_fault_send(struct roce *roce, const struct link_tx *tx);
PROBE_COLD void roce_fault_receive(struct roce *roce, const struct link_rx *rx);

/* Frees the packets that fault injection delays; these packets are lost. */
void roce_drop_delayed(struct roce *roce);

/* link_send() with the points packet.send and "packet sent". */
static inline int roce_link_send(struct roce *roce, const struct link_tx *tx, int n)
{
	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		return roce_probe_send(roce, tx, n);
	return link_send(roce->link, tx, n);
}

/* roce_receive() with the points packet.receive and "packet received". */
static inline void roce_link_received(struct roce *roce, const struct link_rx *rx)
{
	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		roce_probe_receive(roce, rx);
	else
		roce_receive(roce, rx);
}

static inline void roce_trace_retransmit(const struct roce_qp *rqp, uint32_t psn)
{
	if (trace_is_on())
		roce_emit_retransmit(rqp, psn);
}

/* Loss recovery left the state `from` on `input`. */
static inline void roce_trace_recovery(const struct roce_qp *rqp, enum recovery_state from,
				       enum recovery_input input)
{
	if (trace_is_on())
		roce_emit_recovery(rqp, from, input);
}

static inline void roce_trace_window(struct roce_qp *rqp, enum roce_window_cause cause)
{
	if (trace_packets_are_on())
		roce_emit_window(rqp, cause);
}

#endif
