/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev_hop_limit.h"

#include <stdio.h>

#include "daemon/netdev.h"

#define HOP_LIMIT_DEFAULT 64 /* RFC 1700; Linux's default for both families */
#define HOP_LIMIT_MAX	  255
#define PATH_BYTES	  (64 + IPC_IFNAME_BYTES)

/* 0: there is no such file, or it contains no hop limit. */
static uint8_t read_hop_limit(const char *path)
{
	FILE *file = fopen(path, "re");
	int number = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%d", &number) != 1 || number < 0 || number > HOP_LIMIT_MAX)
		number = 0;
	fclose(file);
	return (uint8_t)number;
}

static uint8_t hop_limit_ipv6(uint32_t ifindex)
{
	const struct netdev *dev = netdev_by_id(ifindex);
	char path[PATH_BYTES];
	uint8_t hop_limit;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/hop_limit",
		 dev ? dev->name : "all");
	hop_limit = read_hop_limit(path);
	return hop_limit ? hop_limit : read_hop_limit("/proc/sys/net/ipv6/conf/all/hop_limit");
}

uint8_t netdev_hop_limit(const struct route_info *route, int family)
{
	uint8_t hop_limit = route->hop_limit;

	if (!hop_limit)
		hop_limit = family == AF_INET ?
				    read_hop_limit("/proc/sys/net/ipv4/ip_default_ttl") :
				    hop_limit_ipv6(route->ifindex);
	return hop_limit ? hop_limit : HOP_LIMIT_DEFAULT;
}
