/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_ROCE_PEER_H
#define TESTS_UNIT_ROCE_PEER_H

#include "../../sim/world.h"

/*
 * One real queue pair. The test is its peer on a network without loss: it makes the peer's packets
 * and checks each packet of the queue pair.
 */
#define PEER_QPN	0x00abcd
#define PEER_MTU	256u
#define PEER_FIRST_PSN	0xfffffe /* first PSN of the test … */
#define PEER_SECOND_PSN 0xfffffd /* … and of the queue pair */
#define PEER_BUF_BYTES	(256u * 1024)
/* Remote address and rkey of the queue pair's one-sided operations. */
#define PEER_REMOTE_ADDR 0x1000u
#define PEER_RKEY	 0x77u
#define PEER_QKEY	 0x1234abcd /* of a UD queue pair, which has no fixed peer */

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
/* As peer_open(), which permits two outstanding READs and atomics. */
void peer_open_reads(struct peer *peer, enum ibv_qp_type type, unsigned access, uint8_t rd_atomic);
void peer_close(struct peer *peer);

/*
 * A multicast group that the queue pair may join, and the destination of later packets: the group
 * or the node.
 */
extern const union ibv_gid peer_group;
void peer_aim(struct peer *peer, const uint8_t gid[GID_BYTES]);

/*
 * Sends the packet to the queue pair. The caller sets PSN, opcode and extended headers; the other
 * fields are filled in.
 */
void peer_send(struct peer *peer, struct packet packet, const void *payload, size_t bytes);
/* The n-th packet of the test: a WRITE of n + 1 to byte n of the buffer, with the AckReq bit. */
void peer_write_byte(struct peer *peer, bool is_ahead, uint32_t n);
/*
 * The same as peer_send() with one byte changed before (is_sealed) or after the ICRC was computed.
 */
void peer_send_spoilt(struct peer *peer, struct packet packet, const void *payload, size_t bytes,
		      size_t at, uint8_t flip, bool is_sealed);
/* Runs the node until it has no work at the present time. */
void peer_settle(struct peer *peer);
/* Returns the next packet from the queue pair after checking its ICRC; false: no packet. */
bool peer_next(struct peer *peer, struct packet *packet);
bool peer_next_rx(struct peer *peer, struct packet *packet, struct link_rx *rx);
/* Sends an ACK or NAK of the peer. */
void peer_answer(struct peer *peer, uint32_t psn, uint8_t syndrome);

uint64_t peer_counter(const struct peer *peer, enum roce_counter counter);
void peer_post_recv(struct peer *peer, uint64_t wr_id, uint32_t bytes);
/*
 * Posts a send of `bytes` from the start of the buffer; `remote` and `rkey` for one-sided
 * operations.
 */
void peer_post_send(struct peer *peer, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned flags);
/* Returns the type of the next async event, or -1. */
int peer_event(struct peer *peer);

#endif
