/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_HOP_LIMIT_H
#define USRDMA_DAEMON_NETDEV_HOP_LIMIT_H

#include <stdint.h>

#include "daemon/netdev_query.h"

/*
 * The TTL (AF_INET) or hop limit (AF_INET6) of the packets that the kernel sends on this route:
 * that of the route, or the default of the network namespace or interface (net.ipv4.ip_default_ttl,
 * net.ipv6.conf.*.hop_limit).
 */
uint8_t netdev_hop_limit(const struct route_info *route, int family);

#endif
