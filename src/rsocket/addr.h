/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_ADDR_H
#define USRDMA_RSOCKET_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>

/* Addresses of AF_INET and AF_INET6, where IPv4 also has a place within IPv6 (RFC 4291 §2.5.5.2). */

/* Bytes of a family's address, or 0. */
socklen_t addr_bytes(int family);

/*
 * Copies an address that a caller gave to an rsocket of this domain. IPv4 within IPv6 becomes plain
 * IPv4, which is what devices know. -EINVAL: too short, or none; -EAFNOSUPPORT: of another family.
 */
int addr_take(struct sockaddr_storage *to, const struct sockaddr *addr, socklen_t bytes, int domain)
	__attribute__((warn_unused_result));

/* The other way round: IPv4, for an rsocket of AF_INET6. */
void addr_show(struct sockaddr_storage *addr, int domain);

/* As much of it as the caller has room for; *bytes becomes what it would have needed. */
void addr_give(const struct sockaddr_storage *addr, struct sockaddr *to, socklen_t *bytes);

bool addr_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
