/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/be.h"
#include "wire/cm_msg.h"

/* Offsets of the addresses; before them are the version, the IP version and the source port. */
#define IP_HDR_SRC 4
#define IP_HDR_DST 20

int cm_ip_hdr_parse(struct cm_ip_hdr *hdr, const void *data)
{
	const uint8_t *b = data;

	if (b[0] >> 4 != 0)
		return -EPROTO;
	hdr->ip_version = b[1] >> 4;
	if (hdr->ip_version != 4 && hdr->ip_version != 6)
		return -EPROTO;
	hdr->src_port = be_load16(b + 2);
	memcpy(hdr->src, b + IP_HDR_SRC, sizeof(hdr->src));
	memcpy(hdr->dst, b + IP_HDR_DST, sizeof(hdr->dst));
	return 0;
}

void cm_ip_hdr_build(const struct cm_ip_hdr *hdr, void *data)
{
	uint8_t *b = data;

	b[0] = 0;
	b[1] = (uint8_t)(hdr->ip_version << 4);
	be_store16(b + 2, hdr->src_port);
	memcpy(b + IP_HDR_SRC, hdr->src, sizeof(hdr->src));
	memcpy(b + IP_HDR_DST, hdr->dst, sizeof(hdr->dst));
}

static void to_sockaddr(uint8_t ip_version, const uint8_t addr[16], uint16_t port,
			struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (ip_version == 4) {
		struct sockaddr_in *sin = (struct sockaddr_in *)out;

		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		memcpy(&sin->sin_addr.s_addr, addr + 12, 4);
	} else {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons(port);
		memcpy(&sin6->sin6_addr, addr, 16);
	}
}

void cm_ip_hdr_addrs(const struct cm_ip_hdr *hdr, uint16_t dst_port, struct sockaddr_storage *src,
		     struct sockaddr_storage *dst)
{
	to_sockaddr(hdr->ip_version, hdr->src, hdr->src_port, src);
	to_sockaddr(hdr->ip_version, hdr->dst, dst_port, dst);
}

static const struct sockaddr_in *ip_hdr_as_ipv4(const struct sockaddr *addr)
{
	return (const struct sockaddr_in *)(const void *)addr;
}

static const struct sockaddr_in6 *ip_hdr_as_ipv6(const struct sockaddr *addr)
{
	return (const struct sockaddr_in6 *)(const void *)addr;
}

int cm_ip_hdr_from_addrs(struct cm_ip_hdr *hdr, const struct sockaddr *src,
			 const struct sockaddr *dst)
{
	memset(hdr, 0, sizeof(*hdr));
	if (src->sa_family != dst->sa_family)
		return -EAFNOSUPPORT;
	switch (src->sa_family) {
	case AF_INET:
		hdr->ip_version = 4;
		hdr->src_port = ntohs(ip_hdr_as_ipv4(src)->sin_port);
		memcpy(hdr->src + 12, &ip_hdr_as_ipv4(src)->sin_addr.s_addr, 4);
		memcpy(hdr->dst + 12, &ip_hdr_as_ipv4(dst)->sin_addr.s_addr, 4);
		return 0;
	case AF_INET6:
		hdr->ip_version = 6;
		hdr->src_port = ntohs(ip_hdr_as_ipv6(src)->sin6_port);
		memcpy(hdr->src, &ip_hdr_as_ipv6(src)->sin6_addr, 16);
		memcpy(hdr->dst, &ip_hdr_as_ipv6(dst)->sin6_addr, 16);
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}
