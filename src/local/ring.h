/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_RING_H
#define USRDMA_LOCAL_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/barrier.h"
#include "core/engine/shard.h"
#include "ipc/msg.h"

/*
 * One direction of a pair: a FIFO of 64-byte elements (struct cell), written by one process and
 * read by the other. A separate area holds payload that does not fit into a cell (out-of-line
 * payload).
 *
 * A cell is valid when its `seq` is its position + 1. The reader therefore accesses one cache line
 * for each message and needs no head index. The reader frees several cells at once by advancing
 * `tail`. Freeing a cell also frees its out-of-line payload; the writer stores the end of each
 * payload in private memory. The writer accepts a new tail only between its last known tail and its
 * head. The reader copies a cell before it checks and uses the fields.
 *
 * A reader that sets `reader_sleeps` and a writer that sets `writer_waits` request a doorbell from
 * the other side. The other side executes a memory fence before it reads the request. While a
 * process polls, it requests no doorbells and sets `reader_polls` in the FIFOs that it reads; then
 * its peers need no fence. Before it requests doorbells again, it clears `reader_polls` and
 * executes barrier_processes() (base/barrier.h). The writer may access the reader's memory while
 * the reader has set `admitted`. The writer announces such an access in `accessing` (ring_access())
 * after it stored the id of its thread in `accessing_tid`. The reader's calls that revoke a memory
 * region or a queue pair wait until the access ends (docs/memory-safety.md).
 */
#define RING_CELLS	     2048u
#define RING_DATA_BYTES	     (1024u * 1024)
#define RING_FRAGMENT_BYTES  (16u * 1024)
#define RING_CELL_DATA_BYTES 24u

/* imm_or_code of a CELL_NOT_READY. */
#define CELL_ACKNOWLEDGES 1

/* A new type is appended, because base/trace.h has the numbers of the present ones. */
enum cell_type {
	CELL_NONE,
	/* requests */
	CELL_SEND,
	/* CELL_PLACED: the requester has written the data; only the immediate is delivered */
	CELL_WRITE,
	CELL_READ,
	CELL_COMPARE_SWAP,
	CELL_FETCH_ADD,
	CELL_ATOMIC_WRITE, /* the payload is in `data` */
	CELL_FLUSH,	   /* imm_or_code: see cell_flush() */
	/*
	 * A one-sided operation failed with imm_or_code: the responder's QP enters ERR.
	 * remote_addr, rkey, length, access: its range and the access that it needs; ssn: of the
	 * next message.
	 */
	CELL_FAULT,
	/* responses */
	CELL_ACK, /* all messages up to and including ssn were executed */
	/* all messages before ssn were executed; ssn failed with imm_or_code, an access_result */
	CELL_NAK,
	/* all before ssn executed; no receive WQE for ssn; imm_or_code is the RNR timer field */
	CELL_RNR,
	/*
	 * The destination QP of ssn does not exist or cannot receive. imm_or_code:
	 * CELL_ACKNOWLEDGES if all messages before ssn were executed; otherwise 0.
	 */
	CELL_NOT_READY,
	CELL_READY,	/* a receive was posted after an RNR */
	CELL_READ_DATA, /* without data: an ATOMIC WRITE or a FLUSH was executed */
	CELL_ATOMIC_RESULT,
	/* neither requests nor responses of a connected QP */
	CELL_DATAGRAM,	    /* payload: GRH and data; rkey is the Q_Key */
	CELL_XRC_FORWARD,   /* payload: a message of core/qp/xrc_forward_msg.h */
	CELL_SHARE_REQUEST, /* the sender asks for the memory object of the MR `rkey` (share.h) */
	CELL_SHARE_GONE,    /* a memory object of the sender is not published any more */
	/* the sender asks for the descriptor of the completion channel `rkey` (channel_copy.h) */
	CELL_CHANNEL_REQUEST,
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
	CELL_WAKES =
		/* the sender adds the unit of the completion event (core/engine/direct_wake.h) */
	1 << 7,
};

struct cell {
	_Atomic uint32_t seq;
	uint8_t type;
	uint8_t flags;
	uint16_t bytes; /* payload bytes of this cell */
	uint32_t dst_qpn;
	uint32_t src_qpn;
	uint32_t ssn;	 /* message sequence number of the QP, from ring_first_ssn() on */
	uint32_t length; /* of the whole message, bytes */
	uint64_t remote_addr;
	uint32_t rkey; /* or the key to invalidate */
	/* immediate (big-endian), type and level of a FLUSH, or code of a response */
	uint32_t imm_or_code;
	union {
		uint8_t data[RING_CELL_DATA_BYTES];
		struct { /* CELL_FAR */
			uint32_t data_offset;
			/*
			 * enum ibv_mtu, of the sender's QP; in the first cell of a message or of
			 * READ data
			 */
			uint8_t path_mtu;
		};
		uint32_t access; /* CELL_FAULT: enum ibv_access_flags */
		struct {
			uint64_t compare_add;
			uint64_t swap; /* in a response: the original value */
		} atomic;
	};
};

/*
 * The ssn of the first message after that PSN was set: both sides compute it, the requester from
 * sq_psn, the responder from rq_psn. Cells of an earlier connection of the same two QPs differ in
 * it (docs/adr/0060). The multiplier is odd, so that different PSNs have different results, and
 * near 2^32 divided by the golden ratio, so that PSNs with a small difference have distant results
 * (multiplicative hashing, Knuth, The Art of Computer Programming, volume 3, §6.4).
 */
static inline uint32_t ring_first_ssn(uint32_t psn)
{
	return psn * UINT32_C(0x9e3779b1);
}

#define CELL_FLUSH_LEVEL_SHIFT 8

static inline uint32_t cell_flush(unsigned int types, unsigned int level)
{
	return types | level << CELL_FLUSH_LEVEL_SHIFT;
}

struct ring_shared {
	_Alignas(64) _Atomic uint32_t tail; /* written by the reader */
	_Alignas(64) _Atomic uint32_t reader_sleeps;
	_Atomic uint32_t reader_polls; /* written by the reader */
	_Alignas(64) _Atomic uint32_t writer_waits;
	/* by the writer; in the first pair only: bit i: it uses pair_memory.pairs[i] */
	_Atomic uint32_t shards_used;
	_Alignas(64) _Atomic uint64_t accessing; /* 0: no access */
	_Atomic uint32_t accessing_tid;
	_Alignas(64) _Atomic uint64_t admitted; /* written by the reader; 0: not admitted */
	_Alignas(4096) struct cell cells[RING_CELLS];
	_Alignas(4096) uint8_t data[RING_DATA_BYTES];
};

/* The value of `accessing`: a QP and a memory region of the reader. */
static inline uint64_t ring_access(uint32_t qpn, uint32_t rkey)
{
	return (uint64_t)qpn << 32 | rkey;
}

static inline uint32_t ring_access_qpn(uint64_t access)
{
	return (uint32_t)(access >> 32);
}

static inline uint32_t ring_access_rkey(uint64_t access)
{
	return (uint32_t)access;
}

/* A pair: side 0 writes rings[0], side 1 writes rings[1]. */
struct ring_pair {
	struct ring_shared rings[2];
};

/*
 * The memory that two processes share. The pair of the shards a and b (core/engine/shard.h) of the
 * processes on sides 0 and 1 is pairs[a * SHARDS + b]. Unused pairs take no memory.
 */
struct pair_memory {
	struct ring_pair pairs[SHARDS * SHARDS];
};

static_assert(sizeof(struct cell) == 64, "a cell is a cache line");
static_assert(sizeof(struct pair_memory) <= IPC_PAIR_BYTES, "the daemon makes the pair's memory");

/* The writing end. Private to the process; guarded by the lock of the shard. */
struct ring_writer {
	struct ring_shared *shared;
	uint64_t traced_wr_id; /* of the next request element; set and used while tracing is on */
	uint32_t head;
	uint32_t tail;	     /* last value read from shared memory */
	uint64_t data_head;  /* free-running positions in the data area */
	uint64_t data_next;  /* the value of data_head after the reserved cell is committed */
	uint64_t data_start; /* the payload's position, if data_next differs from data_head */
	uint64_t data_tail;
	uint64_t data_ends[RING_CELLS]; /* data_head after each cell */
};

/* The reading end. Private to the process; guarded by the lock of the shard. */
struct ring_reader {
	struct ring_shared *shared;
	uint32_t head;		    /* next cell to read */
	uint32_t tail;		    /* last value published to the writer */
	uint32_t unpublished_bytes; /* payload in the data area of cells [tail, head) */
};

void ring_writer_init(struct ring_writer *writer, struct ring_shared *shared);
void ring_reader_init(struct ring_reader *reader, struct ring_shared *shared);

/*
 * Returns the next cell to fill, or NULL if the FIFO is full. If far_bytes is not 0, also reserves
 * space in the data area: *far points to it, and the cell's flags and data_offset refer to it. The
 * reservation takes effect with ring_commit().
 */
struct cell *ring_reserve(struct ring_writer *writer, uint32_t far_bytes, uint8_t **far);
void ring_commit(struct ring_writer *writer, struct cell *cell);
/* Writes an element that is of no QP and has no payload. false: the FIFO is full. */
bool ring_write_notice(struct ring_writer *writer, enum cell_type type, uint32_t rkey);

/*
 * Copies the next cell to *cell; false: the FIFO is empty. The payload stays valid until
 * ring_release().
 */
bool ring_next(struct ring_reader *reader, struct cell *cell);

/*
 * The payload of a cell that ring_next() returned. NULL: the cell's offset or length is out of
 * bounds.
 */
const uint8_t *ring_payload(const struct ring_reader *reader, const struct cell *cell);

/*
 * Frees the cell that ring_next() returned. `tail` is advanced after several cells, or by
 * ring_publish().
 */
void ring_release(struct ring_reader *reader, const struct cell *cell);
void ring_publish(struct ring_reader *reader);

/*
 * Acquire: the caller reads the contents of the cell and its payload. Pairs with
 * ring_publish_cell().
 */
static inline bool ring_has_next(const struct ring_reader *reader)
{
	const struct cell *cell = &reader->shared->cells[reader->head % RING_CELLS];

	return atomic_load_explicit(&cell->seq, memory_order_acquire) == reader->head + 1;
}

/*
 * Whether the process that reads this FIFO polls: it requests no doorbells, and finds what the
 * caller has stored before. The fence of the caller is barrier_light(), which has an effect only if
 * this process is registered.
 */
static inline bool ring_reader_polls(const struct ring_writer *writer)
{
	barrier_light();
	return atomic_load_explicit(&writer->shared->reader_polls, memory_order_relaxed) &&
	       atomic_load_explicit(&barrier_has_processes, memory_order_relaxed);
}

/*
 * Whether the reader has freed all cells before `position`, a former value of head. Possibly false
 * if that was 2^31 cells ago.
 */
bool ring_has_passed(struct ring_writer *writer, uint32_t position);

/*
 * The bytes of the next fragment of a message of which `left` bytes remain. A fragment that is not
 * the last one ends at a multiple of 8 in the memory of the region, so that no aligned word is
 * divided. `address` is that of the first byte.
 */
static inline uint32_t ring_fragment_bytes(uint64_t address, uint32_t left)
{
	return left <= RING_FRAGMENT_BYTES ?
		       left :
		       RING_FRAGMENT_BYTES - (uint32_t)(address % sizeof(uint64_t));
}

/* Whether ring_reserve() with this far_bytes would succeed now. */
bool ring_has_space(struct ring_writer *writer, uint32_t far_bytes);

#endif
