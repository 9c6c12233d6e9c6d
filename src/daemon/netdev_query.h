/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_QUERY_H
#define USRDMA_DAEMON_NETDEV_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "ipc/msg.h"

struct mnl_socket;

/* The longest hardware address that the kernel has. */
#define NETDEV_MAC_BYTES 32

/* One interface as rtnetlink tells it. */
struct link_info {
	uint32_t ifindex;
	uint32_t mtu_bytes;
	uint32_t flags; /* IFF_* */
	bool is_dummy;
	size_t mac_len;
	uint8_t mac[NETDEV_MAC_BYTES]; /* mac_len of them, the rest zero */
	char name[IPC_IFNAME_BYTES];
};

/* One usable unicast address, as a GID. */
struct addr_info {
	uint32_t ifindex;
	uint8_t gid[16];
};

/* All of them at one moment. Owned by the caller, emptied by snapshot_free. */
struct snapshot {
	struct link_info *links;
	size_t link_count, link_room;
	struct addr_info *addrs;
	size_t addr_count, addr_room;
};

/* Questions to the kernel; each blocks for the moment the kernel takes to answer. 0 or -errno. */
int netdev_query_open(struct mnl_socket **sock) __attribute__((warn_unused_result));
int netdev_query_all(struct mnl_socket *sock, struct snapshot *snapshot)
	__attribute__((warn_unused_result));
void snapshot_free(struct snapshot *snapshot);

/* The device table's own socket for questions, while it is open. */
struct mnl_socket *netdev_query_socket(void);

/* How the kernel would route to an address. */
struct route_info {
	bool is_local;	  /* one of our own addresses */
	uint32_t ifindex; /* out of which it goes; lo's for a local one */
	bool has_src;
	uint8_t src[16]; /* 4 or 16 bytes, by the family asked for */
};

/* src may be NULL. ifindex 0: any. -ENETUNREACH and the like as the kernel says. */
int netdev_query_route(struct mnl_socket *sock, int family, const void *dst, const void *src,
		       uint32_t ifindex, struct route_info *route)
	__attribute__((warn_unused_result));

/* In Mb/s; 0 if the interface does not say. */
uint32_t netdev_query_speed(const char *name);

#endif
