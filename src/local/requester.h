/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_REQUESTER_H
#define USRDMA_LOCAL_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/object/objects.h"
#include "core/queue/execute.h"
#include "local/qp.h"

struct cell;
struct timer;

/*
 * Interface of requester.c, retry.c and completer.c. All functions with a `struct local_qp` are
 * called with the lock of the QP held.
 */

void local_requester_run(struct local_qp *lqp);
void local_requester_peer_gone(struct local_qp *lqp);
void local_requester_timer(struct timer *timer, uint64_t now_ns);

/* Processes a response: an ACK, a NAK, or the result of a request. */
void completer_response(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload);

/* Between these files. */

static inline bool local_requester_is_reliable(const struct local_qp *lqp)
{
	return lqp->qp->type == IBV_QPT_RC;
}

/* Completes the oldest WQE with success. */
void local_requester_succeed(struct local_qp *lqp);

/*
 * The peer refused the oldest WQE: status and vendor error of its completion follow from the
 * responder's result.
 */
void local_requester_fail_refused(struct local_qp *lqp, enum access_result result);

/* Sends nothing until the timeout has passed; 0: until another event ends the wait. */
void local_requester_wait_for(struct local_qp *lqp, enum local_wait wait, uint64_t timeout_ns);

/*
 * local_requester_rewind() marks all outstanding WQEs for retransmission. The retry functions start
 * the RNR timer or the ACK timer, or fail the oldest WQE if no retries are left.
 */
void local_requester_rewind(struct local_qp *lqp);
void local_requester_retry_rnr(struct local_qp *lqp, uint32_t timer_code);
void local_requester_retry_not_ready(struct local_qp *lqp);

#endif
