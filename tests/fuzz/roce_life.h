/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_FUZZ_ROCE_LIFE_H
#define TESTS_FUZZ_ROCE_LIFE_H

#include <stdlib.h>

#include "../unit/roce/peer.h"
#include "core/qp/xrc.h"
#include "roce/qp.h"

/*
 * State of one input of fuzz_roce.c: a connected queue pair and its hostile peer, whose packets
 * roce_hand.c builds.
 */
#define OFFERED_BYTES 8192u
#define SEEN_MAX      32u

struct life_input {
	const uint8_t *at;
	size_t left;
};

/* The state of one input. */
struct life {
	struct life_input in;
	struct peer peer;
	/* three times OFFERED_BYTES; only the middle third is registered for the peer */
	uint8_t *memory;
	struct ibv_mr *offered;
	struct ibv_mw *window; /* over `offered`, bound by work requests; NULL for UD */
	uint32_t window_rkey;  /* rkey of the last bind request */
	struct ibv_ah *ah;
	bool is_in_group; /* attached to peer_group */
	/* of the queue pair's link; the peer sends without them, except hides_ip_id */
	struct sim_faults faults;
	struct packet last; /* last packet of the peer; valid if has_sent */
	size_t last_bytes;  /* length of its payload */
	bool has_sent;
	bool is_ahead, takes_ahead;   /* bits of the peer's later packets (docs/adr/0062) */
	struct packet seen[SEEN_MAX]; /* last requests of the queue pair, newest last */
	unsigned seen_count;
	uint64_t sends;	     /* number of posted send WQEs */
	uint64_t sends_done; /* number of completed send WQEs */
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

/* The transport service of the peer's packets. */
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

/* Send packets of the peer as the input specifies. */
void hand_send_some(struct life *life);
void hand_send_again(struct life *life);
void hand_send_message(struct life *life);
void hand_answer_one(struct life *life);
void hand_acknowledge(struct life *life);

#endif
