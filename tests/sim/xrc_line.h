/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_XRC_LINE_H
#define TESTS_SIM_XRC_LINE_H

#include "world.h"

/*
 * The reference for XRC across processes: what one requester sends to one receive queue pair, each operation for the SRQ
 * of a process of the model's choice, and what must come of it there. Node 0 is the requester, the others are processes of
 * one host.
 */
#define LINE_OPS_MAX  24
#define LINE_OP_BYTES (8u * 1024)
#define LINES_FIRST   3
#define LINES_MAX     (2 * LINES_FIRST)
#define OWNERS_FIRST  1 /* nodes */
/* What a line works on at each owner. */
#define LINE_TARGET_BYTES (16u * 1024)
/* Receives that a queue pair which was lost took with it. */
#define LINE_SPARE_RECVS LINES_MAX
#define LINE_RECVS_MAX	 (LINES_MAX * LINE_OPS_MAX + LINE_SPARE_RECVS)
#define LINE_NODE_BYTES \
	((size_t)LINES_MAX * LINE_TARGET_BYTES + (size_t)LINE_RECVS_MAX * LINE_OP_BYTES)

/* How the last operation is to fail. */
enum line_fault {
	LINE_RIGHT,
	LINE_BAD_RKEY,
	LINE_BAD_SRQN,	/* of a process that is there */
	LINE_BAD_OWNER, /* of none */
	LINE_FAULTS
};

struct line_op {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	int owner; /* node */
	bool takes_recv;
	bool changes_memory;
	uint32_t target_offset;
	uint8_t *expect; /* what it sends; READ, atomic: what must be there afterwards */
};

struct line {
	struct world *world;
	int index;
	int home; /* node */
	struct ibv_qp *qp;
	struct ibv_qp *recv_qp; /* NULL: no more */
	uint32_t recv_qpn;
	struct world_qp_attr attr;
	enum line_fault fault;
	bool may_fail;	   /* somebody died who has to do with it, or was stopped too long */
	bool is_abandoned; /* its queue pairs were reset */
	struct line_op ops[LINE_OPS_MAX];
	unsigned op_count;
	unsigned posted;
	unsigned completed;
	unsigned succeeded; /* ops before this one did */
	bool has_failed;
	unsigned recv_next[WORLD_NODES_MAX]; /* op that may be the next to complete a receive there */
	uint8_t *shadows[WORLD_NODES_MAX];
	const char *wrong;
	unsigned wrong_op;
};

/* The receives of one owner, for all lines. */
struct line_pool {
	unsigned posted;
	unsigned total;
	bool is_done[LINE_RECVS_MAX];
};

/* Makes the operations up. min_bytes: of each message. */
void line_open(struct line *line, unsigned op_count, uint32_t min_bytes);
void line_close(struct line *line);
bool line_post(struct line *line, unsigned max);
void line_sent(struct line *line, const struct ibv_wc *wc);
/* A receive completed at that node for the line. false: it is not the one that is next. */
bool line_received(struct line *line, int node, const struct ibv_wc *wc);
void line_complain(struct line *line, unsigned op, const char *what);
bool line_is_over(const struct line *line);
/* The last look. */
void line_check_end(struct line *line);
/* Whether that process is its home or the owner of something it sends to. */
bool line_touches(const struct line *line, int node);
/* Whether something has a response from there. */
bool line_reads(const struct line *line, int node);

/* Where a node has its receives. */
static inline uint8_t *line_recv_slot(const struct world_node *node, uint64_t wr_id)
{
	return node->buf + (size_t)LINES_MAX * LINE_TARGET_BYTES + wr_id * LINE_OP_BYTES;
}

#endif
