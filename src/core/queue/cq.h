/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_CQ_H
#define USRDMA_CORE_QUEUE_CQ_H

#include "core/object/objects.h"

/*
 * Adds a completion. Queues a completion event if the CQ is armed for it and moderation permits it.
 * A CQ is armed for any completion or for solicited ones (is_solicited, or an error status;
 * PROFILE_EVENT_FOR_ERROR). If the CQ is full: IBV_EVENT_CQ_ERR; this and all later completions are
 * lost; the QPs of lost completions enter ERR (IBA 1.x §11.6.3.2). The lock of the QP held; takes
 * cq.lock, and engine.lock for events and failures.
 */
void cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited);

/* cq_push() without the fault points. The lock of the QP held. */
void cq_deliver(struct cq *cq, const struct ibv_wc *wc, bool is_solicited);

/*
 * Disarms the CQ and queues its event, at the end of a moderation period. engine.lock held; takes
 * cq.lock.
 */
void cq_report(struct cq *cq);

/* Number of successful completions that were removed with their QP. */
struct cq_purged {
	uint32_t sends;
	uint32_t receives;
};

/*
 * Removes the completions of a QP that is destroyed or reset; the order of the others is kept (ADR
 * 0021). Adds the number of removed successful completions to *purged*. engine.lock held.
 */
void cq_purge_qp(struct cq *cq, uint32_t qpn, struct cq_purged *purged);

/*
 * Reads without the lock, so that the result may be outdated; callers that depend on it check again
 * with the lock. The indices wrap at 2^32. The consumer reads head, and the producer reads tail,
 * without the other's lock.
 */
static inline bool cq_looks_empty(const struct cq *cq)
{
	return __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&cq->tail, __ATOMIC_RELAXED);
}

/*
 * Dequeues the oldest completion. If the CQ is empty, runs the engine and tries once more. false:
 * still empty.
 */
bool cq_pop(struct cq *cq, struct cqe *cqe);

/* Provider entry points, called through ibv_context.ops and verbs_context. */
int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init_attr);

/*
 * For cq_ex.c: creates the CQ that init_attr describes. The caller has checked comp_mask and
 * wc_flags.
 */
int cq_create(struct context *context, const struct ibv_cq_init_attr_ex *init_attr,
	      struct cq **made) __attribute__((warn_unused_result));

/*
 * A QP whose queues have space for this number of WRs begins to use the CQ, or ends if it is
 * negative. engine.lock held.
 */
void cq_demand(struct cq *cq, int64_t wrs);

/* Reports the failure of the public call that calls cq_create(); `entries`: the wanted size. */
void cq_create_failed(const struct context *context, const char *call, uint32_t entries, int ret);

#endif
