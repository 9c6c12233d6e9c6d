/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader of trace rings. It copies whole blocks, so that it rarely takes cache lines from the
 * writer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/trace_ring.h"
#include "base/util.h"

/* The writer may change the block of `committed` and the following one at any time. */
#define MARGIN_BYTES (2 * TRACE_BLOCK_BYTES)
/*
 * A reader that lost records continues at this distance from the writer, so that it does not lose
 * the next ones too.
 */
#define RESUME_BYTES (TRACE_LANE_BYTES / 4 * 3)
/* Attempts to copy a block that the writer does not replace. */
#define COPY_ATTEMPTS 4

#define EVENT_OFFSET sizeof(struct trace_record_header)

int trace_ring_open(struct trace_ring_reader *reader, int fd, const struct trace_clock *clock)
{
	struct trace_lane_reader *lanes;
	struct trace_ring *ring;

	if (!trace_ring_is_valid(fd))
		return -EINVAL;
	lanes = calloc(TRACE_RING_LANES, sizeof(*lanes));
	if (!lanes)
		return -ENOMEM;
	ring = mmap(NULL, sizeof(*ring), PROT_READ, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED) {
		free(lanes);
		return -errno;
	}
	*reader = (struct trace_ring_reader){.ring = ring, .clock = clock, .lanes = lanes};
	return 0;
}

void trace_ring_close(struct trace_ring_reader *reader)
{
	if (reader->ring)
		munmap((void *)(uintptr_t)reader->ring, sizeof(*reader->ring));
	free(reader->lanes);
	*reader = (struct trace_ring_reader){.lost = reader->lost};
}

static uint64_t committed_of(const struct trace_ring_reader *reader, unsigned int lane)
{
	return atomic_load_explicit(&reader->ring->lanes[lane].committed, memory_order_acquire) &
	       ~UINT64_C(7);
}

/*
 * Whether the writer at `committed` may have replaced the byte at next. A position before `next` is
 * that of an invalid writer.
 */
static bool is_replaced(const struct trace_lane_reader *lane, uint64_t committed)
{
	return committed - lane->next > TRACE_LANE_BYTES - MARGIN_BYTES;
}

/* Continues with a block that the writer will not replace soon. */
static void resume(struct trace_lane_reader *lane, uint64_t committed)
{
	uint64_t back = committed < RESUME_BYTES ? committed : RESUME_BYTES;

	lane->next = committed < lane->next ? committed & ~(uint64_t)(TRACE_BLOCK_BYTES - 1) :
					      (committed - back + TRACE_BLOCK_BYTES - 1) &
						      ~(uint64_t)(TRACE_BLOCK_BYTES - 1);
}

void trace_ring_refresh(struct trace_ring_reader *reader)
{
	reader->oldest = NULL;
	for (unsigned int i = 0; i < TRACE_RING_LANES; i++) {
		const struct trace_lane *from = &reader->ring->lanes[i];
		struct trace_lane_reader *lane = &reader->lanes[i];
		uint32_t dropped = atomic_load_explicit(&from->dropped, memory_order_relaxed);

		reader->lost += dropped - lane->dropped;
		lane->dropped = dropped;
		lane->end = committed_of(reader, i);
		if (is_replaced(lane, lane->end))
			resume(lane, lane->end);
	}
}

/*
 * Copies the next bytes, up to the end of their block. false: no byte is left before lane->end.
 * Only trace_ring_refresh() moves the end, and `next` only increases here: a process that changes
 * its positions all the time cannot keep the reader in this lane.
 */
static bool copy_block(struct trace_ring_reader *reader, unsigned int index)
{
	struct trace_lane_reader *lane = &reader->lanes[index];
	const uint8_t *data = reader->ring->data[index];

	for (int i = 0; i < COPY_ATTEMPTS && lane->next < lane->end; i++) {
		uint64_t at = lane->next % TRACE_BLOCK_BYTES, committed;
		size_t bytes = min_u64(lane->end - lane->next, TRACE_BLOCK_BYTES - at);

		memcpy(lane->block, data + lane->next % TRACE_LANE_BYTES, bytes);
		atomic_thread_fence(memory_order_acquire);
		committed = committed_of(reader, index);
		if (!is_replaced(lane, committed)) {
			lane->at = 0;
			lane->copied_bytes = bytes;
			lane->next += bytes;
			return true;
		}
		if (committed < lane->next)
			lane->next = lane->end;
		else
			resume(lane, committed);
	}
	return false;
}

/* Whether the header describes a record with an event in the rest of the copied bytes. */
static bool has_event(const struct trace_lane_reader *lane,
		      const struct trace_record_header *header, struct trace_event *head)
{
	if (header->bytes < EVENT_OFFSET + TRACE_HEAD_BYTES ||
	    header->bytes > EVENT_OFFSET + sizeof(*head) ||
	    header->bytes > lane->copied_bytes - lane->at)
		return false;
	memcpy(head, lane->block + lane->at + EVENT_OFFSET, TRACE_HEAD_BYTES);
	return head->version == TRACE_VERSION && head->bytes == TRACE_EVENT_BYTES;
}

/* Finds the next record in the copied bytes. false: no record is left. */
static bool find_in_block(struct trace_ring_reader *reader, struct trace_lane_reader *lane)
{
	struct trace_record_header header;
	struct trace_event head;

	if (lane->copied_bytes - lane->at < sizeof(header))
		return false;
	memcpy(&header, lane->block + lane->at, sizeof(header));
	/*
	 * Of an invalid record neither the length nor the number of lost records is known; the next
	 * block begins with a record.
	 */
	if (header.flags & TRACE_RECORD_FILL || !has_event(lane, &header, &head)) {
		lane->at = lane->copied_bytes;
		return false;
	}
	reader->lost += header.number - lane->number;
	lane->number = header.number + 1;
	lane->time_ns = header.flags & TRACE_RECORD_TICKS ?
				trace_clock_ns(reader->clock, head.time_ns) :
				head.time_ns;
	return true;
}

static bool find_record(struct trace_ring_reader *reader, unsigned int index)
{
	struct trace_lane_reader *lane = &reader->lanes[index];

	while (!lane->has_next) {
		if (lane->at < lane->copied_bytes)
			lane->has_next = find_in_block(reader, lane);
		else if (!copy_block(reader, index))
			return false;
	}
	return true;
}

/* The lane with the oldest record; NULL: no lane has a record. */
static struct trace_lane_reader *oldest_lane(struct trace_ring_reader *reader)
{
	struct trace_lane_reader *first = NULL;

	for (unsigned int i = 0; i < TRACE_RING_LANES; i++) {
		struct trace_lane_reader *lane = &reader->lanes[i];

		if (find_record(reader, i) && (!first || lane->time_ns < first->time_ns))
			first = lane;
	}
	return first;
}

bool trace_ring_peek(struct trace_ring_reader *reader, uint64_t *time_ns)
{
	if (!reader->oldest)
		reader->oldest = oldest_lane(reader);
	if (reader->oldest)
		*time_ns = reader->oldest->time_ns;
	return reader->oldest != NULL;
}

bool trace_ring_next(struct trace_ring_reader *reader, struct trace_event *event)
{
	struct trace_lane_reader *lane;
	struct trace_record_header header;
	uint64_t time_ns;
	size_t used;

	if (!trace_ring_peek(reader, &time_ns))
		return false;
	lane = reader->oldest;
	reader->oldest = NULL;
	memcpy(&header, lane->block + lane->at, sizeof(header));
	used = header.bytes - EVENT_OFFSET;
	memcpy(event, lane->block + lane->at + EVENT_OFFSET, used);
	memset((uint8_t *)event + used, 0, sizeof(*event) - used);
	event->time_ns = time_ns;
	lane->at += (header.bytes + 7u) & ~7u;
	lane->has_next = false;
	return true;
}
