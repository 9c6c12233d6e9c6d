/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The effects of the fault points message, message.receive, receive, access, completion and
 * qp.event between two queue pairs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "core/object/vendor_err.h"
#include "local/local.h"
#include "pair.h"

#define QKEY	  0x55aa55aau
#define BYTES	  16u
#define BASE_RECV (PAIR_BUF_BYTES / 2)
#define COUNT	  16u
#define WAIT_NS	  (10 * CLOCK_NS_PER_S)

static struct pair pair;
static struct ibv_qp *qps[2];
static struct ibv_ah *ah;
static struct ibv_srq *srq;

/* has_srq: the second QP uses an SRQ. */
static void open_qps_with_srq(enum ibv_qp_type type, uint8_t retry_cnt, bool has_srq)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 16, .max_sge = 1}};

	pair_open(&pair, true);
	srq = has_srq ? ibv_create_srq(pair.nodes[1].pd, &srq_attr) : NULL;
	assert_true(srq || !has_srq);
	for (int i = 0; i < 2; i++) {
		qps[i] = pair_create_qp(&pair.nodes[i], type, i ? srq : NULL);
		if (type == IBV_QPT_UD)
			pair_ready(qps[i], QKEY);
	}
	ah = pair_create_ah(&pair.nodes[0]);
	for (int i = 0; type != IBV_QPT_UD && i < 2; i++) {
		assert_int_equal(
			pair_to_init(qps[i], IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ), 0);
		assert_int_equal(pair_to_rtr(qps[i], qps[1 - i]->qp_num, 1), 0);
	}
	/* Timeout 1 is 8 us. */
	for (int i = 0; type != IBV_QPT_UD && i < 2; i++)
		assert_int_equal(pair_to_rts(qps[i], 7, retry_cnt, 1), 0);
}

static void open_qps(enum ibv_qp_type type, uint8_t retry_cnt)
{
	open_qps_with_srq(type, retry_cnt, false);
}

static int close_qps(void **state)
{
	(void)state;
	assert_int_equal(fault_configure(NULL, NULL, 0), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	if (srq)
		assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
	return 0;
}

static void set_rules(const char *rules)
{
	char why[128] = "";

	if (fault_configure(rules, why, sizeof(why)))
		fail_msg("%s: %s", rules, why);
}

static void post_recv(uint64_t wr_id)
{
	struct node *node = &pair.nodes[1];
	struct ibv_sge sge = {(uintptr_t)node->buf + BASE_RECV, 4096, node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qps[1], &wr, &bad), 0);
}

static void post(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct node *node = &pair.nodes[0], *peer = &pair.nodes[1];
	struct ibv_sge sge = {(uintptr_t)node->buf, BYTES, node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (qps[0]->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qps[1]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = (uintptr_t)peer->buf;
		wr.wr.rdma.rkey = peer->mr->rkey;
	}
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

/* Waits for the next completion of a node. */
static struct ibv_wc wait_wc(int node)
{
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc = {0};

	while (!poll_cq_once(pair.nodes[node].cq, &wc)) {
		for (int i = 0; i < 2; i++)
			(void)node_turn(&pair.nodes[i]);
		if (clock_now_ns() > until_ns)
			fail_msg("no completion on node %d", node);
	}
	return wc;
}

static void expect_wc_of(int node, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_wc(node);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void expect_no_wc(int node)
{
	struct ibv_wc wc;

	pair_settle(&pair);
	assert_false(poll_cq_once(pair.nodes[node].cq, &wc));
}

static uint64_t retries(void)
{
	return local_of(&pair.nodes[0].engine)->counters[LOCAL_RETRIES];
}

static void local_fault_lost_message_of_rc_is_repeated(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("message:drop:nth=1");
	post_recv(1);
	post(IBV_WR_SEND, 2);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
	assert_int_equal(retries(), 1);
}

static void local_fault_all_messages_of_rc_lost_exhausts_retries(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_qps(IBV_QPT_RC, 2);
	set_rules("message:drop");
	post(IBV_WR_RDMA_WRITE, 1);
	post(IBV_WR_RDMA_WRITE, 2);
	wc = wait_wc(0);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.vendor_err, VENDOR_ERR_NO_RESPONSE);
	expect_wc_of(0, 2, IBV_WC_WR_FLUSH_ERR);
}

static void local_fault_messages_of_rc_lost_at_random_arrive_in_order(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 7);
	set_rules("message:drop:p=0.3;message:delay=20us:p=0.3");
	for (uint64_t i = 0; i < COUNT; i++) {
		post_recv(i);
		post(IBV_WR_SEND, i);
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		expect_wc_of(1, i, IBV_WC_SUCCESS);
		expect_wc_of(0, i, IBV_WC_SUCCESS);
	}
}

/* The rules lose the first message. */
static void expect_first_message_of_uc_lost(const char *rules)
{
	open_qps(IBV_QPT_UC, 0);
	set_rules(rules);
	post_recv(1);
	post(IBV_WR_SEND, 2);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
	expect_no_wc(1);
	post(IBV_WR_SEND, 3);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
}

/* The rules lose the first datagram and duplicate the second one. */
static void expect_datagram_lost_and_datagram_duplicated(const char *rules)
{
	open_qps(IBV_QPT_UD, 0);
	set_rules(rules);
	post_recv(1);
	post_recv(2);
	post(IBV_WR_SEND, 3);
	expect_wc_of(0, 3, IBV_WC_SUCCESS);
	expect_no_wc(1);
	post(IBV_WR_SEND, 4);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
	expect_wc_of(1, 2, IBV_WC_SUCCESS);
}

static void local_fault_lost_message_of_uc_is_lost(void **state)
{
	(void)state;
	expect_first_message_of_uc_lost("message:corrupt:nth=1");
}

static void local_fault_datagram_is_lost_and_duplicated(void **state)
{
	(void)state;
	expect_datagram_lost_and_datagram_duplicated("message:drop:nth=1;message:duplicate:nth=2");
}

static void local_fault_lost_received_message_of_rc_is_repeated(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("message:drop:dir=received:every=3:op=SEND");
	for (uint64_t i = 0; i < COUNT; i++) {
		post_recv(i);
		post(IBV_WR_SEND, i);
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		expect_wc_of(1, i, IBV_WC_SUCCESS);
		expect_wc_of(0, i, IBV_WC_SUCCESS);
	}
	assert_true(retries() >= COUNT / 3);
}

static void local_fault_all_received_messages_lost_exhausts_retries(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 2);
	set_rules("message.receive:drop");
	post(IBV_WR_RDMA_WRITE, 1);
	expect_wc_of(0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(retries(), 2);
}

static void local_fault_lost_received_read_request_is_repeated(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("message.receive:drop:nth=2:op=READ,WRITE");
	post(IBV_WR_RDMA_WRITE, 1);
	post(IBV_WR_RDMA_READ, 2);
	post(IBV_WR_RDMA_WRITE, 3);
	for (uint64_t i = 1; i <= 3; i++)
		expect_wc_of(0, i, IBV_WC_SUCCESS);
	assert_int_equal(retries(), 1);
}

static void local_fault_lost_received_message_of_uc_is_lost(void **state)
{
	(void)state;
	expect_first_message_of_uc_lost("message.receive:drop:nth=1");
}

static void local_fault_received_datagram_is_lost_and_duplicated(void **state)
{
	(void)state;
	expect_datagram_lost_and_datagram_duplicated(
		"message.receive:drop:nth=1;message.receive:duplicate:nth=2:type=UD");
}

/* The sender may use the buffer again while its datagram is delayed. */
static void local_fault_delayed_datagrams_arrive_late_and_in_order(void **state)
{
	uint8_t *sent = NULL, *received;
	uint64_t start_ns;

	(void)state;
	open_qps(IBV_QPT_UD, 0);
	set_rules("message:delay=5ms~1ms");
	sent = pair.nodes[0].buf;
	received = pair.nodes[1].buf + BASE_RECV + 40;
	start_ns = clock_now_ns();
	memset(sent, 0x55, BYTES);
	post_recv(1);
	post(IBV_WR_SEND, 2);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
	memset(sent, 0xaa, BYTES);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
	assert_true(clock_now_ns() - start_ns >= 4 * CLOCK_NS_PER_MS);
	assert_int_equal(received[0], 0x55);
	set_rules("message:delay=3ms");
	for (uint64_t i = 0; i < COUNT; i++) {
		post_recv(i);
		post(IBV_WR_SEND, i);
	}
	for (uint64_t i = 0; i < COUNT; i++)
		expect_wc_of(1, i, IBV_WC_SUCCESS);
}

static void local_fault_rate_delays_datagrams_by_transmission_time(void **state)
{
	uint64_t start_ns;

	(void)state;
	open_qps(IBV_QPT_UD, 0);
	/* 1 ms each. */
	set_rules("message:rate=16K");
	start_ns = clock_now_ns();
	for (uint64_t i = 0; i < 4; i++) {
		post_recv(i);
		post(IBV_WR_SEND, i);
	}
	for (uint64_t i = 0; i < 4; i++)
		expect_wc_of(1, i, IBV_WC_SUCCESS);
	assert_true(clock_now_ns() - start_ns >= 4 * CLOCK_NS_PER_MS);
}

/* Under AddressSanitizer this shows that it is freed. */
static void local_fault_delayed_datagram_ends_with_engine(void **state)
{
	(void)state;
	open_qps(IBV_QPT_UD, 0);
	set_rules("message:delay=3600s");
	post_recv(1);
	post(IBV_WR_SEND, 2);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
	expect_no_wc(1);
}

static void local_fault_cleared_rules_release_held_message(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("message:delay=1ms");
	post_recv(1);
	post(IBV_WR_SEND, 2);
	set_rules(NULL);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
}

static void fault_receive_empty_is_answered_by_rnr_nak(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("receive:empty:times=2");
	post_recv(1);
	post(IBV_WR_SEND, 2);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
	assert_int_equal(local_of(&pair.nodes[0].engine)->counters[LOCAL_RNR_NAKS_RECEIVED], 2);
}

static void fault_receive_empty_drops_datagram(void **state)
{
	(void)state;
	open_qps(IBV_QPT_UD, 0);
	set_rules("receive:empty:nth=1");
	post_recv(1);
	post(IBV_WR_SEND, 2);
	expect_no_wc(1);
	post(IBV_WR_SEND, 3);
	expect_wc_of(1, 1, IBV_WC_SUCCESS);
}

static void fault_access_deny_fails_write(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("access:deny:op=WRITE:nth=3");
	post(IBV_WR_RDMA_WRITE, 1);
	expect_wc_of(0, 1, IBV_WC_SUCCESS);
	post(IBV_WR_RDMA_WRITE, 2);
	expect_wc_of(0, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(to_qp(qps[1])->state, IBV_QPS_ERR);
}

static void fault_completion_fail_replaces_status_and_moves_qp_to_err(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("completion:fail=REM_OP_ERR/136:op=WRITE:nth=1");
	post(IBV_WR_RDMA_WRITE, 1);
	wc = wait_wc(0);
	assert_int_equal(wc.status, IBV_WC_REM_OP_ERR);
	assert_int_equal(wc.vendor_err, 136);
	pair_settle(&pair);
	assert_int_equal(to_qp(qps[0])->state, IBV_QPS_ERR);
}

static void fault_completion_withheld_and_delayed_keep_order(void **state)
{
	uint64_t start_ns;

	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("completion:drop:nth=1;completion:delay=5ms:nth=2");
	start_ns = clock_now_ns();
	for (uint64_t i = 1; i <= 3; i++)
		post(IBV_WR_RDMA_WRITE, i);
	expect_wc_of(0, 2, IBV_WC_SUCCESS);
	assert_true(clock_now_ns() - start_ns >= 5 * CLOCK_NS_PER_MS);
	expect_wc_of(0, 3, IBV_WC_SUCCESS);
}

/* Under AddressSanitizer this shows that they are freed. */
static void fault_completion_delayed_ends_with_cq(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("completion:delay=3600s");
	post(IBV_WR_RDMA_WRITE, 1);
	expect_no_wc(0);
}

static void fault_qp_event_error_moves_qp_to_err(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("qp.event:error:nth=1");
	post(IBV_WR_RDMA_WRITE, 1);
	expect_wc_of(0, 1, IBV_WC_SUCCESS);
	pair_settle(&pair);
	assert_int_equal(to_qp(qps[0])->state, IBV_QPS_ERR);
}

static struct ibv_async_event next_event(int node)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(&pair.nodes[node].context.pub.context, &event), 0);
	ibv_ack_async_event(&event);
	return event;
}

static void fault_qp_event_srq_limit_reports_event_of_srq(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_async_event event;

	(void)state;
	open_qps_with_srq(IBV_QPT_RC, 3, true);
	set_rules("qp.event:srq_limit:op=RECV:nth=2");
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = {(uintptr_t)pair.nodes[1].buf + BASE_RECV, 4096,
				      pair.nodes[1].mr->lkey};

		wr.sg_list = &sge;
		wr.num_sge = 1;
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
		post(IBV_WR_SEND, i);
		expect_wc_of(1, 1, IBV_WC_SUCCESS);
		expect_wc_of(0, i, IBV_WC_SUCCESS);
	}
	event = next_event(1);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, srq);
	assert_int_equal(to_qp(qps[1])->state, IBV_QPS_RTS);
}

static void fault_qp_event_overrun_loses_completions(void **state)
{
	(void)state;
	open_qps(IBV_QPT_RC, 3);
	set_rules("qp.event:overrun:nth=2");
	post(IBV_WR_RDMA_WRITE, 1);
	expect_wc_of(0, 1, IBV_WC_SUCCESS);
	post(IBV_WR_RDMA_WRITE, 2);
	expect_no_wc(0);
	assert_int_equal(to_qp(qps[0])->state, IBV_QPS_ERR);
	assert_int_equal(next_event(0).event_type, IBV_EVENT_CQ_ERR);
	assert_int_equal(next_event(0).event_type, IBV_EVENT_QP_FATAL);
}

#define TEST(name) cmocka_unit_test_teardown(name, close_qps)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(local_fault_lost_message_of_rc_is_repeated),
		TEST(local_fault_all_messages_of_rc_lost_exhausts_retries),
		TEST(local_fault_messages_of_rc_lost_at_random_arrive_in_order),
		TEST(local_fault_lost_message_of_uc_is_lost),
		TEST(local_fault_datagram_is_lost_and_duplicated),
		TEST(local_fault_lost_received_message_of_rc_is_repeated),
		TEST(local_fault_all_received_messages_lost_exhausts_retries),
		TEST(local_fault_lost_received_read_request_is_repeated),
		TEST(local_fault_lost_received_message_of_uc_is_lost),
		TEST(local_fault_received_datagram_is_lost_and_duplicated),
		TEST(local_fault_delayed_datagrams_arrive_late_and_in_order),
		TEST(local_fault_rate_delays_datagrams_by_transmission_time),
		TEST(local_fault_delayed_datagram_ends_with_engine),
		TEST(local_fault_cleared_rules_release_held_message),
		TEST(fault_receive_empty_is_answered_by_rnr_nak),
		TEST(fault_receive_empty_drops_datagram),
		TEST(fault_access_deny_fails_write),
		TEST(fault_completion_fail_replaces_status_and_moves_qp_to_err),
		TEST(fault_completion_withheld_and_delayed_keep_order),
		TEST(fault_completion_delayed_ends_with_cq),
		TEST(fault_qp_event_error_moves_qp_to_err),
		TEST(fault_qp_event_srq_limit_reports_event_of_srq),
		TEST(fault_qp_event_overrun_loses_completions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
