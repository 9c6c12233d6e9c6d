/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_WQ_H
#define USRDMA_CORE_QUEUE_WQ_H

#include "core/memory/domain.h"
#include "core/object/objects.h"
#include "core/object/vendor_err.h"

/*
 * Work queues. All functions with a `struct qp` are called with the lock of the QP held. The queues
 * are mapped without reserve, so that unused entries take no memory.
 */

/*
 * Computes the sizes, maps the queues, and writes the sizes back. 0; -EINVAL: above a limit;
 * -ENOMEM.
 */
int send_queue_init(struct send_queue *sq, struct ibv_qp_cap *cap, struct pd *pd)
	__attribute__((warn_unused_result));
int recv_queue_init(struct recv_queue *rq, uint32_t *max_wr, uint32_t *max_sge, struct pd *pd,
		    enum queue_kind kind) __attribute__((warn_unused_result));
void send_queue_fini(struct send_queue *sq);
void recv_queue_fini(struct recv_queue *rq);
void send_queue_reset(struct send_queue *sq);
void recv_queue_reset(struct recv_queue *rq);

/* Removes the WQEs [head, sq.head), which were not sent yet. */
void sq_cut(struct qp *qp, uint32_t head);

/*
 * Retires the WQE at una. A success is reported if the WQE is signaled; an error is always
 * reported, with vendor_err. byte_len of the completion is set for READs and atomics.
 */
void sq_retire(struct qp *qp, enum ibv_wc_status status, enum vendor_err vendor_err);

/*
 * Completes every queued send with WR_FLUSH_ERR, oldest first; then every receive of the QP's own
 * queue.
 */
void sq_flush(struct qp *qp);
void rq_flush(struct qp *qp);

/*
 * A dequeued receive WQE: a copy, because its entry may be posted to again before the message is
 * complete.
 */
struct recv_taken {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[MAX_SGE];
};

/*
 * Returns the length of the oldest receive WQE of the QP's own queue or its SRQ; the WQE stays in
 * the queue. false: empty queue.
 */
bool rq_peek(const struct qp *qp, uint64_t *room_bytes);

/*
 * Dequeues the oldest receive WQE of the QP's own queue or its SRQ. false: empty queue. Reports the
 * SRQ limit event when the limit is crossed.
 */
bool rq_take(struct qp *qp, struct recv_taken *taken);

#endif
