/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void ibv_post_send_rc_send_fills_receive(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	fill_pattern(pair.a.buf, 1000, 3);
	sge = sge_of(&pair.a, 0, 1000);
	recv = sge_of(&pair.b, 5, 2000);
	post_recv_ok(&pair.b, &recv, 1, 20);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 10);
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.qp_num, pair.a.qp->qp_num);
	wc = wc_expect(pair.b.cq, 20, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 1000);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, 0);
	assert_memory_equal(pair.b.buf + 5, pair.a.buf, 1000);
	assert_int_equal(pair.b.buf[1005], 0);
	pair_close(&pair);
}

static void ibv_post_send_rc_send_with_imm_delivers_imm_data(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 16);
	recv = sge_of(&pair.b, 0, 16);
	post_recv_ok(&pair.b, &recv, 1, 2);
	wr = send_wr(IBV_WR_SEND_WITH_IMM, &sge, NULL, 0, 1);
	wr.imm_data = htonl(0x12345678);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x12345678);
	pair_close(&pair);
}

static void ibv_post_send_rc_zero_length_completes(void **state)
{
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	post_recv_ok(&pair.b, NULL, 0, 2);
	wr = send_wr(IBV_WR_SEND, NULL, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 0);
	wr = send_wr(IBV_WR_RDMA_WRITE, NULL, NULL, 0, 3);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	wr = send_wr(IBV_WR_RDMA_READ, NULL, NULL, 0, 4);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 4, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_post_send_rc_write_needs_no_receive(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	fill_pattern(pair.a.buf, SIDE_BUF_BYTES, 9);
	sge = sge_of(&pair.a, 0, SIDE_BUF_BYTES);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_memory_equal(pair.b.buf, pair.a.buf, SIDE_BUF_BYTES);
	wc_none(pair.b.cq);
	pair_close(&pair);
}

static void ibv_post_send_rc_write_with_imm_completes_receive(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge, recv;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	fill_pattern(pair.a.buf, 500, 1);
	sge = sge_of(&pair.a, 0, 500);
	recv = sge_of(&pair.b, 4096, 64);
	post_recv_ok(&pair.b, &recv, 1, 2);
	wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, &pair.b, 100, 1);
	wr.imm_data = htonl(77);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 500);
	assert_int_equal(ntohl(wc.imm_data), 77);
	assert_memory_equal(pair.b.buf + 100, pair.a.buf, 500);
	assert_int_equal(pair.b.buf[4096], 0);
	pair_close(&pair);
}

static void ibv_post_send_rc_read_returns_remote_data(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	fill_pattern(pair.b.buf, SIDE_BUF_BYTES, 4);
	sge = sge_of(&pair.a, 0, 30000);
	wr = send_wr(IBV_WR_RDMA_READ, &sge, &pair.b, 777, 1);
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, 30000);
	assert_memory_equal(pair.a.buf, pair.b.buf + 777, 30000);
	pair_close(&pair);
}

static void ibv_post_send_rc_atomic_returns_previous_value(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint64_t *local, *remote;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, NULL);
	local = (uint64_t *)(void *)pair.a.buf;
	remote = (uint64_t *)(void *)(pair.b.buf + 64);
	*remote = 40;
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair.b, 64, 1);
	wr.wr.atomic.compare_add = 2;
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(wc.byte_len, 8);
	assert_true(*local == 40 && *remote == 42);

	wr = send_wr(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, &pair.b, 64, 2);
	wr.wr.atomic.compare_add = 41;
	wr.wr.atomic.swap = 1;
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_COMP_SWAP);
	assert_true(*local == 42 && *remote == 42);
	wr.wr_id = 3;
	wr.wr.atomic.compare_add = 42;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	assert_true(*local == 42 && *remote == 1);
	/* A longer SGE receives 8 bytes. */
	memset(local + 1, 0xa5, 8);
	sge = sge_of(&pair.a, 0, 64);
	wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair.b, 64, 4);
	wr.wr.atomic.compare_add = 9;
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 4, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 8);
	assert_true(*local == 1 && *remote == 10 && local[1] == UINT64_C(0xa5a5a5a5a5a5a5a5));
	pair_close(&pair);
}

static void ibv_post_send_rc_sge_lists_gather_and_scatter(void **state)
{
	struct ibv_sge from[3], to[4];
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	fill_pattern(pair.a.buf, 4096, 1);
	from[0] = sge_of(&pair.a, 0, 100);
	from[1] = sge_of(&pair.a, 100, 0);
	from[2] = sge_of(&pair.a, 100, 900);
	to[0] = sge_of(&pair.b, 0, 1);
	to[1] = sge_of(&pair.b, 1, 499);
	to[2] = sge_of(&pair.b, 500, 300);
	to[3] = sge_of(&pair.b, 800, 1000);
	post_recv_ok(&pair.b, to, 4, 2);
	wr = send_wr(IBV_WR_SEND, from, NULL, 0, 1);
	wr.num_sge = 3;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS).byte_len, 1000);
	assert_memory_equal(pair.b.buf, pair.a.buf, 1000);
	pair_close(&pair);
}

static void ibv_post_send_rc_inline_copies_data(void **state)
{
	struct pair_options options = {.max_inline = 64};
	uint8_t on_stack[48], sent[48];
	struct ibv_sge sge = {.addr = (uintptr_t)on_stack, .length = sizeof(on_stack)}, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, &options);
	fill_pattern(on_stack, sizeof(on_stack), 8);
	memcpy(sent, on_stack, sizeof(sent));
	recv = sge_of(&pair.b, 0, 64);
	post_recv_ok(&pair.b, &recv, 1, 2);
	/*
	 * lkeys of inline data are ignored, and the buffer may change as soon as the call returns.
	 */
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	wr.send_flags |= IBV_SEND_INLINE;
	post_send_ok(&pair.a, &wr);
	memset(on_stack, 0xee, sizeof(on_stack));
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf, sent, sizeof(sent));
	pair_close(&pair);
}

static void ibv_post_send_rc_inline_above_limit_fails(void **state)
{
	struct pair_options options = {.max_inline = 64};
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	sge = sge_of(&pair.a, 0, 60000);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_true(ibv_post_send(pair.a.qp, &wr, &bad) == EINVAL ||
		    ibv_post_send(pair.a.qp, &wr, &bad) == ENOMEM);
	assert_ptr_equal(bad, &wr);
	pair_close(&pair);
}

static void ibv_post_send_rc_inline_unmapped_fails(void **state)
{
	struct pair_options options = {.max_inline = 64, .send_ops_flags = IBV_QP_EX_WITH_SEND};
	uint8_t *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = {.addr = (uintptr_t)gone, .length = 16}, recv;
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_qp_ex *ex;
	struct pair pair;

	assert_true(gone != MAP_FAILED);
	notice_signal_handlers(*state);
	pair_open(&pair, *state, &options);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EFAULT);
	assert_ptr_equal(bad, &wr);
	ex = batch_start(&pair.a, 1);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, gone, 16);
	assert_int_equal(ibv_wr_complete(ex), EFAULT);
	/* Nothing was posted, and the QP works. */
	recv = sge_of(&pair.b, 0, 64);
	post_recv_ok(&pair.b, &recv, 1, 2);
	sge.addr = (uintptr_t)pair.a.buf;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
	munmap(gone, 4096);
}

static void ibv_post_send_rc_unsignaled_has_no_completion(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	for (uint64_t i = 0; i < 20; i++) {
		wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, i);
		wr.send_flags = i == 19 ? IBV_SEND_SIGNALED : 0;
		post_send_ok(&pair.a, &wr);
	}
	wc_expect(pair.a.cq, 19, IBV_WC_SUCCESS);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

static void ibv_post_send_rc_sq_sig_all_signals_every_wr(void **state)
{
	struct pair_options options = {.is_sig_all = true};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	sge = sge_of(&pair.a, 0, 8);
	for (uint64_t i = 0; i < 20; i++) {
		wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, i);
		wr.send_flags = 0;
		post_send_ok(&pair.a, &wr);
	}
	for (uint64_t i = 0; i < 20; i++)
		wc_expect(pair.a.cq, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_poll_cq_rc_completions_keep_order(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_sge sge, recv;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	recv = sge_of(&pair.b, 4096, 8);
	for (uint64_t i = 0; i < 15; i++)
		post_recv_ok(&pair.b, &recv, 1, i);
	for (uint64_t i = 0; i < 60; i++) {
		struct ibv_send_wr wr = send_wr(opcodes[i % 4], &sge, &pair.b, 0, i);

		post_send_ok(&pair.a, &wr);
	}
	for (uint64_t i = 0; i < 60; i++)
		wc_expect(pair.a.cq, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 15; i++)
		wc_expect(pair.b.cq, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_post_send_rc_fence_waits_for_reads(void **state)
{
	struct ibv_send_wr read, write;
	struct ibv_sge to, from;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	for (uint64_t i = 0; i < 20; i++) {
		fill_pattern(pair.b.buf, 4096, (uint8_t)i);
		/* The fenced WRITE sends the data of the READ. */
		to = sge_of(&pair.a, 0, 4096);
		from = sge_of(&pair.a, 0, 4096);
		read = send_wr(IBV_WR_RDMA_READ, &to, &pair.b, 0, 2 * i);
		write = send_wr(IBV_WR_RDMA_WRITE, &from, &pair.b, 8192, 2 * i + 1);
		write.send_flags |= IBV_SEND_FENCE;
		read.next = &write;
		post_send_ok(&pair.a, &read);
		wc_expect(pair.a.cq, 2 * i, IBV_WC_SUCCESS);
		wc_expect(pair.a.cq, 2 * i + 1, IBV_WC_SUCCESS);
		assert_memory_equal(pair.b.buf + 8192, pair.b.buf, 4096);
	}
	pair_close(&pair);
}

static void ibv_post_send_rc_list_stops_at_invalid_wr(void **state)
{
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	for (uint64_t i = 0; i < 3; i++) {
		wr[i] = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, i);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].opcode = (enum ibv_wr_opcode)99;
	assert_int_equal(ibv_post_send(pair.a.qp, &wr[0], &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	wc_expect(pair.a.cq, 0, IBV_WC_SUCCESS);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

static void ibv_post_send_rc_full_queue_fails_with_enomem(void **state)
{
	struct pair_options options = {.max_wr = 4, .rnr_retry = 7};
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_CAP, &init), 0);
	sge = sge_of(&pair.a, 0, 8);
	/* SENDs wait for a receive that is not posted yet, so they stay in the queue. */
	for (uint32_t i = 0; i < attr.cap.max_send_wr; i++) {
		wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, i);
		wr.send_flags = 0;
		if (ibv_post_send(pair.a.qp, &wr, &bad))
			break;
	}
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 99);
	assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), ENOMEM);
	pair_close(&pair);
}

static void ibv_modify_qp_rc_to_itself_succeeds(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(qp_to_init(pair.a.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.a.qp->qp_num), 0);
	assert_int_equal(qp_to_rts(pair.a.qp, pair.options.retry_cnt, 0), 0);
	fill_pattern(pair.a.buf, 64, 5);
	sge = sge_of(&pair.a, 0, 64);
	recv = sge_of(&pair.a, 64, 64);
	post_recv_ok(&pair.a, &recv, 1, 1);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 2);
	post_send_ok(&pair.a, &wr);
	assert_int_equal(wc_next(pair.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(wc_next(pair.a.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buf + 64, pair.a.buf, 64);
	pair_close(&pair);
}

static void ibv_modify_qp_rc_reset_and_reconnect_succeeds(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	recv = sge_of(&pair.b, 0, 8);
	for (uint64_t i = 0; i < 5; i++) {
		post_recv_ok(&pair.b, &recv, 1, 100 + i);
		wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, i);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, i, IBV_WC_SUCCESS);
		wc_expect(pair.b.cq, 100 + i, IBV_WC_SUCCESS);
		post_recv_ok(&pair.b, &recv, 1, 200 + i);
		pair_reconnect(&pair);
		wc_none(pair.b.cq);
	}
	pair_close(&pair);
}

/*
 * Receives the request of 64 bytes as a program does that sleeps until it arrives, and sends it
 * back.
 */
static void answer_one(struct pair *pair, uint64_t i)
{
	struct ibv_sge sge = sge_of(&pair->b, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 400 + i);
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(pair->options.channel, &cq, &context), 0);
	assert_ptr_equal(cq, pair->b.cq);
	ibv_ack_cq_events(cq, 1);
	wc_expect(cq, 200 + i, IBV_WC_SUCCESS);
	post_send_ok(&pair->b, &wr);
}

/*
 * Programs that wait for the completion of a request and then for the reply depend on this order.
 */
static void ibv_poll_cq_rc_send_completes_before_reply_arrives(void **state)
{
	struct api *api = *state;
	struct pair_options options = {.channel = ibv_create_comp_channel(api->ctx)};
	struct pair pair;

	assert_non_null(options.channel);
	pair_open(&pair, api, &options);
	for (uint64_t i = 0; i < 50; i++) {
		struct ibv_sge reply = sge_of(&pair.a, 64, 64), request = sge_of(&pair.b, 0, 64);
		struct ibv_sge sge = sge_of(&pair.a, 0, 64);
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 300 + i);

		post_recv_ok(&pair.a, &reply, 1, 100 + i);
		post_recv_ok(&pair.b, &request, 1, 200 + i);
		assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
		post_send_ok(&pair.a, &wr);
		answer_one(&pair, i);
		wc_expect(pair.a.cq, 300 + i, IBV_WC_SUCCESS);
		wc_expect(pair.a.cq, 100 + i, IBV_WC_SUCCESS);
		wc_expect(pair.b.cq, 400 + i, IBV_WC_SUCCESS);
	}
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(options.channel), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_rc_send_fills_receive),
		cmocka_unit_test(ibv_post_send_rc_send_with_imm_delivers_imm_data),
		cmocka_unit_test(ibv_post_send_rc_zero_length_completes),
		cmocka_unit_test(ibv_post_send_rc_write_needs_no_receive),
		cmocka_unit_test(ibv_post_send_rc_write_with_imm_completes_receive),
		cmocka_unit_test(ibv_post_send_rc_read_returns_remote_data),
		cmocka_unit_test(ibv_post_send_rc_atomic_returns_previous_value),
		cmocka_unit_test(ibv_post_send_rc_sge_lists_gather_and_scatter),
		cmocka_unit_test(ibv_post_send_rc_inline_copies_data),
		cmocka_unit_test(ibv_post_send_rc_inline_above_limit_fails),
		cmocka_unit_test(ibv_post_send_rc_inline_unmapped_fails),
		cmocka_unit_test(ibv_post_send_rc_unsignaled_has_no_completion),
		cmocka_unit_test(ibv_post_send_rc_sq_sig_all_signals_every_wr),
		cmocka_unit_test(ibv_poll_cq_rc_completions_keep_order),
		cmocka_unit_test(ibv_poll_cq_rc_send_completes_before_reply_arrives),
		cmocka_unit_test(ibv_post_send_rc_fence_waits_for_reads),
		cmocka_unit_test(ibv_post_send_rc_list_stops_at_invalid_wr),
		cmocka_unit_test(ibv_post_send_rc_full_queue_fails_with_enomem),
		cmocka_unit_test(ibv_modify_qp_rc_to_itself_succeeds),
		cmocka_unit_test(ibv_modify_qp_rc_reset_and_reconnect_succeeds),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
