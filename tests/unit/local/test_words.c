/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * READ and WRITE keep aligned words whole while another thread accesses them: every path on one
 * host.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../words.h"
#include "../caught.h"
#include "base/clock.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "pair.h"

#define MEMORY_BYTES 65536u
#define WAIT_NS	     (60 * CLOCK_NS_PER_S)
#define SGES_MAX     3
#define ACCESS	     (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Address modulo 64, and length: one word, words at the ends, several FIFO elements. */
static const struct {
	size_t shift;
	uint32_t bytes;
} shapes[] = {{2, 2},  {4, 4},	{8, 8},	 {8, 12}, {4, 12}, {1, 3},   {2, 6},	{3, 13},
	      {6, 90}, {5, 70}, {8, 72}, {0, 80}, {3, 67}, {4, 332}, {8, 1024}, {4, 17000}};

#define BLOCKS (sizeof(shapes) / sizeof(shapes[0]))
#define COPIES 300u /* of each block, with each source, by each operation */

/* What is in this process: the offset modulo 8, and the bytes of the first SGEs. */
static const struct {
	size_t shift;
	uint32_t first[SGES_MAX - 1];
} sources[] = {{0, {0, 0}}, {3, {0, 0}}, {0, {1, 0}}, {4, {3, 2}}};

static struct pair pair;
static struct ibv_qp *qps[2];

static void execute(enum ibv_wr_opcode opcode, struct ibv_sge *sges, int n, const uint8_t *at,
		    const struct ibv_mr *mr)
{
	struct ibv_send_wr wr = {.sg_list = sges,
				 .num_sge = n,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)at;
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
	/* The owner's engine runs, too: it publishes the memory that can be mapped. */
	do {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	} while (!poll_cq_once(pair.nodes[0].cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* The SGEs of a message are adjacent. */
static int make_sges(struct ibv_sge *sges, const uint8_t *at, uint32_t bytes, size_t source)
{
	int n = 0;

	for (size_t i = 0; i < SGES_MAX; i++) {
		uint32_t take = i < SGES_MAX - 1 ? sources[source].first[i] : bytes;

		if (take > bytes)
			take = bytes;
		if (!take)
			continue;
		sges[n++] = (struct ibv_sge){(uintptr_t)at, take, pair.nodes[0].mr->lkey};
		at += take;
		bytes -= take;
	}
	return n;
}

/* READ: what arrives is examined at an address with the same alignment. */
static size_t count_arrived(const uint8_t *ours, const struct words_block *block)
{
	uint8_t *same = pair.nodes[0].buf + MEMORY_BYTES + (uintptr_t)block->at % 8;

	memcpy(same, ours, block->bytes);
	return words_count_torn(same, block->bytes);
}

static size_t copy_block(enum ibv_wr_opcode opcode, const struct words_block *block, size_t source,
			 const struct ibv_mr *mr)
{
	uint8_t *ours = pair.nodes[0].buf + 64 + (uintptr_t)block->at % 8 + sources[source].shift;
	uint32_t bytes = (uint32_t)block->bytes;
	struct ibv_sge sges[SGES_MAX];
	int n = make_sges(sges, ours, bytes, source);
	size_t torn = 0;

	for (unsigned int copies = 0; copies < COPIES; copies++) {
		if (opcode == IBV_WR_RDMA_WRITE)
			memset(ours, (int)copies, bytes);
		execute(opcode, sges, n, block->at, mr);
		if (opcode == IBV_WR_RDMA_READ)
			torn += count_arrived(ours, block);
	}
	return torn;
}

static size_t check_opcode(enum ibv_wr_opcode opcode, uint8_t *memory, const struct ibv_mr *mr)
{
	struct words_block blocks[BLOCKS];
	struct words_thread thread;
	size_t torn = 0, at = 0;

	caught_assume();
	memset(memory, 0, MEMORY_BYTES);
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = (struct words_block){memory + at + shapes[i].shift, shapes[i].bytes};
		at += (shapes[i].shift + shapes[i].bytes + 64) / 64 * 64;
	}
	assert_true(at <= MEMORY_BYTES);
	assert_int_equal(words_begin(&thread, &blocks[0], opcode == IBV_WR_RDMA_READ), 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		thread.block = &blocks[i];
		for (size_t source = 0; source < sizeof(sources) / sizeof(sources[0]); source++)
			torn += copy_block(opcode, &blocks[i], source, mr);
	}
	return torn + words_end(&thread);
}

static void check_path(uint8_t *memory, const struct ibv_mr *mr)
{
	size_t by_write = check_opcode(IBV_WR_RDMA_WRITE, memory, mr);
	size_t by_read = check_opcode(IBV_WR_RDMA_READ, memory, mr);

	print_message("WRITE: %zu, READ: %zu words torn\n", by_write, by_read);
	assert_int_equal(by_write, 0);
	assert_int_equal(by_read, 0);
}

static void check_own_memory(bool can_reach_memory)
{
	pair_open_connected(&pair, qps, IBV_QPT_RC, can_reach_memory);
	check_path(pair.nodes[1].buf, pair.nodes[1].mr);
	pair_close_connected(&pair, qps);
}

static void local_process_vm_keeps_words_whole(void **state)
{
	(void)state;
	if (!guarded_copy_is_available())
		skip();
	check_own_memory(true);
}

static void local_fifo_keeps_words_whole(void **state)
{
	(void)state;
	check_own_memory(false);
}

static void local_mapped_memory_keeps_words_whole(void **state)
{
	int fd = memfd_create("words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint64_t mapped;
	struct ibv_mr *mr;
	uint8_t *at;

	(void)state;
	if (!guarded_copy_is_available())
		skip();
	assert_int_equal(ftruncate(fd, MEMORY_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	at = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	pair_open_connected(&pair, qps, IBV_QPT_RC, true);
	mr = ibv_reg_mr(pair.nodes[1].pd, at, MEMORY_BYTES, ACCESS);
	assert_non_null(mr);
	check_path(at, mr);
	mapped = local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED];
	assert_true(mapped > 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_settle(&pair);
	pair_close_connected(&pair, qps);
	munmap(at, MEMORY_BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_process_vm_keeps_words_whole),
		cmocka_unit_test(local_fifo_keeps_words_whole),
		cmocka_unit_test(local_mapped_memory_keeps_words_whole),
	};

	return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
