/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_FUZZ_ROCE_LIFE_H
#define TESTS_FUZZ_ROCE_LIFE_H

#include <stdlib.h>

#include "../unit/roce/peer.h"
#include "core/xrc.h"
#include "roce/qp.h"

/* One input of fuzz_roce.c: a live queue pair and its hostile peer, whose packets are made in roce_hand.c. */
#define OFFERED_BYTES 8192u
#define SEEN_MAX      32u

struct life_input {
	const uint8_t *at;
	size_t left;
};

/* One input's life. */
struct life {
	struct life_input in;
	struct peer peer;
	uint8_t *memory; /* three times OFFERED_BYTES, of which the middle is offered */
	struct ibv_mr *offered;
	struct ibv_mw *window; /* of what is offered, by work requests like others; NULL of UD */
	uint32_t window_rkey;  /* the last that was asked for */
	struct ibv_ah *ah;
	bool is_in_group;	  /* peer_group */
	struct sim_faults faults; /* of the queue pair's link: the peer's own never is full */
	struct packet last;	  /* that the peer sent; … */
	size_t last_bytes;	  /* … its payload, or it sent none yet: */
	bool has_sent;
	struct packet seen[SEEN_MAX]; /* requests of the queue pair, the latest last */
	unsigned seen_count;
	uint64_t sends;	     /* posted; … */
	uint64_t sends_done; /* … those before this one are accounted for */
	uint64_t recvs;
	uint64_t recvs_done;
};

static inline uint8_t life_next(struct life *life)
{
	if (!life->in.left)
		return 0;
	life->in.left--;
	return *life->in.at++;
}

static inline bool life_is_xrc(const struct life *life)
{
	return qp_is_xrc(life->peer.qp->qp_type);
}

/* Of the peer's packets. */
static inline enum opcode_transport life_transport(const struct life *life)
{
	if (life_is_xrc(life))
		return OPCODE_TRANSPORT_XRC;
	return life->peer.qp->qp_type == IBV_QPT_UC ? OPCODE_TRANSPORT_UC : OPCODE_TRANSPORT_RC;
}

static inline void check(bool is_true)
{
	if (!is_true)
		abort();
}

/* Packets of the peer's, each made as the input says. */
void hand_send_some(struct life *life);
void hand_send_again(struct life *life);
void hand_send_message(struct life *life);
void hand_answer_one(struct life *life);
void hand_acknowledge(struct life *life);

#endif
