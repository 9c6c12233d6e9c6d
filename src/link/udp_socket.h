/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_SOCKET_H
#define USRDMA_LINK_UDP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/gid.h"

/*
 * UDP sockets for both address families, with IPv4-mapped addresses; for IPv4 only, where the
 * kernel has no IPv6. The family is read from the socket, so a descriptor can be passed to another
 * process without further data.
 */

/* Opens a socket, close-on-exec and non-blocking. The descriptor, or -errno. */
int udp_socket_open(void) __attribute__((warn_unused_result));

bool udp_socket_is_ipv4(int fd);

/* Binds to a port on all addresses. 0 or -errno. */
int udp_socket_bind(int fd, uint16_t port) __attribute__((warn_unused_result));

/* Whether the kernel has this IPv6 address on the interface, and it is not tentative. */
bool udp_socket_has_address(const uint8_t gid[GID_BYTES], uint32_t ifindex);

/* Sets the options of a sending socket. 0 or -errno. */
int udp_socket_prepare_tx(int fd) __attribute__((warn_unused_result));

/*
 * Sets the options of a receiving socket: packet information, traffic class, UDP_GRO, and only its
 * own multicast groups. 0 or -errno.
 */
int udp_socket_prepare_rx(int fd) __attribute__((warn_unused_result));

/*
 * Closes a delegated receive socket of a daemon that exited. The kernel would otherwise distribute
 * packets of port 4791 to it instead of the next daemon's sockets (ADR 0010). The link still holds
 * the descriptor number, so an unused socket replaces it.
 */
void udp_socket_replace(int fd);

/* The size of the receive buffer; 0: unknown. */
uint32_t udp_socket_rx_bytes(int fd);

#endif
