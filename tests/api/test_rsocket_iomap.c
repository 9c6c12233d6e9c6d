/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <stdlib.h>

/* Memory that one side opens and the other writes: who hears of what, and when. */

#define BYTES 300000

static struct streams streams;
static uint8_t *memory;

static void allow_iomaps(int socket)
{
	rs_set(socket, SOL_RDMA, RDMA_IOMAPSIZE, 4);
	assert_int_equal(rs_get(socket, SOL_RDMA, RDMA_IOMAPSIZE), 4);
}

static int open_streams(void **state)
{
	(void)state;
	streams_open_at(&streams, "127.0.0.1", allow_iomaps);
	memory = calloc(1, BYTES);
	return memory ? 0 : -1;
}

static int close_streams(void **state)
{
	(void)state;
	streams_close(&streams);
	free(memory);
	return 0;
}

/* The peer learns of a mapping in front of the data that is sent after it. */
static void announce(int from, int to)
{
	char byte = 0;

	assert_int_equal(rsend(from, &byte, 1, 0), 1);
	assert_int_equal(rrecv(to, &byte, 1, 0), 1);
}

static void what_is_written_is_there_before_what_is_sent(void **state)
{
	uint8_t *bytes = malloc(BYTES);

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(riomap(streams.passive, memory, BYTES, PROT_WRITE, 0, 4096), 4096);
	announce(streams.passive, streams.active);
	for (uint8_t round = 0; round < 10; round++) {
		pattern_fill(bytes, BYTES, round);
		assert_int_equal(riowrite(streams.active, bytes, BYTES, 4096, 0), BYTES);
		announce(streams.active, streams.passive);
		assert_true(pattern_holds(memory, BYTES, round));
	}
	/* A few bytes somewhere in it, and nothing beside them. */
	memset(memory, 0, BYTES);
	assert_int_equal(riowrite(streams.active, "abc", 3, 4096 + 1000, 0), 3);
	announce(streams.active, streams.passive);
	assert_memory_equal(memory + 999, "\0abc\0", 5);
	assert_int_equal(riounmap(streams.passive, memory, BYTES), 0);
	free(bytes);
}

static void without_an_offset_it_is_the_address(void **state)
{
	off_t offset = riomap(streams.passive, memory, BYTES, PROT_WRITE, 0, -1);

	(void)state;
	assert_int_equal(offset, (off_t)(uintptr_t)memory);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, "xyz", 3, offset + 7, 0), 3);
	announce(streams.active, streams.passive);
	assert_memory_equal(memory + 7, "xyz", 3);
}

static void writing_stops_at_the_end_of_the_memory(void **state)
{
	uint8_t bytes[200] = {1};

	(void)state;
	assert_int_equal(riomap(streams.passive, memory, 100, PROT_WRITE, 0, 0), 0);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, bytes, sizeof(bytes), 0, 0), 100);
	assert_minus1_errno((ssize_t)riowrite(streams.active, bytes, 1, 100, 0), EINVAL);
	assert_minus1_errno((ssize_t)riowrite(streams.active, bytes, 1, -1, 0), EINVAL);
	/* The other side opened nothing. */
	assert_minus1_errno((ssize_t)riowrite(streams.passive, bytes, 1, 0, 0), EINVAL);
	announce(streams.active, streams.passive);
}

/* Two mappings that lie next to each other under their offsets are written in one call. */
static void a_write_goes_on_in_the_next_mapping(void **state)
{
	uint8_t bytes[200];

	(void)state;
	pattern_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(riomap(streams.passive, memory, 100, PROT_WRITE, 0, 0), 0);
	assert_int_equal(riomap(streams.passive, memory + 1000, 100, PROT_WRITE, 0, 100), 100);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, bytes, 200, 0, 0), 200);
	announce(streams.active, streams.passive);
	assert_memory_equal(memory, bytes, 100);
	assert_memory_equal(memory + 1000, bytes + 100, 100);
}

static void the_peer_has_room_for_so_many(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(riomap(streams.passive, memory + i, 1, PROT_WRITE, 0, i), i);
	assert_minus1_errno((int)riomap(streams.passive, memory + 4, 1, PROT_WRITE, 0, 4), ENOMEM);
	/* What is not for the peer needs no room there. */
	assert_int_equal(riomap(streams.passive, memory + 5, 1, PROT_NONE, 0, 5), 5);
	assert_int_equal(riounmap(streams.passive, memory + 2, 1), 0);
	assert_int_equal(riomap(streams.passive, memory + 4, 1, PROT_WRITE, 0, 4), 4);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, "z", 1, 4, 0), 1);
	announce(streams.active, streams.passive);
	assert_int_equal(memory[4], 'z');
}

/* More mappings than there are credits: they must not use any up for good. */
static void mapping_again_and_again(void **state)
{
	(void)state;
	for (int round = 0; round < 1000; round++) {
		assert_int_equal(riomap(streams.passive, memory, 100, PROT_WRITE, 0, 0), 0);
		announce(streams.passive, streams.active);
		assert_int_equal(riounmap(streams.passive, memory, 100), 0);
	}
}

static void nonsense_is_refused(void **state)
{
	int fd = rs_stream(AF_INET), dgram = rsocket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	assert_minus1_errno((int)riomap(streams.active, memory, BYTES, PROT_READ, 0, 0), EINVAL);
	assert_minus1_errno((int)riomap(streams.active, memory, 0, PROT_WRITE, 0, 0), EINVAL);
	assert_minus1_errno((int)riomap(streams.active, NULL, 1, PROT_WRITE, 0, 0), EINVAL);
	assert_minus1_errno((int)riomap(streams.active, memory, BYTES, PROT_WRITE, 0, -2), EINVAL);
	assert_minus1_errno((int)riomap(streams.active, memory, (size_t)1 << 32, PROT_WRITE, 0, 0),
			    EINVAL);
	assert_minus1_errno(riounmap(streams.active, memory, BYTES), EINVAL);
	assert_minus1_errno((int)riomap(fd, memory, BYTES, PROT_WRITE, 0, 0), ENOTCONN);
	assert_minus1_errno(riounmap(fd, memory, BYTES), EINVAL);
	assert_minus1_errno((ssize_t)riowrite(fd, memory, 1, 0, 0), ENOTCONN);
	assert_true(dgram >= 0);
	assert_minus1_errno((int)riomap(dgram, memory, BYTES, PROT_WRITE, 0, 0), EOPNOTSUPP);
	assert_minus1_errno(riounmap(dgram, memory, BYTES), EOPNOTSUPP);
	assert_minus1_errno((ssize_t)riowrite(dgram, memory, 1, 0, 0), EOPNOTSUPP);
	rs_close(dgram);
	rs_close(fd);
}

/* Without RDMA_IOMAPSIZE there is no room. */
static void by_default_there_is_no_room(void **state)
{
	struct streams plain;
	uint8_t byte;

	(void)state;
	streams_open(&plain);
	assert_minus1_errno((int)riomap(plain.active, &byte, 1, PROT_WRITE, 0, 0), ENOMEM);
	streams_close(&plain);
}

/* Memory that is gone ends the connection of who writes there, and nothing else. */
static void writing_after_unmapping_breaks_the_connection(void **state)
{
	char byte = 0;

	(void)state;
	assert_int_equal(riomap(streams.passive, memory, BYTES, PROT_WRITE, 0, 0), 0);
	announce(streams.passive, streams.active);
	assert_int_equal(riounmap(streams.passive, memory, BYTES), 0);
	assert_int_equal(riowrite(streams.active, "a", 1, 0, 0), 1);
	assert_true(rs_await(streams.active, POLLIN) & POLLERR);
	assert_minus1_errno(rrecv(streams.active, &byte, 1, 0), ECONNRESET);
	assert_int_equal(memory[0], 0);
	assert_minus1_errno((int)riomap(streams.active, memory, 1, PROT_WRITE, 0, 0), ECONNRESET);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_streams, close_streams)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_written_is_there_before_what_is_sent),
		CASE(without_an_offset_it_is_the_address),
		CASE(writing_stops_at_the_end_of_the_memory),
		CASE(a_write_goes_on_in_the_next_mapping),
		CASE(the_peer_has_room_for_so_many),
		CASE(mapping_again_and_again),
		CASE(nonsense_is_refused),
		cmocka_unit_test(by_default_there_is_no_room),
		CASE(writing_after_unmapping_breaks_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
