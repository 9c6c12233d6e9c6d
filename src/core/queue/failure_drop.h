/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_FAILURE_DROP_H
#define USRDMA_CORE_QUEUE_FAILURE_DROP_H

#include "base/probe.h"
#include "core/queue/datagram.h"
#include "core/queue/execute.h"
#include "ipc/msg_failure.h"

/*
 * Dropped packets and messages, for `usrdma why`. Each reason is reported once for a QP until its
 * reset. All functions with a `struct qp` are called with the lock of the QP held.
 */

/* A datagram for the QP was dropped. */
PROBE_COLD void failure_drop(struct qp *qp, const struct datagram_rx *rx,
			     enum datagram_result result);

/*
 * A packet or message of a connected QP was dropped. `first` and `second` are the numbers of the
 * reason. The sender of an RC packet repeats it, so the report is a note.
 */
PROBE_COLD void failure_drop_packet(struct qp *qp, enum ipc_failure_reason reason, uint64_t first,
				    uint64_t second);

/*
 * A message for a UC QP found no receive (ACCESS_RNR), or failed the checks that failure_refused()
 * has reported.
 */
PROBE_COLD void failure_drop_refused(struct qp *qp, enum access_result result);

/*
 * The process itself found that the peer refuses the RDMA WRITE of its UC QP, which completes
 * successfully.
 */
PROBE_COLD void failure_drop_own(struct qp *qp, const struct send_wqe *wqe,
				 enum access_result result);

/*
 * A packet for a QP that does not exist, at most one a second. A note: the last packets of a
 * connection may arrive after the QP was destroyed. engine.lock held.
 */
PROBE_COLD void failure_unknown_qpn(struct engine *engine, uint32_t qpn,
				    const uint8_t remote_gid[GID_BYTES]);

#endif
