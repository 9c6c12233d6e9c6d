/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_XRC_LINE_H
#define TESTS_SIM_XRC_LINE_H

#include "world.h"

/*
 * The reference model for XRC across processes. A line is the sequence of operations from one
 * requester to one XRC target QP, each to the SRQ of a process that the model chooses, with the
 * expected results. Node 0 is the requester; the other nodes are processes of one host.
 */
#define LINE_OPS_MAX  24
#define LINE_OP_BYTES (8u * 1024)
#define LINES_FIRST   3
#define LINES_MAX     (2 * LINES_FIRST)
#define OWNERS_FIRST  1 /* first node that is not the requester */
/* Target memory of a line at each node that owns an SRQ. */
#define LINE_TARGET_BYTES (16u * 1024)
/* Receives that a queue pair may consume before it is reset. */
#define LINE_SPARE_RECVS LINES_MAX
#define LINE_RECVS_MAX	 (LINES_MAX * LINE_OPS_MAX + LINE_SPARE_RECVS)
#define LINE_NODE_BYTES \
	((size_t)LINES_MAX * LINE_TARGET_BYTES + (size_t)LINE_RECVS_MAX * LINE_OP_BYTES)

/* The error that the last operation must cause. */
enum line_fault {
	LINE_RIGHT,
	LINE_BAD_RKEY,
	LINE_BAD_SRQN,	/* an unknown SRQ of an existing process */
	LINE_BAD_OWNER, /* an SRQ number of no process */
	LINE_FAULTS
};

struct line_op {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	int owner; /* node that owns the SRQ */
	bool takes_recv;
	bool changes_memory;
	uint32_t target_offset;
	uint8_t *expect; /* data to send; READ, atomic: the expected result */
};

struct line {
	struct world *world;
	int index;
	int home; /* node that owns the target QP */
	struct ibv_qp *qp;
	struct ibv_qp *recv_qp; /* NULL: destroyed */
	uint32_t recv_qpn;
	struct world_qp_attr attr;
	enum line_fault fault;
	bool may_fail;	   /* a process that takes part terminated or was stopped too long */
	bool is_abandoned; /* its queue pairs were reset */
	struct line_op ops[LINE_OPS_MAX];
	unsigned op_count;
	unsigned posted;
	unsigned completed;
	unsigned succeeded; /* all ops before this one succeeded */
	bool has_failed;
	unsigned recv_next[WORLD_NODES_MAX]; /* first op that may complete a receive next */
	uint8_t *shadows[WORLD_NODES_MAX];
	const char *wrong;
	unsigned wrong_op;
};

/* The receives of one node, for all lines. */
struct line_pool {
	unsigned posted;
	unsigned total;
	bool is_done[LINE_RECVS_MAX];
};

/* Chooses the operations. min_bytes: minimum length of each message. */
void line_open(struct line *line, unsigned op_count, uint32_t min_bytes);
void line_close(struct line *line);
bool line_post(struct line *line, unsigned max);
void line_sent(struct line *line, const struct ibv_wc *wc);
/*
 * Processes a receive completion at a node. false: it does not match the next message of this line.
 */
bool line_received(struct line *line, int node, const struct ibv_wc *wc);
void line_complain(struct line *line, unsigned op, const char *what);
bool line_is_over(const struct line *line);
/* The final checks. */
void line_check_end(struct line *line);
/* Whether a node owns the target QP or an SRQ that the line uses. */
bool line_touches(const struct line *line, int node);
/* Whether the line has READs or atomics to this node. */
bool line_reads(const struct line *line, int node);

/* The receive buffer of a wr_id. */
static inline uint8_t *line_recv_slot(const struct world_node *node, uint64_t wr_id)
{
	return node->buf + (size_t)LINES_MAX * LINE_TARGET_BYTES + wr_id * LINE_OP_BYTES;
}

#endif
