/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_STREAM_PROTO_H
#define USRDMA_RSOCKET_STREAM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The protocol of streams, as rdma-core's rsockets speak it; only layouts and numbers, no state.
 *
 * Either side has a ring that the other writes into, and a table in which the other says where. A
 * connection begins with private data in REQ and REP: where the sender's table is, where the first
 * half of its ring is, and how many messages it can take. From then on everything is an RDMA WRITE
 * with immediate data, whose upper three bits say what the message is:
 *
 *  - data: so many bytes were written, next to those before;
 *  - grant: the receiver takes messages up to this number, and, if the WRITE carries an entry, has
 *    put another half of its ring into the next entry of the sender's table;
 *  - iomap: an entry of the other table was written, the one that riowrite() reads;
 *  - control: one side's half of the connection, or all of it, ends.
 *
 * Tables are in the byte order of the machine that they lie in, which the private data tells.
 */
#define PROTO_VERSION	  1
#define PROTO_CONN_BYTES  40
#define PROTO_SGE_BYTES	  16
#define PROTO_IOMAP_BYTES 24
/* Entries of the table of grants that we expose; the halves of a ring need no more. */
#define PROTO_GRANTS 2
/* The largest number of bytes or credits that immediate data can hold. */
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

/* Memory that the peer may write. */
struct proto_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct proto_iomap {
	uint64_t offset;
	struct proto_sge sge;
};

/* What the private data says, in this machine's byte order. */
struct proto_conn {
	bool is_big_endian; /* the machine that says it */
	bool has_iomap;
	uint16_t credits;
	uint16_t iomap_entries; /* as proto_iomap_round() makes them */
	struct proto_sge table; /* length: entries */
	struct proto_sge ring;	/* the first half */
};

bool proto_host_is_big_endian(void);

void proto_conn_encode(uint8_t out[PROTO_CONN_BYTES], const struct proto_conn *conn);
/* -EPROTO: another version, too short, or memory that cannot be. */
int proto_conn_decode(const void *data, size_t bytes, struct proto_conn *conn)
	__attribute__((warn_unused_result));

/* How many entries a table for so many has: sizes travel in eight bits. */
uint16_t proto_iomap_round(uint32_t entries);

/* Entries as the other side's table wants them: `swaps` if its byte order is not ours. */
void proto_sge_encode(uint8_t out[PROTO_SGE_BYTES], const struct proto_sge *sge, bool swaps);
void proto_iomap_encode(uint8_t out[PROTO_IOMAP_BYTES], const struct proto_iomap *iomap,
			bool swaps);
/* Entries of our own table. */
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
