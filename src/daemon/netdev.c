/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "daemon/netdev_gids.h"
#include "daemon/netdev_probe.h"
#include "daemon/netdev_query.h"

/*
 * The order number of a device: rank in the upper bits, interface index in the lower ORDER_SHIFT
 * bits.
 */
#define ORDER_SHIFT   28
#define MONITOR_BYTES 32768
#define MACHINE_ID    "/etc/machine-id"

enum netdev_rank {
	RANK_DEFAULT_ROUTE, /* the interface of the default route */
	RANK_RUNNING,
	RANK_OTHER, /* no carrier, or a dummy interface */
	RANK_LOOPBACK,
};

/*
 * One device. Owned by the table. Created when its interface is up and has an address; freed when
 * the interface is removed.
 */
struct entry {
	struct list_head node;
	uint32_t order;
	bool is_dummy;
	uint8_t mac[NETDEV_MAC_BYTES];
	bool is_seen;	  /* found by the current refresh */
	uint32_t changes; /* changes to report, one bit for each enum ipc_device_what */
	struct netdev dev;
};

/* The device table of this process's network namespace. Used by the event loop's thread only. */
static struct {
	struct list_head entries; /* by order */
	struct mnl_socket *monitor;
	struct mnl_socket *query;
	uv_poll_t poll;
	uint64_t guid_seed;
	void (*on_change)(void *ctx, uint32_t dev_id, uint32_t what);
	void *ctx;
} table;

static struct entry *netdev_entry_find(uint32_t dev_id)
{
	struct entry *entry;

	list_for_each_entry(entry, &table.entries, node) {
		if (entry->dev.dev_id == dev_id)
			return entry;
	}
	return NULL;
}

static void entry_insert(struct entry *entry)
{
	struct entry *other;

	list_for_each_entry(other, &table.entries, node) {
		if (other->order > entry->order)
			break;
	}
	list_add_tail(&entry->node, &other->node);
}

static bool guid_is_taken(uint64_t guid)
{
	struct entry *entry;

	list_for_each_entry(entry, &table.entries, node) {
		if (entry->dev.node_guid == guid)
			return true;
	}
	return false;
}

/*
 * The GUID is derived from the hardware address. VLANs have the address of their parent: if another
 * device already has the GUID, it is derived from the name.
 */
static uint64_t guid_choose(const struct link_info *link)
{
	uint64_t guid = netdev_guid_from_mac(link->mac, link->mac_len);
	uint64_t seed = table.guid_seed;

	if (!guid)
		guid = netdev_guid_from_name(seed, link->name);
	while (guid_is_taken(guid))
		guid = netdev_guid_from_name(seed++, link->name);
	return guid;
}

/*
 * The interface of the default route, or 0. The addresses are documentation addresses: RFC 5737,
 * RFC 3849.
 */
static uint32_t default_ifindex(void)
{
	static const uint8_t ipv4[4] = {192, 0, 2, 1};
	static const uint8_t ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
	struct route_info route;

	if (netdev_query_route(table.query, AF_INET, ipv4, NULL, 0, &route) == 0)
		return route.ifindex;
	if (netdev_query_route(table.query, AF_INET6, ipv6, NULL, 0, &route) == 0)
		return route.ifindex;
	return 0;
}

static uint32_t order_of(const struct entry *entry, uint32_t default_route)
{
	const struct netdev *dev = &entry->dev;
	uint32_t rank = RANK_RUNNING;

	if (dev->is_loopback)
		rank = RANK_LOOPBACK;
	else if (dev->dev_id == default_route)
		rank = RANK_DEFAULT_ROUTE;
	else if (!dev->is_up || entry->is_dummy)
		rank = RANK_OTHER;
	return rank << ORDER_SHIFT | (dev->dev_id & ((1u << ORDER_SHIFT) - 1));
}

/*
 * Sorts the table again. The monitor does not report route changes, so this is also called when a
 * client starts to enumerate the devices.
 */
static void reorder(void)
{
	uint32_t default_route = default_ifindex();
	struct list_head unsorted;
	struct entry *entry, *next;

	list_init(&unsorted);
	list_splice_tail(&table.entries, &unsorted);
	list_for_each_entry_safe(entry, next, &unsorted, node) {
		entry->order = order_of(entry, default_route);
		list_del(&entry->node);
		entry_insert(entry);
	}
}

/*
 * The lowest speed of a port. UCX sends over all devices of similar speed, and assumes that each
 * device reaches each RoCE GID of the peer. `lo` does not reach the loopback addresses of another
 * host.
 */
#define LOOPBACK_MBPS 2500

static uint32_t speed_of(const struct link_info *link)
{
	return link->flags & IFF_LOOPBACK ? LOOPBACK_MBPS : netdev_query_speed(link->name);
}

static struct entry *entry_new(const struct link_info *link)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->dev.dev_id = link->ifindex;
	entry->dev.transport = &netdev_roce_v2;
	entry->dev.node_guid = guid_choose(link);
	entry->dev.mtu_bytes = link->mtu_bytes;
	entry->dev.is_loopback = link->flags & IFF_LOOPBACK;
	entry->dev.speed_mbps = speed_of(link);
	entry->is_dummy = link->is_dummy;
	entry->changes = 1u << IPC_DEVICE_ADDED;
	list_add_tail(&entry->node, &table.entries);
	return entry;
}

/* Stores the link's addresses as GIDs, at most IPC_GIDS_MAX. Returns how many. */
static size_t addrs_of(const struct snapshot *snapshot, uint32_t ifindex, uint8_t (*addrs)[16])
{
	size_t count = 0;

	for (size_t i = 0; i < snapshot->addr_count && count < IPC_GIDS_MAX; i++) {
		if (snapshot->addrs[i].ifindex == ifindex)
			memcpy(addrs[count++], snapshot->addrs[i].gid, 16);
	}
	return count;
}

static void entry_update(struct entry *entry, const struct link_info *link,
			 const uint8_t (*addrs)[16], size_t addr_count)
{
	struct netdev *dev = &entry->dev;
	const uint32_t no_neighbours = IFF_NOARP | IFF_POINTOPOINT | IFF_LOOPBACK;
	bool is_up = (link->flags & IFF_UP) && (link->flags & IFF_RUNNING);

	entry->is_seen = true;
	dev->has_no_neighbours = link->flags & no_neighbours;
	memcpy(dev->name, link->name, sizeof(dev->name));
	if (dev->is_up != is_up) {
		entry->changes |= 1u << (is_up ? IPC_DEVICE_PORT_ACTIVE : IPC_DEVICE_PORT_DOWN);
		dev->is_up = is_up;
		dev->speed_mbps = speed_of(link);
	}
	if (dev->mtu_bytes != link->mtu_bytes) {
		entry->changes |= 1u << IPC_DEVICE_MTU_CHANGE;
		dev->mtu_bytes = link->mtu_bytes;
	}
	/*
	 * As in Linux, a new hardware address is a change of the GIDs, and only that of a bond a
	 * failover for the rdma_cm.
	 */
	if (memcmp(entry->mac, link->mac, sizeof(entry->mac)) != 0) {
		entry->changes |= 1u << IPC_DEVICE_GID_CHANGE;
		if (link->is_bond)
			entry->changes |= 1u << IPC_DEVICE_FAILOVER;
		memcpy(entry->mac, link->mac, sizeof(entry->mac));
	}
	if (netdev_gids_update(dev, addrs, addr_count))
		entry->changes |= 1u << IPC_DEVICE_GID_CHANGE;
}

static void apply(const struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->link_count; i++) {
		const struct link_info *link = &snapshot->links[i];
		uint8_t addrs[IPC_GIDS_MAX][16];
		size_t count = addrs_of(snapshot, link->ifindex, addrs);
		struct entry *entry = netdev_entry_find(link->ifindex);

		if (!entry && (link->flags & IFF_UP) && count > 0)
			entry = entry_new(link);
		if (entry)
			entry_update(entry, link, (const uint8_t(*)[16])addrs, count);
	}
}

/*
 * Reports the changes after the table was updated, and removes the entries that were not seen. For
 * a new device only IPC_DEVICE_ADDED is reported.
 */
static void netdev_notify(void)
{
	struct entry *entry, *next;

	list_for_each_entry_safe(entry, next, &table.entries, node) {
		uint32_t dev_id = entry->dev.dev_id, changes = entry->changes;

		if (changes & 1u << IPC_DEVICE_ADDED)
			changes = 1u << IPC_DEVICE_ADDED;
		entry->changes = 0;
		if (!entry->is_seen)
			changes = 1u << IPC_DEVICE_REMOVED;
		trace_port(&entry->dev, changes);
		if (!entry->is_seen) {
			list_del(&entry->node);
			free(entry);
		}
		for (uint32_t what = IPC_DEVICE_ADDED; what < IPC_DEVICE_WHAT_COUNT; what++) {
			if (changes & 1u << what)
				table.on_change(table.ctx, dev_id, what);
		}
	}
}

/*
 * UCX uses the device with the largest MTU for the first messages of a connection, and assumes that
 * each device reaches each peer. The loopback device must not be the one, because it reaches this
 * host only: it gets the smallest MTU of the others.
 */
static void limit_loopback(void)
{
	uint32_t smallest = 0;
	struct entry *entry;

	list_for_each_entry(entry, &table.entries, node) {
		if (entry->is_seen && !entry->dev.is_loopback &&
		    (!smallest || entry->dev.mtu_bytes < smallest))
			smallest = entry->dev.mtu_bytes;
	}
	list_for_each_entry(entry, &table.entries, node) {
		if (!entry->dev.is_loopback || entry->dev.mtu_limit_bytes == smallest)
			continue;
		entry->dev.mtu_limit_bytes = smallest;
		entry->changes |= 1u << IPC_DEVICE_MTU_CHANGE;
	}
}

static int netdev_refresh(void)
{
	struct snapshot snapshot;
	struct entry *entry;
	int error = netdev_query_all(table.query, &snapshot);

	if (error) {
		errno = -error;
		log_error("cannot read the network interfaces: %m");
		return error;
	}
	list_for_each_entry(entry, &table.entries, node)
		entry->is_seen = false;
	apply(&snapshot);
	snapshot_free(&snapshot);
	limit_loopback();
	reorder();
	netdev_notify();
	return 0;
}

/* Drains the notifications and then reads all interfaces and addresses once. */
static void on_monitor(uv_poll_t *poll, int status, int events)
{
	char buffer[MONITOR_BYTES];

	(void)poll;
	(void)status;
	(void)events;
	while (mnl_socket_recvfrom(table.monitor, buffer, sizeof(buffer)) > 0 || errno == ENOBUFS)
		;
	if (netdev_refresh())
		log_warn(
			"cannot read the network interfaces again; the device table may be out of date");
}

static int monitor_open(void)
{
	unsigned int groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
	int error;

	table.monitor = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!table.monitor)
		return -errno;
	if (mnl_socket_bind(table.monitor, groups, MNL_SOCKET_AUTOPID) < 0) {
		error = -errno;
		mnl_socket_close(table.monitor);
		return error;
	}
	return 0;
}

/*
 * Seed of the GUIDs of devices without hardware address: differs between machines and is constant
 * on one machine.
 */
static uint64_t machine_seed(void)
{
	char id[64] = "";
	int fd = open(MACHINE_ID, O_RDONLY | O_CLOEXEC);
	ssize_t len = 0;

	if (fd >= 0) {
		len = read(fd, id, sizeof(id) - 1);
		close(fd);
	}
	if (len <= 0 && gethostname(id, sizeof(id) - 1) < 0)
		id[0] = '\0';
	return netdev_guid_from_name(0, id);
}

int netdev_open(uv_loop_t *loop, void (*on_change)(void *ctx, uint32_t dev_id, uint32_t what),
		void *ctx)
{
	int error;

	list_init(&table.entries);
	table.on_change = on_change;
	table.ctx = ctx;
	table.guid_seed = machine_seed();
	error = netdev_query_open(&table.query);
	if (error)
		return error;
	error = monitor_open();
	if (error)
		goto err_monitor;
	error = uv_poll_init(loop, &table.poll, mnl_socket_get_fd(table.monitor));
	if (error)
		goto err_poll;
	error = netdev_refresh();
	if (!error)
		error = uv_poll_start(&table.poll, UV_READABLE, on_monitor);
	if (error)
		netdev_close();
	return error;

err_poll:
	mnl_socket_close(table.monitor);
err_monitor:
	mnl_socket_close(table.query);
	return error;
}

void netdev_close(void)
{
	struct entry *entry, *next;

	uv_close((uv_handle_t *)&table.poll, NULL);
	mnl_socket_close(table.monitor);
	mnl_socket_close(table.query);
	list_for_each_entry_safe(entry, next, &table.entries, node) {
		list_del(&entry->node);
		free(entry);
	}
}

const struct netdev *netdev_from_cursor(uint32_t cursor, uint32_t *next)
{
	struct entry *entry;

	if (cursor == 0)
		reorder();
	list_for_each_entry(entry, &table.entries, node) {
		if (entry->order >= cursor) {
			*next = entry->order + 1;
			return &entry->dev;
		}
	}
	return NULL;
}

void netdev_each(void (*fn)(void *ctx, const struct netdev *dev), void *ctx)
{
	const struct entry *entry;

	list_for_each_entry(entry, &table.entries, node)
		fn(ctx, &entry->dev);
}

const struct netdev *netdev_by_id(uint32_t dev_id)
{
	struct entry *entry = netdev_entry_find(dev_id);

	return entry ? &entry->dev : NULL;
}

const struct netdev *netdev_by_gid(const uint8_t gid[16], uint32_t *index)
{
	struct entry *entry;

	list_for_each_entry(entry, &table.entries, node) {
		if (netdev_gids_find(&entry->dev, gid, index))
			return &entry->dev;
	}
	return NULL;
}

const struct netdev *netdev_by_addr(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;
	uint8_t gid[16];

	if (addr->sa_family == AF_INET) {
		gid_from_ipv4(gid, (const uint8_t *)&in->sin_addr);
		return netdev_by_gid(gid, NULL);
	}
	if (addr->sa_family != AF_INET6)
		return NULL;
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) && in6->sin6_scope_id) {
		const struct netdev *dev = netdev_by_id(in6->sin6_scope_id);

		return dev && netdev_gids_find(dev, in6->sin6_addr.s6_addr, NULL) ? dev : NULL;
	}
	return netdev_by_gid(in6->sin6_addr.s6_addr, NULL);
}

const struct netdev *netdev_loopback(void)
{
	struct entry *entry;

	list_for_each_entry(entry, &table.entries, node) {
		if (entry->dev.is_loopback)
			return &entry->dev;
	}
	return NULL;
}

struct mnl_socket *netdev_query_socket(void)
{
	return table.query;
}
