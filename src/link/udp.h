/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_H
#define USRDMA_LINK_UDP_H

#include "link/link.h"

/*
 * RoCEv2 over plain UDP sockets, without privilege. Datagrams come in on `rx_fd`, a socket bound to port 4791 that somebody
 * lent (daemon/roce_port.c) and that this link owns from here on; they go out on sockets of the link's own, one for each
 * process that is spoken to, so that no two processes' packets share a flow that a kernel or a NIC may merge. NULL with
 * errno on failure; rx_fd is then still the caller's.
 */
struct link *udp_link_open(int rx_fd);

#endif
