/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev_gids.h"

#include <string.h>

#define ALWAYS_VALID   0u
#define FIRST_FREE     1u
#define REPEATED_INDEX 3u

#define EUI64_LOCAL \
	0x0200000000000000ull /* in a GUID: locally administered, once the bit is inverted */

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

void gid_from_ipv4(uint8_t gid[16], const uint8_t addr[4])
{
	memcpy(gid, mapped_prefix, sizeof(mapped_prefix));
	memcpy(gid + sizeof(mapped_prefix), addr, 4);
}

static bool is_ipv4(const uint8_t gid[16])
{
	return memcmp(gid, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static bool has_addr(const uint8_t (*addrs)[16], size_t count, const uint8_t gid[16])
{
	for (size_t i = 0; i < count; i++) {
		if (memcmp(addrs[i], gid, 16) == 0)
			return true;
	}
	return false;
}

static void gid_set(struct netdev *dev, uint32_t index, const uint8_t gid[16])
{
	memcpy(dev->gids[index].raw, gid, 16);
	dev->gids[index].is_valid = 1;
	dev->gids[index].ifindex = dev->dev_id;
	if (index >= dev->gid_count)
		dev->gid_count = index + 1;
}

static void gid_default(const struct netdev *dev, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	for (int i = 0; i < 8; i++)
		gid[8 + i] = (uint8_t)(dev->node_guid >> (56 - 8 * i));
}

/*
 * Index 0 keeps its GID while that is an address of the interface. Otherwise it gets the first
 * link-local address, or the default GID if the interface has no link-local address.
 */
static void update_first(struct netdev *dev, const uint8_t (*addrs)[16], size_t count)
{
	uint8_t gid[16];

	if (dev->gids[ALWAYS_VALID].is_valid && has_addr(addrs, count, dev->gids[ALWAYS_VALID].raw))
		return;
	gid_default(dev, gid);
	for (size_t i = 0; i < count; i++) {
		if (is_link_local(addrs[i])) {
			memcpy(gid, addrs[i], sizeof(gid));
			break;
		}
	}
	gid_set(dev, ALWAYS_VALID, gid);
}

static void drop_dead(struct netdev *dev, const uint8_t (*addrs)[16], size_t count)
{
	uint32_t end = FIRST_FREE;

	for (uint32_t i = FIRST_FREE; i < dev->gid_count; i++) {
		if (!dev->gids[i].is_valid)
			continue;
		if (has_addr(addrs, count, dev->gids[i].raw))
			end = i + 1;
		else
			memset(&dev->gids[i], 0, sizeof(dev->gids[i]));
	}
	dev->gid_count = end;
}

static bool is_listed(const struct netdev *dev, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < dev->gid_count; i++) {
		if (dev->gids[i].is_valid && memcmp(dev->gids[i].raw, gid, 16) == 0)
			return true;
	}
	return false;
}

static void add_new(struct netdev *dev, const uint8_t (*addrs)[16], size_t count, bool wants_ipv4)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t index = FIRST_FREE;

		if (is_ipv4(addrs[i]) != wants_ipv4 || is_listed(dev, addrs[i]))
			continue;
		while (index < IPC_GIDS_MAX && dev->gids[index].is_valid)
			index++;
		if (index < IPC_GIDS_MAX)
			gid_set(dev, index, addrs[i]);
	}
}

static void repeat_ipv4(struct netdev *dev)
{
	if (dev->gid_count > REPEATED_INDEX)
		return;
	for (uint32_t i = FIRST_FREE; i < dev->gid_count; i++) {
		if (dev->gids[i].is_valid && is_ipv4(dev->gids[i].raw)) {
			gid_set(dev, REPEATED_INDEX, dev->gids[i].raw);
			return;
		}
	}
}

bool netdev_gids_update(struct netdev *dev, const uint8_t (*addrs)[16], size_t count)
{
	struct ipc_gid before[IPC_GIDS_MAX];
	uint32_t count_before = dev->gid_count;

	memcpy(before, dev->gids, sizeof(before));
	update_first(dev, addrs, count);
	drop_dead(dev, addrs, count);
	add_new(dev, addrs, count, true);
	add_new(dev, addrs, count, false);
	repeat_ipv4(dev);
	return count_before != dev->gid_count || memcmp(before, dev->gids, sizeof(before)) != 0;
}

uint64_t netdev_guid_from_mac(const uint8_t *mac, size_t len)
{
	static const uint8_t zero[6];
	uint64_t guid;

	if (len != sizeof(zero) || memcmp(mac, zero, sizeof(zero)) == 0)
		return 0;
	/* RFC 4291 App. A: the 16 bits ff:fe in the middle, the universal/local bit inverted. */
	guid = (uint64_t)mac[0] << 56 | (uint64_t)mac[1] << 48 | (uint64_t)mac[2] << 40 |
	       0xfffeull << 24 | (uint64_t)mac[3] << 16 | (uint64_t)mac[4] << 8 | mac[5];
	return guid ^ EUI64_LOCAL;
}

/* FNV-1a, 64 bits. */
uint64_t netdev_guid_from_name(uint64_t seed, const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ seed;

	for (; *name; name++) {
		hash ^= (uint8_t)*name;
		hash *= 0x100000001b3ull;
	}
	/*
	 * With the group and universal bits clear, the GUID differs from all GUIDs of vendors. 0 is
	 * not a valid GUID.
	 */
	hash &= ~0x0300000000000000ull;
	return hash ? hash : 1;
}

bool netdev_gids_find(const struct netdev *dev, const uint8_t gid[16], uint32_t *index)
{
	for (uint32_t i = 0; i < dev->gid_count; i++) {
		if (!dev->gids[i].is_valid || memcmp(dev->gids[i].raw, gid, 16) != 0)
			continue;
		if (index)
			*index = i;
		return true;
	}
	return false;
}

const struct netdev *netdev_by_gid_at(const uint8_t gid[16], uint32_t dev_id, uint32_t *index)
{
	const struct netdev *dev = netdev_by_id(dev_id);

	return dev && netdev_gids_find(dev, gid, index) ? dev : netdev_by_gid(gid, index);
}
