/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_FAKE_NETDEV_H
#define USRDMA_TEST_FAKE_NETDEV_H

#include "daemon/neigh.h"
#include "daemon/netdev.h"

/*
 * Replaces netdev.c: lo with 127.0.0.1 and ::1, eth0 with 10.0.0.1 and fd00::1. The network of eth0
 * and all groups are reachable, other destinations are not.
 */
#define FAKE_LO	 1
#define FAKE_ETH 2
#define FAKE_IW	 3 /* after fake_netdev_add_iwarp() */

#define FAKE_HOP_LIMIT 61 /* of each route */

void fake_netdev_reset(void);
/* Adds iw0 with 192.168.0.1 and fd00::2, an interface of transport iWARP. */
void fake_netdev_add_iwarp(void);
void fake_netdev_remove(uint32_t dev_id);
void fake_netdev_drop_gid(uint32_t dev_id, uint32_t index);
void fake_netdev_set_up(uint32_t dev_id, bool is_up);
void fake_netdev_set_mtu(uint32_t dev_id, uint32_t mtu_bytes);

/*
 * Replaces neigh.c: sets the neighbour entry of every address on eth0's network; NEIGH_VALID after
 * fake_netdev_reset(). Changes are reported to watchers.
 */
void fake_neigh_set(enum neigh_state state);
unsigned fake_neigh_solicited(void); /* number of solicitations since fake_netdev_reset() */
bool fake_neigh_is_watched(void);

#endif
