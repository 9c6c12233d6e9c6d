/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_ERROR_H
#define USRDMA_LINK_UDP_ERROR_H

#include "link/link.h"

/* As much as is kept of a datagram that came back: what a MAD's packet has, IPv6 or not. */
#define UDP_ERROR_BYTES 512

/*
 * What the network says of datagrams that it could not deliver (ICMP: RFC 792, RFC 4443 §3.1), as the kernel keeps it
 * for the sockets that sent them. Part of a UDP link; unused until udp_errors_open().
 */
struct udp_errors {
	int epoll_fd; /* readable when rx_fd is or an error waits; -1: nobody asked */
	int rx_fd;
	uint8_t bytes[UDP_ERROR_BYTES];
};

void udp_errors_init(struct udp_errors *errors);
int udp_errors_open(struct udp_errors *errors, int rx_fd) __attribute__((warn_unused_result));
void udp_errors_close(struct udp_errors *errors);

/* A socket that datagrams will leave from; it is forgotten when it is closed. */
int udp_errors_watch(struct udp_errors *errors, int fd, bool is_ipv4)
	__attribute__((warn_unused_result));

/* The next of them; false: none now. */
bool udp_errors_read(struct udp_errors *errors, struct link_error *error);

/* Whether a failure to send may be an earlier datagram's, which such a socket is told once. */
bool udp_errors_may_be_old(const struct udp_errors *errors, int error);

#endif
