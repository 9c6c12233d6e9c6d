/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A thread that polls the last word of an RDMA WRITE that arrives through the FIFO sees the whole
 * message with it.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "local/ring.h"
#include "pair.h"

/* One fragment, and two. */
static const uint32_t sizes[] = {256, RING_FRAGMENT_BYTES, RING_FRAGMENT_BYTES + 4096};

#define ROUNDS	    4000u
#define YIELD_POLLS 10000u /* on a single processor the reader must yield to the writer */

struct reader {
	const uint8_t *at;
	uint32_t bytes;
	atomic_uint seen; /* rounds whose last word the reader has seen */
	atomic_uint torn; /* rounds in which an earlier word was older than the last one */
};

static uint64_t load(const uint8_t *at)
{
	return atomic_load_explicit((const _Atomic uint64_t *)(const void *)at,
				    memory_order_acquire);
}

static void *poll_last_words(void *arg)
{
	struct reader *reader = arg;
	const uint8_t *last = reader->at + reader->bytes - sizeof(uint64_t);

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		bool is_torn = false;

		for (unsigned int polls = 1; load(last) != round; polls++) {
			if (polls % YIELD_POLLS == 0)
				sched_yield();
		}
		for (uint32_t at = 0; at < reader->bytes; at += 64)
			is_torn |= load(reader->at + at) != round;
		reader->torn += is_torn;
		reader->seen = (unsigned int)round;
	}
	return NULL;
}

static void write_rounds(struct pair *pair, struct ibv_qp *qp, const struct reader *reader)
{
	struct node *from = &pair->nodes[0], *to = &pair->nodes[1];
	struct ibv_sge sge = {(uintptr_t)from->buf, reader->bytes, from->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	uint64_t *words = (uint64_t *)(void *)from->buf;

	wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
	wr.wr.rdma.rkey = to->mr->rkey;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		for (uint32_t i = 0; i < reader->bytes / sizeof(*words); i++)
			words[i] = round;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		pair_settle(pair);
		while (reader->seen < round)
			sched_yield();
	}
}

static void local_write_last_word_becomes_visible_last(void **state)
{
	struct ibv_qp *qps[2];
	struct pair pair;

	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, false);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct reader reader = {.at = pair.nodes[1].buf, .bytes = sizes[i]};
		pthread_t thread;

		memset(pair.nodes[1].buf, 0, sizes[i]);
		assert_int_equal(pthread_create(&thread, NULL, poll_last_words, &reader), 0);
		write_rounds(&pair, qps[0], &reader);
		assert_int_equal(pthread_join(thread, NULL), 0);
		print_message("%u bytes: %u of %u rounds torn\n", sizes[i], reader.torn, ROUNDS);
		assert_int_equal(reader.torn, 0);
	}
	pair_close_connected(&pair, qps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_write_last_word_becomes_visible_last),
	};

	return cmocka_run_group_tests_name("write_order", tests, NULL, NULL);
}
