/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_CQ_H
#define USRDMA_CORE_CQ_H

#include "core/objects.h"

/*
 * Adds a completion, and queues a completion event if the CQ is armed for one of this kind: any, or solicited ones
 * (is_solicited, or a wc whose status is not success), unless moderation holds it back. A full CQ becomes dead:
 * IBV_EVENT_CQ_ERR, this and all later completions are lost, and soon their QPs are in ERR (IBA 1.x §11.6.3.2).
 * engine.lock held; takes cq.lock.
 */
void cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited);

/* Disarms the CQ and queues its event: moderation has come to an end. engine.lock held; takes cq.lock. */
void cq_report(struct cq *cq);

/* Completions of success that went with their QP, by what they are of. */
struct cq_purged {
	uint32_t sends;
	uint32_t receives;
};

/*
 * A QP dies or is reset: takes its entries out of the CQ, keeping the order of the others (ADR 0021), and counts those that
 * said success in addition to what *purged* holds. engine.lock held.
 */
void cq_purge_qp(struct cq *cq, uint32_t qpn, struct cq_purged *purged);

/* Takes the oldest completion out: false if there is none, and then, once, progress was made and looked at again. */
bool cq_pop(struct cq *cq, struct cqe *cqe);

/* Provider entry points: what ibv_poll_cq and friends call through ibv_context.ops and verbs_context. */
int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init_attr);

/* For cq_ex.c: makes the CQ that init_attr describes, its comp_mask and wc_flags already checked. */
int cq_create(struct context *context, const struct ibv_cq_init_attr_ex *init_attr,
	      struct cq **made) __attribute__((warn_unused_result));

#endif
