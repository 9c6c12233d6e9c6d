/* SPDX-License-Identifier: BSD-2-Clause */
/* The effects of the fault points of the shared-memory FIFOs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "local/local.h"
#include "local/request.h"
#include "local/ring.h"
#include "local/trace_points.h"
#include "pair.h"

#define QKEY	  0x55aa55aau
#define IMM	  0x01020304u
#define BYTES	  16u
#define SEEDS	  128u
#define BASE_RECV (PAIR_BUF_BYTES / 2)

struct fixture {
	struct pair pair;
	struct ibv_qp *qps[2];
	struct ibv_ah *ah;
};

static void open_fixture(struct fixture *f, enum ibv_qp_type type)
{
	pair_open(&f->pair, true);
	for (int i = 0; i < 2; i++) {
		f->qps[i] = pair_create_qp(&f->pair.nodes[i], type, NULL);
		if (type == IBV_QPT_UD)
			pair_ready(f->qps[i], QKEY);
	}
	f->ah = pair_create_ah(&f->pair.nodes[0]);
	if (type != IBV_QPT_UD)
		pair_connect(f->qps[0], f->qps[1]);
}

static void close_fixture(struct fixture *f)
{
	assert_int_equal(fault_configure(NULL, NULL, 0), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(f->qps[i]), 0);
	assert_int_equal(ibv_destroy_ah(f->ah), 0);
	pair_close(&f->pair);
}

static void configure(const char *rules)
{
	char why[128];

	assert_int_equal(fault_configure(rules, why, sizeof(why)), 0);
}

static void probe_post_recv(struct fixture *f, uint64_t wr_id)
{
	struct node *node = &f->pair.nodes[1];
	struct ibv_sge sge = {(uintptr_t)node->buf + BASE_RECV, 4096, node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(f->qps[1], &wr, &bad), 0);
}

static void probe_post_send(struct fixture *f, uint64_t wr_id)
{
	struct node *node = &f->pair.nodes[0];
	struct ibv_sge sge = {(uintptr_t)node->buf, BYTES, node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = IMM},
			   *bad;

	if (f->qps[0]->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = f->ah;
		wr.wr.ud.remote_qpn = f->qps[1]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	assert_int_equal(ibv_post_send(f->qps[0], &wr, &bad), 0);
}

static void expect_completion(struct fixture *f, int node, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_true(poll_cq_once(f->pair.nodes[node].cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
}

static void expect_no_completion(struct fixture *f, int node)
{
	struct ibv_wc wc;

	assert_false(poll_cq_once(f->pair.nodes[node].cq, &wc));
}

static uint64_t received(struct fixture *f, enum local_counter counter)
{
	return local_of(&f->pair.nodes[1].engine)->counters[counter];
}

static void local_probe_failed_element_is_sent_later_and_in_order(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, IBV_QPT_RC);
	configure("fifo.send:fail:times=3");
	for (uint64_t i = 1; i <= 3; i++)
		probe_post_recv(&f, i);
	for (uint64_t i = 1; i <= 3; i++)
		probe_post_send(&f, i);
	assert_int_equal(received(&f, LOCAL_MESSAGES_RECEIVED), 0);
	pair_settle(&f.pair);
	for (uint64_t i = 1; i <= 3; i++) {
		expect_completion(&f, 0, i);
		expect_completion(&f, 1, i);
	}
	expect_no_completion(&f, 1);
	close_fixture(&f);
}

static void local_probe_dropped_element_is_not_delivered(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, IBV_QPT_UD);
	configure("fifo.receive:drop:nth=1");
	probe_post_recv(&f, 1);
	probe_post_send(&f, 1);
	pair_settle(&f.pair);
	expect_completion(&f, 0, 1);
	expect_no_completion(&f, 1);
	probe_post_send(&f, 2);
	pair_settle(&f.pair);
	expect_completion(&f, 1, 1);
	close_fixture(&f);
}

static void duplicated_element_is_delivered_twice(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, IBV_QPT_UD);
	configure("fifo.receive:duplicate:nth=1");
	for (uint64_t i = 1; i <= 3; i++)
		probe_post_recv(&f, i);
	probe_post_send(&f, 1);
	pair_settle(&f.pair);
	expect_completion(&f, 1, 1);
	expect_completion(&f, 1, 2);
	expect_no_completion(&f, 1);
	assert_int_equal(received(&f, LOCAL_MESSAGES_RECEIVED), 2);
	close_fixture(&f);
}

static void print_element_every_type_has_a_name(void **state)
{
	(void)state;
	for (unsigned int type = CELL_NONE + 1; type < CELL_TYPE_COUNT; type++) {
		int opcode = request_opcode_of_cell((uint8_t)type);
		struct trace_event event = {.type = TRACE_FIFO_SENT};
		char text[256];

		if (type == CELL_SEND)
			opcode = IBV_WR_SEND;
		if (type == CELL_WRITE)
			opcode = IBV_WR_RDMA_WRITE;
		event.fifo.element_type = (uint8_t)type;
		event.fifo.opcode = opcode < 0 ? TRACE_NO_OPCODE : (uint8_t)opcode;
		point_fifo_sent.print(text, sizeof(text), &event);
		assert_int_not_equal(strncmp(text, "unknown", 7), 0);
	}
}

/* The sum of the counters of dropped elements. */
static uint64_t drops(struct fixture *f)
{
	uint64_t sum = received(f, LOCAL_BAD_CELLS) + received(f, LOCAL_DATAGRAMS_SOURCE);

	for (enum local_counter i = LOCAL_DATAGRAMS_UNKNOWN_QPN; i <= LOCAL_DATAGRAMS_BAD_RECV; i++)
		sum += received(f, i);
	return sum;
}

/* Receives the datagram if it was not dropped. Returns whether it differs from what was sent. */
static bool differs(struct fixture *f)
{
	struct ibv_wc wc;

	if (!poll_cq_once(f->pair.nodes[1].cq, &wc))
		return true;
	return wc.status != IBV_WC_SUCCESS || wc.imm_data != IMM ||
	       wc.src_qp != f->qps[0]->qp_num || !(wc.wc_flags & IBV_WC_WITH_IMM) ||
	       memcmp(f->pair.nodes[1].buf + BASE_RECV + sizeof(struct ibv_grh),
		      f->pair.nodes[0].buf, BYTES) != 0;
}

/*
 * The inverted bit depends on the seed. The receiver delivers the datagram with a difference, drops
 * and counts it, or ignores a bit that a datagram does not use. Datagrams without the fault arrive.
 */
static void local_probe_corrupt_element_is_dropped_or_delivered_with_difference(void **state)
{
	unsigned int dropped = 0, changed = 0;

	(void)state;
	for (unsigned int seed = 1; seed <= SEEDS; seed++) {
		char rules[64];
		struct fixture f;
		bool is_different;

		snprintf(rules, sizeof(rules), "seed=%u;fifo.receive:corrupt:nth=1", seed);
		open_fixture(&f, IBV_QPT_UD);
		configure(rules);
		memset(f.pair.nodes[0].buf, 0x5a, BYTES);
		probe_post_recv(&f, 1);
		probe_post_send(&f, 1);
		pair_settle(&f.pair);
		is_different = differs(&f);
		assert_true(drops(&f) <= 1);
		dropped += drops(&f) == 1;
		changed += is_different && !drops(&f);
		probe_post_recv(&f, 2);
		probe_post_send(&f, 2);
		pair_settle(&f.pair);
		assert_true(received(&f, LOCAL_MESSAGES_RECEIVED) >= 1);
		close_fixture(&f);
	}
	assert_true(dropped > 0);
	assert_true(changed > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_probe_failed_element_is_sent_later_and_in_order),
		cmocka_unit_test(local_probe_dropped_element_is_not_delivered),
		cmocka_unit_test(duplicated_element_is_delivered_twice),
		cmocka_unit_test(print_element_every_type_has_a_name),
		cmocka_unit_test(
			local_probe_corrupt_element_is_dropped_or_delivered_with_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
