/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_ADDR_H
#define USRDMA_RSOCKET_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>

/* Addresses of AF_INET and AF_INET6, including IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2). */

/* Length of an address of the family in bytes; 0: unsupported family. */
socklen_t addr_bytes(int family);

/*
 * Copies an address that the application passed to an rsocket of this domain. An IPv4-mapped IPv6
 * address becomes an IPv4 address, which devices support. -EINVAL: NULL or too short;
 * -EAFNOSUPPORT: another family.
 */
int addr_take(struct sockaddr_storage *to, const struct sockaddr *addr, socklen_t bytes, int domain)
	__attribute__((warn_unused_result));

/* The inverse for an rsocket of AF_INET6: an IPv4 address becomes IPv4-mapped. */
void addr_show(struct sockaddr_storage *addr, int domain);

/*
 * Copies at most *bytes bytes to the application's buffer. *bytes is set to the full length of the
 * address.
 */
void addr_give(const struct sockaddr_storage *addr, struct sockaddr *to, socklen_t *bytes);

bool addr_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
