/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * RNR retries of requesters that wait for one SRQ. A receive wakes all of them, and one takes it.
 * The clock is that of the test (meson.build).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "local/local.h"
#include "pair.h"
#include "wire/aeth.h"

#define REQUESTERS 3

#define RNR_TIMER 31

static uint64_t test_now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	ts->tv_sec = (time_t)(test_now_ns / CLOCK_NS_PER_S);
	ts->tv_nsec = (long)(test_now_ns % CLOCK_NS_PER_S);
	return 0;
}

static struct pair pair;
static struct ibv_srq *srq;
static struct ibv_qp *requesters[REQUESTERS];
static struct ibv_qp *responders[REQUESTERS];

static void connect_one(struct ibv_qp *qp, uint32_t dest_qpn)
{
	assert_int_equal(pair_to_init(qp, 0), 0);
	assert_int_equal(pair_to_rtr(qp, dest_qpn, RNR_TIMER), 0);
	assert_int_equal(pair_to_rts(qp, 1, 7, 18), 0);
}

/* One retry is allowed. Each requester has sent a message and received an RNR NAK. */
static int rnr_open(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};

	(void)state;
	test_now_ns = CLOCK_NS_PER_S;
	pair_open(&pair, false);
	srq = ibv_create_srq(pair.nodes[1].pd, &attr);
	assert_non_null(srq);
	for (uint64_t i = 0; i < REQUESTERS; i++) {
		struct ibv_send_wr wr = {
			.wr_id = i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr *bad;

		requesters[i] = pair_create_qp(&pair.nodes[0], IBV_QPT_RC, NULL);
		responders[i] = pair_create_qp(&pair.nodes[1], IBV_QPT_RC, srq);
		connect_one(requesters[i], responders[i]->qp_num);
		connect_one(responders[i], requesters[i]->qp_num);
		assert_int_equal(ibv_post_send(requesters[i], &wr, &bad), 0);
	}
	pair_settle(&pair);
	assert_int_equal(local_of(&pair.nodes[0].engine)->counters[LOCAL_RNR_NAKS_RECEIVED],
			 REQUESTERS);
	return 0;
}

static int rnr_close(void **state)
{
	(void)state;
	for (int i = 0; i < REQUESTERS; i++) {
		assert_int_equal(ibv_destroy_qp(requesters[i]), 0);
		assert_int_equal(ibv_destroy_qp(responders[i]), 0);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
	pair_close(&pair);
	return 0;
}

static void post_one_recv(void)
{
	struct ibv_recv_wr wr = {0}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	pair_settle(&pair);
}

static void expect_sends(unsigned int count, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	for (; count; count--) {
		assert_true(poll_cq_once(pair.nodes[0].cq, &wc));
		assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	}
	assert_false(poll_cq_once(pair.nodes[0].cq, &wc));
}

static void local_requester_retry_rnr_before_timer_is_not_counted(void **state)
{
	(void)state;
	for (int i = 0; i < REQUESTERS; i++) {
		expect_sends(0, IBV_WC_SUCCESS);
		test_now_ns += CLOCK_NS_PER_MS;
		post_one_recv();
		expect_sends(1, IBV_WC_SUCCESS);
	}
}

static void local_requester_retry_rnr_after_timer_is_counted(void **state)
{
	(void)state;
	test_now_ns += CLOCK_NS_PER_MS;
	post_one_recv();
	expect_sends(1, IBV_WC_SUCCESS);
	/* The others wait for the rest of the first timer. */
	test_now_ns += aeth_rnr_wait_ns(RNR_TIMER) - CLOCK_NS_PER_MS - 1;
	pair_settle(&pair);
	expect_sends(0, IBV_WC_SUCCESS);
	test_now_ns++;
	pair_settle(&pair);
	expect_sends(REQUESTERS - 1, IBV_WC_RNR_RETRY_EXC_ERR);
}

#define RNR_TEST(name) cmocka_unit_test_setup_teardown(name, rnr_open, rnr_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RNR_TEST(local_requester_retry_rnr_before_timer_is_not_counted),
		RNR_TEST(local_requester_retry_rnr_after_timer_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
