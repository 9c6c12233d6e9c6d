/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "world.h"

/*
 * The reference model: the operations of one direction of a connection, chosen before it starts,
 * and their expected results. Requests take effect in posting order, so the model applies each one
 * to a shadow of the target memory when it is chosen. The real queue pairs must produce the same
 * result whatever faults the network has.
 */
#define FLOW_OPS_MAX 24
#define FLOW_BIND_WR UINT64_MAX /* wr_id of the bind WR that is posted before the first op */
#ifndef FLOW_OP_BYTES		/* maximum length of an operation; sim-roce_long has a larger one */
#define FLOW_OP_BYTES (16u * 1024)
#endif
#define FLOW_RC_BYTES (2 * FLOW_OP_BYTES)
#define FLOW_UC_BYTES (FLOW_OPS_MAX * FLOW_OP_BYTES)
/*
 * Part of a node's memory for each flow that starts or ends there: send buffers, receive buffers,
 * or target memory.
 */
#define FLOW_SIDE_BYTES (FLOW_OPS_MAX * FLOW_OP_BYTES)

/* The error that the last operation must cause. */
enum flow_fault {
	FAULT_NONE,
	FAULT_RKEY,
	FAULT_READ_RKEY,
	FAULT_BOUNDS,
	FAULT_LKEY,
	FAULT_READ_LKEY,
	FAULT_TOO_LONG,
	FAULT_BAD_RECV,
	FAULT_ALIGN,
	FAULT_INVALIDATE,
	FAULT_NO_RECV,
	FAULT_COUNT
};

/*
 * The receives of an SRQ: for all RC queue pairs of a node, or for all XRC queue pairs. Each is
 * posted once.
 */
#define POOL_RECVS_MAX 256

struct recv_pool {
	struct world_node *node;
	bool is_xrc;
	size_t base; /* in node->buf */
	unsigned posted;
	unsigned total;
	bool is_done[POOL_RECVS_MAX];
};

struct op {
	struct ibv_send_wr wr;
	struct ibv_sge sge[3];
	uint32_t length;
	uint32_t slot_offset;	/* its send buffer at the sender */
	uint32_t target_offset; /* offset of its target at the receiver */
	bool takes_recv;
	bool is_signaled;
	/*
	 * contents of the slot when it was posted; READ, atomic: the expected contents afterwards
	 */
	uint8_t *expect;
};

struct flow {
	struct world *world;
	struct world_node *from;
	struct world_node *to;
	struct ibv_qp *qp;	/* of the sender; NULL: destroyed or reset */
	struct ibv_qp *peer_qp; /* of the receiver; NULL: destroyed or reset */
	uint32_t qpn;
	uint32_t peer_qpn;
	struct recv_pool *pool; /* NULL: the receiver has its own receive queue */
	size_t from_base;	/* in from->buf: send buffers, FLOW_SIDE_BYTES */
	size_t recv_base;	/* in to->buf: receive buffers */
	size_t target_base;	/* in to->buf */
	uint32_t mtu_bytes;
	bool is_rc;    /* reliable: RC or XRC */
	bool may_fail; /* the other direction or a network fault may cause an error at any time */
	bool is_abandoned;   /* its queue pair was reset: no more completions are expected */
	bool is_frozen;	     /* the target memory must not change any more */
	uint32_t frozen_sum; /* checksum of the target memory at that time */
	/* long WRITEs and short SENDs in lists: packets are sent ahead of others (docs/adr/0062) */
	bool has_lists;
	bool has_lists_of_reads;
	bool is_lossless;	   /* no message may be missing, also of an unreliable service */
	struct ibv_mw *own_window; /* NULL: not allocated */
	uint32_t own_rkey;	   /* 0: not bound after the ops chosen so far */
	struct ibv_mw *target_window;
	uint32_t target_rkey;
	enum flow_fault fault;
	struct op ops[FLOW_OPS_MAX];
	unsigned op_count;
	unsigned posted;
	unsigned completed; /* all ops before this one have completed */
	bool has_failed;
	enum ibv_wc_status failed_with;
	unsigned recvs_posted;
	unsigned recvs_done;
	unsigned recv_ops; /* all receives of ops before this one have completed */
	unsigned recv_total;
	uint8_t *shadow;
	size_t shadow_bytes;
	const char *wrong; /* NULL: no error was found */
	unsigned wrong_op;
};

void flow_open(struct flow *flow, unsigned op_count);
void flow_close(struct flow *flow);
/*
 * Deallocates the memory windows at this node, or (NULL) at both nodes; to be called before the
 * queue pairs are destroyed.
 */
void flow_lose_windows(struct flow *flow, const struct world_node *node);

/* Posts up to `max` of the remaining WRs. Returns whether it posted any. */
bool flow_post_sends(struct flow *flow, unsigned max);
bool flow_post_recvs(struct flow *flow, unsigned max);

void flow_send_done(struct flow *flow, const struct ibv_wc *wc);
void flow_recv_done(struct flow *flow, const struct ibv_wc *wc);

/*
 * Both queue pairs, or the receiver's, were destroyed or reset: late packets must not change the
 * target memory.
 */
void flow_freeze(struct flow *flow);

/* All expected completions have arrived. */
bool flow_is_over(const struct flow *flow);
/* The final checks, when no event is left. */
void flow_check_end(struct flow *flow);

/* Internal: plan.c chooses the operations, model.c posts them and checks the results. */
uint8_t *flow_slot(const struct flow *flow, const struct op *op);
/* Describes [base, base + length) of a node's memory with up to three SGEs. */
int flow_cut_up(struct flow *flow, struct ibv_sge *sge, struct world_node *node, size_t base,
		uint32_t length);

static inline bool op_is_atomic(const struct op *op)
{
	return op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static inline bool op_is_write(const struct op *op)
{
	return op->wr.opcode == IBV_WR_RDMA_WRITE || op->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       op->wr.opcode == IBV_WR_ATOMIC_WRITE;
}

static inline bool op_is_send(const struct op *op)
{
	return op->wr.opcode == IBV_WR_SEND || op->wr.opcode == IBV_WR_SEND_WITH_IMM ||
	       op->wr.opcode == IBV_WR_SEND_WITH_INV;
}

#endif
