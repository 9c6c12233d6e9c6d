/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_H
#define USRDMA_LINK_UDP_H

#include "link/link.h"
#include "link/udp_ring.h"

/*
 * RoCEv2 over UDP sockets, without privileges. The link receives from rx_fd, a socket bound to port
 * 4791 that the daemon delegated (daemon/roce_port.c), and owns it. It sends from sockets of its
 * own, one for each peer process: packets of two processes must not share a flow, since a kernel or
 * a NIC may merge packets of one flow. NULL with errno on failure; the caller then still owns
 * rx_fd.
 */
struct link *udp_link_open(int rx_fd);

/*
 * The same with a ring that a daemon of another user fills (udp_ring.h) in place of a socket. The
 * daemon's socket has a receive buffer of rx_bytes. The link owns the ring's descriptors. It cannot
 * join multicast groups (-EREMOTE): the daemon's socket must join.
 */
struct link *udp_link_open_ring(const int fds[UDP_RING_FDS], uint32_t rx_bytes);

#endif
