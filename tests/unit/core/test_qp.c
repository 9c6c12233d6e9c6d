/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Queue pairs with transports that only record their calls: fake.h. Their transitions:
 * test_qp_modify.c.
 */

#include "queues.h"

#include <errno.h>
#include <string.h>

#include "core/engine/qp_table.h"
#include "core/queue/qp_error.h"
#include "core/queue/wq.h"

static void ibv_create_qp_returns_granted_attributes(void **state)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = &fake,
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = 5,
			.max_recv_wr = 3,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = 7},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr qp_attr;
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);

	(void)state;
	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= 5 && attr.cap.max_recv_wr >= 3 &&
		    attr.cap.max_inline_data >= 7);
	assert_int_equal(qp->qp_num >> IPC_SLOT_SHIFT, fake.engine.slot);
	assert_ptr_equal(qp->qp_context, &fake);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(ibv_query_qp(qp, &qp_attr, IBV_QP_STATE, &queried), 0);
	assert_int_equal(qp_attr.qp_state, IBV_QPS_RESET);
	assert_memory_equal(&queried.cap, &attr.cap, sizeof(attr.cap));
	assert_ptr_equal(queried.send_cq, fake.cq);
	assert_int_equal(queried.sq_sig_all, 0);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_cq(fake.cq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(fake.pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_create_qp_invalid_attr_fails(void **state)
{
	const struct ibv_qp_init_attr good = {.send_cq = fake.cq,
					      .recv_cq = fake.cq,
					      .cap = {.max_send_wr = 1},
					      .qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr attr;
	struct ibv_cq foreign = {.context = NULL};

	(void)state;
#define REFUSES(change, error)                              \
	do {                                                \
		attr = good;                                \
		change;                                     \
		errno = 0;                                  \
		assert_null(ibv_create_qp(fake.pd, &attr)); \
		assert_int_equal(errno, error);             \
	} while (0)
	REFUSES(attr.send_cq = NULL, EINVAL);
	REFUSES(attr.recv_cq = NULL, EINVAL);
	REFUSES(attr.send_cq = &foreign, EINVAL);
	REFUSES(attr.cap.max_send_wr = MAX_QP_WR + 1, EINVAL);
	REFUSES(attr.cap.max_recv_wr = MAX_QP_WR + 1, EINVAL);
	REFUSES(attr.cap.max_send_sge = MAX_SGE + 1, EINVAL);
	REFUSES(attr.cap.max_recv_sge = MAX_SGE + 1, EINVAL);
	REFUSES(attr.cap.max_inline_data = MAX_INLINE_BYTES + 1, EINVAL);
	REFUSES(attr.qp_type = IBV_QPT_RAW_PACKET, EOPNOTSUPP);
	REFUSES(attr.qp_type = IBV_QPT_XRC_RECV, EINVAL);
	REFUSES(attr.qp_type = IBV_QPT_DRIVER, EOPNOTSUPP);
	REFUSES(attr.qp_type = (enum ibv_qp_type)77, EINVAL);
	REFUSES(fake.engine.is_fatal = true, EIO);
	fake.engine.is_fatal = false;
#undef REFUSES
}

static void ibv_create_qp_ex_invalid_attr_fails(void **state)
{
	const struct ibv_qp_init_attr_ex good = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = fake.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_init_attr_ex attr;

	(void)state;
#define REFUSES(change, error)                                  \
	do {                                                    \
		attr = good;                                    \
		change;                                         \
		errno = 0;                                      \
		assert_null(ibv_create_qp_ex(fake.ctx, &attr)); \
		assert_int_equal(errno, error);                 \
	} while (0)
	REFUSES(attr.comp_mask |= 1u << 20, EINVAL);
	REFUSES(attr.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD, EINVAL);
	REFUSES(attr.pd = NULL, EINVAL);
	REFUSES(attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD, EINVAL);
	REFUSES(attr.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH, EOPNOTSUPP);
	REFUSES((attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS, attr.create_flags = 2),
		EOPNOTSUPP);
	REFUSES((attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER, attr.max_tso_header = 64),
		EOPNOTSUPP);
	REFUSES((attr.qp_type = IBV_QPT_UC, attr.send_ops_flags = IBV_QP_EX_WITH_FLUSH),
		EOPNOTSUPP);
	REFUSES((attr.qp_type = IBV_QPT_UD, attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE),
		EOPNOTSUPP);
	REFUSES(attr.send_ops_flags |= IBV_QP_EX_WITH_TSO, EOPNOTSUPP);
	REFUSES((attr.qp_type = IBV_QPT_UC, attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ),
		EOPNOTSUPP);
#undef REFUSES
}

static void ibv_create_qp_qpn_is_not_reused_at_once(void **state)
{
	struct ibv_qp *first = fake_qp(&fake, IBV_QPT_RC, NULL);
	uint32_t qpn = first->qp_num;
	struct ibv_qp *second;

	(void)state;
	LOCKED(assert_ptr_equal(qp_find(&fake.engine, qpn), to_qp(first)));
	/* The same low bits in another process's QPN range. */
	LOCKED(assert_null(qp_find(&fake.engine, qpn ^ 1u << IPC_SLOT_SHIFT)));
	LOCKED(assert_null(qp_find(&fake.engine, qpn + 1)));
	assert_int_equal(ibv_destroy_qp(first), 0);
	LOCKED(assert_null(qp_find(&fake.engine, qpn)));
	second = fake_qp(&fake, IBV_QPT_RC, NULL);
	assert_int_not_equal(second->qp_num, qpn);
	assert_int_equal(ibv_destroy_qp(second), 0);
}

static void ibv_create_qp_qpn_differs_from_last_ones(void **state)
{
	uint32_t last[LAST_QPNS] = {0};

	(void)state;
	for (uint32_t i = 0; i < 40 * LAST_QPNS; i++) {
		struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

		for (uint32_t k = 0; k < LAST_QPNS; k++)
			assert_int_not_equal(qp->qp_num, last[k]);
		last[i % LAST_QPNS] = qp->qp_num;
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void ibv_create_qp_uses_every_qpn_of_slot(void **state)
{
	static struct ibv_qp *qps[MAX_QPS];
	struct ibv_qp_init_attr attr = {
		.send_cq = fake.cq, .recv_cq = fake.cq, .qp_type = IBV_QPT_UC};

	(void)state;
	for (uint32_t i = 0; i < MAX_QPS; i++) {
		qps[i] = ibv_create_qp(fake.pd, &attr);
		assert_non_null(qps[i]);
		assert_true(qps[i]->qp_num % IPC_SLOT_QPNS >= 2);
	}
	errno = 0;
	assert_null(ibv_create_qp(fake.pd, &attr));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_destroy_qp(qps[4711]), 0);
	qps[4711] = ibv_create_qp(fake.pd, &attr);
	assert_non_null(qps[4711]);
	for (uint32_t i = 0; i < MAX_QPS; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
}

static void qp_enter_error_reports_event(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	engine_lock(&fake.engine);
	qp_enter_error(to_qp(qp), IBV_EVENT_QP_ACCESS_ERR);
	qp_enter_error(to_qp(qp), IBV_EVENT_QP_FATAL);
	engine_unlock(&fake.engine);
	fake_expect_event(&fake, IBV_EVENT_QP_ACCESS_ERR, qp);
	fake_expect_no_event(&fake);
	/* The public state is updated by ibv_query_qp(). */
	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/*
 * A program would wait for the lost completion indefinitely. The QP goes to ERR when no call uses
 * it, and an event reports it.
 */
static void cq_push_overrun_moves_qp_to_err(void **state)
{
	struct ibv_cq *small = ibv_create_cq(fake.ctx, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = small,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr), *other = ibv_create_qp(fake.pd, &attr);
	struct ibv_wc wc;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	fake_walk(other, IBV_QPS_RTS);
	post_sends(qp, small->cqe + 1);
	post_recvs(qp, 1);
	engine_lock(&fake.engine);
	for (int i = 0; i < small->cqe + 1; i++)
		sq_retire(to_qp(qp), IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_RTS);
	fake_expect_event(&fake, IBV_EVENT_CQ_ERR, small);
	timer_expire(&fake.engine.timers, UINT64_MAX - 1);
	engine_unlock(&fake.engine);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_ERR);
	fake_expect_event(&fake, IBV_EVENT_QP_FATAL, qp);
	/* The other queue has its completions. */
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	/* A QP without a lost completion works until it loses one. */
	assert_int_equal(to_qp(other)->state, IBV_QPS_RTS);
	post_sends(other, 1);
	engine_lock(&fake.engine);
	sq_retire(to_qp(other), IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(timer_expire(&fake.engine.timers, UINT64_MAX - 1), 0);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(small), 0);
}

static void qp_enter_send_error_uc_enters_sqe(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_UC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, 2);
	post_recvs(qp, 1);
	engine_lock(&fake.engine);
	qp_enter_send_error(to_qp(qp));
	engine_unlock(&fake.engine);
	expect_flushed(0, 2);
	expect_cq_empty();
	assert_int_equal(fake_calls.halt, 0);
	post_sends(qp, 1);
	expect_flushed(0, 1);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	assert_int_equal(fake_calls.ready, 2);
	post_sends(qp, 1);
	expect_cq_empty();
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void qp_enter_send_error_rc_enters_err(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	post_recvs(qp, 1);
	engine_lock(&fake.engine);
	qp_enter_send_error(to_qp(qp));
	engine_unlock(&fake.engine);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_ERR);
	expect_flushed(100, 1);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void qp_comm_established_reports_one_event(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTR);
	engine_lock(&fake.engine);
	qp_comm_established(to_qp(qp));
	qp_comm_established(to_qp(qp));
	engine_unlock(&fake.engine);
	fake_expect_event(&fake, IBV_EVENT_COMM_EST, qp);
	fake_expect_no_event(&fake);
	assert_int_equal(fake_modify(qp, IBV_QPS_RTS), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	/* In RTS no notification is necessary. */
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	engine_lock(&fake.engine);
	qp_comm_established(to_qp(qp));
	engine_unlock(&fake.engine);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_destroy_qp_removes_unread_events(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp *other = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	fake_walk(other, IBV_QPS_RTS);
	engine_lock(&fake.engine);
	qp_enter_error(to_qp(qp), IBV_EVENT_QP_FATAL);
	qp_enter_error(to_qp(other), IBV_EVENT_QP_FATAL);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	fake_expect_event(&fake, IBV_EVENT_QP_FATAL, other);
	assert_int_equal(ibv_destroy_qp(other), 0);
}

/*
 * Programs that were built before rdma-core v13 have a struct ibv_qp_attr of 136 bytes, without
 * rate_limit.
 */
static void ibv_query_qp_short_struct_is_not_overrun(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr full;
	uint8_t room[sizeof(full)];

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(qp, &full, 0, &init_attr), 0);
	memset(room, 0xa5, sizeof(room));
	assert_int_equal(ibv_query_qp(qp, (struct ibv_qp_attr *)(void *)room, 0, &init_attr), 0);
	assert_memory_equal(room, &full, 136);
	for (size_t at = 136; at < sizeof(room); at++)
		assert_int_equal(room[at], 0xa5);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_query_qp_in_forked_child_fails_with_eio(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_init_attr init_attr;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_qp_attr attr;
	unsigned int shown;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	shown = fake_calls.publish_qp;
	fake.engine.is_orphan = true;
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), EIO);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init_attr), EIO);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EIO);
	to_qp(qp)->events_fetched = 1;
	assert_int_equal(ibv_destroy_qp(qp), 0);
	/* State that its transport shares with peers belongs to the parent. */
	assert_int_equal(fake_calls.unbind, 0);
	assert_int_equal(fake_calls.halt, 0);
	assert_int_equal(fake_calls.publish_qp, shown);
	fake.engine.is_orphan = false;
}

#define QP_TEST(function) cmocka_unit_test_setup_teardown(function, queues_open, queues_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		QP_TEST(ibv_create_qp_returns_granted_attributes),
		QP_TEST(ibv_create_qp_invalid_attr_fails),
		QP_TEST(ibv_create_qp_ex_invalid_attr_fails),
		QP_TEST(ibv_create_qp_qpn_is_not_reused_at_once),
		QP_TEST(ibv_create_qp_qpn_differs_from_last_ones),
		QP_TEST(ibv_create_qp_uses_every_qpn_of_slot),
		QP_TEST(qp_enter_error_reports_event),
		QP_TEST(cq_push_overrun_moves_qp_to_err),
		QP_TEST(qp_enter_send_error_uc_enters_sqe),
		QP_TEST(qp_enter_send_error_rc_enters_err),
		QP_TEST(qp_comm_established_reports_one_event),
		QP_TEST(ibv_destroy_qp_removes_unread_events),
		QP_TEST(ibv_query_qp_short_struct_is_not_overrun),
		QP_TEST(ibv_query_qp_in_forked_child_fails_with_eio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
