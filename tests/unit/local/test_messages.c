/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between two engines, compared with a model. For each seed's mix of operations the
 * receiver gets every SEND complete and in order, the memory has the contents of a sequential
 * execution, and completions have the order of posting. Further cases test the errors, disposition
 * by disposition.
 *
 *	test-local-messages [first-seed [seeds]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "pair.h"

#define OPS_A_SEED    120
#define LANE_BYTES    (PAIR_BUF_BYTES / 4)
#define MESSAGE_BYTES 40000u
#define RECV_SLOTS    16u

static unsigned long first_seed = 1;
/*
 * This test has one thread, so ThreadSanitizer has little to find in it, and multiplies its time.
 */
#ifdef __SANITIZE_THREAD__
static unsigned long seeds = 30;
#else
static unsigned long seeds = 150;
#endif

/*
 * Requester's buffer: [0, LANE) sources, [LANE, 2 LANE) data of READs. Responder's: [0, LANE)
 * target of WRITEs and source of READs, [LANE, 2 LANE) receives; the last word is the target of
 * atomics.
 */
struct run {
	struct pair pair;
	struct ibv_qp *qps[2];
	uint8_t *model; /* expected contents of the responder's part */
	uint8_t *expected_reads;
	uint64_t counter;
	struct {
		uint32_t bytes;
		uint8_t fill;
		bool is_imm_only;
		uint32_t imm;
	} sends[OPS_A_SEED];
	uint32_t sends_posted, sends_received;
	uint32_t recvs_posted;
	uint32_t completed, signaled;
	/* the last operation was a READ: later operations may overtake its data unless fenced */
	bool was_read;
	uint64_t wr_ids[OPS_A_SEED];
};

static uint32_t below(uint32_t n)
{
	return n ? (uint32_t)random() % n : 0;
}

static uint32_t some_length(void)
{
	switch (below(4)) {
	case 0:
		return 0;
	case 1:
		return below(32);
	case 2:
		return below(2000);
	default:
		return below(MESSAGE_BYTES);
	}
}

static struct ibv_sge sge_of(struct node *node, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)node->buf + offset, length, node->mr->lkey};
}

static void post_a_recv(struct run *run)
{
	struct node *node = &run->pair.nodes[1];
	uint32_t slot = run->recvs_posted % RECV_SLOTS;
	uint32_t at = LANE_BYTES + slot * (LANE_BYTES / RECV_SLOTS);
	struct ibv_sge sges[2];
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = sges, .num_sge = 2}, *bad;

	if (run->recvs_posted - run->sends_received >= RECV_SLOTS)
		return;
	/* In two pieces; the length of the first is odd. */
	sges[0] = sge_of(node, at, 777);
	sges[1] = sge_of(node, at + 777, LANE_BYTES / RECV_SLOTS - 777);
	assert_int_equal(ibv_post_recv(run->qps[1], &wr, &bad), 0);
	run->recvs_posted++;
}

static void check_recv(struct run *run, const struct ibv_wc *wc)
{
	const uint8_t *at = run->pair.nodes[1].buf + LANE_BYTES +
			    wc->wr_id * (LANE_BYTES / RECV_SLOTS);
	uint32_t n = run->sends_received++;

	assert_string_equal(ibv_wc_status_str(wc->status), ibv_wc_status_str(IBV_WC_SUCCESS));
	assert_int_equal(wc->wr_id, n % RECV_SLOTS);
	assert_int_equal(wc->byte_len, run->sends[n].bytes);
	if (run->sends[n].is_imm_only) {
		assert_int_equal(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_true(wc->wc_flags & IBV_WC_WITH_IMM);
		assert_int_equal(wc->imm_data, run->sends[n].imm);
		return;
	}
	assert_int_equal(wc->opcode, IBV_WC_RECV);
	for (uint32_t i = 0; i < wc->byte_len; i++)
		assert_int_equal(at[i], run->sends[n].fill);
}

static void reap(struct run *run)
{
	struct ibv_wc wc;

	while (poll_cq_once(run->pair.nodes[0].cq, &wc)) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, run->wr_ids[run->completed]);
		run->completed++;
	}
	while (poll_cq_once(run->pair.nodes[1].cq, &wc))
		check_recv(run, &wc);
}

static void turn_some(struct run *run)
{
	for (uint32_t n = below(4); n > 0; n--)
		node_turn(&run->pair.nodes[below(2)]);
	reap(run);
}

/* Waits until all posted work requests have completed, so that buffers may be reused. */
static void quiesce(struct run *run)
{
	const struct send_queue *sq = &to_qp(run->qps[0])->sq;

	do {
		post_a_recv(run);
		pair_settle(&run->pair);
		reap(run);
	} while (sq->una != sq->head || run->sends_received < run->sends_posted);
	assert_int_equal(run->completed, run->signaled);
}

static void note_send(struct run *run, const struct ibv_send_wr *wr, uint32_t bytes, uint8_t fill)
{
	run->sends[run->sends_posted].bytes = bytes;
	run->sends[run->sends_posted].fill = fill;
	run->sends[run->sends_posted].is_imm_only = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	run->sends[run->sends_posted].imm = wr->imm_data;
	run->sends_posted++;
}

/*
 * Posts one operation; `at` is a part of the source area that is used only once before the next
 * quiesce.
 */
static void post_an_op(struct run *run, uint32_t op, uint32_t at)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND,
						     IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_WRITE};
	struct node *from = &run->pair.nodes[0], *to = &run->pair.nodes[1];
	uint32_t opcode_count = run->qps[0]->qp_type == IBV_QPT_RC ? 8 : 3;
	uint32_t bytes = some_length();
	uint32_t target = below(LANE_BYTES - MESSAGE_BYTES);
	uint8_t fill = (uint8_t)(op + 1);
	struct ibv_sge sge = sge_of(from, at, bytes);
	struct ibv_send_wr wr = {.wr_id = 1000 + op, .sg_list = &sge, .num_sge = 1, .imm_data = op},
			   *bad;
	uint64_t *word = (uint64_t *)(void *)(to->buf + PAIR_BUF_BYTES - 8);

	wr.opcode = opcodes[below(opcode_count)];
	wr.wr.rdma.rkey = to->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)to->buf + target;
	if (below(4)) {
		wr.send_flags |= IBV_SEND_SIGNALED;
		run->wr_ids[run->signaled++] = wr.wr_id;
	}
	if (run->was_read || below(8) == 0)
		wr.send_flags |= IBV_SEND_FENCE;
	run->was_read = wr.opcode == IBV_WR_RDMA_READ;
	switch (wr.opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		memset(from->buf + at, fill, bytes);
		if (bytes <= 64 && below(2))
			wr.send_flags |= IBV_SEND_INLINE;
		note_send(run, &wr, bytes, fill);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		note_send(run, &wr, bytes, fill);
		/* fallthrough */
	case IBV_WR_RDMA_WRITE:
		memset(from->buf + at, fill, bytes);
		memset(run->model + target, fill, bytes);
		break;
	case IBV_WR_RDMA_READ:
		sge = sge_of(from, LANE_BYTES + at, bytes);
		memcpy(run->expected_reads + at, run->model + target, bytes);
		break;
	case IBV_WR_ATOMIC_WRITE:
		sge = sge_of(from, at, 8);
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf + (target & ~7u);
		memset(from->buf + at, fill, 8);
		memset(run->model + (target & ~7u), fill, 8);
		break;
	default:
		sge = sge_of(from, LANE_BYTES + at, 8);
		memcpy(run->expected_reads + at, &run->counter, 8);
		wr.wr.atomic.remote_addr = (uintptr_t)word;
		wr.wr.atomic.rkey = to->mr->rkey;
		wr.wr.atomic.compare_add = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP && below(2) ?
						   run->counter :
						   op + 1;
		wr.wr.atomic.swap = op * 17;
		if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			run->counter += wr.wr.atomic.compare_add;
		else if (run->counter == wr.wr.atomic.compare_add)
			run->counter = wr.wr.atomic.swap;
		break;
	}
	assert_int_equal(ibv_post_send(run->qps[0], &wr, &bad), 0);
	if (wr.send_flags & IBV_SEND_INLINE)
		memset(from->buf + at, 0, bytes);
}

static void check_memory(struct run *run)
{
	assert_memory_equal(run->pair.nodes[1].buf, run->model, LANE_BYTES);
	assert_memory_equal(run->pair.nodes[0].buf + LANE_BYTES, run->expected_reads, LANE_BYTES);
	assert_int_equal(*(uint64_t *)(void *)(run->pair.nodes[1].buf + PAIR_BUF_BYTES - 8),
			 run->counter);
}

static void run_seed(unsigned long seed, enum ibv_qp_type type, bool can_reach_memory)
{
	struct run *run = calloc(1, sizeof(*run));
	uint32_t at = 0;

	srandom((unsigned int)seed);
	pair_open(&run->pair, can_reach_memory);
	run->model = calloc(1, LANE_BYTES);
	run->expected_reads = calloc(1, LANE_BYTES);
	for (int i = 0; i < 2; i++)
		run->qps[i] = pair_create_qp(&run->pair.nodes[i], type, NULL);
	pair_connect(run->qps[0], run->qps[1]);
	for (uint32_t op = 0; op < OPS_A_SEED; op++) {
		if (at + MESSAGE_BYTES > LANE_BYTES) {
			quiesce(run);
			check_memory(run);
			at = 0;
		}
		/* A UC responder drops messages without a receive, so one is always posted. */
		while (type == IBV_QPT_UC && run->recvs_posted - run->sends_received < RECV_SLOTS)
			post_a_recv(run);
		if (type == IBV_QPT_UC && run->sends_posted - run->sends_received >= RECV_SLOTS)
			quiesce(run);
		post_an_op(run, op, at);
		at += MESSAGE_BYTES;
		if (below(3) == 0)
			post_a_recv(run);
		turn_some(run);
	}
	quiesce(run);
	check_memory(run);
	assert_int_equal(ibv_destroy_qp(run->qps[0]), 0);
	assert_int_equal(ibv_destroy_qp(run->qps[1]), 0);
	pair_close(&run->pair);
	free(run->model);
	free(run->expected_reads);
	free(run);
}

static void run_seeds(enum ibv_qp_type type, bool can_reach_memory)
{
	for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
		print_message("seed %lu\r", seed);
		run_seed(seed, type, can_reach_memory);
	}
}

static void local_rc_random_messages_by_process_vm_arrive(void **state)
{
	(void)state;
	run_seeds(IBV_QPT_RC, true);
}

static void local_rc_random_messages_by_fifo_arrive(void **state)
{
	(void)state;
	run_seeds(IBV_QPT_RC, false);
}

static void local_uc_random_messages_by_process_vm_arrive(void **state)
{
	(void)state;
	run_seeds(IBV_QPT_UC, true);
}

static void local_uc_random_messages_by_fifo_arrive(void **state)
{
	(void)state;
	run_seeds(IBV_QPT_UC, false);
}

/*
 * A thread other than the engine thread may process the new peer. The engine thread sleeps since
 * before that peer's FIFO had a sleep flag. It must be woken once, or the peer's first message
 * waits indefinitely.
 */
static void local_peer_new_peer_wakes_engine_thread(void **state)
{
	struct pair pair;
	uint64_t count;

	(void)state;
	pair_open(&pair, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(eventfd_read(pair.nodes[i].engine.watches.doorbell_fd, &count), 0);
	pair_close(&pair);
}

/* A message that had arrived when its QP was destroyed was received, and is acknowledged. */
static void local_unbind_acknowledges_earlier_messages(void **state)
{
	struct pair pair;
	struct ibv_qp *qps[2];
	struct ibv_sge sges[2];
	struct ibv_recv_wr recv = {.sg_list = &sges[1], .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sges[0],
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, false);
	for (int i = 0; i < 2; i++) {
		qps[i] = pair_create_qp(&pair.nodes[i], IBV_QPT_RC, NULL);
		sges[i] = sge_of(&pair.nodes[i], 0, 8);
	}
	pair_connect(qps[0], qps[1]);
	assert_int_equal(ibv_post_recv(qps[1], &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(qps[0], &send, &bad_send), 0);
	assert_int_equal(ibv_destroy_qp(qps[1]), 0);
	node_turn(&pair.nodes[0]);
	assert_true(poll_cq_once(pair.nodes[0].cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(qps[0]), 0);
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_peer_new_peer_wakes_engine_thread),
		cmocka_unit_test(local_unbind_acknowledges_earlier_messages),
		cmocka_unit_test(local_rc_random_messages_by_process_vm_arrive),
		cmocka_unit_test(local_rc_random_messages_by_fifo_arrive),
		cmocka_unit_test(local_uc_random_messages_by_process_vm_arrive),
		cmocka_unit_test(local_uc_random_messages_by_fifo_arrive),
	};

	if (argc > 1)
		first_seed = strtoul(argv[1], NULL, 0);
	if (argc > 2)
		seeds = strtoul(argv[2], NULL, 0);
	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
