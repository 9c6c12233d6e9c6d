/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "world.h"

/*
 * The reference: what one direction of a connection is to do, decided before it begins, and what must come of it. Requests
 * take effect in the order of posting, so the model carries each out on a shadow of the target memory as it is made up;
 * what the real queue pairs then do under whatever the network does must be the same.
 */
#define FLOW_OPS_MAX  24
#define FLOW_BIND_WR  UINT64_MAX /* of what is posted before the first op of either side */
#define FLOW_OP_BYTES (16u * 1024)
#define FLOW_RC_BYTES (32u * 1024)
#define FLOW_UC_BYTES (FLOW_OPS_MAX * FLOW_OP_BYTES)
/* Of a node's memory, for each flow that begins or ends there: what is sent, what is received, the target. */
#define FLOW_SIDE_BYTES (FLOW_OPS_MAX * FLOW_OP_BYTES)

/* How the last operation is to fail. */
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

/* The receives that all reliable queue pairs of one node share, or all of XRC. Each is posted once. */
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
	uint32_t slot_offset;	/* its own memory at the sender */
	uint32_t target_offset; /* of what it works on at the receiver */
	bool takes_recv;
	bool is_signaled;
	uint8_t *expect; /* what was in the slot when it was posted; READ, atomic: what must be afterwards */
};

struct flow {
	struct world *world;
	struct world_node *from;
	struct world_node *to;
	struct ibv_qp *qp;	/* the sender's; NULL: no more */
	struct ibv_qp *peer_qp; /* the receiver's; NULL: no more */
	uint32_t qpn;
	uint32_t peer_qpn;
	struct recv_pool *pool; /* NULL: the receiver has a queue of its own */
	size_t from_base;	/* in from->buf: slots to send from, FLOW_SIDE_BYTES */
	size_t recv_base;	/* in to->buf: slots to receive into */
	size_t target_base;	/* in to->buf */
	uint32_t mtu_bytes;
	bool is_rc;		   /* or XRC: reliable */
	bool may_fail;		   /* the other direction, or the network, may end it at any time */
	bool is_abandoned;	   /* its queue pair was reset: nothing more comes of it */
	bool is_frozen;		   /* nobody is left who may change its target memory … */
	uint32_t frozen_sum;	   /* … of which this is the sum */
	bool is_lossless;	   /* nothing may be missing, also of a datagram service */
	struct ibv_mw *own_window; /* NULL: none */
	uint32_t own_rkey;	   /* 0: it is not bound, as far as ops were made up */
	struct ibv_mw *target_window;
	uint32_t target_rkey;
	enum flow_fault fault;
	struct op ops[FLOW_OPS_MAX];
	unsigned op_count;
	unsigned posted;
	unsigned completed; /* ops before this one are accounted for */
	bool has_failed;
	enum ibv_wc_status failed_with;
	unsigned recvs_posted;
	unsigned recvs_done;
	unsigned recv_ops; /* of the ops, those that take a receive, before which all have come */
	unsigned recv_total;
	uint8_t *shadow;
	size_t shadow_bytes;
	const char *wrong; /* NULL: all as it must be */
	unsigned wrong_op;
};

void flow_open(struct flow *flow, unsigned op_count);
void flow_close(struct flow *flow);
/* Those of this node, or (NULL) of both: before their queue pairs are destroyed. */
void flow_lose_windows(struct flow *flow, const struct world_node *node);

/* Posts some of what is left. Whether anything was. */
bool flow_post_sends(struct flow *flow, unsigned max);
bool flow_post_recvs(struct flow *flow, unsigned max);

void flow_send_done(struct flow *flow, const struct ibv_wc *wc);
void flow_recv_done(struct flow *flow, const struct ibv_wc *wc);

/* Both of its queue pairs, or the receiver's, are gone: what comes late must not change anything. */
void flow_freeze(struct flow *flow);

/* All that must come has come. */
bool flow_is_over(const struct flow *flow);
/* The last look, once nothing moves any more. */
void flow_check_end(struct flow *flow);

/* Inside: plan.c makes up what is to be done, model.c does it and judges. */
uint8_t *flow_slot(const struct flow *flow, const struct op *op);
/* [base, base + length) of a node's memory in up to three pieces. */
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
