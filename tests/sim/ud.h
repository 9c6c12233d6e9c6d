/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_UD_H
#define TESTS_SIM_UD_H

#include "world.h"

/*
 * UD datagrams between all nodes of a world. The model checks that each send completes once and in
 * order. A received datagram must have been sent to this queue pair with its Q_Key, complete, and
 * by the sender that the completion reports. A datagram may be lost; it arrives twice only if the
 * network duplicates packets. Some nodes are members of a multicast group: a datagram to the group
 * reaches each member, including its sender.
 */
#define UD_SENDS      24
#define UD_BYTES_MAX  4096u
#define UD_RECV_BYTES 4160u /* GRH of 40 bytes and 24 bytes more than the longest datagram */
#define UD_RECVS      (UD_SENDS * WORLD_NODES_MAX)
#define UD_GROUP      (-1)
/* Size of the part of a node's memory. */
#define UD_NODE_BYTES (UD_SENDS * UD_BYTES_MAX + UD_RECVS * UD_RECV_BYTES)

struct ud_message {
	int to; /* a node, or UD_GROUP */
	uint32_t bytes;
	bool is_for_nobody; /* sent with a wrong Q_Key */
	bool has_imm;
	unsigned received[WORLD_NODES_MAX];
};

struct ud_node {
	struct ibv_qp *qp;
	bool is_member;
	struct ibv_ah *ahs[WORLD_NODES_MAX + 1]; /* for each node, then for the group */
	struct ud_message sent[UD_SENDS];
	unsigned posted;
	unsigned completed;
	unsigned recvs_posted;
	unsigned recvs_done;
};

struct ud {
	struct world *world;
	size_t base; /* offset in each node's memory */
	bool is_on;
	bool may_repeat; /* the network duplicates packets */
	bool is_lossless;
	union ibv_gid group;
	struct ud_node nodes[WORLD_NODES_MAX];
	const char *wrong; /* NULL: no error was found */
	uint64_t arrived;
};

void ud_open(struct ud *ud, struct world *world, size_t base);
void ud_close(struct ud *ud);

/* The process of a node terminates (see world_kill()); its successor starts. */
void ud_kill(struct ud *ud, int node);
void ud_revive(struct ud *ud, int node);

/* Posts up to `max` sends for each node. Returns whether it posted any. */
bool ud_post(struct ud *ud, unsigned max);

/* false: the completion belongs to another queue pair. */
bool ud_sent(struct ud *ud, int node, const struct ibv_wc *wc);
bool ud_received(struct ud *ud, int node, const struct ibv_wc *wc);

bool ud_is_over(const struct ud *ud);
void ud_check_end(struct ud *ud);

#endif
