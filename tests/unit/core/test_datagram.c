/* SPDX-License-Identifier: BSD-2-Clause */

/* UD queue pairs: processing of posted sends. The transport carries no data. */

#include "fake.h"

#include <errno.h>
#include <string.h>

#include "core/qp/qp.h"
#include "core/queue/wq.h"

#define QKEY	   0x11111111u /* Q_Key of fake_attr() */
#define REMOTE_QPN 0x8003u
#define MTU_BYTES  1024u /* path MTU of an interface MTU of 1500 */
#define MANY_SENDS 200u

static struct fake fake;
static struct ibv_mr *mr;
static uint8_t buf[8192];
static struct ibv_qp *qp;
static struct ibv_ah *ah;

static struct ibv_ah *make_ah(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *made = ibv_create_ah(pd, &attr);

	assert_non_null(made);
	return made;
}

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 7);
	mr = ibv_reg_mr(fake.pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	qp = fake_qp(&fake, IBV_QPT_UD, NULL);
	ah = make_ah(fake.pd);
	fake_walk(qp, IBV_QPS_RTS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (qp)
		assert_int_equal(ibv_destroy_qp(qp), 0);
	if (ah)
		assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(fake_calls.ah_close, fake_calls.ah_open);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(list_is_empty(&fake.engine.datagrams.waiting));
	assert_int_equal(fake.engine.datagrams.qp_count, 0);
	fake_close(&fake);
	return 0;
}

static struct ibv_send_wr wr_of(struct ibv_sge *sge, uint32_t bytes)
{
	struct ibv_send_wr wr = {.wr_id = bytes, .sg_list = sge, .num_sge = 1};

	*sge = (struct ibv_sge){.addr = (uintptr_t)buf, .length = bytes, .lkey = mr->lkey};
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = REMOTE_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	return wr;
}

static int post(struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = ibv_post_send(qp, &wr, &bad);

	assert_ptr_equal(bad, ret ? &wr : NULL);
	return ret;
}

static int send_bytes(uint32_t bytes)
{
	struct ibv_sge sge;

	return post(wr_of(&sge, bytes));
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

static void resume(void)
{
	engine_lock(&fake.engine);
	datagram_resume(&fake.engine);
	engine_unlock(&fake.engine);
}

static void ibv_modify_qp_ud_publishes_qp_on_all_transports(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	unsigned int shown = fake_calls.publish_qp;

	(void)state;
	assert_int_equal(fake_calls.bind_first + fake_calls.bind, 0);
	assert_int_equal(shown, 3);
	assert_null(to_qp(qp)->transport);
	assert_int_equal(fake.engine.datagrams.qp_count, 1);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(fake_calls.publish_qp, shown + 1);
}

static void ibv_post_send_ud_uses_transport_of_address_handle(void **state)
{
	struct ibv_sge sges[2] = {{(uintptr_t)buf, 3, mr->lkey},
				  {(uintptr_t)buf + 10, 5, mr->lkey}};
	struct ibv_send_wr wr = wr_of(&(struct ibv_sge){0}, 0);

	(void)state;
	wr.sg_list = sges;
	wr.num_sge = 2;
	wr.wr_id = 77;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x04030201;
	wr.send_flags = IBV_SEND_SOLICITED;
	assert_int_equal(post(wr), 0);
	expect_wc(77, IBV_WC_SUCCESS);
	assert_int_equal(fake_calls.sent, 1);
	assert_ptr_equal(fake_calls.sent_ah, ah);
	assert_int_equal(fake_calls.datagram.dest_qpn, REMOTE_QPN);
	assert_int_equal(fake_calls.datagram.qkey, QKEY);
	assert_int_equal(fake_calls.datagram.psn, 0x667788);
	assert_true(fake_calls.datagram.has_imm);
	assert_true(fake_calls.datagram.is_solicited);
	assert_int_equal(fake_calls.datagram.imm_be, 0x04030201);
	assert_int_equal(fake_calls.datagram.bytes, 8);
	assert_memory_equal(fake_calls.sent_bytes, buf, 3);
	assert_memory_equal(fake_calls.sent_bytes + 3, buf + 10, 5);
	assert_true(fake_calls.datagrams_end > 0);

	assert_int_equal(send_bytes(0), 0);
	expect_wc(0, IBV_WC_SUCCESS);
	assert_false(fake_calls.datagram.has_imm);
	assert_false(fake_calls.datagram.is_solicited);
	assert_int_equal(fake_calls.datagram.bytes, 0);
	assert_int_equal(fake_calls.datagram.psn, 0x667789);
}

static void ibv_post_send_ud_qkey_with_high_bit_uses_qkey_of_qp(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = wr_of(&sge, 1);

	(void)state;
	wr.wr.ud.remote_qkey = 0x7fffffff;
	assert_int_equal(post(wr), 0);
	assert_int_equal(fake_calls.datagram.qkey, 0x7fffffff);
	wr.wr.ud.remote_qkey = 0x80000000;
	assert_int_equal(post(wr), 0);
	assert_int_equal(fake_calls.datagram.qkey, QKEY);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(1, IBV_WC_SUCCESS);
}

static void ibv_post_send_ud_invalid_wr_fails(void **state)
{
	static const enum ibv_wr_opcode connected[] = {
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_SEND_WITH_INV,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV,
		IBV_WR_BIND_MW,
		IBV_WR_TSO,
	};
	struct ibv_sge sge;
	struct ibv_send_wr good = wr_of(&sge, 1), wr;

	(void)state;
	for (size_t i = 0; i < sizeof(connected) / sizeof(connected[0]); i++) {
		wr = good;
		wr.opcode = connected[i];
		assert_int_equal(post(wr), EINVAL);
	}
	wr = good;
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(wr), EINVAL);
	wr = good;
	wr.wr.ud.remote_qpn = 0x1000000;
	assert_int_equal(post(wr), EINVAL);
	wr = good;
	wr.num_sge = 5;
	assert_int_equal(post(wr), EINVAL);
	assert_int_equal(to_ah(ah)->users, 1);
	assert_int_equal(fake_calls.sent, 0);
	expect_no_wc();
}

static void ibv_post_send_ud_error_moves_qp_to_sqe(void **state)
{
	struct {
		uint32_t bytes;
		bool is_bad_lkey;
		bool is_foreign_ah;
		enum ibv_wc_status status;
		enum vendor_err why;
	} cases[] = {
		{MTU_BYTES + 1, false, false, IBV_WC_LOC_LEN_ERR, VENDOR_ERR_DATAGRAM_LENGTH},
		{9, true, false, IBV_WC_LOC_PROT_ERR, VENDOR_ERR_LKEY},
		{9, false, true, IBV_WC_LOC_QP_OP_ERR, VENDOR_ERR_AH_PD},
	};
	struct ibv_pd *other_pd = ibv_alloc_pd(fake.ctx);
	struct ibv_ah *other_ah = make_ah(other_pd);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
		struct ibv_sge sges[2];
		struct ibv_send_wr behind = wr_of(&sges[1], 4);
		struct ibv_send_wr wr = wr_of(&sges[0], cases[i].bytes), *bad;
		struct ibv_wc wc;

		wr.next = &behind;
		if (cases[i].is_bad_lkey)
			sges[0].lkey++;
		if (cases[i].is_foreign_ah)
			wr.wr.ud.ah = other_ah;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, cases[i].bytes);
		assert_int_equal(wc.status, cases[i].status);
		assert_int_equal(wc.vendor_err, cases[i].why);
		expect_wc(4, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(state_of(qp), IBV_QPS_SQE);
		/* WRs posted from here on are flushed; ibv_modify_qp() moves the QP back to RTS. */
		assert_int_equal(send_bytes(1), 0);
		expect_wc(1, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(fake_calls.sent, i);
		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
		assert_int_equal(send_bytes(MTU_BYTES), 0);
		expect_wc(MTU_BYTES, IBV_WC_SUCCESS);
	}
	assert_int_equal(to_ah(other_ah)->users, 1);
	assert_int_equal(ibv_destroy_ah(other_ah), 0);
	assert_int_equal(ibv_dealloc_pd(other_pd), 0);
}

static void datagram_send_without_room_waits_in_order(void **state)
{
	(void)state;
	fake_calls.send_error = -EAGAIN;
	fake_calls.send_room = 1;
	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(send_bytes(i), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_no_wc();
	LOCKED(assert_false(datagram_is_due(&fake.engine)));
	resume();
	expect_no_wc();
	fake_calls.send_room = 2;
	resume();
	expect_wc(2, IBV_WC_SUCCESS);
	expect_wc(3, IBV_WC_SUCCESS);
	expect_no_wc();
	fake_calls.send_error = 0;
	resume();
	expect_wc(4, IBV_WC_SUCCESS);
	assert_true(list_is_empty(&fake.engine.datagrams.waiting));
}

static void datagram_send_without_room_does_not_delay_other_qps(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = MANY_SENDS, .max_send_sge = 1},
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp *many = ibv_create_qp(fake.pd, &init);
	struct ibv_send_wr wrs[MANY_SENDS], *bad;
	struct ibv_sge sge;

	(void)state;
	assert_non_null(many);
	fake_walk(many, IBV_QPS_RTS);
	for (size_t i = 0; i < MANY_SENDS; i++) {
		wrs[i] = wr_of(&sge, 1);
		wrs[i].next = i + 1 < MANY_SENDS ? &wrs[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(many, wrs, &bad), 0);
	assert_in_range(fake_calls.sent, 1, MANY_SENDS - 1);
	LOCKED(assert_true(datagram_is_due(&fake.engine)));
	resume();
	assert_int_equal(fake_calls.sent, MANY_SENDS);
	LOCKED(assert_false(datagram_is_due(&fake.engine)));
	assert_int_equal(ibv_destroy_qp(many), 0);
}

static void ibv_destroy_ah_of_queued_send_keeps_transport_ah(void **state)
{
	(void)state;
	fake_calls.send_error = -EAGAIN;
	assert_int_equal(send_bytes(5), 0);
	assert_int_equal(send_bytes(6), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	ah = NULL;
	assert_int_equal(fake_calls.ah_close, 0);
	fake_calls.send_error = 0;
	resume();
	expect_wc(5, IBV_WC_SUCCESS);
	expect_wc(6, IBV_WC_SUCCESS);
	assert_int_equal(fake_calls.sent, 2);
	assert_int_equal(fake_calls.ah_close, 1);
}

static void ibv_modify_qp_ud_reset_releases_address_handles(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	fake_calls.send_error = -EAGAIN;
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(to_ah(ah)->users, 2);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	expect_wc(1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(to_ah(ah)->users, 1);

	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(to_ah(ah)->users, 1);
	assert_true(list_is_empty(&fake.engine.datagrams.waiting));

	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	qp = NULL;
	assert_int_equal(to_ah(ah)->users, 1);
}

static void ibv_modify_qp_ud_sqd_sends_nothing(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	(void)state;
	fake_calls.send_error = -EAGAIN;
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	fake_expect_event(&fake, IBV_EVENT_SQ_DRAINED, qp);
	fake_calls.send_error = 0;
	resume();
	assert_int_equal(send_bytes(2), 0);
	assert_int_equal(fake_calls.sent, 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(2, IBV_WC_SUCCESS);
}

/* They complete when the transport has sent them. */
static void datagram_kick_waiting_datagrams_complete_when_sent(void **state)
{
	(void)state;
	fake_calls.datagrams_wait = true;
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(send_bytes(2), 0);
	assert_int_equal(fake_calls.sent, 2);
	assert_int_equal(fake_calls.sent_waiting, 2);
	expect_no_wc();
	resume();
	assert_int_equal(fake_calls.sent_waiting, 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(2, IBV_WC_SUCCESS);
	/* The next series does not wait: all complete. */
	assert_int_equal(send_bytes(3), 0);
	fake_calls.datagrams_wait = false;
	assert_int_equal(send_bytes(4), 0);
	expect_wc(3, IBV_WC_SUCCESS);
	expect_wc(4, IBV_WC_SUCCESS);
}

static void datagram_kick_waiting_datagrams_complete_before_error(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = wr_of(&sge, 2);

	(void)state;
	fake_calls.datagrams_wait = true;
	assert_int_equal(send_bytes(1), 0);
	sge.lkey++;
	assert_int_equal(post(wr), 0);
	assert_int_equal(fake_calls.sent_waiting, 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(state_of(qp), IBV_QPS_SQE);
}

static void ibv_modify_qp_ud_err_sends_waiting_datagrams(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	fake_calls.datagrams_wait = true;
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(fake_calls.sent_waiting, 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_no_wc();
}

static void ibv_destroy_qp_ud_sends_waiting_datagrams(void **state)
{
	(void)state;
	fake_calls.datagrams_wait = true;
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	qp = NULL;
	assert_int_equal(fake_calls.sent_waiting, 0);
	assert_int_equal(to_ah(ah)->users, 1);
}

static void ibv_modify_qp_ud_sqd_waits_for_waiting_datagrams(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_init_attr init;

	(void)state;
	fake_calls.datagrams_wait = true;
	assert_int_equal(send_bytes(1), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_true(attr.sq_draining);
	resume();
	fake_expect_event(&fake, IBV_EVENT_SQ_DRAINED, qp);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_false(attr.sq_draining);
	expect_wc(1, IBV_WC_SUCCESS);
}

static void ibv_wr_send_ud_sends_datagram(void **state)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = 4, .max_send_sge = 1, .max_inline_data = 16},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = fake.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp *made = ibv_create_qp_ex(fake.ctx, &init);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(made);

	(void)state;
	assert_non_null(ex);
	fake_walk(made, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 0x1234);
	ibv_wr_set_ud_addr(ex, ah, REMOTE_QPN, QKEY);
	ibv_wr_set_inline_data(ex, "hello", 5);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(fake_calls.sent, 1);
	assert_int_equal(fake_calls.datagram.imm_be, 0x1234);
	assert_memory_equal(fake_calls.sent_bytes, "hello", 5);

#define FAILS(calls, error)                                   \
	do {                                                  \
		ibv_wr_start(ex);                             \
		ibv_wr_send(ex);                              \
		ibv_wr_set_ud_addr(ex, ah, REMOTE_QPN, QKEY); \
		calls;                                        \
		assert_int_equal(ibv_wr_complete(ex), error); \
		assert_int_equal(to_ah(ah)->users, 1);        \
		assert_int_equal(fake_calls.sent, 1);         \
	} while (0)
	FAILS(ibv_wr_send(ex), EINVAL); /* no destination */
	FAILS((ibv_wr_send(ex), ibv_wr_set_ud_addr(ex, NULL, 1, 1)), EINVAL);
	FAILS((ibv_wr_send(ex), ibv_wr_set_ud_addr(ex, ah, 1u << 24, 1)), EINVAL);
	FAILS(ibv_wr_set_ud_addr(ex, ah, 1, 1), EINVAL); /* set twice */
	FAILS(ibv_wr_rdma_write(ex, 1, 1), EINVAL);
#undef FAILS
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, REMOTE_QPN, QKEY);
	ibv_wr_abort(ex);
	assert_int_equal(to_ah(ah)->users, 1);
	assert_int_equal(ibv_destroy_qp(made), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ibv_modify_qp_ud_publishes_qp_on_all_transports),
		TEST(ibv_post_send_ud_uses_transport_of_address_handle),
		TEST(ibv_post_send_ud_qkey_with_high_bit_uses_qkey_of_qp),
		TEST(ibv_post_send_ud_invalid_wr_fails),
		TEST(ibv_post_send_ud_error_moves_qp_to_sqe),
		TEST(datagram_send_without_room_waits_in_order),
		TEST(datagram_send_without_room_does_not_delay_other_qps),
		TEST(ibv_destroy_ah_of_queued_send_keeps_transport_ah),
		TEST(ibv_modify_qp_ud_reset_releases_address_handles),
		TEST(ibv_modify_qp_ud_sqd_sends_nothing),
		TEST(datagram_kick_waiting_datagrams_complete_when_sent),
		TEST(datagram_kick_waiting_datagrams_complete_before_error),
		TEST(ibv_modify_qp_ud_err_sends_waiting_datagrams),
		TEST(ibv_destroy_qp_ud_sends_waiting_datagrams),
		TEST(ibv_modify_qp_ud_sqd_waits_for_waiting_datagrams),
		TEST(ibv_wr_send_ud_sends_datagram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
