/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The FIFO against a queue: every committed message is read once, in order and complete. A faulty
 * peer has no effect on others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/trace_clock.h"
#include "base/trace_ring.h"
#include "local/ring.h"

struct fixture {
	struct ring_shared *shared;
	struct ring_writer writer;
	struct ring_reader reader;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->shared = mmap(NULL, sizeof(*f->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(f->shared, MAP_FAILED);
	ring_writer_init(&f->writer, f->shared);
	ring_reader_init(&f->reader, f->shared);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	munmap(f->shared, sizeof(*f->shared));
	free(f);
	return 0;
}

/* Message i consists of `bytes` times the low byte of i. */
static bool put(struct fixture *f, uint32_t i, uint32_t bytes)
{
	uint8_t *payload = NULL;
	struct cell *cell = ring_reserve(&f->writer, bytes > RING_CELL_DATA_BYTES ? bytes : 0,
					 &payload);

	if (!cell)
		return false;
	if (bytes <= RING_CELL_DATA_BYTES)
		payload = cell->data;
	memset(payload, (int)(i & 0xff), bytes);
	cell->type = CELL_SEND;
	cell->ssn = i;
	cell->bytes = (uint16_t)bytes;
	ring_commit(&f->writer, cell);
	return true;
}

static bool take(struct fixture *f, uint32_t i)
{
	const uint8_t *payload;
	struct cell cell;

	if (!ring_next(&f->reader, &cell))
		return false;
	assert_int_equal(cell.ssn, i);
	payload = ring_payload(&f->reader, &cell);
	assert_non_null(payload);
	for (uint32_t at = 0; at < cell.bytes; at++)
		assert_int_equal(payload[at], i & 0xff);
	ring_release(&f->reader, &cell);
	return true;
}

static void ring_has_next_empty_ring_is_false(void **state)
{
	struct fixture *f = *state;
	struct cell cell;

	assert_false(ring_has_next(&f->reader));
	assert_false(ring_next(&f->reader, &cell));
}

static void ring_publish_keeps_order_and_bytes(void **state)
{
	struct fixture *f = *state;
	uint32_t sent = 0, received = 0;

	srandom(7);
	while (received < 200000) {
		for (long n = random() % 64; n > 0; n--) {
			uint32_t bytes = random() % 3 ?
						 (uint32_t)random() % 40 :
						 (uint32_t)random() % (RING_FRAGMENT_BYTES + 1);

			if (!put(f, sent, bytes))
				break;
			sent++;
		}
		for (long n = random() % 64; n > 0 && received < sent; n--) {
			assert_true(take(f, received));
			received++;
		}
		if (random() % 4 == 0)
			ring_publish(&f->reader);
	}
	while (received < sent)
		assert_true(take(f, received++));
	assert_false(ring_has_next(&f->reader));
}

static void ring_has_space_no_free_element_is_false(void **state)
{
	struct fixture *f = *state;
	uint32_t n = 0;

	while (put(f, n, 8))
		n++;
	assert_int_equal(n, RING_CELLS);
	assert_false(ring_has_space(&f->writer, 0));
	assert_true(take(f, 0));
	ring_publish(&f->reader);
	assert_true(put(f, n, 8));
	assert_false(put(f, n, 8));
}

static void ring_has_space_no_free_data_is_false(void **state)
{
	struct fixture *f = *state;
	uint32_t n = 0;

	while (put(f, n, RING_FRAGMENT_BYTES))
		n++;
	assert_int_equal(n, RING_DATA_BYTES / RING_FRAGMENT_BYTES);
	/* Elements are free, so a message without an out-of-line payload can still be sent. */
	assert_true(put(f, n, 8));
	assert_true(take(f, 0));
	ring_publish(&f->reader);
	assert_true(ring_has_space(&f->writer, RING_FRAGMENT_BYTES));
}

/* A reservation that is not committed takes no space, however often it is repeated. */
static void ring_reserve_without_publish_takes_no_space(void **state)
{
	struct fixture *f = *state;
	uint8_t *payload;

	for (uint32_t i = 0; i < 2 * RING_DATA_BYTES / RING_FRAGMENT_BYTES; i++)
		assert_non_null(ring_reserve(&f->writer, RING_FRAGMENT_BYTES, &payload));
	assert_true(put(f, 0, RING_FRAGMENT_BYTES));
	assert_true(take(f, 0));
}

/*
 * If a reader claims to have read elements that were never written, the writer must not overwrite
 * elements or exceed the ring.
 */
static void ring_has_space_invalid_tail_is_ignored(void **state)
{
	struct fixture *f = *state;
	static const uint32_t tails[] = {RING_CELLS + 1, RING_CELLS * 2, 0x80000000u, UINT32_MAX};
	uint32_t n = 0;

	while (put(f, n, 8))
		n++;
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		atomic_store(&f->shared->tail, tails[i]);
		assert_false(ring_has_space(&f->writer, 0));
	}
	atomic_store(&f->shared->tail, 5);
	assert_true(ring_has_space(&f->writer, 0));
	/* The reader must not decrease its position either. */
	atomic_store(&f->shared->tail, 2);
	assert_true(ring_has_space(&f->writer, 0));
	for (uint32_t i = 0; i < 5; i++)
		assert_true(put(f, n + i, 8));
	assert_false(put(f, n, 8));
}

/* Elements with a payload outside the ring are treated as without payload. */
static void ring_payload_outside_ring_is_null(void **state)
{
	struct fixture *f = *state;
	struct cell cell = {.flags = CELL_FAR};

	cell.data_offset = RING_DATA_BYTES - 10;
	cell.bytes = 10;
	assert_non_null(ring_payload(&f->reader, &cell));
	cell.bytes = 11;
	assert_null(ring_payload(&f->reader, &cell));
	cell.data_offset = UINT32_MAX;
	cell.bytes = 1;
	assert_null(ring_payload(&f->reader, &cell));
	cell.flags = 0;
	cell.bytes = RING_CELL_DATA_BYTES;
	assert_ptr_equal(ring_payload(&f->reader, &cell), cell.data);
	cell.bytes = RING_CELL_DATA_BYTES + 1;
	assert_null(ring_payload(&f->reader, &cell));
}

/* Positions are 32-bit numbers and wrap. */
static void ring_publish_positions_wrap(void **state)
{
	struct fixture *f = *state;
	uint32_t start = UINT32_MAX - 100;

	f->writer.head = f->writer.tail = start;
	f->reader.head = f->reader.tail = start;
	atomic_store(&f->shared->tail, start);
	for (uint32_t i = 0; i < 300; i++) {
		assert_true(put(f, i, 100));
		assert_true(take(f, i));
	}
}

static void configure_faults(const char *rules)
{
	char why[128];

	assert_int_equal(fault_configure(rules, why, sizeof(why)), 0);
}

/*
 * Otherwise the number of passes would depend on how often the writer tried while the FIFO was
 * full.
 */
static void ring_full_fifo_does_not_pass_fifo_send(void **state)
{
	struct fixture *f = *state;
	uint32_t sent = 0;

	while (put(f, sent, 8))
		sent++;
	configure_faults("fifo.send:fail:nth=2");
	assert_false(put(f, sent, 8));
	assert_false(put(f, sent, 8));
	assert_true(take(f, 0));
	assert_true(take(f, 1));
	assert_true(take(f, 2));
	ring_publish(&f->reader);
	assert_true(put(f, sent, 8));
	assert_false(put(f, sent + 1, 8));
	assert_true(put(f, sent + 1, 8));
	for (uint32_t i = 3; i < sent + 2; i++)
		assert_true(take(f, i));
	assert_false(take(f, sent + 2));
	configure_faults(NULL);
}

static struct trace_fifo traced_element(struct trace_ring_reader *reader)
{
	struct trace_event event = {0};

	trace_ring_refresh(reader);
	assert_true(trace_ring_next(reader, &event));
	assert_int_equal(event.type, TRACE_FIFO_SENT);
	return event.fifo;
}

/*
 * The peer changes an element between its reservation and its event. The payload of the event is
 * what was written.
 */
static void ring_commit_traced_element_changed_by_peer_stays_in_bounds(void **state)
{
	struct fixture *f = *state;
	const uint8_t expected[100] = {[0 ... 99] = 0x5a};
	struct trace_ring_reader reader;
	struct trace_clock clock;
	struct trace_fifo element;
	uint8_t *payload = NULL;
	struct cell *cell;
	int fd = trace_ring_create();

	trace_clock_init(&clock);
	assert_int_equal(trace_ring_open(&reader, fd, &clock), 0);
	assert_int_equal(trace_ring_attach(fd), 0);
	trace_ring_want_packets(true);

	cell = ring_reserve(&f->writer, sizeof(expected), &payload);
	assert_non_null(cell);
	memcpy(payload, expected, sizeof(expected));
	cell->type = CELL_SEND;
	cell->bytes = UINT16_MAX;
	cell->data_offset = UINT32_MAX - 64;
	ring_commit(&f->writer, cell);
	element = traced_element(&reader);
	assert_int_equal(element.element_bytes, 128);
	assert_memory_equal(element.payload, expected, sizeof(expected));

	cell = ring_reserve(&f->writer, 0, NULL);
	assert_non_null(cell);
	cell->type = CELL_SEND;
	cell->flags = CELL_FAR;
	cell->bytes = UINT16_MAX;
	cell->data_offset = UINT32_MAX - 64;
	ring_commit(&f->writer, cell);
	assert_int_equal(traced_element(&reader).element_bytes, RING_CELL_DATA_BYTES);

	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ring_has_next_empty_ring_is_false, setup, teardown),
		cmocka_unit_test_setup_teardown(ring_publish_keeps_order_and_bytes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring_has_space_no_free_element_is_false, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring_has_space_no_free_data_is_false, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring_reserve_without_publish_takes_no_space, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring_has_space_invalid_tail_is_ignored, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring_payload_outside_ring_is_null, setup, teardown),
		cmocka_unit_test_setup_teardown(ring_publish_positions_wrap, setup, teardown),
		cmocka_unit_test_setup_teardown(ring_full_fifo_does_not_pass_fifo_send, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			ring_commit_traced_element_changed_by_peer_stays_in_bounds, setup,
			teardown),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
