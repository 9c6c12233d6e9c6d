/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_RING_H
#define USRDMA_BASE_TRACE_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/trace.h"
#include "base/trace_clock.h"

/*
 * A trace ring: the last events of one process, in a memfd that the daemon creates. Any number of
 * readers map it for reading only. New records replace the oldest ones, so that a reader that is
 * slow or stopped does not delay the process. The reader learns from the numbers of the records how
 * many it lost.
 *
 * A ring has lanes. A lane has one writer at a time, which therefore needs no atomic
 * read-modify-write operations: a thread takes a lane with its first event and keeps it until it
 * ends. Threads that find no free lane share the lane TRACE_LANE_SHARED, which has a lock.
 *
 * The data of a lane is a circular buffer. `committed` is the number of bytes that were written to
 * it since the process began. A record is a header with the first bytes of an event, as many as the
 * event's type uses. It begins at a multiple of 8 bytes and does not cross the boundary of a block,
 * so that a reader that lost records can continue at any block. The space behind the last record of
 * a block is a record without event. While a record is written, `committed` is its position: the
 * bytes of the block at this position and of the following block may change at any time.
 *
 * Readers trust nothing in the ring: the process may have written anything.
 */
#define TRACE_RING_MAGIC   0x75747267u
#define TRACE_RING_VERSION 3
#define TRACE_RING_LANES   8
#define TRACE_LANE_SHARED  0
#define TRACE_LANE_BYTES   (4u * 1024 * 1024)
#define TRACE_BLOCK_BYTES  4096u

#define TRACE_RING_PROGRAM_BYTES 64

/* trace_record.flags */
#define TRACE_RECORD_FILL  0x1u /* no event: the next record is in the next block */
#define TRACE_RECORD_TICKS 0x2u /* time_ns of the event is a value of trace_clock_ticks() */

struct trace_record_header {
	/* of the record in its lane, from 0; records without event are not counted */
	uint32_t number;
	uint16_t bytes; /* with this header; the next record begins at the next multiple of 8 */
	uint16_t flags;
};

struct trace_lane {
	_Alignas(64) _Atomic uint64_t committed;
	_Atomic uint32_t owner;	    /* thread id; 0: free */
	_Atomic uint32_t is_locked; /* of the shared lane */
	/* records of the shared lane that were not written because another thread held the lock */
	_Atomic uint32_t dropped;
	uint32_t next_number;
};

struct trace_ring {
	_Atomic uint32_t magic;
	uint32_t version;
	int32_t pid;	    /* in the process's own PID namespace */
	uint32_t has_ticks; /* written by the daemon: trace_clock_is_usable() */
	char program[TRACE_RING_PROGRAM_BYTES];
	struct trace_lane lanes[TRACE_RING_LANES];
	_Alignas(4096) uint8_t data[TRACE_RING_LANES][TRACE_LANE_BYTES];
};
static_assert(offsetof(struct trace_ring, lanes) == 128 &&
		      offsetof(struct trace_ring, data) == 4096,
	      "the layout is shared by several programs");

/* The descriptor of an empty ring that cannot change its size, close-on-exec; or -errno. */
int trace_ring_create(void) __attribute__((warn_unused_result));

/* Whether this is the descriptor of a ring: a memfd of this size that cannot change its size. */
bool trace_ring_is_valid(int fd);

/*
 * Directs the events of this process into the ring of this descriptor, in place of an earlier ring.
 * The descriptor remains the caller's. Calls must not overlap. 0; -EINVAL: not a ring; or -errno.
 */
int trace_ring_attach(int fd) __attribute__((warn_unused_result));

/*
 * Ends the writing into the ring and releases its memory. Other threads may still be inside
 * trace_emit(). To be called also in the child of a fork(): the ring is its parent's.
 */
void trace_ring_detach(void);

bool trace_ring_is_attached(void);

/*
 * Whether the tracers need the events of each packet and each FIFO element; true after
 * trace_ring_attach().
 */
void trace_ring_want_packets(bool is_wanted);

/* A reader's position in one lane. */
struct trace_lane_reader {
	uint64_t next;	 /* position of the first byte that was not copied to `block` */
	uint64_t end;	 /* the lane is read up to here */
	uint32_t number; /* of the next record */
	uint32_t dropped;
	size_t at;	     /* the next record in `block`, if has_next */
	size_t copied_bytes; /* valid in `block` */
	bool has_next;
	uint64_t time_ns; /* of the next record */
	uint8_t block[TRACE_BLOCK_BYTES];
};

/* A reader's position in one ring. */
struct trace_ring_reader {
	const struct trace_ring *ring;
	const struct trace_clock *clock;
	uint64_t lost;			 /* records that were overwritten before they were read */
	struct trace_lane_reader *lanes; /* [TRACE_RING_LANES] */
	/* lane of the oldest record; NULL: none, or not searched */
	struct trace_lane_reader *oldest;
};

/*
 * Maps a ring for reading, from its oldest record on. `clock` converts the times of its records. 0;
 * -EINVAL: not a ring; or -errno. The descriptor remains the caller's.
 */
int trace_ring_open(struct trace_ring_reader *reader, int fd, const struct trace_clock *clock)
	__attribute__((warn_unused_result));
void trace_ring_close(struct trace_ring_reader *reader);

/* Allows the reader to read the records that are complete now. */
void trace_ring_refresh(struct trace_ring_reader *reader);

/*
 * The time of the oldest record that was complete at the last trace_ring_refresh() and was not
 * read. false: none.
 */
bool trace_ring_peek(struct trace_ring_reader *reader, uint64_t *time_ns);

/*
 * Copies this record. false: none. Its type and length members may have any value; base/trace.h's
 * version and size have been checked. Bytes that the process has not written are 0.
 */
bool trace_ring_next(struct trace_ring_reader *reader, struct trace_event *event);

#endif
