/* SPDX-License-Identifier: BSD-2-Clause */

/* UD queue pairs: processing of received datagrams. */

#include "fake.h"

#include <string.h>

#include "core/object/vendor_err.h"
#include "core/qp/qp.h"

#define QKEY	  0x11111111u /* Q_Key of fake_attr() */
#define MTU_BYTES 1024u	      /* path MTU of an interface MTU of 1500 */

static struct fake fake;
static struct ibv_mr *mr;
static uint8_t buf[8192];
static struct ibv_qp *qp;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	mr = ibv_reg_mr(fake.pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	qp = fake_qp(&fake, IBV_QPT_UD, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	fake_close(&fake);
	return 0;
}

static void expect_wc(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, qp->qp_num);
}

static void expect_no_wc(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 0);
}

static enum ibv_qp_state state_of(struct ibv_qp *of)
{
	return to_qp(of)->state;
}

static void post_recv(struct ibv_qp *to, uint64_t wr_id, uint32_t bytes, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)buf + 4096, bytes, lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(to, &wr, &bad), 0);
}

static const uint8_t payload[100] = "what is in it";

static struct datagram_rx arriving(uint32_t bytes)
{
	struct datagram_rx rx = {
		.dest_qpn = qp->qp_num,
		.src_qpn = 0xabcdef,
		.qkey = QKEY,
		.payload = payload,
		.bytes = bytes,
	};

	memset(rx.grh, 0x5a, sizeof(rx.grh));
	return rx;
}

static enum datagram_result deliver(const struct datagram_rx *rx)
{
	enum datagram_result result;

	engine_lock(&fake.engine);
	result = datagram_deliver(&fake.engine, rx);
	engine_unlock(&fake.engine);
	return result;
}

static void datagram_deliver_posted_receive_completes(void **state)
{
	struct datagram_rx rx = arriving(50);
	struct ibv_wc wc;

	(void)state;
	post_recv(qp, 3, 40 + 50, mr->lkey);
	rx.has_imm = true;
	rx.imm_be = 0x99;
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 3);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 90);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x99);
	assert_int_equal(wc.src_qp, 0xabcdef);
	assert_int_equal(wc.qp_num, qp->qp_num);
	assert_memory_equal(buf + 4096, rx.grh, 40);
	assert_memory_equal(buf + 4136, payload, 50);

	rx = arriving(0);
	post_recv(qp, 4, 40, mr->lkey);
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.byte_len, 40);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
}

static void datagram_deliver_wrong_destination_is_dropped(void **state)
{
	struct ibv_qp *rc = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_port_attr port;
	struct datagram_rx rx = arriving(1);

	(void)state;
	assert_int_equal(deliver(&rx), DATAGRAM_NO_RECV);
	post_recv(qp, 1, 100, mr->lkey);
	rx.qkey ^= 1;
	assert_int_equal(deliver(&rx), DATAGRAM_QKEY);
	assert_int_equal(ibv_query_port(fake.ctx, 1, &port), 0);
	assert_int_equal(port.qkey_viol_cntr, 1);
	assert_int_equal(port.bad_pkey_cntr, 0);
	fake.engine.datagrams.qkey_violations = 1u << 16;
	fake.engine.pkey_violations = 5;
	assert_int_equal(ibv_query_port(fake.ctx, 1, &port), 0);
	assert_int_equal(port.qkey_viol_cntr, 0xffff);
	assert_int_equal(port.bad_pkey_cntr, 5);
	rx = arriving(1);
	rx.dest_qpn += 1000;
	assert_int_equal(deliver(&rx), DATAGRAM_UNKNOWN_QPN);
	rx.dest_qpn = DATAGRAM_QPN_MULTICAST;
	assert_int_equal(deliver(&rx), DATAGRAM_UNKNOWN_QPN);
	fake_walk(rc, IBV_QPS_RTS);
	rx.dest_qpn = rc->qp_num;
	assert_int_equal(deliver(&rx), DATAGRAM_NOT_UD);
	expect_no_wc();
	rx = arriving(1);
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(rc), 0);
}

/* An invalid send moves the QP to SQE. */
static void send_too_much(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(fake.pd, &attr);
	struct ibv_sge sge = {(uintptr_t)buf, MTU_BYTES + 1, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_non_null(ah);
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = ah;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	expect_wc(8, IBV_WC_LOC_LEN_ERR);
}

static void datagram_deliver_qp_state_decides(void **state)
{
	struct datagram_rx rx = arriving(1);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	(void)state;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(deliver(&rx), DATAGRAM_QP_STATE);
	fake_walk(qp, IBV_QPS_INIT);
	post_recv(qp, 1, 100, mr->lkey);
	assert_int_equal(deliver(&rx), DATAGRAM_QP_STATE);
	for (enum ibv_qp_state next = IBV_QPS_RTR; next <= IBV_QPS_SQD; next++) {
		assert_int_equal(fake_modify(qp, next), 0);
		post_recv(qp, 1, 100, mr->lkey);
		assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
		expect_wc(1, IBV_WC_SUCCESS);
	}
	/* In SQE receiving continues; in ERR it ends. */
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	send_too_much();
	assert_int_equal(state_of(qp), IBV_QPS_SQE);
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	expect_wc(1, IBV_WC_SUCCESS);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(deliver(&rx), DATAGRAM_QP_STATE);
}

static void datagram_deliver_longer_than_receive_is_dropped(void **state)
{
	struct datagram_rx rx = arriving(11);

	(void)state;
	post_recv(qp, 1, 50, mr->lkey);
	post_recv(qp, 2, 1000, mr->lkey);
	assert_int_equal(deliver(&rx), DATAGRAM_RECV_TOO_SHORT);
	expect_no_wc();
	rx = arriving(10);
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_int_equal(state_of(qp), IBV_QPS_RTS);
	/* The receive is shorter than the GRH. */
	rx = arriving(100);
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	expect_wc(2, IBV_WC_SUCCESS);
	post_recv(qp, 3, 39, mr->lkey);
	rx = arriving(0);
	assert_int_equal(deliver(&rx), DATAGRAM_RECV_TOO_SHORT);
	expect_no_wc();
}

static void datagram_deliver_longer_than_srq_receive_completes_with_loc_len_err(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &init);
	struct ibv_qp *shared = fake_qp(&fake, IBV_QPT_UD, srq);
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct datagram_rx rx = arriving(11);
	struct ibv_wc wc;

	(void)state;
	fake_walk(shared, IBV_QPS_RTS);
	rx.dest_qpn = shared->qp_num;
	assert_int_equal(deliver(&rx), DATAGRAM_NO_RECV);
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_sge sge = {(uintptr_t)buf + 4096, i ? 100 : 50, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	assert_int_equal(deliver(&rx), DATAGRAM_RECV_TOO_SHORT);
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.vendor_err, VENDOR_ERR_RECV_TOO_SHORT);
	assert_int_equal(wc.qp_num, shared->qp_num);
	assert_int_equal(state_of(shared), IBV_QPS_RTS);
	fake_expect_no_event(&fake);
	assert_int_equal(deliver(&rx), DATAGRAM_DELIVERED);
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	fake_expect_event(&fake, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	assert_int_equal(ibv_destroy_qp(shared), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void datagram_deliver_invalid_receive_moves_qp_to_err(void **state)
{
	struct datagram_rx rx = arriving(1);

	(void)state;
	post_recv(qp, 1, 100, mr->lkey + 1);
	post_recv(qp, 2, 100, mr->lkey);
	assert_int_equal(deliver(&rx), DATAGRAM_BAD_RECV);
	expect_wc(1, IBV_WC_LOC_PROT_ERR);
	expect_wc(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(qp), IBV_QPS_ERR);
}

static void datagram_result_name_every_value_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < DATAGRAM_RESULT_COUNT; i++)
		assert_string_not_equal(datagram_result_name((enum datagram_result)i), "unknown");
	assert_string_equal(datagram_result_name(DATAGRAM_RESULT_COUNT), "unknown");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(datagram_deliver_posted_receive_completes),
		TEST(datagram_deliver_wrong_destination_is_dropped),
		TEST(datagram_deliver_qp_state_decides),
		TEST(datagram_deliver_longer_than_receive_is_dropped),
		TEST(datagram_deliver_longer_than_srq_receive_completes_with_loc_len_err),
		TEST(datagram_deliver_invalid_receive_moves_qp_to_err),
		TEST(datagram_result_name_every_value_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
