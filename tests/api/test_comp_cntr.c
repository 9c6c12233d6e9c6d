/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters: what they count on each type of queue pair, and which calls fail. */
#include "child.h"
#include "datagram.h"
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEND	     IBV_QP_ATTACH_COMP_CNTR_OP_SEND
#define RECV	     IBV_QP_ATTACH_COMP_CNTR_OP_RECV
#define READ	     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
#define WRITE	     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
#define REMOTE_READ  IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
#define REMOTE_WRITE IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE
#define ALL_OPS	     (SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE)

static struct ibv_comp_cntr *new_counter(struct api *api, enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr attr = {.type = type};
	struct ibv_comp_cntr *counter = ibv_create_comp_cntr(api->ctx, &attr);

	assert_non_null(counter);
	assert_ptr_equal(counter->context, api->ctx);
	return counter;
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *counter, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = {.op_mask = ops};

	return ibv_qp_attach_comp_cntr(qp, counter, &attr);
}

static uint64_t done(struct ibv_comp_cntr *counter)
{
	uint64_t value = UINT64_MAX;

	assert_int_equal(ibv_read_comp_cntr(counter, &value), 0);
	return value;
}

static uint64_t failed(struct ibv_comp_cntr *counter)
{
	uint64_t value = UINT64_MAX;

	assert_int_equal(ibv_read_err_comp_cntr(counter, &value), 0);
	return value;
}

/*
 * Reads the counter, without any other call, until it has reached a value. Both values must then be
 * as given.
 */
static void expect(struct ibv_comp_cntr *counter, uint64_t wanted_done, uint64_t wanted_failed)
{
	time_t start = time(NULL);

	while ((done(counter) < wanted_done || failed(counter) < wanted_failed) &&
	       time(NULL) < start + 20)
		;
	assert_int_equal(done(counter), wanted_done);
	assert_int_equal(failed(counter), wanted_failed);
}

static void ibv_query_comp_cntr_caps_lists_every_operation(void **state)
{
	struct api *api = *state;
	struct ibv_comp_cntr_caps caps;
	struct {
		struct ibv_comp_cntr_caps caps;
		uint64_t newer;
	} longer;

	memset(&caps, 0xff, sizeof(caps));
	assert_int_equal(ibv_query_comp_cntr_caps(api->ctx, &caps), 0);
	assert_true(caps.max_counters > 0);
	assert_true(caps.max_value == UINT64_MAX);
	assert_int_equal(caps.supported_qp_attach_ops, ALL_OPS);
	/*
	 * A program compiled with a longer structure reads 0 in its later fields; in a program with
	 * a shorter one the memory after it is unchanged.
	 */
	memset(&longer, 0xff, sizeof(longer));
	assert_int_equal(_ibv_query_comp_cntr_caps(api->ctx, &longer.caps, sizeof(longer)), 0);
	assert_int_equal(longer.newer, 0);
	memset(&caps, 0xff, sizeof(caps));
	assert_int_equal(_ibv_query_comp_cntr_caps(api->ctx, &caps, sizeof(caps.max_value)), 0);
	assert_int_equal(caps.max_counters, UINT32_MAX);
}

static void ibv_set_comp_cntr_and_inc_change_values(void **state)
{
	struct ibv_comp_cntr *counter = new_counter(*state, IBV_COMP_CNTR_TYPE_WRS);

	expect(counter, 0, 0);
	assert_int_equal(ibv_set_comp_cntr(counter, 10), 0);
	assert_int_equal(ibv_set_err_comp_cntr(counter, 20), 0);
	assert_int_equal(ibv_inc_comp_cntr(counter, 5), 0);
	assert_int_equal(ibv_inc_err_comp_cntr(counter, 6), 0);
	expect(counter, 15, 26);
	/* The counter wraps from max_value to 0. */
	assert_int_equal(ibv_set_comp_cntr(counter, UINT64_MAX), 0);
	assert_int_equal(ibv_inc_comp_cntr(counter, 1), 0);
	assert_true(done(counter) == 0);
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
}

static void ibv_create_comp_cntr_invalid_attr_fails(void **state)
{
	struct ibv_comp_cntr_init_attr attr = {.type = (enum ibv_comp_cntr_type)2};
	struct api *api = *state;
	struct ibv_comp_cntr_caps caps;
	struct ibv_comp_cntr **counters;

	assert_null_errno(ibv_create_comp_cntr(api->ctx, &attr), EINVAL);
	attr = (struct ibv_comp_cntr_init_attr){.flags = 1};
	assert_null_errno(ibv_create_comp_cntr(api->ctx, &attr), EINVAL);
	attr = (struct ibv_comp_cntr_init_attr){.comp_mask = 1};
	assert_null_errno(ibv_create_comp_cntr(api->ctx, &attr), EINVAL);
	attr = (struct ibv_comp_cntr_init_attr){0};
	assert_int_equal(ibv_query_comp_cntr_caps(api->ctx, &caps), 0);
	counters = calloc(caps.max_counters, sizeof(struct ibv_comp_cntr *));
	assert_non_null(counters);
	for (uint32_t i = 0; i < caps.max_counters; i++)
		counters[i] = new_counter(api, IBV_COMP_CNTR_TYPE_WRS);
	assert_null_errno(ibv_create_comp_cntr(api->ctx, &attr), ENOMEM);
	for (uint32_t i = 0; i < caps.max_counters; i++)
		assert_int_equal(ibv_destroy_comp_cntr(counters[i]), 0);
	free(counters);
}

static void ibv_qp_attach_comp_cntr_invalid_attr_fails(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_attach_comp_cntr_attr attr = {.op_mask = SEND};
	struct api *api = *state, other;
	struct ibv_comp_cntr *counter = new_counter(api, IBV_COMP_CNTR_TYPE_WRS), *foreign;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(attach(pair.a.qp, counter, 0), EINVAL);
	attr.comp_mask = 1;
	assert_int_equal(ibv_qp_attach_comp_cntr(pair.a.qp, counter, &attr), EINVAL);
	attr = (struct ibv_qp_attach_comp_cntr_attr){.op_mask = REMOTE_WRITE << 1};
	assert_int_equal(ibv_qp_attach_comp_cntr(pair.a.qp, counter, &attr), EOPNOTSUPP);
	api_open(&other);
	attr.op_mask = SEND;
	foreign = new_counter(&other, IBV_COMP_CNTR_TYPE_WRS);
	assert_int_equal(ibv_qp_attach_comp_cntr(pair.a.qp, foreign, &attr), EINVAL);
	assert_int_equal(ibv_destroy_comp_cntr(foreign), 0);
	api_close(&other);
	assert_int_equal(attach(pair.a.qp, counter, SEND | READ), 0);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	attr.op_mask = READ | WRITE;
	assert_int_equal(ibv_qp_attach_comp_cntr(pair.a.qp, counter, &attr), EBUSY);
	assert_int_equal(attach(pair.a.qp, counter, WRITE), 0);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), 0);
	attr.op_mask = RECV;
	assert_int_equal(ibv_qp_attach_comp_cntr(pair.a.qp, counter, &attr), EINVAL);
	assert_int_equal(ibv_destroy_comp_cntr(counter), EBUSY);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
}

static void ibv_qp_attach_comp_cntr_operation_of_other_qp_type_fails(void **state)
{
	struct pair_options options = {.type = IBV_QPT_UC, .stays_unconnected = true};
	struct ibv_comp_cntr *counter = new_counter(*state, IBV_COMP_CNTR_TYPE_WRS);
	struct pair pair;

	pair_open(&pair, *state, &options);
	assert_int_equal(attach(pair.a.qp, counter, READ), EOPNOTSUPP);
	assert_int_equal(attach(pair.a.qp, counter, SEND | REMOTE_READ), EOPNOTSUPP);
	assert_int_equal(attach(pair.a.qp, counter, ALL_OPS & ~(READ | REMOTE_READ)), 0);
	pair_close(&pair);
	options.type = IBV_QPT_UD;
	pair_open(&pair, *state, &options);
	assert_int_equal(attach(pair.a.qp, counter, SEND | WRITE), EOPNOTSUPP);
	assert_int_equal(attach(pair.a.qp, counter, SEND | RECV), 0);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
}

static bool child_is_refused(void *arg)
{
	struct ibv_qp_attach_comp_cntr_attr attach_attr = {.op_mask = SEND};
	struct ibv_comp_cntr_init_attr attr = {0};
	struct pair *pair = ((void **)arg)[0];
	struct ibv_comp_cntr *counter = ((void **)arg)[1];

	return refuses_null(ibv_create_comp_cntr(pair->api->ctx, &attr), EIO) &&
	       refuses(ibv_qp_attach_comp_cntr(pair->a.qp, counter, &attach_attr), EIO) &&
	       refuses(ibv_destroy_comp_cntr(counter), 0);
}

static void ibv_create_comp_cntr_in_forked_child_fails(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_comp_cntr *counter = new_counter(*state, IBV_COMP_CNTR_TYPE_WRS);
	struct pair pair;

	pair_open(&pair, *state, &options);
	child_agrees(child_is_refused, (void *[]){&pair, counter});
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
}

/* A pair with a counter for each operation of side a and of its peer, side b. */
struct counted {
	struct pair pair;
	struct ibv_comp_cntr *a_send, *a_read, *a_write, *b_recv, *b_read, *b_write;
};

static void counted_open(struct counted *counted, struct api *api, enum ibv_comp_cntr_type type,
			 enum ibv_qp_type qp_type)
{
	struct pair_options options = {.type = qp_type, .stays_unconnected = true};
	bool has_reads = qp_type == IBV_QPT_RC;

	pair_open(&counted->pair, api, &options);
	counted->a_send = new_counter(api, type);
	counted->a_read = new_counter(api, type);
	counted->a_write = new_counter(api, type);
	counted->b_recv = new_counter(api, type);
	counted->b_read = new_counter(api, type);
	counted->b_write = new_counter(api, type);
	assert_int_equal(attach(counted->pair.a.qp, counted->a_send, SEND), 0);
	assert_int_equal(attach(counted->pair.a.qp, counted->a_write, WRITE), 0);
	assert_int_equal(attach(counted->pair.b.qp, counted->b_recv, RECV), 0);
	assert_int_equal(attach(counted->pair.b.qp, counted->b_write, REMOTE_WRITE), 0);
	if (has_reads) {
		assert_int_equal(attach(counted->pair.a.qp, counted->a_read, READ), 0);
		assert_int_equal(attach(counted->pair.b.qp, counted->b_read, REMOTE_READ), 0);
	}
	/* Counters stay attached through RESET. */
	pair_reconnect(&counted->pair);
}

static void counted_close(struct counted *counted)
{
	pair_close(&counted->pair);
	assert_int_equal(ibv_destroy_comp_cntr(counted->a_send), 0);
	assert_int_equal(ibv_destroy_comp_cntr(counted->a_read), 0);
	assert_int_equal(ibv_destroy_comp_cntr(counted->a_write), 0);
	assert_int_equal(ibv_destroy_comp_cntr(counted->b_recv), 0);
	assert_int_equal(ibv_destroy_comp_cntr(counted->b_read), 0);
	assert_int_equal(ibv_destroy_comp_cntr(counted->b_write), 0);
}

static void post(struct counted *counted, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge = sge_of(&counted->pair.a, 0, bytes);
	struct ibv_send_wr wr = send_wr(opcode, &sge, &counted->pair.b, 0, 1);

	/* Unsignaled: only the counters report the completion. */
	wr.send_flags = 0;
	post_send_ok(&counted->pair.a, &wr);
}

static void post_recv(struct counted *counted)
{
	struct ibv_sge recv = sge_of(&counted->pair.b, 0, SIDE_BUF_BYTES);

	post_recv_ok(&counted->pair.b, &recv, 1, 2);
}

/*
 * Over the network, a READ of more than 30 packets is several READ requests, which together are
 * counted once.
 */
#define READ_BYTES 60000

static void rc_counts(struct api *api, enum ibv_comp_cntr_type type)
{
	const uint64_t unit = type == IBV_COMP_CNTR_TYPE_BYTES ? 20000 : 1;
	const uint64_t read_unit = type == IBV_COMP_CNTR_TYPE_BYTES ? READ_BYTES : 1;
	struct counted counted;

	counted_open(&counted, api, type, IBV_QPT_RC);
	fill_pattern(counted.pair.a.buf, 20000, 7);
	for (int i = 0; i < 3; i++)
		post(&counted, IBV_WR_RDMA_WRITE, 20000);
	/* The owner of the memory detects the WRITEs only by the counter, and finds the data. */
	expect(counted.b_write, 3 * unit, 0);
	assert_memory_equal(counted.pair.b.buf, counted.pair.a.buf, 20000);
	expect(counted.a_write, 3 * unit, 0);
	for (int i = 0; i < 5; i++)
		post(&counted, IBV_WR_RDMA_READ, READ_BYTES);
	expect(counted.a_read, 5 * read_unit, 0);
	expect(counted.b_read, 5 * read_unit, 0);
	post_recv(&counted);
	post_recv(&counted);
	post(&counted, IBV_WR_SEND, 20000);
	post(&counted, IBV_WR_RDMA_WRITE_WITH_IMM, 20000);
	expect(counted.b_recv, 2 * unit, 0);
	expect(counted.a_send, unit, 0);
	expect(counted.a_write, 4 * unit, 0);
	expect(counted.b_write, 4 * unit, 0);
	expect(counted.a_read, 5 * read_unit, 0);
	wc_none(counted.pair.a.cq);
	counted_close(&counted);
}

static void ibv_qp_attach_comp_cntr_rc_counts_unsignaled_wrs(void **state)
{
	rc_counts(*state, IBV_COMP_CNTR_TYPE_WRS);
}

static void ibv_qp_attach_comp_cntr_rc_counts_bytes(void **state)
{
	rc_counts(*state, IBV_COMP_CNTR_TYPE_BYTES);
}

static void ibv_qp_attach_comp_cntr_atomics_are_not_counted(void **state)
{
	struct counted counted;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	counted_open(&counted, *state, IBV_COMP_CNTR_TYPE_WRS, IBV_QPT_RC);
	sge = sge_of(&counted.pair.a, 0, 8);
	wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, NULL, 0, 3);
	wr.wr.atomic.remote_addr = (uintptr_t)counted.pair.b.buf;
	wr.wr.atomic.rkey = counted.pair.b.mr->rkey;
	post_send_ok(&counted.pair.a, &wr);
	wc_expect(counted.pair.a.cq, 3, IBV_WC_SUCCESS);
	expect(counted.a_send, 0, 0);
	expect(counted.a_read, 0, 0);
	expect(counted.b_read, 0, 0);
	expect(counted.b_write, 0, 0);
	counted_close(&counted);
}

static void ibv_qp_attach_comp_cntr_failed_and_flushed_wrs_are_errors(void **state)
{
	struct counted counted;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	counted_open(&counted, *state, IBV_COMP_CNTR_TYPE_BYTES, IBV_QPT_RC);
	post_recv(&counted);
	post_recv(&counted);
	sge = sge_of(&counted.pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &counted.pair.b, 0, 1);
	wr.wr.rdma.rkey ^= 0x100;
	post_send_ok(&counted.pair.a, &wr);
	/*
	 * Errors count work requests, whatever the unit: the WRITE, and the two flushed receives.
	 */
	expect(counted.a_write, 0, 1);
	expect(counted.b_write, 0, 1);
	expect(counted.b_recv, 0, 2);
	async_expect(((struct api *)*state)->ctx, IBV_EVENT_QP_ACCESS_ERR);
	post(&counted, IBV_WR_SEND, 8);
	expect(counted.a_send, 0, 1);
	pair_reconnect(&counted.pair);
	sge = sge_of(&counted.pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_READ, &sge, &counted.pair.b, SIDE_BUF_BYTES, 2);
	post_send_ok(&counted.pair.a, &wr);
	expect(counted.a_read, 0, 1);
	expect(counted.b_read, 0, 1);
	async_expect(((struct api *)*state)->ctx, IBV_EVENT_QP_ACCESS_ERR);
	counted_close(&counted);
}

static void ibv_qp_attach_comp_cntr_uc_counts_wrs(void **state)
{
	struct counted counted;

	counted_open(&counted, *state, IBV_COMP_CNTR_TYPE_BYTES, IBV_QPT_UC);
	post_recv(&counted);
	post(&counted, IBV_WR_RDMA_WRITE, 3000);
	post(&counted, IBV_WR_SEND, 4000);
	expect(counted.a_write, 3000, 0);
	expect(counted.b_write, 3000, 0);
	expect(counted.a_send, 4000, 0);
	expect(counted.b_recv, 4000, 0);
	counted_close(&counted);
}

static void ibv_qp_attach_comp_cntr_ud_counts_grh(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct ibv_comp_cntr *sent = new_counter(api, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_comp_cntr *received = new_counter(api, IBV_COMP_CNTR_TYPE_BYTES);
	struct ud ud;

	ud_open(&ud, api, &options);
	assert_int_equal(attach(ud.pair.a.qp, sent, SEND), 0);
	assert_int_equal(attach(ud.pair.b.qp, received, RECV), 0);
	ud_to_rts(ud.pair.a.qp, UD_QKEY);
	ud_to_rts(ud.pair.b.qp, UD_QKEY);
	ud_recv(&ud.pair.b, 1000);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 500);
	expect(received, 540, 0);
	expect(sent, 500, 0);
	ud_close(&ud);
	assert_int_equal(ibv_destroy_comp_cntr(sent), 0);
	assert_int_equal(ibv_destroy_comp_cntr(received), 0);
}

/* One counter for all operations of several queue pairs sums them up. */
static void ibv_qp_attach_comp_cntr_several_qps_are_summed(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_comp_cntr *counter = new_counter(*state, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	assert_int_equal(attach(pair.a.qp, counter, ALL_OPS), 0);
	assert_int_equal(attach(pair.b.qp, counter, ALL_OPS), 0);
	pair_reconnect(&pair);
	sge = sge_of(&pair.a, 0, 100);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	expect(counter, 2, 0);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_query_comp_cntr_caps_lists_every_operation),
		cmocka_unit_test(ibv_set_comp_cntr_and_inc_change_values),
		cmocka_unit_test(ibv_create_comp_cntr_invalid_attr_fails),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_invalid_attr_fails),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_operation_of_other_qp_type_fails),
		cmocka_unit_test(ibv_create_comp_cntr_in_forked_child_fails),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_rc_counts_unsignaled_wrs),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_rc_counts_bytes),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_atomics_are_not_counted),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_failed_and_flushed_wrs_are_errors),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_uc_counts_wrs),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_ud_counts_grh),
		cmocka_unit_test(ibv_qp_attach_comp_cntr_several_qps_are_summed),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
