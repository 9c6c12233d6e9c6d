/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_XRC_HUB_H
#define USRDMA_TESTS_API_XRC_HUB_H

#include "xrc_worker.h"

#include <stdio.h>

#define WORKERS	   3
#define HOME	   0 /* which of them has the queue pair */
#define SLOT_BYTES 4096u

/* The sender, which is this process, and those that receive. Owned by the test. */
struct hub {
	struct api api;
	FILE *file;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	uint32_t recv_qpn;
	struct xrc_worker workers[WORKERS];
};

/* Of a cmocka test: the hub, connected, and its end. */
int hub_set_up(void **state);
int hub_tear_down(void **state);
/* The sender, from RESET to RTS. */
void hub_connect(struct hub *hub);

/* From `offset` of the sender's buffer, and for what is one-sided to `remote_offset` of the worker's. */
void hub_post(struct hub *hub, enum ibv_wr_opcode opcode, int worker, uint64_t offset,
	      uint32_t length, uint64_t remote_offset, uint64_t wr_id);
void hub_post_to_nobody(struct hub *hub, uint32_t srqn, uint64_t wr_id);
/* The worker's next completion is this one. */
void hub_expect_in(struct hub *hub, int worker, uint64_t wr_id, enum ibv_wc_opcode opcode,
		   uint32_t length);
/* The receive queue pair is in ERR, a moment after the sender may know it; and its home heard this event of it. */
void hub_expect_error_state(struct hub *hub);
void hub_expect_failure(struct hub *hub, enum ibv_event_type event);

#endif
