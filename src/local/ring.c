/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/ring.h"

#include "base/prefetch.h"
#include "local/probe.h"

#include <string.h>

/*
 * Cells or bytes that are freed at once, to reduce cache line transfers between writer and reader.
 */
#define RELEASE_CELLS (RING_CELLS / 8)
#define RELEASE_BYTES (RING_DATA_BYTES / 8)

/*
 * The reader's processor has the lines of the cells that it has read. The writer fetches the line
 * of a cell this number of cells before it fills the cell.
 */
#define PREFETCH_CELLS 8

void ring_writer_init(struct ring_writer *writer, struct ring_shared *shared)
{
	memset(writer, 0, sizeof(*writer));
	writer->shared = shared;
}

void ring_reader_init(struct ring_reader *reader, struct ring_shared *shared)
{
	memset(reader, 0, sizeof(*reader));
	reader->shared = shared;
}

/*
 * Reads the reader's tail. A tail outside of [writer->tail, writer->head] is invalid and ignored.
 * Acquire: the reader has read the freed cells and their payload, which the caller overwrites, and
 * has stored the data of these messages (has_peer_caught_up()). Pairs with ring_publish().
 */
static void refresh_tail(struct ring_writer *writer)
{
	uint32_t tail = atomic_load_explicit(&writer->shared->tail, memory_order_acquire);

	if (tail == writer->tail || tail - writer->tail > writer->head - writer->tail)
		return;
	writer->tail = tail;
	writer->data_tail = writer->data_ends[(tail - 1) % RING_CELLS];
}

bool ring_has_passed(struct ring_writer *writer, uint32_t position)
{
	if ((int32_t)(writer->tail - position) < 0)
		refresh_tail(writer);
	return (int32_t)(writer->tail - position) >= 0;
}

/*
 * The position of far_bytes contiguous bytes in the data area, or -1. Payload does not wrap around:
 * the rest of the area is skipped.
 */
static int64_t data_place(const struct ring_writer *writer, uint32_t far_bytes)
{
	uint64_t start = writer->data_head;
	uint64_t to_end = RING_DATA_BYTES - start % RING_DATA_BYTES;

	if (to_end < far_bytes)
		start += to_end;
	if (start + far_bytes - writer->data_tail > RING_DATA_BYTES)
		return -1;
	return (int64_t)start;
}

static bool fits(const struct ring_writer *writer, uint32_t far_bytes)
{
	if (writer->head - writer->tail >= RING_CELLS)
		return false;
	return !far_bytes || data_place(writer, far_bytes) >= 0;
}

bool ring_has_space(struct ring_writer *writer, uint32_t far_bytes)
{
	if (fits(writer, far_bytes))
		return true;
	refresh_tail(writer);
	return fits(writer, far_bytes);
}

struct cell *ring_reserve(struct ring_writer *writer, uint32_t far_bytes, uint8_t **far)
{
	struct cell *cell;
	uint64_t start;

	if (!ring_has_space(writer, far_bytes) || fault_code(FAULT_FIFO_SEND))
		return NULL;
	cell = &writer->shared->cells[writer->head % RING_CELLS];
	cell->flags = 0;
	writer->data_next = writer->data_head;
	if (far_bytes) {
		start = (uint64_t)data_place(writer, far_bytes);
		writer->data_start = start;
		*far = writer->shared->data + start % RING_DATA_BYTES;
		cell->flags = CELL_FAR;
		cell->data_offset = (uint32_t)(start % RING_DATA_BYTES);
		/* Rounded up to cache lines, so that two messages never share a line. */
		writer->data_next = start + ((far_bytes + 63) & ~63u);
	}
	return cell;
}

/*
 * Release: the contents of the cell, its payload, and the data of preceding WRITEs to mapped memory
 * are stored before. Pairs with ring_has_next().
 */
static inline void ring_publish_cell(struct ring_writer *writer, struct cell *cell)
{
	writer->data_head = writer->data_next;
	writer->data_ends[writer->head % RING_CELLS] = writer->data_head;
	writer->head++;
	atomic_store_explicit(&cell->seq, writer->head, memory_order_release);
	prefetch_to_write(&writer->shared->cells[(writer->head + PREFETCH_CELLS) % RING_CELLS]);
}

/*
 * The event precedes the store that makes the cell valid, so that the time of the reader's event is
 * later. The peer can change the cell at any time, so the event is of a copy, and the place of the
 * payload comes from private memory.
 */
PROBE_COLD static void commit_traced(struct ring_writer *writer, struct cell *cell)
{
	const uint8_t *payload;
	uint64_t payload_max;
	struct cell copy;

	memcpy(&copy, cell, sizeof(copy));
	payload = copy.data;
	payload_max = RING_CELL_DATA_BYTES;
	if (writer->data_next != writer->data_head) {
		payload = writer->shared->data + writer->data_start % RING_DATA_BYTES;
		payload_max = writer->data_next - writer->data_start;
	}
	if (copy.bytes > payload_max)
		copy.bytes = (uint16_t)payload_max;
	if (trace_wants_element(&copy))
		emit_fifo(TRACE_FIFO_SENT, &copy, payload, writer->traced_wr_id);
	writer->traced_wr_id = 0;
	ring_publish_cell(writer, cell);
}

void ring_commit(struct ring_writer *writer, struct cell *cell)
{
	/* A tail call, so that the function needs no stack frame when tracing is off. */
	if (trace_is_on())
		commit_traced(writer, cell);
	else
		ring_publish_cell(writer, cell);
}

bool ring_write_notice(struct ring_writer *writer, enum cell_type type, uint32_t rkey)
{
	struct cell *cell = ring_reserve(writer, 0, NULL);

	if (!cell)
		return false;
	cell->type = (uint8_t)type;
	cell->bytes = 0;
	cell->dst_qpn = 0;
	cell->src_qpn = 0;
	cell->rkey = rkey;
	ring_commit(writer, cell);
	return true;
}

bool ring_next(struct ring_reader *reader, struct cell *cell)
{
	const struct cell *from = &reader->shared->cells[reader->head % RING_CELLS];

	if (!ring_has_next(reader))
		return false;
	memcpy(cell, from, sizeof(*cell));
	return true;
}

const uint8_t *ring_payload(const struct ring_reader *reader, const struct cell *cell)
{
	if (!(cell->flags & CELL_FAR))
		return cell->bytes <= RING_CELL_DATA_BYTES ? cell->data : NULL;
	if (cell->data_offset > RING_DATA_BYTES ||
	    cell->bytes > RING_DATA_BYTES - cell->data_offset)
		return NULL;
	return reader->shared->data + cell->data_offset;
}

/* Release: the freed cells and their payload were read before. Pairs with refresh_tail(). */
void ring_publish(struct ring_reader *reader)
{
	if (reader->head == reader->tail)
		return;
	reader->tail = reader->head;
	reader->unpublished_bytes = 0;
	atomic_store_explicit(&reader->shared->tail, reader->tail, memory_order_release);
}

void ring_release(struct ring_reader *reader, const struct cell *cell)
{
	reader->head++;
	if (cell->flags & CELL_FAR)
		reader->unpublished_bytes += cell->bytes;
	if (reader->head - reader->tail >= RELEASE_CELLS ||
	    reader->unpublished_bytes >= RELEASE_BYTES)
		ring_publish(reader);
}
