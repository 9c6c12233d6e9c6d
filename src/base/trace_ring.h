/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TRACE_RING_H
#define USRDMA_BASE_TRACE_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/trace.h"

/*
 * A trace ring: the last events of one process, in a memfd that the daemon creates. All threads of the process write it
 * without a lock; any number of readers map it for reading only. A new event replaces the oldest one, so that a reader that
 * is slow or stopped does not delay the process. The reader learns from the sequence numbers how many events it lost.
 *
 * Record n is in slots[n % TRACE_RING_SLOTS]. The slot's seq is 2n+1 while it is written and 2n+2 afterwards. Only the bytes
 * that the event's type uses are written; a reader sets the others to 0. Readers trust nothing in the ring: the process may have
 * written anything.
 */
#define TRACE_RING_MAGIC   0x75747267u
#define TRACE_RING_VERSION 2
#define TRACE_RING_SLOTS   16384u

#define TRACE_RING_PROGRAM_BYTES 64

struct trace_ring_slot {
	_Alignas(64) _Atomic uint64_t seq;
	struct trace_event event;
};

struct trace_ring {
	_Atomic uint32_t magic;
	uint32_t version;
	int32_t pid; /* in the process's own PID namespace */
	uint32_t reserved;
	_Atomic uint64_t next; /* number of the next record */
	_Atomic uint64_t
		busy; /* records that were dropped because another thread still wrote the slot's previous one */
	char program[TRACE_RING_PROGRAM_BYTES];
	uint8_t unused[4096 - 32 - TRACE_RING_PROGRAM_BYTES];
	struct trace_ring_slot slots[TRACE_RING_SLOTS];
};
static_assert(offsetof(struct trace_ring, slots) == 4096,
	      "the layout is shared by several programs");

/* The descriptor of an empty ring that cannot change its size, close-on-exec; or -errno. */
int trace_ring_create(void) __attribute__((warn_unused_result));

/*
 * Directs the events of this process into the ring of this descriptor, in place of an earlier ring. The descriptor remains
 * the caller's. Calls must not overlap. 0; -EINVAL: not a ring; or -errno.
 */
int trace_ring_attach(int fd) __attribute__((warn_unused_result));

/*
 * Ends the writing into the ring and releases its memory. Other threads may still be inside trace_emit(). To be called also
 * in the child of a fork(): the ring is its parent's.
 */
void trace_ring_detach(void);

bool trace_ring_is_attached(void);

/* Whether the tracers need the events of each packet and each FIFO element; true after trace_ring_attach(). */
void trace_ring_want_packets(bool is_wanted);

/* Appends one event to a ring. Any thread. */
void trace_ring_put(struct trace_ring *ring, const struct trace_event *event);

/* A reader's position in one ring. */
struct trace_ring_reader {
	const struct trace_ring *ring;
	uint64_t next; /* number of the next record to read */
	uint64_t lost; /* records that were overwritten before they were read */
};

/* Maps a ring for reading, from its oldest record on. 0; -EINVAL: not a ring; or -errno. The descriptor remains the caller's. */
int trace_ring_open(struct trace_ring_reader *reader, int fd) __attribute__((warn_unused_result));
void trace_ring_close(struct trace_ring_reader *reader);

/*
 * Copies the next record. false: no record is complete yet. Its type and length members may have any value; base/trace.h's version
 * and size have been checked.
 */
bool trace_ring_next(struct trace_ring_reader *reader, struct trace_event *event);

#endif
