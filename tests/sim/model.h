/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "world.h"

/*
 * The reference: what one direction of a connection is to do, decided before it begins, and what must come of it. Requests
 * take effect in the order of posting, so the model carries each out on a shadow of the target memory as it is made up; what
 * the real queue pairs then do under whatever the network does must be the same.
 */
#define FLOW_OPS_MAX  24
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
	struct ibv_qp *qp;	/* the sender's */
	struct ibv_qp *peer_qp; /* the receiver's */
	size_t from_base;	/* in from->buf: slots to send from, FLOW_SIDE_BYTES */
	size_t recv_base;	/* in to->buf: slots to receive into */
	size_t target_base;	/* in to->buf */
	uint32_t mtu_bytes;
	bool is_rc;
	bool may_fail;	   /* the other direction, or the network, may end it at any time */
	bool is_abandoned; /* its queue pair was reset: nothing more comes of it */
	bool is_lossless;  /* nothing may be missing, also of a datagram service */
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

/* Posts some of what is left. Whether anything was. */
bool flow_post_sends(struct flow *flow, unsigned max);
bool flow_post_recvs(struct flow *flow, unsigned max);

void flow_send_done(struct flow *flow, const struct ibv_wc *wc);
void flow_recv_done(struct flow *flow, const struct ibv_wc *wc);

/* All that must come has come. */
bool flow_is_over(const struct flow *flow);
/* The last look, once nothing moves any more. */
void flow_check_end(struct flow *flow);

#endif
