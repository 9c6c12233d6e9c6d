/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_GID_H
#define USRDMA_WIRE_GID_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define GID_BYTES 16

/*
 * A RoCEv2 GID is an IPv6 address; an IPv4 address is represented as ::ffff:a.b.c.d (IBA A17
 * §17.4.5.2). These functions convert between GIDs and addresses and ignore ports.
 */
static inline bool gid_is_ipv4(const uint8_t gid[GID_BYTES])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

static inline bool gid_is_zero(const uint8_t gid[GID_BYTES])
{
	static const uint8_t zero[GID_BYTES];

	return memcmp(gid, zero, GID_BYTES) == 0;
}

/* fe80::/10: valid only together with an interface. */
static inline bool gid_is_link_local(const uint8_t gid[GID_BYTES])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* 127.0.0.0/8 and ::1 (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3). */
static inline bool gid_is_loopback(const uint8_t gid[GID_BYTES])
{
	static const uint8_t loopback6[GID_BYTES] = {[GID_BYTES - 1] = 1};

	return (gid_is_ipv4(gid) && gid[12] == IN_LOOPBACKNET) ||
	       memcmp(gid, loopback6, GID_BYTES) == 0;
}

/* IPv6 ff00::/8 or IPv4 224.0.0.0/4 (RFC 4291 §2.7, RFC 1112 §4). */
static inline bool gid_is_multicast(const uint8_t gid[GID_BYTES])
{
	return gid[0] == 0xff || (gid_is_ipv4(gid) && (gid[12] & 0xf0) == 0xe0);
}

static inline void gid_from_ipv4(uint8_t gid[GID_BYTES], const struct in_addr *addr)
{
	memset(gid, 0, 10);
	gid[10] = 0xff;
	gid[11] = 0xff;
	memcpy(gid + 12, &addr->s_addr, 4);
}

static inline struct in_addr gid_to_ipv4(const uint8_t gid[GID_BYTES])
{
	struct in_addr addr;

	memcpy(&addr.s_addr, gid + 12, 4);
	return addr;
}

/* Returns false and the zero GID unless the address is IPv4 or IPv6. */
static inline bool gid_from_sockaddr(uint8_t gid[GID_BYTES], const struct sockaddr *addr)
{
	memset(gid, 0, GID_BYTES);
	switch (addr->sa_family) {
	case AF_INET:
		gid_from_ipv4(gid, &((const struct sockaddr_in *)(const void *)addr)->sin_addr);
		return true;
	case AF_INET6:
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr,
		       GID_BYTES);
		return true;
	default:
		return false;
	}
}

/* Sets port and scope ID to 0. */
static inline void gid_to_sockaddr(const uint8_t gid[GID_BYTES], struct sockaddr_storage *addr)
{
	memset(addr, 0, sizeof(*addr));
	if (gid_is_ipv4(gid)) {
		struct sockaddr_in *sin = (struct sockaddr_in *)addr;

		sin->sin_family = AF_INET;
		memcpy(&sin->sin_addr.s_addr, gid + 12, 4);
	} else {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;

		sin6->sin6_family = AF_INET6;
		memcpy(&sin6->sin6_addr, gid, GID_BYTES);
	}
}

#endif
