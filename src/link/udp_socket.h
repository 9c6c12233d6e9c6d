/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_SOCKET_H
#define USRDMA_LINK_UDP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * UDP sockets for both address families, IPv4 in its mapped form; where the kernel has no IPv6, for IPv4 alone. A socket
 * knows its family itself, so that one can be passed on as it is.
 */

/* Close-on-exec and never blocking. The descriptor, or -errno. */
int udp_socket_open(void) __attribute__((warn_unused_result));

bool udp_socket_is_ipv4(int fd);

/* To a port of all addresses. 0 or -errno. */
int udp_socket_bind(int fd, uint16_t port) __attribute__((warn_unused_result));

/* What a socket needs to send for a link. 0 or -errno. */
int udp_socket_prepare_tx(int fd) __attribute__((warn_unused_result));

/* What a socket needs to receive for a link: packet information, traffic class, merged trains, and no groups but its own.
 * 0 or -errno. */
int udp_socket_prepare_rx(int fd) __attribute__((warn_unused_result));

/* How much may wait there to be received; 0: nobody knows. */
uint32_t udp_socket_rx_bytes(int fd);

#endif
