/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_netdev.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <string.h>

#include "wire/gid.h"

#define DEVS 3

static struct netdev devs[DEVS];
static bool is_there[DEVS];

static void fill(unsigned i, const char *name, uint32_t ipv4, uint8_t first, uint8_t last)
{
	struct netdev *dev = &devs[i];
	struct in_addr addr = {.s_addr = htonl(ipv4)};

	memset(dev, 0, sizeof(*dev));
	dev->dev_id = i + 1;
	dev->transport = &netdev_roce_v2;
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

static const struct netdev_transport iwarp = {
	.node_type = IBV_NODE_RNIC,
	.transport_type = IBV_TRANSPORT_IWARP,
	.link_layer = IBV_LINK_LAYER_ETHERNET,
	.gid_type = IBV_GID_TYPE_IB,
	/* TCP and IPv6 headers, MPA and DDP headers, CRC (RFC 5044, RFC 5041). */
	.header_bytes = 40 + 60 + 2 + 18 + 4,
};

void fake_netdev_add_iwarp(void)
{
	fill(2, "iw0", 0xc0a80001, 0xfd, 2);
	devs[2].transport = &iwarp;
}

static struct {
	enum neigh_state state;
	unsigned solicited;
	struct neigh_hop hop;
	void (*on_change)(void *ctx, const struct neigh_hop *hop, enum neigh_state state);
	void *ctx;
} neigh;

void fake_netdev_reset(void)
{
	memset(&neigh, 0, sizeof(neigh));
	neigh.state = NEIGH_VALID;
	fill(0, "lo", INADDR_LOOPBACK, 0, 1);
	fill(1, "eth0", 0x0a000001, 0xfd, 1);
	is_there[2] = false;
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
		 struct sockaddr_storage *src_out, const struct netdev **dev, uint8_t *hop_limit)
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
	if (hop_limit)
		*hop_limit = FAKE_HOP_LIMIT;
	memcpy(gid, (*dev)->gids[dst->sa_family == AF_INET ? 0 : 1].raw, 16);
	if (src_hint && src_hint->sa_family == dst->sa_family && netdev_by_addr(src_hint))
		gid_from_sockaddr(gid, src_hint);
	gid_to_sockaddr(gid, src_out);
	return 0;
}

bool neigh_hop_to(const struct sockaddr *dst, const struct sockaddr *src, struct neigh_hop *hop)
{
	(void)src;
	hop->ifindex = FAKE_ETH;
	return !netdev_by_addr(dst) && is_on_eth(dst) && gid_from_sockaddr(hop->gid, dst) &&
	       !gid_is_multicast(hop->gid);
}

enum neigh_state neigh_state(const struct neigh_hop *hop)
{
	neigh.hop = *hop;
	return neigh.state;
}

int neigh_solicit(const struct sockaddr *dst, const struct sockaddr *src)
{
	(void)dst;
	(void)src;
	neigh.solicited++;
	return 0;
}

int neigh_watch_start(uv_loop_t *loop,
		      void (*on_change)(void *ctx, const struct neigh_hop *hop,
					enum neigh_state state),
		      void *ctx)
{
	(void)loop;
	neigh.on_change = on_change;
	neigh.ctx = ctx;
	return 0;
}

void neigh_watch_stop(void)
{
	neigh.on_change = NULL;
}

void neigh_close(void)
{
}

void fake_neigh_set(enum neigh_state state)
{
	neigh.state = state;
	if (neigh.on_change)
		neigh.on_change(neigh.ctx, &neigh.hop, state);
}

unsigned fake_neigh_solicited(void)
{
	return neigh.solicited;
}

bool fake_neigh_is_watched(void)
{
	return neigh.on_change;
}
