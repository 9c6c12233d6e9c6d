/* SPDX-License-Identifier: BSD-2-Clause */

/* XRC domains, SRQ numbers, and the SRQ of an XRC target QP while it processes a packet. */

#include "fake.h"

#include <errno.h>
#include <fcntl.h>

#include "core/device/async.h"
#include "core/engine/qp_table.h"
#include "core/qp/xrc.h"
#include "core/queue/qp_error.h"
#include "core/queue/wq.h"

static struct fake fake;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_true(list_is_empty(&fake.engine.xrc.domains));
	assert_int_equal(fake.engine.xrc.srq_count, 0);
	fake_close(&fake);
	return 0;
}

static struct ibv_xrcd *open_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(fake.ctx, &attr);

	assert_non_null(xrcd);
	return xrcd;
}

static struct ibv_srq *make_srq(struct ibv_xrcd *xrcd, uint32_t *srqn)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = fake.pd,
		.xrcd = xrcd,
		.cq = fake.cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(fake.ctx, &attr);

	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, srqn), 0);
	return srq;
}

static struct ibv_qp *make_qp(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
		/* Ignored for an XRC target QP. */
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.pd = fake.pd,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8},
	};
	struct ibv_qp *qp = ibv_create_qp_ex(fake.ctx, &attr);

	assert_non_null(qp);
	assert_int_equal(attr.cap.max_send_wr, 0);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	return qp;
}

static bool has_nothing(const struct qp *qp)
{
	return !qp->pd && !qp->srq && !qp->recv_cq && !qp->send_cq;
}

static void xrc_aim_uses_pd_and_cq_of_srq(void **state)
{
	struct ibv_xrcd *xrcd = open_xrcd(), *other = open_xrcd();
	struct ibv_qp *ibqp = make_qp(xrcd);
	struct qp *qp = to_qp(ibqp);
	uint32_t srqn, foreign;
	struct ibv_srq *srq = make_srq(xrcd, &srqn), *theirs = make_srq(other, &foreign);

	(void)state;
	assert_true(has_nothing(qp));
	LOCKED(assert_true(xrc_aim(qp, srqn)));
	assert_ptr_equal(qp->srq, to_srq(srq));
	assert_ptr_equal(qp->pd, to_pd(fake.pd));
	assert_ptr_equal(qp->recv_cq, to_cq(fake.cq));
	LOCKED(assert_false(xrc_aim(qp, foreign)));
	assert_true(has_nothing(qp));
	LOCKED(assert_false(xrc_aim(qp, 0)));
	LOCKED(assert_true(xrc_aim(qp, srqn)));
	LOCKED(xrc_unaim(qp));
	assert_true(has_nothing(qp));
	assert_int_equal(ibv_destroy_srq(srq), 0);
	LOCKED(assert_false(xrc_aim(qp, srqn)));
	assert_int_equal(ibv_destroy_srq(theirs), 0);
	assert_int_equal(ibv_destroy_qp(ibqp), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

static void ibv_create_srq_ex_xrc_srqn_is_not_reused_at_once(void **state)
{
	struct ibv_xrcd *xrcd = open_xrcd();
	uint32_t last = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint32_t srqn;
		struct ibv_srq *srq = make_srq(xrcd, &srqn);

		assert_true(srqn && srqn <= 0xffffff && srqn != last);
		last = srqn;
		assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
		assert_int_equal(ibv_destroy_srq(srq), 0);
	}
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static struct ibv_qp *open_name(struct ibv_qp *qp, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qp->qp_num,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *name = ibv_open_qp(fake.ctx, &attr);

	assert_non_null(name);
	return name;
}

/* The queue pair is destroyed with its last handle, whatever the order. */
static void ibv_destroy_qp_last_handle_destroys_xrc_qp(void **state)
{
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					{1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct ibv_xrcd *xrcd = open_xrcd();
		struct ibv_qp *names[3] = {make_qp(xrcd)};
		uint32_t qpn = names[0]->qp_num;

		names[1] = open_name(names[0], xrcd);
		names[2] = open_name(names[0], xrcd);
		for (int j = 0; j < 3; j++) {
			LOCKED(assert_non_null(qp_find(&fake.engine, qpn)));
			assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
			assert_int_equal(ibv_destroy_qp(names[orders[i][j]]), 0);
		}
		LOCKED(assert_null(qp_find(&fake.engine, qpn)));
		assert_int_equal(ibv_close_xrcd(xrcd), 0);
	}
}

static void qp_enter_error_xrc_reports_event_to_every_handle(void **state)
{
	struct ibv_xrcd *xrcd = open_xrcd();
	struct ibv_qp *qp = make_qp(xrcd), *name = open_name(qp, xrcd);
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;

	(void)state;
	assert_int_equal(fake_modify(name, IBV_QPS_INIT), 0);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_INIT);
	assert_int_equal(ibv_post_recv(name, &wr, &bad), EINVAL);
	assert_int_equal(ibv_post_send(name, &send, &bad_send), EINVAL);
	LOCKED(qp_enter_error(to_qp(qp), IBV_EVENT_QP_ACCESS_ERR));
	fake_expect_event(&fake, IBV_EVENT_QP_ACCESS_ERR, qp);
	fake_expect_event(&fake, IBV_EVENT_QP_ACCESS_ERR, name);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	LOCKED(async_qp_event(qp_of_handle(to_qp(name)), IBV_EVENT_COMM_EST));
	fake_expect_event(&fake, IBV_EVENT_COMM_EST, name);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(name), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc_aim_uses_pd_and_cq_of_srq),
		TEST(ibv_create_srq_ex_xrc_srqn_is_not_reused_at_once),
		TEST(ibv_destroy_qp_last_handle_destroys_xrc_qp),
		TEST(qp_enter_error_xrc_reports_event_to_every_handle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
