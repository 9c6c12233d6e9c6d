/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_UD_H
#define TESTS_SIM_UD_H

#include "world.h"

/*
 * Datagrams between all nodes of a world, and what they owe whoever sends them: each send completes once, in order; what
 * arrives was sent to that queue pair under its Q_Key, whole, by whom the completion says. What is lost is lost, and twice
 * comes only what the network repeats. Some nodes are in a multicast group; what is sent to it comes to each of them, its
 * sender too.
 */
#define UD_SENDS      24
#define UD_BYTES_MAX  4096u
#define UD_RECV_BYTES 4160u /* the header of 40 and a little */
#define UD_RECVS      (UD_SENDS * WORLD_NODES_MAX)
#define UD_GROUP      (-1)
/* Of a node's memory. */
#define UD_NODE_BYTES (UD_SENDS * UD_BYTES_MAX + UD_RECVS * UD_RECV_BYTES)

struct ud_message {
	int to; /* a node, or UD_GROUP */
	uint32_t bytes;
	bool is_for_nobody; /* under another Q_Key */
	bool has_imm;
	unsigned received[WORLD_NODES_MAX];
};

struct ud_node {
	struct ibv_qp *qp;
	bool is_member;
	struct ibv_ah *ahs[WORLD_NODES_MAX + 1]; /* the last of those in use is the group's */
	struct ud_message sent[UD_SENDS];
	unsigned posted;
	unsigned completed;
	unsigned recvs_posted;
	unsigned recvs_done;
};

struct ud {
	struct world *world;
	size_t base; /* in each node's memory */
	bool is_on;
	bool may_repeat; /* the network does */
	bool is_lossless;
	union ibv_gid group;
	struct ud_node nodes[WORLD_NODES_MAX];
	const char *wrong; /* NULL: all as it must be */
	uint64_t arrived;
};

void ud_open(struct ud *ud, struct world *world, size_t base);
void ud_close(struct ud *ud);

/* A node's process dies, see world_kill(); and its successor begins. */
void ud_kill(struct ud *ud, int node);
void ud_revive(struct ud *ud, int node);

/* Posts some. Whether anything was. */
bool ud_post(struct ud *ud, unsigned max);

/* false: a completion of somebody else's. */
bool ud_sent(struct ud *ud, int node, const struct ibv_wc *wc);
bool ud_received(struct ud *ud, int node, const struct ibv_wc *wc);

bool ud_is_over(const struct ud *ud);
void ud_check_end(struct ud *ud);

#endif
