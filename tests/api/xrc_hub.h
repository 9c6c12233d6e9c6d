/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_XRC_HUB_H
#define USRDMA_TESTS_API_XRC_HUB_H

#include "xrc_worker.h"

#include <stdio.h>

#define WORKERS	   3
#define HOME	   0 /* index of the worker that owns the XRC target QP */
#define SLOT_BYTES 4096u

/* The sender, which is this process, and the workers that receive. Owned by the test. */
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

/* cmocka fixtures: create the connected hub, and end it. */
int hub_set_up(void **state);
int hub_tear_down(void **state);
/* Moves the sender from RESET to RTS. */
void hub_connect(struct hub *hub);

/*
 * Posts from `offset` of the sender's buffer; one-sided operations access `remote_offset` of the
 * worker's buffer.
 */
void hub_post(struct hub *hub, enum ibv_wr_opcode opcode, int worker, uint64_t offset,
	      uint32_t length, uint64_t remote_offset, uint64_t wr_id);
void hub_post_to_nobody(struct hub *hub, uint32_t srqn, uint64_t wr_id);
/* Asserts that this is the worker's next completion. */
void hub_expect_in(struct hub *hub, int worker, uint64_t wr_id, enum ibv_wc_opcode opcode,
		   uint32_t length);
/*
 * Asserts that the XRC target QP is in ERR, which may be shortly after the sender's completion, and
 * that its process received this event.
 */
void hub_expect_error_state(struct hub *hub);
void hub_expect_failure(struct hub *hub, enum ibv_event_type event);

#endif
