/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * WRITE and READ keep aligned words whole that another thread reads or writes during the operation.
 * Counters are examined in both byte orders: where a carry crosses a byte, a torn word is a value
 * that was never written.
 */

#include "fixture.h"

#include <endian.h>
#include <string.h>

#include "../words.h"

#define COUNT_FIRST 0xf8u
#define COUNT_LAST  0x108u
/* WRITEs or READs of each size and block. */
#define COUNTERS      4000u
#define COUNTERS_ROCE 1000u
#define COPIES	      300u

static struct api api;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	api_close(&api);
	return 0;
}

static void execute(struct pair *pair, enum ibv_wr_opcode opcode, size_t ours, size_t theirs,
		    uint32_t bytes)
{
	struct ibv_sge sge = sge_of(&pair->a, ours, bytes);
	struct ibv_send_wr wr = send_wr(opcode, &sge, &pair->b, theirs, 1);

	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, 1, IBV_WC_SUCCESS);
}

/* A counter of 2, 4 or 8 bytes, in one byte order. */
struct counter {
	uint8_t *at;
	uint32_t bytes;
	bool is_big_endian;
	atomic_bool is_over;
	unsigned int wrong; /* loads of a value that was never stored */
	uint64_t last_wrong;
};

static void store_counter(const struct counter *counter, uint8_t *at, uint64_t value)
{
	void *word = at;

	if (counter->bytes == 8)
		__atomic_store_n((uint64_t *)word, counter->is_big_endian ? htobe64(value) : value,
				 __ATOMIC_RELAXED);
	else if (counter->bytes == 4)
		__atomic_store_n((uint32_t *)word,
				 counter->is_big_endian ? htobe32((uint32_t)value) :
							  (uint32_t)value,
				 __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint16_t *)word,
				 counter->is_big_endian ? htobe16((uint16_t)value) :
							  (uint16_t)value,
				 __ATOMIC_RELAXED);
}

static uint64_t load_counter(const struct counter *counter, const uint8_t *at)
{
	uint64_t word = words_load(at, counter->bytes);

	if (!counter->is_big_endian)
		return word;
	return be64toh(word) >> (8 - counter->bytes) * 8;
}

static void examine(struct counter *counter, const uint8_t *at)
{
	uint64_t value = load_counter(counter, at);

	if (value < COUNT_FIRST || value > COUNT_LAST) {
		counter->wrong++;
		counter->last_wrong = value;
	}
}

static void *poll_counter(void *arg)
{
	struct counter *counter = arg;

	while (!counter->is_over)
		examine(counter, counter->at);
	return NULL;
}

static void *increment_counter(void *arg)
{
	struct counter *counter = arg;
	uint64_t value = COUNT_FIRST;

	while (!counter->is_over) {
		store_counter(counter, counter->at, value);
		value = value == COUNT_LAST ? COUNT_FIRST : value + 1;
	}
	return NULL;
}

static void check_counter(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t bytes,
			  bool is_big_endian)
{
	struct counter counter = {
		.at = pair->b.buf + 64, .bytes = bytes, .is_big_endian = is_big_endian};
	bool is_read = opcode == IBV_WR_RDMA_READ;
	unsigned int count = on_the_wire() ? COUNTERS_ROCE : COUNTERS;
	uint64_t value = COUNT_FIRST;
	pthread_t thread;

	store_counter(&counter, counter.at, value);
	assert_int_equal(pthread_create(&thread, NULL, is_read ? increment_counter : poll_counter,
					&counter),
			 0);
	for (unsigned int i = 0; i < count; i++) {
		if (!is_read)
			store_counter(&counter, pair->a.buf, value);
		execute(pair, opcode, 0, 64, bytes);
		if (is_read)
			examine(&counter, pair->a.buf);
		value = value == COUNT_LAST ? COUNT_FIRST : value + 1;
	}
	counter.is_over = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (counter.wrong)
		print_message("%u bytes, %s endian: 0x%llx was never written\n", bytes,
			      is_big_endian ? "big" : "little",
			      (unsigned long long)counter.last_wrong);
	assert_int_equal(counter.wrong, 0);
}

static void check_counters(enum ibv_wr_opcode opcode)
{
	struct pair pair;

	pair_open(&pair, &api, &(struct pair_options){0});
	for (uint32_t bytes = 2; bytes <= 8; bytes *= 2) {
		check_counter(&pair, opcode, bytes, true);
		check_counter(&pair, opcode, bytes, false);
	}
	pair_close(&pair);
}

static void ibv_post_send_write_of_a_counter_is_never_torn(void **state)
{
	(void)state;
	check_counters(IBV_WR_RDMA_WRITE);
}

static void ibv_post_send_read_of_a_counter_is_never_torn(void **state)
{
	(void)state;
	check_counters(IBV_WR_RDMA_READ);
}

/*
 * Longer messages: words at both ends, and several packets of 1,024 bytes. Packets end at multiples
 * of 8 in these blocks; a word that consists of bytes of two packets arrives in two parts
 * (docs/memory-safety.md, Limits).
 */
static void ibv_post_send_long_write_keeps_words_whole(void **state)
{
	static const struct {
		size_t at;
		uint32_t bytes;
	} shapes[] = {{64, 12}, {4, 12}, {61, 13}, {67, 70}, {62, 90}, {128, 1000}, {64, 4100}};
	struct words_block blocks[sizeof(shapes) / sizeof(shapes[0])];
	struct words_thread thread;
	struct pair pair;
	size_t torn;

	(void)state;
	pair_open(&pair, &api, &(struct pair_options){0});
	memset(pair.b.buf, 0, SIDE_BUF_BYTES);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		blocks[i] = (struct words_block){pair.b.buf + i * 8192 + shapes[i].at,
						 shapes[i].bytes};
	assert_int_equal(words_begin(&thread, &blocks[0], false), 0);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		thread.block = &blocks[i];
		for (unsigned int copies = 0; copies < COPIES; copies++) {
			size_t ours = 3 * (copies % 2);

			memset(pair.a.buf, (int)copies, shapes[i].bytes + ours);
			execute(&pair, IBV_WR_RDMA_WRITE, ours, i * 8192 + shapes[i].at,
				shapes[i].bytes);
		}
	}
	torn = words_end(&thread);
	pair_close(&pair);
	assert_int_equal(torn, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_write_of_a_counter_is_never_torn),
		cmocka_unit_test(ibv_post_send_read_of_a_counter_is_never_torn),
		cmocka_unit_test(ibv_post_send_long_write_keeps_words_whole),
	};

	return cmocka_run_group_tests_name("words", tests, setup, teardown);
}
