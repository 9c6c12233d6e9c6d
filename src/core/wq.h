/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_WQ_H
#define USRDMA_CORE_WQ_H

#include "core/domain.h"
#include "core/objects.h"

/* Work queues: all with engine.lock held. Queues are mmap'd without reserve, so depth costs nothing until used. */

/* Sizes and maps the queues for these caps and writes back what they became. 0, -EINVAL over a limit, -ENOMEM. */
int send_queue_init(struct send_queue *sq, struct ibv_qp_cap *cap, struct pd *pd)
	__attribute__((warn_unused_result));
int recv_queue_init(struct recv_queue *rq, uint32_t *max_wr, uint32_t *max_sge, struct pd *pd,
		    enum queue_kind kind) __attribute__((warn_unused_result));
void send_queue_fini(struct send_queue *sq);
void recv_queue_fini(struct recv_queue *rq);
void send_queue_reset(struct send_queue *sq);
void recv_queue_reset(struct recv_queue *rq);

/* One that the peer answers by itself, and that counts among the READs and atomics in flight. */
static inline bool opcode_is_answered(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_WRITE:
	case IBV_WR_FLUSH:
		return true;
	default:
		return false;
	}
}

/* One whose length can only be that of a word. */
static inline bool opcode_is_of_a_word(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       opcode == IBV_WR_ATOMIC_WRITE;
}

/* How many of those the QP may have in flight. One at the least, as NICs have it: none would wait for ever. */
static inline uint32_t answered_in_flight_max(const struct qp *qp)
{
	return qp->attr.max_rd_atomic ? qp->attr.max_rd_atomic : 1;
}

/* Takes back the WQEs [head, sq.head), which nobody has begun to send. */
void sq_cut(struct qp *qp, uint32_t head);

/*
 * The WQE at una is over. Success completes it if it is signaled; anything else always completes, with vendor_err.
 * byte_len goes into the wc of READs and atomics.
 */
void sq_retire(struct qp *qp, enum ibv_wc_status status, enum vendor_err vendor_err);

/* Completes every queued send with WR_FLUSH_ERR, oldest first; then every receive of the QP's own queue. */
void sq_flush(struct qp *qp);
void rq_flush(struct qp *qp);

/* A receive WQE that left its queue, whose slot may be posted to again before its message is whole. */
struct recv_taken {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[MAX_SGE];
};

/* The bytes that the oldest receive WQE has room for, of the QP's own queue or its SRQ, which keeps it. false: none. */
bool rq_peek(const struct qp *qp, uint64_t *room_bytes);

/* Takes the oldest receive WQE, of the QP's own queue or its SRQ. false: none. Reports the SRQ's limit event when it is
 * crossed. */
bool rq_take(struct qp *qp, struct recv_taken *taken);

#endif
