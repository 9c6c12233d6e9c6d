/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_GROUP_H
#define USRDMA_LINK_UDP_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/gid.h"

/*
 * The multicast groups of a receiving socket. The kernel keeps memberships with sockets, and only some for each (20 of
 * IPv4, as a rule): beyond that, sockets of our own that nothing is sent to hold them, and the receiving one is told to
 * take whatever group the machine is in. Owned by the link; what nobody leaves ends with the sockets.
 */
struct udp_groups {
	int fd;			 /* the receiving socket, not ours */
	struct list_head extras; /* struct extra_socket */
};

void udp_groups_init(struct udp_groups *groups, int fd);
void udp_groups_fini(struct udp_groups *groups);

/* 0 or -errno: -EADDRINUSE for a group that was joined before, -ENODEV without the interface. */
int udp_groups_join(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
	__attribute__((warn_unused_result));
void udp_groups_leave(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES]);

/* Memberships of the socket itself. 0 or -errno; -EADDRNOTAVAIL: it is no member. */
int udp_group_join(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES])
	__attribute__((warn_unused_result));
int udp_group_leave(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES]);

/* Whether a socket hears the groups of the whole machine, which is how sockets are made, or only those that it joined. */
int udp_group_hear_all(int fd, bool hears_all);

#endif
