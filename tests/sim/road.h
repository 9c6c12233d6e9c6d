/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_ROAD_H
#define TESTS_SIM_ROAD_H

#include "world.h"

/*
 * What processes of one simulated host say to each other about XRC (core/relay.h), in place of the rings of local/: it
 * keeps the order of each pair, loses nothing, takes its time, and has little room.
 */
struct road;

/* Between the nodes from `first` on. `room`: words of a pair that nobody has read; a word takes up to delay_ns. */
void road_open(struct world *world, int first, unsigned room, uint64_t delay_ns);
void road_close(struct world *world);

/* The node's process is dead: the others read what it had said, and then hear of its end; nobody reads what it is told. */
void road_bury(struct world *world, int node);

/* Words that found no room. */
uint64_t road_full(const struct world *world);

#endif
