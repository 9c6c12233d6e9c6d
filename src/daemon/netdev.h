/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_H
#define USRDMA_DAEMON_NETDEV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "ipc/msg.h"

/*
 * The network interfaces of this namespace as RDMA devices, kept current by netlink. A struct netdev is owned by the
 * table and is valid until the loop runs again. Only the loop's thread looks at it.
 */
struct netdev {
	uint32_t dev_id; /* ifindex */
	uint64_t node_guid;
	uint32_t mtu_bytes;
	uint32_t speed_mbps;
	bool is_up;
	bool is_loopback;
	uint32_t gid_count;
	char name[IPC_IFNAME_BYTES];
	struct ipc_gid gids[IPC_GIDS_MAX];
};

/*
 * Reads the interfaces that are up and have an address, and watches them from here on. on_change is called once for
 * each enum ipc_device_what that happened to a device, after the whole table has changed.
 */
int netdev_open(uv_loop_t *loop, void (*on_change)(void *ctx, uint32_t dev_id, uint32_t what),
		void *ctx) __attribute__((warn_unused_result));

/* Handles close in the loop's next turn. */
void netdev_close(void);

/*
 * The first device at or after a position in the order in which devices are listed: those that reach other hosts first,
 * lo last. Positions start at 0; *next is the one after this device.
 */
const struct netdev *netdev_from_cursor(uint32_t cursor, uint32_t *next);

/* Each answers NULL if there is none. */
const struct netdev *netdev_by_id(uint32_t dev_id);

/* Who owns this unicast address, port ignored; sin6_scope_id counts for link-local ones. */
const struct netdev *netdev_by_addr(const struct sockaddr *addr);

/* Who owns this GID, and at which index of its table. index may be NULL. */
const struct netdev *netdev_by_gid(const uint8_t gid[16], uint32_t *index);

const struct netdev *netdev_loopback(void);

/*
 * Asks the kernel how dst is reached, from src_hint unless that is NULL, AF_UNSPEC or a wildcard. On success src_out
 * holds the source address (port 0) and *dev the device that owns it; for one of our own addresses that is the device
 * which owns dst, or lo. A group is reached by whichever device owns src_hint. -ENETUNREACH, -EHOSTUNREACH,
 * -EADDRNOTAVAIL, -EAFNOSUPPORT, -ENODEV.
 */
int netdev_route(const struct sockaddr *dst, const struct sockaddr *src_hint,
		 struct sockaddr_storage *src_out, const struct netdev **dev)
	__attribute__((warn_unused_result));

#endif
