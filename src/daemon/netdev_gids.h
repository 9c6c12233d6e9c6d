/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_GIDS_H
#define USRDMA_DAEMON_NETDEV_GIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/netdev.h"

/* Converts addresses to GIDs, and hardware addresses to GUIDs. No system calls. */

/*
 * The GID of a RoCE v2 port's address: the IPv6 address, or the IPv4-mapped IPv6 address (IBA A17).
 */
void gid_from_ipv4(uint8_t gid[16], const uint8_t addr[4]);

/*
 * Updates a device's GID table to the `count` addresses (as GIDs) that its interface has now:
 *
 * - index 0 is always valid: the interface's IPv6 link-local address, or fe80:: with the node GUID
 *   if the interface has none;
 * - every other address gets the lowest free index from 1, IPv4 before IPv6, and keeps it until the
 *   address is removed;
 * - if the table has fewer than four entries, index 3 repeats the first IPv4 GID, because programs
 *   for other RoCE devices use index 1 or 3 without a check.
 *
 * Addresses that do not fit are left out. Returns whether the table changed.
 */
bool netdev_gids_update(struct netdev *dev, const uint8_t (*addrs)[16], size_t count);

/* Whether the device has this GID, and the GID's index. index may be NULL. */
bool netdev_gids_find(const struct netdev *dev, const uint8_t gid[16], uint32_t *index);

/* An EUI-64 of the 6-byte hardware address; 0 if it is not 6 bytes or all zero. */
uint64_t netdev_guid_from_mac(const uint8_t *mac, size_t len);

/* A GUID for an interface without a hardware address. Deterministic for seed and name; never 0. */
uint64_t netdev_guid_from_name(uint64_t seed, const char *name);

#endif
