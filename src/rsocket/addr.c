/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/addr.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

socklen_t addr_bytes(int family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

static void addr_unmap(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6->sin6_port};

	if (!IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return;
	memcpy(&in.sin_addr, &in6->sin6_addr.s6_addr[12], sizeof(in.sin_addr));
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &in, sizeof(in));
}

int addr_take(struct sockaddr_storage *to, const struct sockaddr *addr, socklen_t bytes, int domain)
{
	if (!addr || bytes < sizeof(addr->sa_family))
		return -EINVAL;
	if (addr->sa_family != domain)
		return -EAFNOSUPPORT;
	if (bytes < addr_bytes(domain))
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	memcpy(to, addr, addr_bytes(domain));
	if (domain == AF_INET6)
		addr_unmap(to);
	return 0;
}

void addr_show(struct sockaddr_storage *addr, int domain)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

	if (domain != AF_INET6 || addr->ss_family != AF_INET)
		return;
	in6.sin6_port = in->sin_port;
	/*
	 * The IPv4 wildcard address becomes the IPv6 wildcard address, not an IPv4-mapped address.
	 */
	if (in->sin_addr.s_addr != htonl(INADDR_ANY)) {
		memset(&in6.sin6_addr.s6_addr[10], 0xff, 2);
		memcpy(&in6.sin6_addr.s6_addr[12], &in->sin_addr, sizeof(in->sin_addr));
	}
	memcpy(addr, &in6, sizeof(in6));
}

void addr_give(const struct sockaddr_storage *addr, struct sockaddr *to, socklen_t *bytes)
{
	socklen_t whole = addr_bytes(addr->ss_family);

	if (*bytes)
		memcpy(to, addr, *bytes < whole ? *bytes : whole);
	*bytes = whole;
}

bool addr_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *)b;
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in *b4 = (const struct sockaddr_in *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a6->sin6_port == b6->sin6_port && a6->sin6_scope_id == b6->sin6_scope_id &&
	       !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}
