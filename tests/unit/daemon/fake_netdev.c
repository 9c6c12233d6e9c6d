/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_netdev.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "wire/gid.h"

#define DEVS 2

static struct netdev devs[DEVS];
static bool is_there[DEVS];

static void fill(unsigned i, const char *name, uint32_t ipv4, uint8_t first, uint8_t last)
{
	struct netdev *dev = &devs[i];
	struct in_addr addr = {.s_addr = htonl(ipv4)};

	memset(dev, 0, sizeof(*dev));
	dev->dev_id = i + 1;
	dev->node_guid = 0xabcd0000 + i;
	dev->mtu_bytes = i == 0 ? 65536 : 1500;
	dev->speed_mbps = 10000;
	dev->is_up = true;
	dev->is_loopback = i == 0;
	strcpy(dev->name, name);
	dev->gid_count = 2;
	dev->gids[0].is_valid = 1;
	gid_from_ipv4(dev->gids[0].raw, &addr);
	dev->gids[1].is_valid = 1;
	dev->gids[1].raw[0] = first;
	dev->gids[1].raw[15] = last;
	is_there[i] = true;
}

void fake_netdev_reset(void)
{
	fill(0, "lo", INADDR_LOOPBACK, 0, 1);
	fill(1, "eth0", 0x0a000001, 0xfd, 1);
}

void fake_netdev_remove(uint32_t dev_id)
{
	is_there[dev_id - 1] = false;
}

void fake_netdev_drop_gid(uint32_t dev_id, uint32_t index)
{
	devs[dev_id - 1].gids[index].is_valid = 0;
}

void fake_netdev_set_up(uint32_t dev_id, bool is_up)
{
	devs[dev_id - 1].is_up = is_up;
}

void fake_netdev_set_mtu(uint32_t dev_id, uint32_t mtu_bytes)
{
	devs[dev_id - 1].mtu_bytes = mtu_bytes;
}

const struct netdev *netdev_by_id(uint32_t dev_id)
{
	return dev_id >= 1 && dev_id <= DEVS && is_there[dev_id - 1] ? &devs[dev_id - 1] : NULL;
}

const struct netdev *netdev_by_gid(const uint8_t gid[16], uint32_t *index)
{
	for (unsigned i = 0; i < DEVS; i++) {
		for (uint32_t g = 0; is_there[i] && g < devs[i].gid_count; g++) {
			if (!devs[i].gids[g].is_valid || memcmp(devs[i].gids[g].raw, gid, 16) != 0)
				continue;
			if (index)
				*index = g;
			return &devs[i];
		}
	}
	return NULL;
}

const struct netdev *netdev_by_addr(const struct sockaddr *addr)
{
	uint8_t gid[16];

	return gid_from_sockaddr(gid, addr) ? netdev_by_gid(gid, NULL) : NULL;
}

const struct netdev *netdev_loopback(void)
{
	return netdev_by_id(FAKE_LO);
}

static bool is_on_eth(const struct sockaddr *addr)
{
	uint8_t gid[16];

	gid_from_sockaddr(gid, addr);
	if (gid_is_multicast(gid))
		return true;
	return addr->sa_family == AF_INET ? gid[12] == 10 : gid[0] == 0xfd;
}

int netdev_route(const struct sockaddr *dst, const struct sockaddr *src_hint,
		 struct sockaddr_storage *src_out, const struct netdev **dev)
{
	uint8_t gid[16];

	*dev = netdev_by_addr(dst);
	if (!*dev && dst->sa_family == AF_INET &&
	    (ntohl(((const struct sockaddr_in *)(const void *)dst)->sin_addr.s_addr) >> 24) == 127)
		*dev = netdev_loopback();
	if (!*dev && is_on_eth(dst))
		*dev = netdev_by_id(FAKE_ETH);
	if (!*dev)
		return -ENETUNREACH;
	memcpy(gid, (*dev)->gids[dst->sa_family == AF_INET ? 0 : 1].raw, 16);
	if (src_hint && src_hint->sa_family == dst->sa_family && netdev_by_addr(src_hint))
		gid_from_sockaddr(gid, src_hint);
	gid_to_sockaddr(gid, src_out);
	return 0;
}
