/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last message before the end of a connection, with a receiver that gets DISCONNECTED before it
 * polls its CQ. The completion is kept if the receiver polls, and lost if it destroys the QP first
 * (ADR 0021).
 */
#include "cm_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overheard.h"

#define WR_ID 0x1a57
#define BYTES 64

struct last {
	struct ends ends;
	struct ibv_cq *cq; /* CQ of the receiver; destroyed after the QP */
	struct ibv_mr *mr;
	struct overheard overheard;
	char words[128];
	char buf[BYTES];
};

static void receiver_open(struct last *last)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_cm_id *id = last->ends.passive;
	struct ibv_sge sge = {.addr = (uintptr_t)last->buf, .length = BYTES};
	struct ibv_recv_wr wr = {.wr_id = WR_ID, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	last->cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	assert_non_null(last->cq);
	attr.send_cq = attr.recv_cq = last->cq;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	last->mr = ibv_reg_mr(id->pd, last->buf, BYTES, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(last->mr);
	sge.lkey = last->mr->lkey;
	/* The second receive can only be flushed, which is not logged. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_post_recv(id->qp, &wr, &bad), 0);
	snprintf(
		last->words, sizeof(last->words),
		"QP 0x%x is destroyed or reset: 1 receive and 0 send completions were not polled, 0 sends ",
		id->qp->qp_num);
}

/* The sender has the completion of its message and ends. The receiver gets DISCONNECTED. */
static int setup(void **state)
{
	struct last *last = calloc(1, sizeof(*last));
	struct ends *ends = &last->ends;
	struct ibv_wc wc;

	assert_non_null(last);
	ends_listen(ends, NULL, 1);
	ends_resolve(ends);
	ends_create_qp(ends->active);
	ends_request(ends, NULL);
	receiver_open(last);
	ends_establish(ends);
	assert_int_equal(rdma_post_send(ends->active, NULL, "last", 5, NULL, IBV_SEND_INLINE), 0);
	assert_int_equal(rdma_get_send_comp(ends->active, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	rdma_destroy_qp(ends->active);
	assert_int_equal(rdma_destroy_id(ends->active), 0);
	ends->active = NULL;
	cm_pass(ends->server, ends->passive, RDMA_CM_EVENT_DISCONNECTED);
	overheard_begin(&last->overheard);
	*state = last;
	return 0;
}

static int teardown(void **state)
{
	struct last *last = *state;

	overheard_end(&last->overheard);
	assert_int_equal(ibv_dereg_mr(last->mr), 0);
	assert_int_equal(ibv_destroy_cq(last->cq), 0);
	ends_close(&last->ends);
	free(last);
	return 0;
}

static void rdma_destroy_qp_before_poll_discards_completion(void **state)
{
	struct last *last = *state;
	struct ibv_wc wc;

	rdma_destroy_qp(last->ends.passive);
	assert_int_equal(ibv_poll_cq(last->cq, 1, &wc), 0);
	assert_true(overheard_has(&last->overheard, last->words));
}

static void ibv_modify_qp_reset_before_poll_discards_completion(void **state)
{
	struct last *last = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc wc;

	assert_int_equal(ibv_modify_qp(last->ends.passive->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_poll_cq(last->cq, 1, &wc), 0);
	assert_true(overheard_has(&last->overheard, last->words));
	rdma_destroy_qp(last->ends.passive);
}

static void ibv_poll_cq_before_destroy_qp_returns_completion(void **state)
{
	struct last *last = *state;
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(last->cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, WR_ID);
	assert_string_equal(last->buf, "last");
	rdma_destroy_qp(last->ends.passive);
	assert_int_equal(ibv_poll_cq(last->cq, 1, &wc), 0);
	assert_false(overheard_has(&last->overheard, " ends: "));
}

/* Flushed completions are not logged. */
static void rdma_destroy_qp_discarded_flush_is_not_logged(void **state)
{
	struct last *last = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(last->cq, 1, &wc), 1);
	assert_int_equal(ibv_modify_qp(last->ends.passive->qp, &attr, IBV_QP_STATE), 0);
	rdma_destroy_qp(last->ends.passive);
	assert_int_equal(ibv_poll_cq(last->cq, 1, &wc), 0);
	assert_false(overheard_has(&last->overheard, " ends: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rdma_destroy_qp_before_poll_discards_completion,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ibv_modify_qp_reset_before_poll_discards_completion,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ibv_poll_cq_before_destroy_qp_returns_completion,
						setup, teardown),
		cmocka_unit_test_setup_teardown(rdma_destroy_qp_discarded_flush_is_not_logged,
						setup, teardown),
	};

	/* The library reads the variable once, before the first log line. */
	setenv("USRDMA_LOG", "debug", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
