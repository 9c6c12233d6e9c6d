/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream_proto.h"

#include <byteswap.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/be.h"

#define FLAG_BIG_ENDIAN (1u << 0)
#define FLAG_IOMAP	(1u << 1)

/* Offsets in the private data. Bytes between iomap_entries and flags are reserved. */
enum {
	AT_VERSION = 0,
	AT_FLAGS = 1,
	AT_CREDITS = 2,
	AT_IOMAP_ENTRIES = 7,
	AT_TABLE = 8,
	AT_RING = 24,
};

bool proto_host_is_big_endian(void)
{
	return __BYTE_ORDER == __BIG_ENDIAN;
}

/* A number up to 128 is encoded as it is; a larger number in units of 256, with the top bit set. */
static uint8_t to_scale(uint32_t entries)
{
	if (entries <= 128)
		return (uint8_t)entries;
	if (entries >= 127 << 8)
		return UINT8_MAX;
	return (uint8_t)(128 | entries >> 8);
}

static uint16_t from_scale(uint8_t scaled)
{
	uint32_t entries = scaled <= 128 ? scaled : (scaled & 127u) << 8;

	return (uint16_t)entries;
}

uint16_t proto_iomap_round(uint32_t entries)
{
	return from_scale(to_scale(entries));
}

static void store_sge_be(uint8_t *out, const struct proto_sge *sge)
{
	be_store64(out, sge->addr);
	be_store32(out + 8, sge->key);
	be_store32(out + 12, sge->length);
}

static struct proto_sge load_sge_be(const uint8_t *in)
{
	return (struct proto_sge){
		.addr = be_load64(in), .key = be_load32(in + 8), .length = be_load32(in + 12)};
}

void proto_conn_encode(uint8_t out[PROTO_CONN_BYTES], const struct proto_conn *conn)
{
	memset(out, 0, PROTO_CONN_BYTES);
	out[AT_VERSION] = PROTO_VERSION;
	out[AT_FLAGS] = (uint8_t)((conn->is_big_endian ? FLAG_BIG_ENDIAN : 0) |
				  (conn->has_iomap ? FLAG_IOMAP : 0));
	be_store16(out + AT_CREDITS, conn->credits);
	out[AT_IOMAP_ENTRIES] = to_scale(conn->iomap_entries);
	store_sge_be(out + AT_TABLE, &conn->table);
	store_sge_be(out + AT_RING, &conn->ring);
}

int proto_conn_decode(const void *data, size_t bytes, struct proto_conn *conn)
{
	const uint8_t *in = data;

	if (!in || bytes < PROTO_CONN_BYTES || in[AT_VERSION] != PROTO_VERSION)
		return -EPROTO;
	conn->is_big_endian = in[AT_FLAGS] & FLAG_BIG_ENDIAN;
	conn->has_iomap = in[AT_FLAGS] & FLAG_IOMAP;
	conn->credits = be_load16(in + AT_CREDITS);
	conn->iomap_entries = conn->has_iomap ? from_scale(in[AT_IOMAP_ENTRIES]) : 0;
	conn->table = load_sge_be(in + AT_TABLE);
	conn->ring = load_sge_be(in + AT_RING);
	/*
	 * With an empty table, this side could not grant the peer more than the first half of the
	 * ring.
	 */
	return conn->table.length && conn->credits ? 0 : -EPROTO;
}

void proto_sge_encode(uint8_t out[PROTO_SGE_BYTES], const struct proto_sge *sge, bool swaps)
{
	struct proto_sge stored = *sge;

	if (swaps)
		stored = (struct proto_sge){.addr = bswap_64(sge->addr),
					    .key = bswap_32(sge->key),
					    .length = bswap_32(sge->length)};
	memcpy(out, &stored.addr, 8);
	memcpy(out + 8, &stored.key, 4);
	memcpy(out + 12, &stored.length, 4);
}

void proto_iomap_encode(uint8_t out[PROTO_IOMAP_BYTES], const struct proto_iomap *iomap, bool swaps)
{
	uint64_t offset = swaps ? bswap_64(iomap->offset) : iomap->offset;

	memcpy(out, &offset, 8);
	proto_sge_encode(out + 8, &iomap->sge, swaps);
}

struct proto_sge proto_sge_decode(const uint8_t *in)
{
	struct proto_sge sge;

	memcpy(&sge.addr, in, 8);
	memcpy(&sge.key, in + 8, 4);
	memcpy(&sge.length, in + 12, 4);
	return sge;
}

struct proto_iomap proto_iomap_decode(const uint8_t *in)
{
	struct proto_iomap iomap;

	memcpy(&iomap.offset, in, 8);
	iomap.sge = proto_sge_decode(in + 8);
	return iomap;
}
