/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_ACK_WAIT_H
#define USRDMA_LOCAL_ACK_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct local_qp;
struct peer;
struct timer;

/* Doorbells for ACKs that wait until the application replies or has processed the message. */

/* Whether the doorbell for an ACK of the QP may wait. */
bool local_ack_may_wait(const struct local_qp *lqp);
/* An ACK has been written; its doorbell waits. */
void local_ack_wait_begin(struct local_qp *lqp);
/* The QP's ACK does not wait any longer: the next local_finish_turn() rings the doorbell. */
void local_ack_wait_end(struct local_qp *lqp);
/* The doorbell rings. */
void local_ack_wait_end_all(struct peer *peer);
/* Whether a doorbell that waits is to be rung now. */
bool local_acks_are_due(const struct peer *peer);
void local_ack_timer(struct timer *timer, uint64_t now_ns);

#endif
