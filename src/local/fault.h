/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_FAULT_H
#define USRDMA_LOCAL_FAULT_H

#include <stdint.h>

#include "base/fault.h"
#include "core/queue/datagram.h"

struct ah;
struct cell;
struct engine;
struct local;
struct local_qp;
struct qp;
struct send_wqe;

/*
 * The fault point message: the messages of the requesters and datagrams of shared memory. A fault
 * has the effect that it has on a network: a reliable QP sends a lost message again. All functions
 * with a `struct qp` or a `struct local_qp` are called with the lock of the QP held.
 */

/* What the requester does with the message. */
enum local_fault {
	LOCAL_FAULT_NONE, /* send it */
	/* send it later: a timer runs the requester again, or the QP has failed */
	LOCAL_FAULT_HOLD,
	LOCAL_FAULT_LOST, /* of UC: complete it without sending it */
};

/* The WQE at sq.nxt passes the point, at most once for each transmission. */
PROBE_COLD enum local_fault local_fault_message(struct local_qp *lqp, const struct send_wqe *wqe);

/* Ends the wait of a message, and lets the WQE at sq.nxt pass the point again. */
void local_fault_reset(struct local_qp *lqp);

/*
 * The point message.receive: the number of copies of a message or datagram to process. A lost
 * message of RC is requested again.
 */
PROBE_COLD unsigned int local_fault_received(const struct qp *qp, const struct cell *cell,
					     const uint8_t *src_gid);

/* The number of copies of a datagram to send. *delay_ns: after this time; 0: now. */
PROBE_COLD unsigned int local_fault_datagram(const struct qp *qp, const struct ah *ah,
					     const struct datagram_tx *datagram,
					     uint64_t *delay_ns);

/*
 * Stores a copy of the datagram, which is sent after the delay. 0, also if the datagram is lost
 * because too many are delayed; -EFAULT: its memory cannot be read. engine.lock held.
 */
PROBE_COLD int local_fault_delay_datagram(struct engine *engine, uint32_t src_qpn,
					  const struct datagram_tx *datagram,
					  const uint8_t grh[GRH_BYTES], uint64_t delay_ns);

/* Drops the delayed datagrams. */
void local_fault_drop_datagrams(struct local *local);

#endif
