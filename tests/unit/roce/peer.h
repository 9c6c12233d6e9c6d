/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_ROCE_PEER_H
#define TESTS_UNIT_ROCE_PEER_H

#include "../../sim/world.h"

/*
 * One real queue pair and, at the other end of a perfect network, a test that makes its peer's packets by hand and looks at
 * each that comes back.
 */
#define PEER_QPN	0x00abcd
#define PEER_MTU	256u
#define PEER_FIRST_PSN	0xfffffe /* what the test sends from … */
#define PEER_SECOND_PSN 0xfffffd /* … and the queue pair */
#define PEER_BUF_BYTES	(256u * 1024)
#define PEER_QKEY	0x1234abcd /* of a UD queue pair, which does not know its peer */

extern const uint8_t peer_gid[GID_BYTES];

struct peer {
	struct world world;
	struct world_node *node;
	struct ibv_qp *qp;
	struct link *link;
	struct link_path path;
	struct icrc_flow flow;
};

void peer_open(struct peer *peer, enum ibv_qp_type type, unsigned access);
void peer_close(struct peer *peer);

/* A multicast group that the queue pair may be in, and what packets are sent to from here on: the group or the node. */
extern const union ibv_gid peer_group;
void peer_aim(struct peer *peer, const uint8_t gid[GID_BYTES]);

/* Sends the packet to the queue pair: PSN, opcode and headers are the caller's, the rest is filled in. */
void peer_send(struct peer *peer, struct packet packet, const void *payload, size_t bytes);
/* The same, with one byte of it changed before (is_sealed) or after its ICRC was made. */
void peer_send_spoilt(struct peer *peer, struct packet packet, const void *payload, size_t bytes,
		      size_t at, uint8_t flip, bool is_sealed);
/* Lets the node do what there is to do now. */
void peer_settle(struct peer *peer);
/* The next packet from the queue pair, its ICRC checked; false: there is none. */
bool peer_next(struct peer *peer, struct packet *packet);
bool peer_next_rx(struct peer *peer, struct packet *packet, struct link_rx *rx);
/* An ACK or NAK as the peer would send it. */
void peer_answer(struct peer *peer, uint32_t psn, uint8_t syndrome);

uint64_t peer_counter(const struct peer *peer, enum roce_counter counter);
void peer_post_recv(struct peer *peer, uint64_t wr_id, uint32_t bytes);
/* Posts a send of `bytes` from the start of the buffer; `remote` and `rkey` for what has them. */
void peer_post_send(struct peer *peer, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned flags);
/* The type of the next async event, or -1. */
int peer_event(struct peer *peer);

#endif
