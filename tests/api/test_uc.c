/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static const struct pair_options uc = {.type = IBV_QPT_UC};

static void ibv_post_send_uc_send_and_write_arrive(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, &uc);
	fill_pattern(pair.a.buf, 10000, 2);
	sge = sge_of(&pair.a, 0, 10000);
	recv = sge_of(&pair.b, 0, 10000);
	post_recv_ok(&pair.b, &recv, 1, 2);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf, pair.a.buf, 10000);

	post_recv_ok(&pair.b, NULL, 0, 4);
	wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, &pair.b, 20000, 3);
	wr.imm_data = htonl(9);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	wc = wc_expect(pair.b.cq, 4, IBV_WC_SUCCESS);
	assert_int_equal(ntohl(wc.imm_data), 9);
	assert_memory_equal(pair.b.buf + 20000, pair.a.buf, 10000);
	pair_close(&pair);
}

static void ibv_post_send_uc_read_and_atomic_fail(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct pair pair;

	pair_open(&pair, *state, &uc);
	for (size_t i = 0; i < 3; i++) {
		struct ibv_sge sge = sge_of(&pair.a, 0, 8);
		struct ibv_send_wr wr = send_wr(opcodes[i], &sge, &pair.b, 0, 1), *bad = NULL;

		assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr);
	}
	pair_close(&pair);
}

/*
 * Unreliable: a message without a receive is dropped, and the sender is not notified (IBA 1.x
 * §9.8.2.2).
 */
static void ibv_post_send_uc_without_receive_is_dropped(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, &uc);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_none(pair.b.cq);
	recv = sge_of(&pair.b, 0, 8);
	post_recv_ok(&pair.b, &recv, 1, 3);
	wr.wr_id = 2;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RTS);
	pair_close(&pair);
}

static void ibv_post_send_uc_write_with_unknown_rkey_changes_nothing(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &uc);
	memset(pair.a.buf, 0xaa, 64);
	sge = sge_of(&pair.a, 0, 64);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey ^= 0x5a5a;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair.b.buf[0], 0);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RTS);
	pair_close(&pair);
}

/*
 * A WRITE with immediate that the responder refuses is lost with its immediate: it takes no
 * receive.
 */
static void ibv_post_send_uc_refused_write_with_imm_takes_no_receive(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, &uc);
	recv = sge_of(&pair.b, 0, 64);
	post_recv_ok(&pair.b, &recv, 1, 4);
	sge = sge_of(&pair.a, 0, 64);
	wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, &pair.b, 128, 1);
	wr.wr.rdma.rkey ^= 0x5a5a;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, &pair.b, SIDE_BUF_BYTES - 32, 2);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 3);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	wc = wc_expect(pair.b.cq, 4, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	wc_none(pair.b.cq);
	pair_close(&pair);
}

/*
 * In SQE only sending has stopped (IBA 1.x §10.3.1.6): messages and WRITEs of the peer still
 * arrive.
 */
static void ibv_post_send_uc_to_peer_in_sqe_arrives(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, &uc);
	fill_pattern(pair.b.buf, 64, 3);
	recv = sge_of(&pair.a, 0, 64);
	post_recv_ok(&pair.a, &recv, 1, 4);
	post_recv_ok(&pair.a, NULL, 0, 5);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey ^= 0x5a5a;
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_SQE);
	sge = sge_of(&pair.b, 0, 64);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 2);
	post_send_ok(&pair.b, &wr);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 4, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buf, pair.b.buf, 64);
	wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, &pair.a, 128, 3);
	post_send_ok(&pair.b, &wr);
	wc_expect(pair.b.cq, 3, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 5, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buf + 128, pair.b.buf, 64);
	pair_close(&pair);
}

static void ibv_post_send_uc_local_error_completes_with_error(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &uc);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey ^= 0x5a5a;
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);

	/* Also if the peer would drop the message. */
	pair_open(&pair, *state, &uc);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey ^= 0x5a5a;
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey ^= 0x5a5a;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_SQE);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_uc_send_and_write_arrive),
		cmocka_unit_test(ibv_post_send_uc_read_and_atomic_fail),
		cmocka_unit_test(ibv_post_send_uc_without_receive_is_dropped),
		cmocka_unit_test(ibv_post_send_uc_write_with_unknown_rkey_changes_nothing),
		cmocka_unit_test(ibv_post_send_uc_refused_write_with_imm_takes_no_receive),
		cmocka_unit_test(ibv_post_send_uc_to_peer_in_sqe_arrives),
		cmocka_unit_test(ibv_post_send_uc_local_error_completes_with_error),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
