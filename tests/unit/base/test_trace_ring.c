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
#include <unistd.h>

#include <cmocka.h>

static void print_nothing(char *out, size_t out_bytes, const struct trace_event *event)
{
	(void)event;
	snprintf(out, out_bytes, "nothing");
}

static const struct trace_point point = {TRACE_CQE, "test", print_nothing};

static void emit(uint32_t qpn)
{
	struct trace_event event = {.qpn = qpn};

	if (trace_is_on())
		trace_emit(&point, &event);
}

static int ring_with_reader(struct trace_ring_reader *reader)
{
	int fd = trace_ring_create();

	assert_true(fd >= 0);
	assert_int_equal(trace_ring_open(reader, fd), 0);
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
		assert_true(trace_ring_next(&reader, &event));
		assert_int_equal(event.qpn, i);
		assert_int_equal(event.type, TRACE_CQE);
	}
	assert_false(trace_ring_next(&reader, &event));
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
	const uint32_t count = 3 * TRACE_RING_SLOTS;
	uint32_t expected = 0, read = 0;
	int fd = ring_with_reader(&reader);

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		emit(i);
	while (trace_ring_next(&reader, &event)) {
		assert_true(event.qpn >= expected);
		expected = event.qpn + 1;
		read++;
	}
	assert_int_equal(expected, count);
	assert_int_equal(read + reader.lost, count);
	assert_true(read > TRACE_RING_SLOTS / 2);
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
	for (uint32_t i = 0; i < TRACE_RING_SLOTS; i++) {
		memset(&event, 0xff, sizeof(event));
		trace_emit(&packet, &event);
	}
	event = (struct trace_event){.fifo = {.payload_bytes = 3, .payload = "abc"}};
	trace_emit(&(struct trace_point){TRACE_FIFO_SENT, "test", print_nothing}, &event);
	emit(5);
	while (trace_ring_next(&reader, &event) && event.type != TRACE_FIFO_SENT)
		;
	assert_string_equal((const char *)event.fifo.payload, "abc");
	assert_int_equal(event.fifo.payload[TRACE_PAYLOAD_BYTES - 1], 0);
	assert_true(trace_ring_next(&reader, &event));
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
	assert_false(trace_ring_next(&reader, &event));
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
	assert_false(trace_ring_next(&first, &event));
	assert_true(trace_ring_next(&second, &event));
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
static void trace_ring_next_arbitrary_contents_returns(void **state)
{
	struct trace_ring_reader reader;
	struct trace_event event;
	struct trace_ring *ring;
	int fd = trace_ring_create();

	(void)state;
	assert_int_equal(trace_ring_open(&reader, fd), 0);
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring, MAP_FAILED);
	atomic_store(&ring->next, UINT64_MAX - 1);
	for (uint64_t i = 0; i < TRACE_RING_SLOTS; i++)
		atomic_store(&ring->slots[i].seq, i * 0x9e3779b97f4a7c15u);
	for (int i = 0; i < 100 && trace_ring_next(&reader, &event); i++)
		;
	memset(ring, 0xff, sizeof(*ring));
	assert_false(trace_ring_next(&reader, &event));
	munmap(ring, sizeof(*ring));
	trace_ring_close(&reader);
	close(fd);
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

		while (trace_ring_next(reader, &event)) {
			if (event.psn != ~event.qpn)
				_exit(1);
		}
		if (has_ended)
			_exit(0);
	}
}

static void trace_ring_written_by_threads_has_whole_records(void **state)
{
	static const uint32_t firsts[] = {0, 0x10000000, 0x20000000};
	struct trace_ring_reader reader;
	pthread_t threads[3];
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
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_records,
						(void *)(uintptr_t)&firsts[i]),
				 0);
	for (size_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	close(done[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(done[0]);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_ring_attached_receives_events_in_order),
		cmocka_unit_test(trace_ring_overwritten_counts_lost_records),
		cmocka_unit_test(trace_ring_slot_used_again_has_no_bytes_of_the_former_event),
		cmocka_unit_test(trace_ring_detached_switches_tracing_off),
		cmocka_unit_test(trace_ring_attach_replaces_the_ring),
		cmocka_unit_test(trace_ring_attach_other_file_fails),
		cmocka_unit_test(trace_ring_next_arbitrary_contents_returns),
		cmocka_unit_test(trace_ring_written_by_threads_has_whole_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
