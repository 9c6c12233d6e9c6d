/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_FAKE_NETDEV_H
#define USRDMA_TEST_FAKE_NETDEV_H

#include "daemon/netdev.h"

/*
 * Stands in for netdev.c: lo with 127.0.0.1 and ::1, eth0 with 10.0.0.1 and fd00::1, its network and every group reachable,
 * everything else not.
 */
#define FAKE_LO	 1
#define FAKE_ETH 2

void fake_netdev_reset(void);
void fake_netdev_remove(uint32_t dev_id);
void fake_netdev_drop_gid(uint32_t dev_id, uint32_t index);
void fake_netdev_set_up(uint32_t dev_id, bool is_up);
void fake_netdev_set_mtu(uint32_t dev_id, uint32_t mtu_bytes);

#endif
