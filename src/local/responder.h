/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_RESPONDER_H
#define USRDMA_LOCAL_RESPONDER_H

#include <stdint.h>

#include "core/queue/execute.h"
#include "local/qp.h"

struct cell;
struct peer;
struct refusal;

/* Interface of responder.c, which executes requests, and response.c, which sends responses. */

/*
 * Whether both messages belong to the same connection of two QPs: the requester has at most
 * MAX_QP_WR messages outstanding. Other connections have distant numbers, except by chance
 * (ring_first_ssn()).
 */
static inline bool local_ssn_is_near(uint32_t a, uint32_t b)
{
	return a - b + MAX_QP_WR <= 2 * MAX_QP_WR;
}

static inline struct response_job *local_job_at(const struct local_qp *lqp, uint32_t index)
{
	return &lqp->rx.jobs[index & lqp->rx.jobs_mask];
}

void responder_request(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload);
void responder_recv_posted(struct local_qp *lqp);
void responder_abandon(struct local_qp *lqp); /* the QP enters ERR */
/*
 * The memory of a READ that was accepted cannot be read: sends a NAK instead of the pending
 * responses. The QP enters ERR.
 */
void responder_fail_read(struct local_qp *lqp, uint32_t ssn, enum access_result result);
void responder_stop_reads(struct local_qp *lqp); /* stops copying READ responses from our memory */
void responder_unbind(struct local_qp *lqp);

void responder_respond_all(struct peer *peer);
void responder_refuse(struct peer *peer, const struct cell *cell);
void responder_refuse_request(struct peer *peer, const struct refusal *refusal);

#endif
