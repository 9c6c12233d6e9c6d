/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_STREAM_PROTO_H
#define USRDMA_RSOCKET_STREAM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The protocol of streams, compatible with rdma-core's rsockets. This file has layouts and numbers
 * only, no state.
 *
 * Each side has a ring into which the peer writes, and a table in which the peer stores where this
 * side may write. The private data of REQ and REP contains the address of the sender's table, the
 * first half of its ring, and the number of messages that it can receive. Afterwards every message
 * is an RDMA WRITE with immediate data. The upper three bits of the immediate data are the message
 * type:
 *
 * - data: the lower bits are the number of bytes written, contiguous with the previous data;
 * - grant: the receiver accepts messages up to this sequence number. If the WRITE has a payload, it
 *   stores the address of another half of the receiver's ring in the next entry of the sender's
 *   table;
 * - iomap: an entry of the iomap table was written, which riowrite() reads;
 * - control: one direction of the connection, or both, are shut down.
 *
 * Tables have the byte order of the host that they are stored in, which the private data contains.
 */
#define PROTO_VERSION	  1
#define PROTO_CONN_BYTES  40
#define PROTO_SGE_BYTES	  16
#define PROTO_IOMAP_BYTES 24
/*
 * Entries of the table of grants that this implementation exposes. A ring has two halves, so two
 * entries suffice.
 */
#define PROTO_GRANTS 2
/* Maximum number of bytes or credits in the immediate data. */
#define PROTO_IMM_MAX ((1u << 29) - 1)

enum proto_op {
	PROTO_OP_DATA = 0,
	PROTO_OP_GRANT = 4,
	PROTO_OP_IOMAP = 6,
	PROTO_OP_CONTROL = 7,
};

enum proto_control {
	PROTO_CONTROL_DISCONNECT,
	PROTO_CONTROL_KEEPALIVE,
	PROTO_CONTROL_SHUTDOWN,
};

/* Memory into which the peer may write. */
struct proto_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct proto_iomap {
	uint64_t offset;
	struct proto_sge sge;
};

/* Contents of the private data, in host byte order. */
struct proto_conn {
	bool is_big_endian; /* byte order of the host that sent the private data */
	bool has_iomap;
	uint16_t credits;
	uint16_t iomap_entries; /* as rounded by proto_iomap_round() */
	struct proto_sge table; /* length: number of entries */
	struct proto_sge ring;	/* the first half */
};

bool proto_host_is_big_endian(void);

void proto_conn_encode(uint8_t out[PROTO_CONN_BYTES], const struct proto_conn *conn);
/* -EPROTO: unsupported version, too short, or an empty table or no credits. */
int proto_conn_decode(const void *data, size_t bytes, struct proto_conn *conn)
	__attribute__((warn_unused_result));

/* Number of entries of a table, rounded: sizes are encoded in eight bits. */
uint16_t proto_iomap_round(uint32_t entries);

/*
 * Encodes entries for the peer's table; `swaps`: the peer's byte order differs from that of this
 * host.
 */
void proto_sge_encode(uint8_t out[PROTO_SGE_BYTES], const struct proto_sge *sge, bool swaps);
void proto_iomap_encode(uint8_t out[PROTO_IOMAP_BYTES], const struct proto_iomap *iomap,
			bool swaps);
/* Decode entries of the local table. */
struct proto_sge proto_sge_decode(const uint8_t *in);
struct proto_iomap proto_iomap_decode(const uint8_t *in);

static inline uint32_t proto_imm(enum proto_op op, uint32_t value)
{
	return (uint32_t)op << 29 | (value & PROTO_IMM_MAX);
}

static inline uint32_t proto_imm_op(uint32_t imm)
{
	return imm >> 29;
}

static inline uint32_t proto_imm_value(uint32_t imm)
{
	return imm & PROTO_IMM_MAX;
}

#endif
