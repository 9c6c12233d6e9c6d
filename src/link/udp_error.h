/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_ERROR_H
#define USRDMA_LINK_UDP_ERROR_H

#include "link/link.h"

/* The part of a returned datagram that is kept: a packet with one MAD. */
#define UDP_ERROR_BYTES 512

/*
 * ICMP errors about sent datagrams (RFC 792, RFC 4443 §3.1), which the kernel queues at the sending
 * socket. Part of a UDP link; unused until udp_errors_open().
 */
struct udp_errors {
	/*
	 * readable when rx_fd is readable or an error is queued; -1: udp_errors_open() was not
	 * called
	 */
	int epoll_fd;
	int rx_fd;
	uint8_t bytes[UDP_ERROR_BYTES];
};

void udp_errors_init(struct udp_errors *errors);
int udp_errors_open(struct udp_errors *errors, int rx_fd) __attribute__((warn_unused_result));
void udp_errors_close(struct udp_errors *errors);

/* Adds a sending socket; closing the socket removes it. */
int udp_errors_watch(struct udp_errors *errors, int fd, bool is_ipv4)
	__attribute__((warn_unused_result));

/* Returns the next error; false: none now. */
bool udp_errors_read(struct udp_errors *errors, struct link_error *error);

/*
 * Whether a failed send() may report the error of an earlier datagram, which the kernel does once.
 */
bool udp_errors_may_be_old(const struct udp_errors *errors, int error);

#endif
