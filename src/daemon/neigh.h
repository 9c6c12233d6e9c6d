/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_NEIGH_H
#define USRDMA_DAEMON_NEIGH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "wire/gid.h"

/*
 * Queries of the kernel's neighbour table (ARP, RFC 826, and IPv6 neighbour discovery, RFC 4861)
 * for address resolution. One thread: the loop's.
 */
enum neigh_state {
	NEIGH_UNKNOWN, /* no entry, or the kernel is resolving it */
	NEIGH_VALID,  /* packets can be sent; includes stale entries that the kernel will confirm */
	NEIGH_FAILED, /* the kernel's solicitations were not answered */
};

/* The next hop of a route: the destination itself or a gateway. */
struct neigh_hop {
	uint32_t ifindex;
	uint8_t gid[GID_BYTES];
};

/*
 * Finds the next hop. True: packets from src to dst need the link-layer address of *hop. False: no
 * link-layer address is needed or the route cannot be read. None is needed if dst is an address of
 * this host or a multicast group, or if the interface has no neighbours (loopback, NOARP,
 * point-to-point).
 */
bool neigh_hop_to(const struct sockaddr *dst, const struct sockaddr *src, struct neigh_hop *hop);

/*
 * The state of the kernel's entry. NEIGH_VALID also if the kernel cannot return a single entry
 * (before Linux 5.0).
 */
enum neigh_state neigh_state(const struct neigh_hop *hop);

/*
 * Makes the kernel resolve the next hop to dst, which needs no privilege: an empty datagram to the
 * discard port (RFC 863) with a hop limit of 1, so that no host but the next hop sees it. src
 * selects the route. If the kernel has not assigned it, as a GID of the link-local prefix or before
 * duplicate address detection has ended, another source is used. -errno: the kernel refuses to send
 * there.
 */
int neigh_solicit(const struct sockaddr *dst, const struct sockaddr *src)
	__attribute__((warn_unused_result));

/*
 * Calls on_change for each entry that becomes valid or fails, until neigh_watch_stop(). After
 * notifications were lost, on_change is called with hop NULL. A stopped watch receives no
 * notifications and causes no work.
 */
int neigh_watch_start(uv_loop_t *loop,
		      void (*on_change)(void *ctx, const struct neigh_hop *hop,
					enum neigh_state state),
		      void *ctx) __attribute__((warn_unused_result));
void neigh_watch_stop(void);

/* Closes the netlink socket of the watch; its libuv handle closes in the loop's next iteration. */
void neigh_close(void);

#endif
