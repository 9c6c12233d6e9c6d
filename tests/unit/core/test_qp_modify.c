/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Effects of ibv_modify_qp() on a queue pair and its transport, which only records its calls:
 * fake.h.
 */

#include "queues.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp/qp.h"
#include "core/queue/qp_error.h"
#include "core/queue/wq.h"

static void ibv_modify_qp_rtr_tries_transports_in_order(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTR);
	assert_int_equal(fake_calls.bind_first, 1);
	assert_int_equal(fake_calls.bind, 1);
	assert_int_equal(fake_calls.ready, 0);
	assert_string_equal(to_qp(qp)->transport->name, "fake");
	assert_int_equal(fake_modify(qp, IBV_QPS_RTS), 0);
	assert_int_equal(fake_calls.ready, 1);
	assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
	assert_int_equal(fake_calls.unbind, 1);
	assert_null(to_qp(qp)->transport);
	fake_calls.first_takes = true;
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(fake_calls.bind, 1);
	assert_string_equal(to_qp(qp)->transport->name, "first");
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(fake_calls.unbind, 1);
}

static void transport_choose_restricts_modify_qp_to_one_transport(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_calls.first_takes = true;
	setenv("USRDMA_TRANSPORT", "fake", 1);
	assert_int_equal(transport_choose(&fake.engine), 0);
	fake_walk(qp, IBV_QPS_RTR);
	assert_int_equal(fake_calls.bind_first, 0);
	assert_string_equal(to_qp(qp)->transport->name, "fake");
	setenv("USRDMA_TRANSPORT", "none of them", 1);
	assert_int_equal(transport_choose(&fake.engine), -EINVAL);
	setenv("USRDMA_TRANSPORT", "", 1);
	assert_int_equal(transport_choose(&fake.engine), 0);
	assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
	fake_walk(qp, IBV_QPS_RTR);
	assert_string_equal(to_qp(qp)->transport->name, "first");
	unsetenv("USRDMA_TRANSPORT");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_rtr_unreachable_changes_nothing(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr before, after;

	(void)state;
	fake_walk(qp, IBV_QPS_INIT);
	assert_int_equal(ibv_query_qp(qp, &before, 0, &init_attr), 0);
	fake_calls.bind_error = -EHOSTUNREACH;
	assert_int_equal(fake_modify(qp, IBV_QPS_RTR), EHOSTUNREACH);
	fake_calls.bind_error = -EOPNOTSUPP;
	assert_int_equal(fake_modify(qp, IBV_QPS_RTR), EOPNOTSUPP);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(ibv_query_qp(qp, &after, 0, &init_attr), 0);
	assert_memory_equal(&after, &before, QP_ATTR_COMPAT_BYTES);
	fake_calls.bind_error = 0;
	assert_int_equal(fake_modify(qp, IBV_QPS_RTR), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_attributes_are_returned_by_query(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr given = fake_attr(IBV_QPS_RTS);
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init_attr), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.path_mtu, given.path_mtu);
	assert_int_equal(attr.dest_qp_num, given.dest_qp_num);
	assert_int_equal(attr.rq_psn, given.rq_psn & 0xffffff);
	assert_int_equal(attr.sq_psn, given.sq_psn & 0xffffff);
	assert_int_equal(attr.qp_access_flags, given.qp_access_flags);
	assert_int_equal(attr.max_rd_atomic, given.max_rd_atomic);
	assert_int_equal(attr.max_dest_rd_atomic, given.max_dest_rd_atomic);
	assert_int_equal(attr.min_rnr_timer, given.min_rnr_timer);
	assert_int_equal(attr.timeout, given.timeout);
	assert_int_equal(attr.retry_cnt, given.retry_cnt);
	assert_int_equal(attr.rnr_retry, given.rnr_retry);
	assert_int_equal(attr.port_num, 1);
	assert_memory_equal(&attr.ah_attr, &given.ah_attr, sizeof(attr.ah_attr));
	assert_int_equal(init_attr.sq_sig_all, 1);
	/* Freed by RESET. */
	assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init_attr), 0);
	assert_int_equal(attr.dest_qp_num, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_invalid_attr_changes_nothing(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr, before, after;

	(void)state;
#define REFUSES(to, change, extra_mask, error)                                            \
	do {                                                                              \
		attr = fake_attr(to);                                                     \
		change;                                                                   \
		assert_int_equal(ibv_query_qp(qp, &before, 0, &init_attr), 0);            \
		assert_int_equal(ibv_modify_qp(qp, &attr,                                 \
					       fake_mask(IBV_QPT_RC, to) | (extra_mask)), \
				 error);                                                  \
		assert_int_equal(ibv_query_qp(qp, &after, 0, &init_attr), 0);             \
		assert_memory_equal(&before, &after, QP_ATTR_COMPAT_BYTES);               \
	} while (0)
	REFUSES(IBV_QPS_INIT, attr.port_num = 0, 0, EINVAL);
	REFUSES(IBV_QPS_INIT, attr.port_num = 2, 0, EINVAL);
	REFUSES(IBV_QPS_INIT, attr.pkey_index = 1, 0, EINVAL);
	REFUSES(IBV_QPS_INIT, (void)0, IBV_QP_QKEY, EINVAL);
	fake_walk(qp, IBV_QPS_INIT);
	REFUSES(IBV_QPS_RTR, attr.path_mtu = (enum ibv_mtu)0, 0, EINVAL);
	/* The interface MTU of 1500 bytes is sufficient for 1024 and the headers. */
	REFUSES(IBV_QPS_RTR, attr.path_mtu = IBV_MTU_2048, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.dest_qp_num = 1u << 24, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.max_dest_rd_atomic = MAX_RD_ATOMIC + 1, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.min_rnr_timer = 32, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.ah_attr.is_global = 0, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.ah_attr.port_num = 2, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.ah_attr.grh.sgid_index = 1, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, attr.ah_attr.grh.sgid_index = 255, 0, EINVAL);
	REFUSES(IBV_QPS_RTR, (void)0, IBV_QP_ALT_PATH, EOPNOTSUPP);
	REFUSES(IBV_QPS_RTS, (void)0, 0, EINVAL);
	assert_int_equal(fake_calls.bind, 0);
	assert_int_equal(fake_modify(qp, IBV_QPS_RTR), 0);
	REFUSES(IBV_QPS_RTS, attr.timeout = 32, 0, EINVAL);
	REFUSES(IBV_QPS_RTS, attr.retry_cnt = 8, 0, EINVAL);
	REFUSES(IBV_QPS_RTS, attr.rnr_retry = 8, 0, EINVAL);
	REFUSES(IBV_QPS_RTS, attr.max_rd_atomic = MAX_RD_ATOMIC + 1, 0, EINVAL);
	REFUSES(IBV_QPS_RTS, attr.cur_qp_state = IBV_QPS_INIT, IBV_QP_CUR_STATE, EINVAL);
	REFUSES(IBV_QPS_RTS, attr.path_mig_state = IBV_MIG_ARMED, IBV_QP_PATH_MIG_STATE, EINVAL);
	attr = fake_attr(IBV_QPS_RTS);
	attr.cur_qp_state = IBV_QPS_RTR;
	assert_int_equal(
		ibv_modify_qp(qp, &attr, fake_mask(IBV_QPT_RC, IBV_QPS_RTS) | IBV_QP_CUR_STATE), 0);
#undef REFUSES
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_err_flushes_in_order(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, 3);
	post_recvs(qp, 2);
	assert_int_equal(fake_calls.kick, 3);
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(fake_calls.halt, 1);
	assert_int_equal(fake_calls.state_at_halt, IBV_QPS_ERR);
	expect_flushed(0, 3);
	expect_flushed(100, 2);
	/* WRs posted in ERR are flushed immediately. */
	post_sends(qp, 1);
	post_recvs(qp, 1);
	expect_flushed(0, 1);
	expect_flushed(100, 1);
	expect_cq_empty();
	fake_expect_no_event(&fake);
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fake_calls.halt, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_reset_to_err_fails(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp *qp = fake_qp(&fake, types[i], NULL);

		assert_int_equal(fake_modify(qp, IBV_QPS_ERR), EINVAL);
		assert_int_equal(qp->state, IBV_QPS_RESET);
		assert_int_equal(fake_modify(qp, IBV_QPS_INIT), 0);
		assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void ibv_modify_qp_other_states_to_err_and_any_to_reset_succeeds(void **state)
{
	static const enum ibv_qp_state ends[] = {IBV_QPS_ERR, IBV_QPS_RESET};

	(void)state;
	for (enum ibv_qp_state from = IBV_QPS_RESET; from <= IBV_QPS_SQD; from++) {
		for (size_t i = 0; i < 2; i++) {
			struct ibv_qp *qp;

			if (from == IBV_QPS_RESET && ends[i] == IBV_QPS_ERR)
				continue;
			qp = fake_qp(&fake, IBV_QPT_UC, NULL);
			fake_walk(qp, from);
			assert_int_equal(fake_modify(qp, ends[i]), 0);
			assert_int_equal(qp->state, ends[i]);
			assert_int_equal(fake_modify(qp, IBV_QPS_INIT),
					 ends[i] == IBV_QPS_ERR ? EINVAL : 0);
			assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
			assert_int_equal(fake_modify(qp, IBV_QPS_INIT), 0);
			assert_int_equal(ibv_destroy_qp(qp), 0);
		}
	}
}

static void ibv_modify_qp_reset_discards_work_requests(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp *other = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	fake_walk(other, IBV_QPS_RTS);
	post_sends(qp, 2);
	post_sends(other, 1);
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fake_modify(other, IBV_QPS_ERR), 0);
	/* The completions of this QP are removed, those of the other one stay. */
	assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
	expect_flushed(0, 1);
	expect_cq_empty();
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, 16);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(other), 0);
	expect_cq_empty();
}

static void ibv_modify_qp_sqd_reports_sq_drained(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_init_attr init_attr;
	struct ibv_wc wc;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, 2);
	/* The first WQE is outstanding, the second was not sent. */
	to_qp(qp)->sq.nxt = to_qp(qp)->sq.begun = 1;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init_attr), 0);
	assert_int_equal(attr.sq_draining, 1);
	engine_lock(&fake.engine);
	sq_retire(to_qp(qp), IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	qp_check_drained(to_qp(qp));
	qp_check_drained(to_qp(qp));
	engine_unlock(&fake.engine);
	fake_expect_event(&fake, IBV_EVENT_SQ_DRAINED, qp);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init_attr), 0);
	assert_int_equal(attr.sq_draining, 0);
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	post_sends(qp, 1);
	assert_int_equal(fake_calls.kick, 2);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(fake_calls.ready, 2);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_sqd_without_notify_reports_nothing(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	(void)state;
	fake_walk(qp, IBV_QPS_SQD);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	/* No WQE is outstanding: the queue is drained immediately. */
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	fake_expect_event(&fake, IBV_EVENT_SQ_DRAINED, qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/*
 * The transports keep the path and the responder resources of INIT to RTR. Other attributes take
 * effect.
 */
static void ibv_modify_qp_sqd_other_path_fails_with_eopnotsupp(void **state)
{
	const int path = IBV_QP_STATE | IBV_QP_AV, depth = IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC;
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr, before = {0}, after = {0};
	struct ibv_qp_init_attr init;

	(void)state;
	fake_walk(qp, IBV_QPS_SQD);
#define REFUSES(change, mask)                                                                    \
	do {                                                                                     \
		assert_int_equal(ibv_query_qp(qp, &before, 0, &init), 0);                        \
		attr = before;                                                                   \
		attr.timeout++;                                                                  \
		change;                                                                          \
		assert_int_equal(ibv_modify_qp(qp, &attr, (mask) | IBV_QP_TIMEOUT), EOPNOTSUPP); \
		assert_int_equal(ibv_query_qp(qp, &after, 0, &init), 0);                         \
		assert_memory_equal(&before, &after, sizeof(before));                            \
	} while (0)
	REFUSES(attr.ah_attr.grh.dgid.raw[15] ^= 1, path);
	REFUSES(attr.ah_attr.grh.hop_limit++, path);
	REFUSES(attr.ah_attr.grh.traffic_class++, path);
	REFUSES(attr.ah_attr.grh.flow_label++, path);
	REFUSES(attr.max_dest_rd_atomic++, depth);
	REFUSES(attr.max_dest_rd_atomic--, depth);
#undef REFUSES
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	attr.timeout++;
	attr.max_rd_atomic++;
	attr.ah_attr.grh.flow_label |= 1u << 20; /* not a part of the label */
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       path | depth | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
					       IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	assert_int_equal(ibv_query_qp(qp, &after, 0, &init), 0);
	assert_int_equal(after.timeout, attr.timeout);
	assert_int_equal(after.max_rd_atomic, attr.max_rd_atomic);
	assert_int_equal(fake_calls.bind, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_modify_qp_busy_peer_fails_with_ebusy(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	fake_calls.revoke_error = -EBUSY;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EBUSY);
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_RTS);
	fake_calls.revoke_error = 0;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define QP_TEST(function) cmocka_unit_test_setup_teardown(function, queues_open, queues_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		QP_TEST(ibv_modify_qp_busy_peer_fails_with_ebusy),
		QP_TEST(ibv_modify_qp_rtr_tries_transports_in_order),
		QP_TEST(transport_choose_restricts_modify_qp_to_one_transport),
		QP_TEST(ibv_modify_qp_rtr_unreachable_changes_nothing),
		QP_TEST(ibv_modify_qp_attributes_are_returned_by_query),
		QP_TEST(ibv_modify_qp_invalid_attr_changes_nothing),
		QP_TEST(ibv_modify_qp_err_flushes_in_order),
		QP_TEST(ibv_modify_qp_reset_to_err_fails),
		QP_TEST(ibv_modify_qp_other_states_to_err_and_any_to_reset_succeeds),
		QP_TEST(ibv_modify_qp_reset_discards_work_requests),
		QP_TEST(ibv_modify_qp_sqd_reports_sq_drained),
		QP_TEST(ibv_modify_qp_sqd_without_notify_reports_nothing),
		QP_TEST(ibv_modify_qp_sqd_other_path_fails_with_eopnotsupp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
