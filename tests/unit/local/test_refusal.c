/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A QP is destroyed while its peer sends. The responder refuses each message for the QPN; the
 * requester repeats the messages from the oldest one on. Refusals of the first messages may arrive
 * after their repetition was sent.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pair.h"

#define WAIT_NS	 (20 * CLOCK_NS_PER_S)
#define MESSAGES 3

static struct pair pair;
static struct ibv_qp *qp;

static void post(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[0].buf, 8, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.atomic.remote_addr = (uintptr_t)pair.nodes[1].buf;
	wr.wr.atomic.rkey = pair.nodes[1].mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/*
 * The first message was refused, and the requester waits to repeat it; the others are in the FIFO.
 */
static void open_refused(enum ibv_wr_opcode opcode)
{
	struct ibv_qp *peer;

	pair_open(&pair, false);
	qp = pair_create_qp(&pair.nodes[0], IBV_QPT_RC, NULL);
	peer = pair_create_qp(&pair.nodes[1], IBV_QPT_RC, NULL);
	pair_connect(qp, peer);
	assert_int_equal(ibv_destroy_qp(peer), 0);
	post(opcode, 1);
	node_turn(&pair.nodes[1]);
	for (uint64_t i = 2; i <= MESSAGES; i++)
		post(opcode, i);
	node_turn(&pair.nodes[0]);
}

/* The ACK timeout of pair_connect() is 8 us. */
static void sleep_longer_than_timeout(void)
{
	const struct timespec time = {.tv_nsec = 5 * (long)CLOCK_NS_PER_MS};

	nanosleep(&time, NULL);
}

static void expect(uint64_t wr_id, enum ibv_wc_status status)
{
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	while (!poll_cq_once(pair.nodes[0].cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	assert_int_equal(wc.wr_id, wr_id);
	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

static void expect_all_fail(void)
{
	expect(1, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t i = 2; i <= MESSAGES; i++)
		expect(i, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	pair_close(&pair);
}

/* One turn of the responder finds the old messages 2 and 3 and the repeated messages 1 to 3. */
static void refused_together(enum ibv_wr_opcode opcode)
{
	open_refused(opcode);
	sleep_longer_than_timeout();
	node_turn(&pair.nodes[0]);
	node_turn(&pair.nodes[1]);
	expect_all_fail();
}

/*
 * The refusal of the old message 2 arrives when message 1 was repeated. It must not acknowledge
 * message 1.
 */
static void refused_late(enum ibv_wr_opcode opcode)
{
	open_refused(opcode);
	node_turn(&pair.nodes[1]);
	sleep_longer_than_timeout();
	node_turn(&pair.nodes[0]);
	expect_all_fail();
}

static void local_refusal_of_old_and_repeated_sends_fails_requester(void **state)
{
	(void)state;
	refused_together(IBV_WR_SEND);
}

static void local_refusal_of_old_and_repeated_atomics_fails_requester(void **state)
{
	(void)state;
	refused_together(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static void local_refusal_late_of_send_acknowledges_nothing(void **state)
{
	(void)state;
	refused_late(IBV_WR_SEND);
}

static void local_refusal_late_of_atomic_fails_requester(void **state)
{
	(void)state;
	refused_late(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_refusal_of_old_and_repeated_sends_fails_requester),
		cmocka_unit_test(local_refusal_of_old_and_repeated_atomics_fails_requester),
		cmocka_unit_test(local_refusal_late_of_send_acknowledges_nothing),
		cmocka_unit_test(local_refusal_late_of_atomic_fails_requester),
	};

	return cmocka_run_group_tests_name("refusal", tests, NULL, NULL);
}
