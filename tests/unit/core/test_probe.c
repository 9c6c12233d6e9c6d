/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The points of posting: which calls pass the fault points wr.post and wr.execute and the trace
 * point "wr posted".
 */

#include "queues.h"

#include <errno.h>

#include "base/fault.h"
#include "base/trace.h"
#include "core/memory/mw.h"
#include "core/qp/qp.h"
#include "core/queue/wq.h"

/* The sink of the trace events: a sink cannot be removed, so each case counts from 0. */
static unsigned int traced;
static uint64_t traced_wr_id;

static void count_put(const struct trace_point *point, const struct trace_event *event)
{
	if (point->type != TRACE_WR_POSTED)
		return;
	traced++;
	traced_wr_id = event->wr.wr_id;
}

static const struct trace_sink count_sink = {.put = count_put};

static int open_queues_and_sink(void **state)
{
	static bool is_added;

	if (!is_added)
		assert_int_equal(trace_sink_add(&count_sink), 0);
	is_added = true;
	traced = 0;
	return queues_open(state);
}

static int close_queues_and_faults(void **state)
{
	assert_int_equal(fault_configure(NULL, NULL, 0), 0);
	return queues_close(state);
}

static void configure_fault(const char *rules)
{
	char why[128];

	assert_int_equal(fault_configure(rules, why, sizeof(why)), 0);
}

static struct ibv_qp *create_qp_in_rts(void)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	fake_walk(qp, IBV_QPS_RTS);
	return qp;
}

static int injected_status(struct ibv_qp *qp, uint32_t index)
{
	return sq_wqe(&to_qp(qp)->sq, index)->injected_status;
}

static int post_one(struct ibv_qp *qp, int num_sge)
{
	struct ibv_send_wr wr = {.wr_id = 9, .opcode = IBV_WR_SEND, .num_sge = num_sge}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void core_probe_rejected_wr_does_not_pass_wr_execute(void **state)
{
	struct ibv_qp *qp = create_qp_in_rts();

	(void)state;
	configure_fault("wr.execute:fail=REM_ACCESS_ERR:nth=2");
	assert_int_equal(post_one(qp, -1), EINVAL);
	assert_int_equal(post_one(qp, 0), 0);
	assert_int_equal(post_one(qp, -1), EINVAL);
	assert_int_equal(post_one(qp, 0), 0);
	assert_int_equal(post_one(qp, 0), 0);
	assert_int_equal(injected_status(qp, 0), 0);
	assert_int_equal(injected_status(qp, 1), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(injected_status(qp, 2), 0);
	assert_int_equal(traced, 3);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The entry of a failed WR is used again without its status. */
static void core_probe_injected_status_ends_with_its_wr(void **state)
{
	struct ibv_qp *qp = create_qp_in_rts();

	(void)state;
	configure_fault("wr.execute:fail=GENERAL_ERR:nth=1");
	for (uint32_t i = 0; i <= to_qp(qp)->sq.mask + 1; i++) {
		assert_int_equal(post_one(qp, 0), 0);
		assert_int_equal(injected_status(qp, i), i ? 0 : IBV_WC_GENERAL_ERR);
		engine_lock(&fake.engine);
		sq_retire(to_qp(qp), IBV_WC_SUCCESS, VENDOR_ERR_NONE);
		engine_unlock(&fake.engine);
		(void)expect_wc(9, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void core_probe_aborted_batch_does_not_pass_wr_execute(void **state)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = 4},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = fake.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(fake.ctx, &attr);
	struct ibv_qp_ex *ex;

	(void)state;
	assert_non_null(qp);
	fake_walk(qp, IBV_QPS_RTS);
	ex = ibv_qp_to_qp_ex(qp);
	configure_fault("wr.execute:fail=REM_ACCESS_ERR:nth=2");
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_rdma_write(ex, 1, 2); /* not among send_ops_flags: the batch fails */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(traced, 0);
	ibv_wr_start(ex);
	for (ex->wr_id = 0; ex->wr_id < 3; ex->wr_id++)
		ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(injected_status(qp, 0), 0);
	assert_int_equal(injected_status(qp, 1), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(injected_status(qp, 2), 0);
	assert_int_equal(traced, 3);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void bind_of_a_type_1_window_passes_both_points(void **state)
{
	struct ibv_qp *qp = create_qp_in_rts();
	struct ibv_mw mw = {.rkey = 0x500};
	struct ibv_mr mr = {.lkey = 0x600};
	struct ibv_mw_bind bind = {
		.wr_id = 7,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = &mr, .addr = 0x1000, .length = 8},
	};

	(void)state;
	configure_fault("wr.execute:fail=MW_BIND_ERR:nth=1;wr.post:fail=ENOMEM:nth=2");
	assert_int_equal(mw_bind(qp, &mw, &bind), 0);
	assert_int_equal(injected_status(qp, 0), IBV_WC_MW_BIND_ERR);
	assert_int_equal(traced, 1);
	assert_int_equal(traced_wr_id, 7);
	assert_int_equal(mw_bind(qp, &mw, &bind), ENOMEM);
	assert_int_equal(traced, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, open_queues_and_sink, close_queues_and_faults)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(core_probe_rejected_wr_does_not_pass_wr_execute),
		TEST(core_probe_injected_status_ends_with_its_wr),
		TEST(core_probe_aborted_batch_does_not_pass_wr_execute),
		TEST(bind_of_a_type_1_window_passes_both_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
