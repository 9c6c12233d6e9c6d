/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_GIDS_H
#define USRDMA_DAEMON_NETDEV_GIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/netdev.h"

/* From addresses to GIDs, and from hardware addresses to GUIDs. Nothing here asks the kernel. */

/* The GID of a RoCE v2 port's address: an IPv6 address itself, an IPv4 one mapped (IBA A17). */
void gid_from_ipv4(uint8_t gid[16], const uint8_t addr[4]);

/*
 * Brings a device's GID table in line with the `count` addresses (as GIDs) that its interface has now:
 *
 * - index 0 is always valid: the interface's IPv6 link-local address, or fe80:: with the node GUID if it has none;
 * - every other address takes the first free index from 1 on, IPv4 before IPv6, and keeps it while it lives;
 * - a table of fewer than four entries repeats its first IPv4 one at index 3, because programs that were written on
 *   other RoCE devices ask for 1 or 3 without looking.
 *
 * What does not fit is left out. Returns whether anything changed.
 */
bool netdev_gids_update(struct netdev *dev, const uint8_t (*addrs)[16], size_t count);

/* An EUI-64 of the 6-byte hardware address; 0 if it is not 6 bytes or all zero. */
uint64_t netdev_guid_from_mac(const uint8_t *mac, size_t len);

/* A GUID for an interface without a hardware address of its own: the same for the same seed and name, never 0. */
uint64_t netdev_guid_from_name(uint64_t seed, const char *name);

#endif
