/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_RING_H
#define USRDMA_LOCAL_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/msg.h"

/*
 * One direction of a pair: a ring of 64-byte cells, written by one process and read by the other, and beside it an area
 * for payload that does not fit a cell.
 *
 * A cell is valid when its `seq` is its position + 1, so a reader touches one cache line a message and needs no head
 * index. The reader gives cells back by moving `tail`, some at a time; payload space is given back with the cell that
 * used it, which the writer remembers privately. The writer trusts only that tail is between what it knew and what it
 * wrote; the reader copies a cell before it looks at it, and bounds everything in it.
 *
 * `reader_sleeps` and `writer_waits` are how either side asks the other for a ring of its doorbell. `accessing` holds
 * the rkey whose memory the writer is touching right now without the reader's help; ibv_dereg_mr waits on it.
 */
#define RING_CELLS	     2048u
#define RING_DATA_BYTES	     (1024u * 1024)
#define RING_FRAGMENT_BYTES  (16u * 1024)
#define RING_CELL_DATA_BYTES 24u

enum cell_type {
	CELL_NONE,
	/* requests */
	CELL_SEND,
	CELL_WRITE, /* with CELL_PLACED the bytes are in place already and only the immediate counts */
	CELL_READ,
	CELL_COMPARE_SWAP,
	CELL_FETCH_ADD,
	CELL_ATOMIC_WRITE, /* the bytes are the cell's data */
	CELL_FLUSH,	   /* imm_or_code: see cell_flush() */
	CELL_FAULT, /* a one-sided operation of the peer's found imm_or_code: the responder's QP errs */
	/* answers */
	CELL_ACK,	/* every message up to ssn was executed */
	CELL_NAK,	/* all before ssn were; ssn failed with imm_or_code, an access_result */
	CELL_RNR,	/* ssn found no receive; imm_or_code is the RNR timer field */
	CELL_NOT_READY, /* ssn found no QP that could receive */
	CELL_READY,	/* a receive was posted since an RNR */
	CELL_READ_DATA, /* also, without any, that an atomic WRITE or a FLUSH was executed */
	CELL_ATOMIC_RESULT,
	/* neither */
	CELL_DATAGRAM, /* payload: GRH and data; rkey is the Q_Key */
	CELL_RELAY,    /* payload: struct relay_msg and what follows it (core/relay.h) */
	CELL_TYPE_COUNT
};

enum cell_flags {
	CELL_FIRST = 1 << 0,
	CELL_LAST = 1 << 1,
	CELL_IMM = 1 << 2,
	CELL_INVALIDATE = 1 << 3,
	CELL_SOLICITED = 1 << 4,
	CELL_FAR = 1 << 5, /* the payload is in the data area at data_offset */
	CELL_PLACED = 1 << 6,
};

struct cell {
	_Atomic uint32_t seq;
	uint8_t type;
	uint8_t flags;
	uint16_t bytes; /* payload of this cell */
	uint32_t dst_qpn;
	uint32_t src_qpn;
	uint32_t ssn;	 /* message sequence number of the QP */
	uint32_t length; /* of the whole message */
	uint64_t remote_addr;
	uint32_t rkey; /* or the key to invalidate */
	uint32_t imm_or_code; /* immediate as on the wire, a FLUSH's types and level, or an answer's code */
	union {
		uint8_t data[RING_CELL_DATA_BYTES];
		uint32_t data_offset;
		struct {
			uint64_t compare_add;
			uint64_t swap; /* also the result, in an answer */
		} atomic;
	};
};

#define CELL_FLUSH_LEVEL_SHIFT 8

static inline uint32_t cell_flush(unsigned int types, unsigned int level)
{
	return types | level << CELL_FLUSH_LEVEL_SHIFT;
}

struct ring_shared {
	_Alignas(64) _Atomic uint32_t tail; /* reader */
	_Alignas(64) _Atomic uint32_t reader_sleeps;
	_Alignas(64) _Atomic uint32_t writer_waits;
	_Alignas(64) _Atomic uint32_t accessing;
	_Alignas(4096) struct cell cells[RING_CELLS];
	_Alignas(4096) uint8_t data[RING_DATA_BYTES];
};

/* A pair: side 0 writes rings[0], side 1 writes rings[1]. */
struct ring_pair {
	struct ring_shared rings[2];
};

static_assert(sizeof(struct cell) == 64, "a cell is a cache line");
static_assert(sizeof(struct ring_pair) <= IPC_PAIR_BYTES, "the daemon makes the pair's memory");

/* The writing end. Private to the process; guarded by engine.lock. */
struct ring_writer {
	struct ring_shared *shared;
	uint32_t head;
	uint32_t tail;	    /* last seen */
	uint64_t data_head; /* free-running positions in the data area */
	uint64_t data_next; /* what data_head becomes with the cell that was reserved last */
	uint64_t data_tail;
	uint64_t data_ends[RING_CELLS]; /* data_head after each cell */
};

/* The reading end. Private; engine.lock. */
struct ring_reader {
	struct ring_shared *shared;
	uint32_t head;		    /* next cell to read */
	uint32_t tail;		    /* last published */
	uint32_t unpublished_bytes; /* payload in the data area of cells [tail, head) */
};

void ring_writer_init(struct ring_writer *writer, struct ring_shared *shared);
void ring_reader_init(struct ring_reader *reader, struct ring_shared *shared);

/*
 * The next cell to fill, or NULL: the ring is full. With far_bytes, also space in the data area: *far is set to it and
 * the cell's flags and data_offset name it. Nothing is visible to the reader, and no space taken, before ring_commit().
 */
struct cell *ring_reserve(struct ring_writer *writer, uint32_t far_bytes, uint8_t **far);
void ring_commit(struct ring_writer *writer, struct cell *cell);

/* Copies the next cell out; false: none. Its payload stays valid until ring_release(). */
bool ring_next(struct ring_reader *reader, struct cell *cell);

/* The payload of a cell that ring_next gave, or NULL if what the cell says lies outside the ring. */
const uint8_t *ring_payload(const struct ring_reader *reader, const struct cell *cell);

/* The cell that ring_next gave is done with. The writer learns of it now and then, or by ring_publish(). */
void ring_release(struct ring_reader *reader, const struct cell *cell);
void ring_publish(struct ring_reader *reader);

static inline bool ring_has_next(const struct ring_reader *reader)
{
	const struct cell *cell = &reader->shared->cells[reader->head % RING_CELLS];

	return atomic_load_explicit(&cell->seq, memory_order_acquire) == reader->head + 1;
}

/* Whether a message of this payload could be reserved now. */
bool ring_has_space(struct ring_writer *writer, uint32_t far_bytes);

#endif
