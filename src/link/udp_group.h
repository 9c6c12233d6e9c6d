/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_GROUP_H
#define USRDMA_LINK_UDP_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/gid.h"

/*
 * The multicast groups of a receiving socket. The kernel limits the memberships of one socket
 * (IPv4: 20 by default). Further memberships are held by extra sockets, and the receiving socket
 * then receives all groups that the host has joined. Owned by the link; closing the sockets ends
 * the memberships.
 */
struct udp_groups {
	int fd;			 /* the receiving socket, borrowed */
	struct list_head extras; /* struct extra_socket */
};

void udp_groups_init(struct udp_groups *groups, int fd);
void udp_groups_fini(struct udp_groups *groups);
/* In the child of a fork(): closes the extra sockets and changes nothing else. */
void udp_groups_disown(struct udp_groups *groups);

/* 0 or -errno: -EADDRINUSE for a group that was joined before, -ENODEV without the interface. */
int udp_groups_join(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
	__attribute__((warn_unused_result));
/* 0, or -EADDRNOTAVAIL: not joined. */
int udp_groups_leave(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES]);

/* Memberships of the socket itself. 0 or -errno; -EADDRNOTAVAIL: not a member. */
int udp_group_join(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES])
	__attribute__((warn_unused_result));
int udp_group_leave(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES]);

/*
 * Whether a socket receives all groups that the host has joined (the kernel's default), or only its
 * own.
 */
int udp_group_receive_all(int fd, bool receives_all);

#endif
