/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/dgram_proto.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/be.h"
#include "base/util.h"

#define TAG 0x55555555

/* Offsets in the header over UDP. The header ends with the sender's address. */
enum {
	UDP_TAG = 0,
	UDP_VERSION = 4,
	UDP_OP = 5,
	UDP_LENGTH = 6,
	UDP_QPN = 8,
	UDP_ADDR = 12,
	UDP_BYTES4 = UDP_ADDR + 4,
	UDP_BYTES6 = UDP_ADDR + 16,
};

/* Offsets in the header over UD. */
enum {
	UD_VERSION = 0,
	UD_LENGTH = 1,
	UD_PORT = 2,
	UD_ADDR4 = 4,
	UD_FLOW6 = 4,
	UD_ADDR6 = 8,
	UD_BYTES4 = 8,
	UD_BYTES6 = 24,
};
_Static_assert(UDP_BYTES6 == DGRAM_UDP_BYTES_MAX && UD_BYTES6 == DGRAM_UD_BYTES_MAX,
	       "room for the longer ones");

static const struct sockaddr_in *in_of(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in *)addr;
}

static const struct sockaddr_in6 *in6_of(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in6 *)addr;
}

size_t dgram_udp_bytes(int family)
{
	return family == AF_INET ? UDP_BYTES4 : UDP_BYTES6;
}

size_t dgram_udp_encode(uint8_t out[DGRAM_UDP_BYTES_MAX], enum dgram_op op, uint32_t qpn,
			const struct sockaddr_storage *local)
{
	size_t bytes = dgram_udp_bytes(local->ss_family);

	memset(out, 0, bytes);
	be_store32(out + UDP_TAG, TAG);
	out[UDP_OP] = (uint8_t)op;
	out[UDP_LENGTH] = (uint8_t)bytes;
	be_store32(out + UDP_QPN, qpn & MASK_24);
	if (local->ss_family == AF_INET) {
		out[UDP_VERSION] = 4;
		memcpy(out + UDP_ADDR, &in_of(local)->sin_addr, 4);
	} else {
		out[UDP_VERSION] = 6;
		memcpy(out + UDP_ADDR, &in6_of(local)->sin6_addr, 16);
	}
	return bytes;
}

int dgram_udp_decode(const uint8_t *data, size_t bytes, int family, struct dgram_udp_header *header)
{
	size_t wanted = dgram_udp_bytes(family);
	uint8_t version = family == AF_INET ? 4 : 6;

	if (bytes < wanted || be_load32(data + UDP_TAG) != TAG || data[UDP_VERSION] != version ||
	    data[UDP_LENGTH] != wanted)
		return -EPROTO;
	if (data[UDP_OP] != DGRAM_OP_DATA && data[UDP_OP] != DGRAM_OP_CONTROL)
		return -EPROTO;
	header->op = (enum dgram_op)data[UDP_OP];
	header->qpn = be_load32(data + UDP_QPN) & MASK_24;
	header->bytes = wanted;
	return 0;
}

size_t dgram_ud_encode(uint8_t out[DGRAM_UD_BYTES_MAX], const struct sockaddr_storage *local)
{
	if (local->ss_family == AF_INET) {
		out[UD_VERSION] = 4;
		out[UD_LENGTH] = UD_BYTES4;
		memcpy(out + UD_PORT, &in_of(local)->sin_port, 2);
		memcpy(out + UD_ADDR4, &in_of(local)->sin_addr, 4);
		return UD_BYTES4;
	}
	out[UD_VERSION] = 6;
	out[UD_LENGTH] = UD_BYTES6;
	memcpy(out + UD_PORT, &in6_of(local)->sin6_port, 2);
	memcpy(out + UD_FLOW6, &in6_of(local)->sin6_flowinfo, 4);
	memcpy(out + UD_ADDR6, &in6_of(local)->sin6_addr, 16);
	return UD_BYTES6;
}

static void decode4(const uint8_t *data, struct sockaddr_storage *from)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	memcpy(&in.sin_port, data + UD_PORT, 2);
	memcpy(&in.sin_addr, data + UD_ADDR4, 4);
	memcpy(from, &in, sizeof(in));
}

static void decode6(const uint8_t *data, struct sockaddr_storage *from)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	memcpy(&in6.sin6_port, data + UD_PORT, 2);
	memcpy(&in6.sin6_flowinfo, data + UD_FLOW6, 4);
	memcpy(&in6.sin6_addr, data + UD_ADDR6, 16);
	memcpy(from, &in6, sizeof(in6));
}

int dgram_ud_decode(const uint8_t *data, size_t bytes, struct sockaddr_storage *from,
		    size_t *header_bytes)
{
	memset(from, 0, sizeof(*from));
	if (bytes < UD_BYTES4 || bytes < data[UD_LENGTH])
		return -EPROTO;
	*header_bytes = data[UD_LENGTH];
	if (data[UD_VERSION] == 4 && *header_bytes == UD_BYTES4)
		decode4(data, from);
	else if (data[UD_VERSION] == 6 && *header_bytes == UD_BYTES6)
		decode6(data, from);
	else
		return -EPROTO;
	return 0;
}
