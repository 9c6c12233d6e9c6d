/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_LOCAL_PAIR_H
#define TESTS_UNIT_LOCAL_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "core/engine/engine.h"
#include "core/object/objects.h"

/* GIDs with this first byte do not belong to this host. */
#define PAIR_FOREIGN_GID 0x20

/*
 * Two engines in one process, without daemon and threads, connected by the notices that the daemon
 * sends. Each has a device, a PD, a CQ and a region. The test calls the engines, so a run is
 * determined by its seed. Link with -Wl,--wrap=device_owns_gid and -Wl,--wrap=device_may_own_gid.
 */
#define PAIR_BUF_BYTES (4u << 20)
#define PAIR_READS     3 /* outstanding READs and atomics of a QP; not a power of two */

struct node {
	struct engine engine;
	struct device device;
	struct context context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	int segment_fd;
};

struct pair {
	struct node nodes[2];
};

/*
 * With can_reach_memory the requester performs READ and WRITE itself (one-sided path); without, all
 * messages use FIFO elements.
 */
void pair_open(struct pair *pair, bool can_reach_memory);
void pair_close(struct pair *pair);

struct ibv_qp *pair_create_qp(struct node *node, enum ibv_qp_type type, struct ibv_srq *srq);
int pair_to_init(struct ibv_qp *qp, int access);
int pair_to_rtr(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t min_rnr_timer);
int pair_to_rts(struct ibv_qp *qp, uint8_t rnr_retry, uint8_t retry_cnt, uint8_t timeout);
void pair_connect(struct ibv_qp *a, struct ibv_qp *b);
/*
 * One side of a connection with these PSNs, which are 0 in the other functions: from RESET to RTS.
 */
void pair_connect_to(struct ibv_qp *qp, uint32_t dest_qpn, uint32_t rq_psn, uint32_t sq_psn);

/*
 * pair_open() and pair_close() with one QP of each node, connected to each other. The test sets the
 * pointer of a QP that it destroys to NULL.
 */
void pair_open_connected(struct pair *pair, struct ibv_qp *qps[2], enum ibv_qp_type type,
			 bool can_reach_memory);
void pair_close_connected(struct pair *pair, struct ibv_qp *qps[2]);

/* Moves a UD queue pair with that Q_Key to RTS; creates an address handle of this host. */
void pair_ready(struct ibv_qp *qp, uint32_t qkey);
struct ibv_ah *pair_create_ah(struct node *node);

/* Runs a node's engine once: timers, then transports. Returns the amount of work done. */
unsigned int node_turn(struct node *node);

/* Returns the oldest completion, without making progress. */
bool poll_cq_once(struct ibv_cq *cq, struct ibv_wc *wc);
/* Runs both engines until neither has work. */
void pair_settle(struct pair *pair);

#endif
