/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <stdlib.h>

/*
 * Memory that one side maps and the other writes: when the peer learns of a mapping, and of a
 * write.
 */

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

/* The peer receives a mapping before the data that is sent after it. */
static void announce(int from, int to)
{
	char byte = 0;

	assert_int_equal(rsend(from, &byte, 1, 0), 1);
	assert_int_equal(rrecv(to, &byte, 1, 0), 1);
}

static void riowrite_data_precedes_later_send(void **state)
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
	/* Writes a few bytes, and checks that no other byte changes. */
	memset(memory, 0, BYTES);
	assert_int_equal(riowrite(streams.active, "abc", 3, 4096 + 1000, 0), 3);
	announce(streams.active, streams.passive);
	assert_memory_equal(memory + 999, "\0abc\0", 5);
	assert_int_equal(riounmap(streams.passive, memory, BYTES), 0);
	free(bytes);
}

static void riomap_offset_minus_1_is_address(void **state)
{
	off_t offset = riomap(streams.passive, memory, BYTES, PROT_WRITE, 0, -1);

	(void)state;
	assert_int_equal(offset, (off_t)(uintptr_t)memory);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, "xyz", 3, offset + 7, 0), 3);
	announce(streams.active, streams.passive);
	assert_memory_equal(memory + 7, "xyz", 3);
}

static void riowrite_beyond_mapping_is_truncated(void **state)
{
	uint8_t bytes[200] = {1};

	(void)state;
	assert_int_equal(riomap(streams.passive, memory, 100, PROT_WRITE, 0, 0), 0);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, bytes, sizeof(bytes), 0, 0), 100);
	assert_minus1_errno((ssize_t)riowrite(streams.active, bytes, 1, 100, 0), EINVAL);
	assert_minus1_errno((ssize_t)riowrite(streams.active, bytes, 1, -1, 0), EINVAL);
	/* The other side has mapped no memory. */
	assert_minus1_errno((ssize_t)riowrite(streams.passive, bytes, 1, 0, 0), EINVAL);
	announce(streams.active, streams.passive);
}

/* One call writes to two mappings with adjacent offsets. */
static void riowrite_continues_in_adjacent_mapping(void **state)
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

static void riomap_above_iomapsize_fails(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(riomap(streams.passive, memory + i, 1, PROT_WRITE, 0, i), i);
	assert_minus1_errno((int)riomap(streams.passive, memory + 4, 1, PROT_WRITE, 0, 4), ENOMEM);
	/* A mapping with PROT_NONE is not sent to the peer and uses no entry there. */
	assert_int_equal(riomap(streams.passive, memory + 5, 1, PROT_NONE, 0, 5), 5);
	assert_int_equal(riounmap(streams.passive, memory + 2, 1), 0);
	assert_int_equal(riomap(streams.passive, memory + 4, 1, PROT_WRITE, 0, 4), 4);
	announce(streams.passive, streams.active);
	assert_int_equal(riowrite(streams.active, "z", 1, 4, 0), 1);
	announce(streams.active, streams.passive);
	assert_int_equal(memory[4], 'z');
}

/* More mappings than credits: a mapping must not use a credit permanently. */
static void riomap_repeated_uses_no_credit_permanently(void **state)
{
	(void)state;
	for (int round = 0; round < 1000; round++) {
		assert_int_equal(riomap(streams.passive, memory, 100, PROT_WRITE, 0, 0), 0);
		announce(streams.passive, streams.active);
		assert_int_equal(riounmap(streams.passive, memory, 100), 0);
	}
}

static void riomap_invalid_argument_fails(void **state)
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

/* Without RDMA_IOMAPSIZE no mapping is possible. */
static void riomap_without_iomapsize_fails(void **state)
{
	struct streams plain;
	uint8_t byte;

	(void)state;
	streams_open(&plain);
	assert_minus1_errno((int)riomap(plain.active, &byte, 1, PROT_WRITE, 0, 0), ENOMEM);
	streams_close(&plain);
}

/* A write to unmapped memory ends the connection of the writer, and has no other effect. */
static void riowrite_after_riounmap_ends_connection(void **state)
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
		CASE(riowrite_data_precedes_later_send),
		CASE(riomap_offset_minus_1_is_address),
		CASE(riowrite_beyond_mapping_is_truncated),
		CASE(riowrite_continues_in_adjacent_mapping),
		CASE(riomap_above_iomapsize_fails),
		CASE(riomap_repeated_uses_no_credit_permanently),
		CASE(riomap_invalid_argument_fails),
		cmocka_unit_test(riomap_without_iomapsize_fails),
		CASE(riowrite_after_riounmap_ends_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
