/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"

static void print_nothing(char *out, size_t out_bytes, const struct trace_event *event)
{
	(void)event;
	snprintf(out, out_bytes, "nothing");
}

/* Records of completions in one lane, at most. */
#define RECORDS (TRACE_LANE_BYTES / 64)

static const struct trace_point point = {TRACE_CQE, "test", print_nothing};

static void emit(uint32_t qpn)
{
	struct trace_event event = {.qpn = qpn};

	if (trace_is_on())
		trace_emit(&point, &event);
}

static struct trace_clock test_clock;

/* The next record that the process has written, if it is complete. */
static bool next_record(struct trace_ring_reader *reader, struct trace_event *event)
{
	trace_ring_refresh(reader);
	return trace_ring_next(reader, event);
}

static int ring_with_reader(struct trace_ring_reader *reader)
{
	int fd = trace_ring_create();

	assert_true(fd >= 0);
	assert_int_equal(trace_ring_open(reader, fd, &test_clock), 0);
	assert_int_equal(trace_ring_attach(fd), 0);
	return fd;
}

static void trace_ring_attached_receives_events_in_order(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	int fd = ring_with_reader(&reader);

	(void)state;
	for (uint32_t i = 1; i <= 3; i++)
		emit(i);
	for (uint32_t i = 1; i <= 3; i++) {
		assert_true(next_record(&reader, &event));
		assert_int_equal(event.qpn, i);
		assert_int_equal(event.type, TRACE_CQE);
	}
	assert_false(next_record(&reader, &event));
	assert_int_equal(reader.lost, 0);
	assert_int_equal(reader.ring->pid, getpid());
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

static void trace_ring_overwritten_counts_lost_records(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	const uint32_t count = 3 * RECORDS;
	uint32_t expected = 0, read = 0;
	int fd = ring_with_reader(&reader);

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		emit(i);
	while (next_record(&reader, &event)) {
		assert_true(event.qpn >= expected);
		expected = event.qpn + 1;
		read++;
	}
	assert_int_equal(expected, count);
	assert_int_equal(read + reader.lost, count);
	assert_true(read > RECORDS / 2);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

/* A writer that is faster than the reader, or hostile, does not keep the reader in one lane. */
static void trace_ring_next_overtaken_reads_nothing_newer_than_refresh(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	int fd = ring_with_reader(&reader);

	(void)state;
	emit(1);
	trace_ring_refresh(&reader);
	for (uint32_t i = 0; i < 3 * RECORDS; i++)
		emit(2);
	assert_false(trace_ring_next(&reader, &event));
	assert_true(next_record(&reader, &event));
	assert_int_equal(event.qpn, 2);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

/* The same for a position that the process sets back. */
static void trace_ring_next_position_set_back_reads_nothing(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	struct trace_ring *ring;
	int fd = ring_with_reader(&reader);

	(void)state;
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring, MAP_FAILED);
	for (uint32_t i = 0; i < 3 * TRACE_BLOCK_BYTES / 64; i++)
		emit(1);
	assert_true(next_record(&reader, &event));
	for (unsigned int lane = 0; lane < TRACE_RING_LANES; lane++)
		atomic_store(&ring->lanes[lane].committed, 0);
	/* The rest of the first block is a copy. */
	for (uint32_t i = 0; i < TRACE_BLOCK_BYTES / 64 && trace_ring_next(&reader, &event); i++)
		;
	assert_false(trace_ring_next(&reader, &event));
	munmap(ring, sizeof(*ring));
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

static void trace_ring_slot_used_again_has_no_bytes_of_the_former_event(void **state)
{
	const struct trace_point packet = {TRACE_PACKET_SENT, "test", print_nothing};
	struct trace_ring_reader reader;
	struct trace_event event;
	int fd = ring_with_reader(&reader);

	(void)state;
	for (uint32_t i = 0; i < TRACE_LANE_BYTES / sizeof(event); i++) {
		memset(&event, 0xff, sizeof(event));
		trace_emit(&packet, &event);
	}
	event = (struct trace_event){.fifo = {.payload_bytes = 3, .payload = "abc"}};
	trace_emit(&(struct trace_point){TRACE_FIFO_SENT, "test", print_nothing}, &event);
	emit(5);
	while (next_record(&reader, &event) && event.type != TRACE_FIFO_SENT)
		;
	assert_string_equal((const char *)event.fifo.payload, "abc");
	assert_int_equal(event.fifo.payload[TRACE_PAYLOAD_BYTES - 1], 0);
	assert_true(next_record(&reader, &event));
	assert_int_equal(event.qpn, 5);
	for (size_t i = 0; i < sizeof(event.raw); i++)
		assert_int_equal(event.raw[i], 0);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

static void trace_ring_detached_switches_tracing_off(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	int fd = ring_with_reader(&reader);

	(void)state;
	assert_true(trace_is_on());
	trace_ring_detach();
	assert_false(trace_is_on());
	assert_false(trace_ring_is_attached());
	emit(1);
	assert_false(next_record(&reader, &event));
	trace_ring_close(&reader);
	close(fd);
}

static void trace_ring_attach_replaces_the_ring(void **state)
{
	struct trace_ring_reader first, second;
	struct trace_event event;
	int fd = ring_with_reader(&first), other = ring_with_reader(&second);

	(void)state;
	emit(7);
	assert_false(next_record(&first, &event));
	assert_true(next_record(&second, &event));
	assert_int_equal(event.qpn, 7);
	trace_ring_detach();
	trace_ring_close(&first);
	trace_ring_close(&second);
	close(fd);
	close(other);
}

static void trace_ring_attach_other_file_fails(void **state)
{
	int fd = memfd_create("other", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(trace_ring_attach(fd), -EINVAL);
	assert_false(trace_ring_is_attached());
	close(fd);
}

/* The process that writes the ring may be hostile. */
static void read_some(struct trace_ring_reader *reader)
{
	struct trace_event event;

	for (int i = 0; i < 1000 && next_record(reader, &event); i++) {
		assert_int_equal(event.version, TRACE_VERSION);
		assert_int_equal(event.bytes, TRACE_EVENT_BYTES);
	}
}

static void trace_ring_next_arbitrary_contents_returns(void **state)
{
	static const uint64_t positions[] = {1,
					     7,
					     8,
					     TRACE_BLOCK_BYTES - 8,
					     TRACE_LANE_BYTES,
					     TRACE_LANE_BYTES + 100000,
					     12345,
					     0,
					     UINT64_MAX,
					     UINT64_MAX / 2};
	struct trace_ring_reader reader;
	struct trace_event event;
	struct trace_ring *ring;
	int fd = trace_ring_create();

	(void)state;
	assert_int_equal(trace_ring_open(&reader, fd, &test_clock), 0);
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring, MAP_FAILED);
	for (uint64_t i = 0; i < TRACE_LANE_BYTES / 8; i++) {
		uint64_t word = i * 0x9e3779b97f4a7c15u;

		memcpy(ring->data[1] + 8 * i, &word, sizeof(word));
	}
	for (uint64_t seed = 1; seed < 200; seed++) {
		for (unsigned int lane = 0; lane < TRACE_RING_LANES; lane++)
			atomic_store(&ring->lanes[lane].committed,
				     positions[(seed + lane) % (sizeof(positions) / 8)]);
		read_some(&reader);
	}
	memset(ring, 0xff, sizeof(*ring));
	read_some(&reader);
	assert_false(next_record(&reader, &event));
	munmap(ring, sizeof(*ring));
	trace_ring_close(&reader);
	close(fd);
}

/* Headers that are nearly valid: each length, at each distance from the end of the block. */
static void trace_ring_next_arbitrary_lengths_returns(void **state)
{
	struct trace_ring_reader reader;
	struct trace_ring *ring;
	int fd = trace_ring_create();

	(void)state;
	assert_int_equal(trace_ring_open(&reader, fd, &test_clock), 0);
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring, MAP_FAILED);
	for (uint32_t n = 0; n < 600; n++) {
		uint8_t *block = ring->data[1] + n * TRACE_BLOCK_BYTES;

		for (uint32_t at = 0; at < TRACE_BLOCK_BYTES; at += 8) {
			struct trace_event event = {.version = TRACE_VERSION,
						    .bytes = TRACE_EVENT_BYTES,
						    .time_ns = UINT64_MAX - n};
			const struct trace_record_header header = {.number = n * at,
								   .bytes = (uint16_t)n,
								   .flags = (uint16_t)(at / 64)};
			size_t left = TRACE_BLOCK_BYTES - at - 8;

			memcpy(block + at, &header, sizeof(header));
			memcpy(block + at + 8, &event,
			       left < TRACE_HEAD_BYTES ? left : TRACE_HEAD_BYTES);
			at += at % 3 ? 0 : (n & ~7u);
		}
		atomic_store(&ring->lanes[1].committed, (n + 1) * (uint64_t)TRACE_BLOCK_BYTES);
		read_some(&reader);
	}
	munmap(ring, sizeof(*ring));
	trace_ring_close(&reader);
	close(fd);
}

/* Another process of the user can write the position of a lane. */
static void trace_ring_put_arbitrary_position_stays_in_the_lane(void **state)
{
	struct trace_ring_reader reader;
	struct trace_ring *ring;
	int fd = ring_with_reader(&reader);

	(void)state;
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring, MAP_FAILED);
	emit(1);
	for (uint64_t back = 1; back < 600; back++) {
		for (unsigned int lane = 0; lane < TRACE_RING_LANES; lane++)
			atomic_store(&ring->lanes[lane].committed, UINT64_MAX - back);
		emit(2);
		read_some(&reader);
	}
	for (unsigned int lane = 2; lane < TRACE_RING_LANES; lane++) {
		for (size_t i = 0; i < TRACE_LANE_BYTES; i++)
			assert_int_equal(ring->data[lane][i], 0);
	}
	munmap(ring, sizeof(*ring));
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

static void trace_ring_times_are_those_of_the_monotonic_clock(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	int fd = ring_with_reader(&reader);

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t before_ns = clock_now_ns();

		emit(1);
		trace_clock_adjust(&test_clock);
		assert_true(next_record(&reader, &event));
		/* The reader's measurement of the rate has an error. */
		assert_true(event.time_ns + 100000 > before_ns);
		assert_true(event.time_ns < clock_now_ns() + 100000);
	}
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

/* The counter of some processors continues during a suspend, in which CLOCK_MONOTONIC stops. */
static void trace_clock_adjust_keeps_the_rate_after_a_suspend(void **state)
{
	struct trace_clock clock = test_clock;
	const struct timespec nap = {.tv_nsec = 5000000};
	const uint64_t hour_ticks = (uint64_t)(3600.0 * (double)CLOCK_NS_PER_S / clock.ns_per_tick);
	const double before = clock.ns_per_tick;

	(void)state;
	/* As if the counter were an hour ahead of the value when the clock was read before. */
	clock.first_ticks -= hour_ticks;
	clock.base_ticks -= hour_ticks;
	for (int i = 0; i < 3; i++) {
		trace_clock_adjust(&clock);
		nanosleep(&nap, NULL);
	}
	assert_true(clock.ns_per_tick > before * 0.9 && clock.ns_per_tick < before * 1.1);
}

/* A reader in another process sees only complete records while several threads write. */
static void *write_records(void *arg)
{
	const uint32_t first = *(const uint32_t *)arg;

	for (uint32_t i = 0; i < 50000; i++) {
		struct trace_event event = {.qpn = first + i, .psn = ~(first + i)};

		if (trace_is_on())
			trace_emit(&point, &event);
	}
	return NULL;
}

static void read_until_end(struct trace_ring_reader *reader, int done)
{
	struct trace_event event;
	char byte;

	for (;;) {
		bool has_ended = read(done, &byte, 1) == 0;

		while (next_record(reader, &event)) {
			if (event.psn != ~event.qpn)
				_exit(1);
		}
		if (has_ended)
			_exit(0);
	}
}

static void trace_ring_written_by_threads_has_whole_records(void **state)
{
	/* More threads than lanes, so that some share one. */
	static const uint32_t firsts[] = {0x0,	      0x10000000, 0x20000000,
					  0x30000000, 0x40000000, 0x50000000,
					  0x60000000, 0x70000000, 0x80000000};
	struct trace_ring_reader reader;
	struct trace_event event;
	uint64_t read_count = 0;
	pthread_t threads[COUNT(firsts)];
	int fd = ring_with_reader(&reader), done[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(done, O_NONBLOCK), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(done[1]);
		read_until_end(&reader, done[0]);
	}
	for (size_t i = 0; i < COUNT(firsts); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_records,
						(void *)(uintptr_t)&firsts[i]),
				 0);
	for (size_t i = 0; i < COUNT(firsts); i++)
		pthread_join(threads[i], NULL);
	close(done[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(done[0]);
	while (next_record(&reader, &event))
		read_count++;
	assert_int_equal(read_count + reader.lost, COUNT(firsts) * 50000);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

static void *emit_one(void *arg)
{
	(void)arg;
	emit(9);
	return NULL;
}

static void trace_ring_lane_of_ended_thread_is_taken_by_another(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	pthread_t thread;
	int fd = ring_with_reader(&reader);

	(void)state;
	emit(1);
	for (int i = 0; i < 3 * TRACE_RING_LANES; i++) {
		assert_int_equal(pthread_create(&thread, NULL, emit_one, NULL), 0);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 3 * TRACE_RING_LANES + 1; i++)
		assert_true(next_record(&reader, &event));
	assert_int_equal(atomic_load(&reader.ring->lanes[TRACE_LANE_SHARED].committed), 0);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_ring_attached_receives_events_in_order),
		cmocka_unit_test(trace_ring_overwritten_counts_lost_records),
		cmocka_unit_test(trace_ring_next_overtaken_reads_nothing_newer_than_refresh),
		cmocka_unit_test(trace_ring_next_position_set_back_reads_nothing),
		cmocka_unit_test(trace_ring_slot_used_again_has_no_bytes_of_the_former_event),
		cmocka_unit_test(trace_ring_detached_switches_tracing_off),
		cmocka_unit_test(trace_ring_attach_replaces_the_ring),
		cmocka_unit_test(trace_ring_attach_other_file_fails),
		cmocka_unit_test(trace_ring_next_arbitrary_contents_returns),
		cmocka_unit_test(trace_ring_next_arbitrary_lengths_returns),
		cmocka_unit_test(trace_ring_put_arbitrary_position_stays_in_the_lane),
		cmocka_unit_test(trace_ring_times_are_those_of_the_monotonic_clock),
		cmocka_unit_test(trace_clock_adjust_keeps_the_rate_after_a_suspend),
		cmocka_unit_test(trace_ring_lane_of_ended_thread_is_taken_by_another),
		cmocka_unit_test(trace_ring_written_by_threads_has_whole_records),
	};

	trace_clock_init(&test_clock);

	return cmocka_run_group_tests(tests, NULL, NULL);
}
