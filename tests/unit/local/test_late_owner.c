/* SPDX-License-Identifier: BSD-2-Clause */

/* A QP is connected while no process owns its peer's QPN: which later owner may be its peer. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/qp.h"
#include "pair.h"

#define BYTES	64u
#define WAIT_NS (20 * CLOCK_NS_PER_S)

enum { OWNER, QP_HOLDER };

static struct pair pair;
static struct ibv_qp *qps[2];

/* The holder's QP is connected first; the process with its peer's QPN is connected afterwards. */
static void open_qps(bool is_same_uid)
{
	struct peer **slots, *owner;
	uint32_t slot;

	pair_open(&pair, is_same_uid);
	for (int i = 0; i < 2; i++)
		qps[i] = pair_create_qp(&pair.nodes[i], IBV_QPT_RC, NULL);
	slot = pair.nodes[OWNER].engine.slot;
	slots = local_of(&pair.nodes[QP_HOLDER].engine)->by_slot;
	owner = slots[slot];
	slots[slot] = NULL;
	pair_connect(qps[0], qps[1]);
	assert_null(local_qp_of(to_qp(qps[QP_HOLDER]))->peer);
	slots[slot] = owner;
}

static void close_qps(void)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	pair_close(&pair);
}

static void post_recv(int side)
{
	struct node *node = &pair.nodes[side];
	struct ibv_sge sge = {(uintptr_t)node->buf, BYTES, node->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qps[side], &wr, &bad), 0);
}

/* Sends from `side`; returns the status of the SEND. */
static enum ibv_wc_status send_from(int side)
{
	struct node *node = &pair.nodes[side];
	struct ibv_sge sge = {(uintptr_t)node->buf, BYTES, node->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(qps[side], &wr, &bad), 0);
	while (!poll_cq_once(node->cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	return wc.status;
}

static void local_late_owner_of_other_user_cannot_send(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_qps(false);
	post_recv(QP_HOLDER);
	assert_int_equal(send_from(OWNER), IBV_WC_RETRY_EXC_ERR);
	assert_false(poll_cq_once(pair.nodes[QP_HOLDER].cq, &wc));
	close_qps();
}

static void local_late_owner_of_other_user_receives_nothing(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_qps(false);
	post_recv(OWNER);
	assert_int_equal(send_from(QP_HOLDER), IBV_WC_RETRY_EXC_ERR);
	assert_false(poll_cq_once(pair.nodes[OWNER].cq, &wc));
	close_qps();
}

static void local_late_owner_of_same_user_is_peer(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		open_qps(true);
		post_recv(!side);
		assert_int_equal(send_from(side), IBV_WC_SUCCESS);
		close_qps();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_late_owner_of_other_user_cannot_send),
		cmocka_unit_test(local_late_owner_of_other_user_receives_nothing),
		cmocka_unit_test(local_late_owner_of_same_user_is_peer),
	};

	return cmocka_run_group_tests_name("late_owner", tests, NULL, NULL);
}
