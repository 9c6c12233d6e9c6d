/* SPDX-License-Identifier: BSD-2-Clause */

/* What ibv_modify_qp does to a queue pair and to its transport, which only writes down what it is asked: fake.h. */

#include "queues.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp.h"
#include "core/wq.h"

static void transports_are_asked_in_order(void **state)
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

static void only_the_chosen_transport_is_asked(void **state)
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

static void what_cannot_be_bound_stays_as_it_was(void **state)
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
	assert_memory_equal(&after, &before, sizeof(after));
	fake_calls.bind_error = 0;
	assert_int_equal(fake_modify(qp, IBV_QPS_RTR), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void attributes_are_kept(void **state)
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
	/* And gone after RESET. */
	assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init_attr), 0);
	assert_int_equal(attr.dest_qp_num, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void bad_values_change_nothing(void **state)
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
		assert_memory_equal(&before, &after, sizeof(before));                     \
	} while (0)
	REFUSES(IBV_QPS_INIT, attr.port_num = 0, 0, EINVAL);
	REFUSES(IBV_QPS_INIT, attr.port_num = 2, 0, EINVAL);
	REFUSES(IBV_QPS_INIT, attr.pkey_index = 1, 0, EINVAL);
	REFUSES(IBV_QPS_INIT, (void)0, IBV_QP_QKEY, EINVAL);
	fake_walk(qp, IBV_QPS_INIT);
	REFUSES(IBV_QPS_RTR, attr.path_mtu = (enum ibv_mtu)0, 0, EINVAL);
	/* The interface's 1500 bytes have room for 1024 and the headers. */
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

static void modifying_to_err_flushes_in_order(void **state)
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
	/* What is posted in ERR is flushed at once. */
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

static void any_state_goes_to_err_and_to_reset(void **state)
{
	static const enum ibv_qp_state ends[] = {IBV_QPS_ERR, IBV_QPS_RESET};

	(void)state;
	for (enum ibv_qp_state from = IBV_QPS_RESET; from <= IBV_QPS_SQD; from++) {
		for (size_t i = 0; i < 2; i++) {
			struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_UC, NULL);

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

static void reset_leaves_nothing(void **state)
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
	/* Its completions go, the other's stay. */
	assert_int_equal(fake_modify(qp, IBV_QPS_RESET), 0);
	expect_flushed(0, 1);
	expect_cq_empty();
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, 16);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(other), 0);
	expect_cq_empty();
}

static void draining_ends_with_an_event(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_init_attr init_attr;
	struct ibv_wc wc;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, 2);
	/* The first is with the peer, the second waits. */
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

static void draining_without_asking_has_no_event(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	(void)state;
	fake_walk(qp, IBV_QPS_SQD);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	/* Nothing is under way: drained at once. */
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	fake_expect_event(&fake, IBV_EVENT_SQ_DRAINED, qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define QP_TEST(function) cmocka_unit_test_setup_teardown(function, queues_open, queues_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		QP_TEST(transports_are_asked_in_order),
		QP_TEST(only_the_chosen_transport_is_asked),
		QP_TEST(what_cannot_be_bound_stays_as_it_was),
		QP_TEST(attributes_are_kept),
		QP_TEST(bad_values_change_nothing),
		QP_TEST(modifying_to_err_flushes_in_order),
		QP_TEST(any_state_goes_to_err_and_to_reset),
		QP_TEST(reset_leaves_nothing),
		QP_TEST(draining_ends_with_an_event),
		QP_TEST(draining_without_asking_has_no_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
