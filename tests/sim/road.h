/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_ROAD_H
#define TESTS_SIM_ROAD_H

#include "world.h"

/*
 * The channel (road) for XRC messages between processes of one simulated host
 * (core/qp/xrc_forward.h). It replaces the FIFOs of local/: it preserves the order between two
 * processes, loses no message, delays messages, and has a limited capacity.
 */
struct road;

/*
 * Connects the nodes from `first` on. `room`: capacity between two nodes in messages (words);
 * delay_ns: maximum delay.
 */
void road_open(struct world *world, int first, unsigned room, uint64_t delay_ns);
void road_close(struct world *world);

/*
 * The node's process has terminated. The other nodes receive the messages that it sent and then
 * xrc_forward_peer_exited(); messages to it are dropped.
 */
void road_bury(struct world *world, int node);

/* Number of messages that found no space. */
uint64_t road_full(const struct world *world);

#endif
