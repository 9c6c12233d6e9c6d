/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_WQE_H
#define USRDMA_CORE_OBJECT_WQE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "core/object/sge_cache.h"

/*
 * The layout of send and receive queues and of their WQEs. core/queue/wq.h has the functions of the
 * queues.
 */

struct ah;
struct pd;

#define MAX_SGE		 32u
#define MAX_INLINE_BYTES 1024u
#define MAX_QP_WR	 65536u
#define MAX_SRQ_WR	 65536u

/* A WQE of a receive queue. */
struct recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
	struct ibv_sge sge[]; /* max_sge of the queue */
};

/*
 * Receive WQEs [tail, head) of a QP or an SRQ, in power-of-two many mmap()ed entries of `stride`
 * bytes. Guarded by the lock of the QP (core/engine/qp_lock.h); of an SRQ, by engine.lock.
 */
struct recv_queue {
	uint8_t *slots;
	size_t bytes;
	struct pd *owner; /* PD whose allocator allocated `slots`; NULL: own_alloc() */
	uint32_t kind;	  /* enum queue_kind */
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t head;
	uint32_t tail;
	struct sge_cache sge_cache;
};

enum send_wqe_state {
	SEND_WQE_POSTED,
	SEND_WQE_SENT, /* passed to the transport, waiting for the peer's response */
	SEND_WQE_DONE, /* succeeded; preceding WQEs are still outstanding */
};

/*
 * A WQE of a send queue. The fixed part is followed by the SGEs or, if is_inline, by the inline
 * data.
 */
struct send_wqe {
	uint64_t wr_id;
	uint32_t opcode : 8;	   /* enum ibv_wr_opcode */
	uint32_t remote_srqn : 24; /* XRC */
	uint32_t send_flags;
	uint32_t imm_data_be; /* immediate data, or the rkey to invalidate in host byte order */
	uint32_t length_bytes;
	uint64_t remote_addr;
	uint32_t rkey;
	union {
		/* shared memory: number of the message, from ring_first_ssn() on */
		uint32_t message_seq;
		uint32_t first_psn; /* RoCE: PSN of the first packet */
	};
	union {
		uint64_t compare_add;
		uint64_t flush_length_bytes; /* FLUSH: length of the range; length_bytes is 0 */
		uint64_t bind_length_bytes;  /* BIND_MW: length of the window */
		struct ah *ah;		     /* UD: holds a reference (core/device/ah.h) */
	};
	union {
		uint64_t swap;
		struct {		     /* FLUSH */
			uint8_t flush_types; /* enum ibv_placement_type */
			uint8_t flush_level; /* enum ibv_selectivity_level */
		};
		struct { /* BIND_MW; remote_addr is the window's first byte in the MR */
			uint32_t bind_lkey;
			uint32_t bind_access; /* enum ibv_access_flags */
		};
		struct { /* UD */
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		};
	};
	uint32_t done_bytes; /* progress of the transport */
	uint8_t num_sge;
	uint8_t is_inline : 1;
	uint8_t injected_status : 7; /* enum ibv_wc_status of an injected fault; 0: none */
	uint8_t state;		     /* enum send_wqe_state */
	uint8_t path; /* path of this message, for the transport; 0 until it is chosen */
	union {
		struct ibv_sge sge[0];
		uint8_t data[0];
	};
};

/*
 * What completions and reports call the length of the WR: of its message, or of the range of a
 * FLUSH.
 */
static inline uint32_t send_wqe_reported_bytes(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_FLUSH ? (uint32_t)wqe->flush_length_bytes : wqe->length_bytes;
}

/*
 * Send WQEs. [una, nxt) are outstanding, [nxt, head) are not sent yet; of these, [nxt, begun) were
 * sent before and will be sent again. Guarded by the lock of the QP (core/engine/qp_lock.h).
 */
struct send_queue {
	uint8_t *slots;
	size_t bytes;
	struct pd *owner; /* PD whose allocator allocated `slots`; NULL: own_alloc() */
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_read_sge; /* of RDMA READ and atomics; at most max_sge */
	uint32_t max_inline_bytes;
	uint32_t head;
	uint32_t nxt;
	uint32_t una;
	uint32_t begun; /* SQD completes the WQEs before this one */
	struct sge_cache sge_cache;
};

static inline struct send_wqe *sq_wqe(const struct send_queue *sq, uint32_t index)
{
	return (struct send_wqe *)(sq->slots + (size_t)(index & sq->mask) * sq->stride);
}

static inline struct recv_wqe *rq_wqe(const struct recv_queue *rq, uint32_t index)
{
	return (struct recv_wqe *)(rq->slots + (size_t)(index & rq->mask) * rq->stride);
}

#endif
