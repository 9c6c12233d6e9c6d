/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_H
#define USRDMA_DAEMON_NETDEV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "ipc/msg.h"

/*
 * The RDMA transport of a device: how its port and GIDs are reported, and its largest packet. The
 * connection manager whose cm_ops.transport_type is equal connects its QPs.
 */
struct netdev_transport {
	uint8_t node_type;	/* enum ibv_node_type */
	uint8_t transport_type; /* enum ibv_transport_type */
	uint8_t link_layer;	/* IBV_LINK_LAYER_* */
	uint8_t gid_type;	/* enum ibv_gid_type */
	uint16_t pkey;		/* the only P_Key of the port */
	uint32_t header_bytes;	/* maximum length of headers and trailer of a packet */
};

extern const struct netdev_transport netdev_roce_v2;

/*
 * The network interfaces of this namespace as RDMA devices, updated by netlink notifications. The
 * table owns each struct netdev; a pointer is valid until the loop runs again. Only the loop's
 * thread uses the table.
 */
struct netdev {
	uint32_t dev_id; /* ifindex */
	const struct netdev_transport *transport;
	uint64_t node_guid;
	uint32_t mtu_bytes;
	/* of packets, if smaller than mtu_bytes; 0: no limit (ADR 0073) */
	uint32_t mtu_limit_bytes;
	uint32_t speed_mbps;
	bool is_up;
	bool is_loopback;
	bool has_no_neighbours; /* NOARP, point-to-point or loopback */
	uint32_t gid_count;
	char name[IPC_IFNAME_BYTES];
	struct ipc_gid gids[IPC_GIDS_MAX];
};

/*
 * Reads the interfaces that are up and have an address, and watches interfaces for changes. After
 * the table was updated, on_change is called once for each enum ipc_device_what of each changed
 * device.
 */
int netdev_open(uv_loop_t *loop, void (*on_change)(void *ctx, uint32_t dev_id, uint32_t what),
		void *ctx) __attribute__((warn_unused_result));

/* Closes the table. The libuv handles close in the loop's next iteration. */
void netdev_close(void);

/*
 * Returns the first device at or after a position of the device list; NULL after the last. Devices
 * that can reach other hosts come first, lo comes last. Positions start at 0; *next is the position
 * after the returned device.
 */
const struct netdev *netdev_from_cursor(uint32_t cursor, uint32_t *next);

/*
 * Calls fn for each device, in no particular order: unlike the device list, this asks the kernel
 * nothing.
 */
void netdev_each(void (*fn)(void *ctx, const struct netdev *dev), void *ctx);

/* The following functions return NULL if no device matches. */
const struct netdev *netdev_by_id(uint32_t dev_id);

/*
 * The device with this unicast address. The port is ignored; sin6_scope_id is compared for
 * link-local addresses.
 */
const struct netdev *netdev_by_addr(const struct sockaddr *addr);

/* The device with this GID, and the GID's index in the device's table. index may be NULL. */
const struct netdev *netdev_by_gid(const uint8_t gid[16], uint32_t *index);

/*
 * The same, but the device dev_id precedes: several interfaces may have the same link-local
 * address.
 */
const struct netdev *netdev_by_gid_at(const uint8_t gid[16], uint32_t dev_id, uint32_t *index);

const struct netdev *netdev_loopback(void);

/* The largest path MTU (enum ibv_mtu) whose packets the interface can send. */
uint8_t netdev_path_mtu(const struct netdev *dev);

/*
 * Queries the kernel's route to dst. src_hint is the required source address, unless it is NULL,
 * AF_UNSPEC or a wildcard. On success src_out is the source address (port 0) and *dev is the device
 * with this address. If dst is an address of this host, *dev is the device with dst, or lo. If dst
 * is a multicast group, *dev is the device with src_hint. *hop_limit, if not NULL: that of packets
 * on this route. -ENETUNREACH, -EHOSTUNREACH, -EADDRNOTAVAIL, -EAFNOSUPPORT, -ENODEV.
 */
int netdev_route(const struct sockaddr *dst, const struct sockaddr *src_hint,
		 struct sockaddr_storage *src_out, const struct netdev **dev, uint8_t *hop_limit)
	__attribute__((warn_unused_result));

#endif
