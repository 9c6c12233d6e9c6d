/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NETDEV_QUERY_H
#define USRDMA_DAEMON_NETDEV_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "ipc/msg.h"

struct mnl_socket;
struct nlmsghdr;

/* The kernel's maximum length of a hardware address. */
#define NETDEV_MAC_BYTES 32

/* One interface as reported by rtnetlink. */
struct link_info {
	uint32_t ifindex;
	uint32_t mtu_bytes;
	uint32_t flags; /* IFF_* */
	bool is_dummy;
	bool is_bond;
	size_t mac_len;
	uint8_t mac[NETDEV_MAC_BYTES]; /* mac_len bytes, zero-padded */
	char name[IPC_IFNAME_BYTES];
};

/* One usable unicast address, as a GID. */
struct addr_info {
	uint32_t ifindex;
	uint8_t gid[16];
};

/* All interfaces and addresses at one time. Owned by the caller, freed by snapshot_free(). */
struct snapshot {
	struct link_info *links;
	size_t link_count, link_room;
	struct addr_info *addrs;
	size_t addr_count, addr_room;
};

/* Netlink queries. Each blocks until the kernel has replied. 0 or -errno. */
int netdev_query_open(struct mnl_socket **sock) __attribute__((warn_unused_result));
int netdev_query_all(struct mnl_socket *sock, struct snapshot *snapshot)
	__attribute__((warn_unused_result));
void snapshot_free(struct snapshot *snapshot);

/* Sends one request and calls on_message for each message of the reply. 0 or -errno. */
int netdev_query_send(struct mnl_socket *sock, struct nlmsghdr *request,
		      int (*on_message)(const struct nlmsghdr *nlh, void *ctx), void *ctx)
	__attribute__((warn_unused_result));

/* The device table's socket for queries; valid while the table is open. */
struct mnl_socket *netdev_query_socket(void);

/* The kernel's route to an address. */
struct route_info {
	bool is_local;	  /* the destination is an address of this host */
	uint32_t ifindex; /* output interface; lo for a local destination */
	bool has_src;
	uint8_t src[16];     /* 4 or 16 bytes, depending on the requested family */
	int gateway_family;  /* AF_INET or AF_INET6; 0: the destination is on the link */
	uint8_t gateway[16]; /* 4 or 16 bytes */
};

/* src may be NULL. ifindex 0: any interface. Returns the kernel's error, such as -ENETUNREACH. */
int netdev_query_route(struct mnl_socket *sock, int family, const void *dst, const void *src,
		       uint32_t ifindex, struct route_info *route)
	__attribute__((warn_unused_result));

/* The link speed in Mb/s; 0 if the interface does not report one. */
uint32_t netdev_query_speed(const char *name);

#endif
